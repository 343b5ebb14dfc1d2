/* no_memory.h - every allocation of a call fails in turn, alone and with all after it: the
 * call says so, leaves nothing behind, or gives the bits it always gives.
 *
 * The commands as a whole are swept by tests/fault, a process for each fault; here
 * thousands of faults take a second.  jansson is left alone: its lexer ends the process
 * where memory runs out in the middle of a character. */
#ifndef LIPSC_TEST_NO_MEMORY_H
#define LIPSC_TEST_NO_MEMORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "lipscope.h"

/* ---- Allocations (the linker's --wrap) ----------------------------------------------- */

enum { PLACES = 1 << 16 };
static void *living[PLACES]; /* those of our own code that were not freed yet */
static size_t alive;
static long made, fails_at, fails_last; /* the k-th one, counted from 1; 0: none fails */

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER; /* of attack's threads */

static int due(void) {
    pthread_mutex_lock(&one_at_a_time);
    made++;
    const int fails = fails_at && made >= fails_at && made <= fails_last;
    pthread_mutex_unlock(&one_at_a_time);
    return fails;
}

static void *note(void *p) {
    size_t at = ((uintptr_t)p >> 4) % PLACES;
    if (!p) return NULL;
    while (living[at]) at = (at + 1) % PLACES;
    living[at] = p;
    alive++;
    return p;
}

static void *born(void *p) {
    pthread_mutex_lock(&one_at_a_time);
    note(p);
    pthread_mutex_unlock(&one_at_a_time);
    return p;
}

/* What others allocated is not among them. */
static void strike(const void *p) {
    size_t at = ((uintptr_t)p >> 4) % PLACES;
    while (living[at] && living[at] != p) at = (at + 1) % PLACES;
    if (!p || !living[at]) return;
    living[at] = NULL;
    alive--;
    for (size_t next = (at + 1) % PLACES; living[next]; next = (next + 1) % PLACES) {
        void *moved = living[next];
        living[next] = NULL;
        alive--;
        note(moved);
    }
}

static void died(const void *p) {
    pthread_mutex_lock(&one_at_a_time);
    strike(p);
    pthread_mutex_unlock(&one_at_a_time);
}

static void *none(void) {
    errno = ENOMEM;
    return NULL;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *p);

void *__wrap_malloc(size_t size) { return due() ? none() : born(__real_malloc(size)); }
void *__wrap_calloc(size_t count, size_t size) {
    return due() ? none() : born(__real_calloc(count, size));
}
void *__wrap_realloc(void *old, size_t size) {
    if (due()) return none();
    died(old);
    return born(__real_realloc(old, size));
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return due() ? none() : born(__real_aligned_alloc(alignment, size));
}
char *__wrap_strdup(const char *text) { return due() ? none() : born(__real_strdup(text)); }
void __wrap_free(void *p) {
    died(p);
    __real_free(p);
}

/* ---- A call, and what it answers ---------------------------------------------------- */

typedef struct {
    const uint8_t *bytes;
    size_t size;
    test_layer layer;
} given;

typedef struct {
    lipsc_status status;
    lipsc_error err;
    double value; /* stands for the whole answer */
} answer;

typedef void call(const given *g, answer *a);

static answer ask(call *what, const given *g, long from, long to) {
    answer a = {.err = {.code = LIPSC_OK}};
    made = 0;
    fails_at = from;
    fails_last = to;
    what(g, &a);
    fails_at = 0;
    return a;
}

static int same(const answer *a, const answer *b) {
    return a->status == b->status && !memcmp(&a->value, &b->value, sizeof a->value);
}

/* A refusal for want of memory, with a sentence where the call gives one. */
static int says_so(const answer *a) {
    return a->status == LIPSC_E_NOMEM && (!a->err.code || a->err.code == LIPSC_E_NOMEM) &&
           memchr(a->err.text, '\0', sizeof a->err.text);
}

/* Every k, or `most` of them spread over all. */
static void sweep(const char *name, call *what, const given *g, long most) {
    ask(what, g, 0, 0); /* what is made once for the process */
    const size_t before = alive;
    const answer ever = ask(what, g, 0, 0);
    const long calls = made, step = calls > most ? calls / most : 1;
    int wrong = 0;
    assert_int_equal(alive, before);
    for (long k = 1; k <= calls; k += step)
        for (int all = 0; all < 2; all++) {
            const answer a = ask(what, g, k, all ? calls + 1000 : k);
            if (alive == before && (says_so(&a) || same(&a, &ever))) continue;
            print_error("%s, allocation %ld of %ld%s: status %d instead of %d, value %.17g "
                        "instead of %.17g, %zu left behind: %s\n",
                        name, k, calls, all ? " and all after it" : "", (int)a.status,
                        (int)ever.status, a.value, ever.value, alive - before, a.err.text);
            alive = before;
            wrong++;
        }
    assert_int_equal(wrong, 0);
}
/* ---- Seeds of the fuzzers ----------------------------------------------------------- */

static inline size_t read_whole(const char *path, uint8_t *room, size_t most) {
    FILE *from = fopen(path, "rb");
    if (!from) return 0;
    const size_t size = fread(room, 1, most, from);
    fclose(from);
    return size;
}

static inline void sweep_seeds(const char *folder, call *what) {
    static uint8_t room[1 << 16];
    char path[1024];
    snprintf(path, sizeof path, "%s/../fuzz/corpus/%s", LIPSC_TEST_DATA, folder);
    DIR *seeds = opendir(path);
    size_t count = 0;
    assert_non_null(seeds);
    for (const struct dirent *entry; (entry = readdir(seeds));) {
        if (entry->d_name[0] == '.' || !strncmp(entry->d_name, "found-", 6)) continue;
        snprintf(path, sizeof path, "%s/../fuzz/corpus/%s/%.200s", LIPSC_TEST_DATA, folder,
                 entry->d_name);
        const given g = {.bytes = room, .size = read_whole(path, room, sizeof room)};
        if (g.size) sweep(path, what, &g, 150);
        count += g.size > 0;
    }
    closedir(seeds);
    assert_true(count >= 3);
}

#endif
