/* faults.c - linked into a second copy of the program: makes its k-th allocation, write,
 * sync, rename or map fail, kills it there, or records what it does to files.
 *
 * LIPSCOPE_FAULT=KIND:K    alone;  KIND:K+ that one and all after;  KIND:K! SIGKILL instead
 *                          (kinds: alloc write sync rename map)
 * LIPSCOPE_FAULT_TRACE=1   and says on standard error where (addr2line knows the names)
 * LIPSCOPE_FAULT_SERVER=F  reads such a fault per line, runs the command with it in a child
 * whose output goes to F.out and F.err, and prints how waitpid saw it end
 * LIPSCOPE_FAULT_SEEN=F    at the end F gets a line "KIND COUNT" of each kind
 * LIPSCOPE_FAULT_RECORD=F  F gets every write, cut, sync and removal (tests/fault/power.py)
 *
 * Calls of the system are taken over by their names, so that SQLite's go through here as
 * well; allocations are those of our own code (the linker's --wrap), of SQLite and of
 * jansson. */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALLOC, WRITE, SYNC, RENAME, MAP, KINDS };
static const char *const names[KINDS] = {"alloc", "write", "sync", "rename", "map"};

static atomic_long seen[KINDS];
static int planned = KINDS;
static long planned_at;
static char planned_end; /* '\0', '+' or '!' */
static int record = -1;
static const char *seen_file;

static int due(int kind) {
    const long now = atomic_fetch_add(&seen[kind], 1) + 1;
    if (kind != planned || now < planned_at || (now > planned_at && planned_end != '+'))
        return 0;
    if (planned_end == '!') kill(getpid(), SIGKILL);
    if (getenv("LIPSCOPE_FAULT_TRACE")) {
        void *calls[64];
        backtrace_symbols_fd(calls, backtrace(calls, 64), 2);
    }
    return 1;
}

static long fails(int reason) {
    errno = reason;
    return -1;
}

/* ---- Allocations ------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}
void *__wrap_malloc(size_t size) { return due(ALLOC) ? no_memory() : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return due(ALLOC) ? no_memory() : __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size) {
    return due(ALLOC) ? no_memory() : __real_realloc(old, size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return due(ALLOC) ? no_memory() : __real_aligned_alloc(alignment, size);
}
char *__wrap_strdup(const char *text) {
    return due(ALLOC) ? no_memory() : __real_strdup(text);
}

static sqlite3_mem_methods sqlite_memory;
static void *sqlite_malloc(int size) {
    return due(ALLOC) ? NULL : sqlite_memory.xMalloc(size);
}
static void *sqlite_realloc(void *old, int size) {
    return due(ALLOC) ? NULL : sqlite_memory.xRealloc(old, size);
}

/* ---- Records ----------------------------------------------------------------------- */

/* "OP PATH OFFSET COUNT\n", then COUNT bytes. */
static void note(const char *op, int fd, const char *path, long long offset,
                 const void *bytes, size_t count) {
    char link[64], name[4096];
    if (record < 0) return;
    if (!path) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(link, name, sizeof name - 1);
        if (length < 0 || name[0] != '/') return;
        name[length] = '\0';
        path = name;
    }
    if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)) return;
    char head[4300];
    const int length =
        snprintf(head, sizeof head, "%s %s %lld %zu\n", op, path, offset, count);
    syscall(SYS_write, record, head, (size_t)length);
    if (count) syscall(SYS_write, record, bytes, count);
}

/* ---- The system -------------------------------------------------------------------- */

ssize_t write(int fd, const void *bytes, size_t count) {
    if (fd > 2 && due(WRITE)) return fails(ENOSPC);
    const long long at = record < 0 ? 0 : lseek(fd, 0, SEEK_CUR);
    const ssize_t done = syscall(SYS_write, fd, bytes, count);
    if (done > 0) note("write", fd, NULL, at, bytes, (size_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    if (due(WRITE)) return fails(ENOSPC);
    const ssize_t done = syscall(SYS_pwrite64, fd, bytes, count, offset);
    if (done > 0) note("write", fd, NULL, offset, bytes, (size_t)done);
    return done;
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t offset) {
    return pwrite(fd, bytes, count, offset);
}

int ftruncate(int fd, off_t length) {
    const int bad = (int)syscall(SYS_ftruncate, fd, length);
    if (!bad) note("cut", fd, NULL, length, NULL, 0);
    return bad;
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

int unlink(const char *path) {
    const int bad = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (!bad) note("remove", -1, path, 0, NULL, 0);
    return bad;
}

int fsync(int fd) {
    if (due(SYNC)) return (int)fails(EIO);
    note("sync", fd, NULL, 0, NULL, 0);
    return record < 0 ? 0 : (int)syscall(SYS_fsync, fd); /* a sweep need not wait */
}
int fdatasync(int fd) { return fsync(fd); }

int rename(const char *from, const char *to) {
    if (due(RENAME)) return (int)fails(EIO);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (fd >= 0 && due(MAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    return mmap(at, size, protection, flags, fd, offset);
}

/* ---- Begin and end ----------------------------------------------------------------- */

/* What counts lines (make coverage) writes them down after this, and needs memory for it.
 */
static void no_more(void) { planned = KINDS; }

static void tell(void) {
    char text[256];
    int used = 0;
    for (int i = 0; i < KINDS; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %ld\n", names[i],
                         atomic_load(&seen[i]));
    const int fd = open(seen_file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return;
    syscall(SYS_write, fd, text, (size_t)used);
    close(fd);
}

static void set_plan(const char *plan) {
    for (int i = 0; i < KINDS; i++) {
        const size_t length = strlen(names[i]);
        if (strncmp(plan, names[i], length) || plan[length] != ':') continue;
        char *end;
        planned_at = strtol(plan + length + 1, &end, 10);
        planned_end = *end;
        planned = i;
    }
}

static void redirect(const char *name, const char *end, int to) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", name, end);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || dup2(fd, to) < 0) _exit(99);
    close(fd);
}

/* Returns in the children, with their plan; a hang is ended by the alarm. */
static void serve(const char *name) {
    char plan[64];
    while (fgets(plan, sizeof plan, stdin)) {
        const pid_t child = fork();
        int status = -1;
        if (!child) {
            redirect("/dev/null", "", 0);
            redirect(name, ".out", 1);
            redirect(name, ".err", 2);
            alarm(120);
            plan[strcspn(plan, "\n")] = '\0';
            set_plan(plan);
            return;
        }
        if (child < 0 || waitpid(child, &status, 0) < 0) _exit(98);
        printf("%d\n", status);
        fflush(stdout);
    }
    _exit(0);
}

__attribute__((constructor)) static void begin(void) {
    const char *plan = getenv("LIPSCOPE_FAULT"), *to = getenv("LIPSCOPE_FAULT_RECORD");
    const char *server = getenv("LIPSCOPE_FAULT_SERVER");
    json_set_alloc_funcs(__wrap_malloc, free);
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory);
    sqlite3_mem_methods mine = sqlite_memory;
    mine.xMalloc = sqlite_malloc;
    mine.xRealloc = sqlite_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &mine);
    seen_file = getenv("LIPSCOPE_FAULT_SEEN");
    if (seen_file) atexit(tell);
    atexit(no_more);
    if (to) record = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (plan) set_plan(plan);
    if (server) serve(server);
}
