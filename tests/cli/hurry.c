/* hurry.c - a clock that goes on by HURRY seconds (0.2) whenever somebody looks at it,
 * loaded before libc's: work of no time takes long, whatever the machine. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t);

int clock_gettime(clockid_t id, struct timespec *t) {
    static _Atomic long looks = 0;
    const char *told = getenv("HURRY");
    const int failed = (int)syscall(SYS_clock_gettime, id, t);
    if (failed || id != CLOCK_MONOTONIC) return failed;
    const double ahead = (told ? atof(told) : 0.2) * (double)++looks;
    const double nanoseconds = (double)t->tv_nsec + 1e9 * (ahead - (double)(time_t)ahead);
    t->tv_sec += (time_t)ahead + (nanoseconds >= 1e9);
    t->tv_nsec = (long)(nanoseconds >= 1e9 ? nanoseconds - 1e9 : nanoseconds);
    return 0;
}
