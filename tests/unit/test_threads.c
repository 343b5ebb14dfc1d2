/* test_threads.c - many handles in many threads, and inside a caller's OpenMP region: every
 * answer has the bits that it has alone.  Under ThreadSanitizer: make tsan. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layers.h"
#include "lipscope.h"

enum { JOBS = 18, THREADS = 6, VALUES = 4 };
typedef struct {
    double values[VALUES];
    int failed;
} answer;

static answer sigma_of(uint64_t seed, lipsc_dtype dtype) {
    answer a = {.failed = 1};
    test_layer t = random_layer(seed, seed % 3 ? FEATURE_CAUSAL : 0u);
    lipsc_attn *attn = NULL;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_error err;
    lipsc_svd_defaults(&set);
    set.count = 2;
    if (!lipsc_attn_new(&t.layer, &t.input, dtype, NULL, &attn, &err)) {
        const lipsc_status status =
            lipsc_attn_sigma(attn, &set, a.values, NULL, NULL, &info);
        a.failed = status != LIPSC_OK && status != LIPSC_E_NOCONV;
        a.values[2] = info.lower;
        a.values[3] = info.residual;
    }
    lipsc_attn_free(attn);
    test_layer_free(&t);
    return a;
}

/* A model, a tokenizer and a run file of its own. */
static answer study_of(uint64_t seed, const char *folder) {
    answer a = {.failed = 1};
    static const size_t lengths[] = {8}, layers[] = {0, 2};
    char run[512];
    lipsc_study_settings set;
    lipsc_study *study = NULL;
    lipsc_error err;
    size_t count = 0;
    snprintf(run, sizeof run, "%s/%llu.db", folder, (unsigned long long)seed);
    lipsc_study_defaults(&set);
    set.model = LIPSC_DATA_DIR "/gpt2-nano";
    set.source.text = LIPSC_DATA_DIR "/text/lighthouse.txt";
    set.lengths = (lipsc_sizes){1, lengths};
    set.layers = (lipsc_sizes){2, layers};
    set.window_count = 2;
    set.seed = seed;
    set.run_file = run;
    if (!lipsc_study_open(&set, &study, &err) && !lipsc_study_run(study, &err)) {
        const lipsc_row *const *rows = lipsc_study_rows(study, &count);
        for (size_t i = 0; rows && i < count && i < VALUES; i++)
            a.values[i] = rows[i]->sigma;
        a.failed = count != VALUES;
    } else {
        fprintf(stderr, "%s\n", err.text);
    }
    lipsc_study_close(study);
    remove(run);
    return a;
}

static answer job(size_t i, const char *folder) {
    if (i % 3 == 2) return study_of(i + 1, folder);
    return sigma_of(i + 1, i % 3 ? LIPSC_F32 : LIPSC_F64);
}

static answer alone[JOBS];

typedef struct {
    size_t number;
    char folder[64];
    answer answers[JOBS];
} worker;

static void *work(void *ctx) {
    worker *w = ctx;
    for (size_t i = 0; i < JOBS; i++) { /* each in another order */
        const size_t at = (i * 5 + w->number * 7) % JOBS;
        w->answers[at] = job(at, w->folder);
    }
    return NULL;
}

static void prepare(worker *w, size_t number) {
    *w = (worker){.number = number, .folder = "/tmp/lipscope-threads-XXXXXX"};
    assert_non_null(mkdtemp(w->folder));
}

static void check(worker *w) {
    rmdir(w->folder);
    for (size_t i = 0; i < JOBS; i++) {
        assert_false(w->answers[i].failed);
        assert_memory_equal(w->answers[i].values, alone[i].values, sizeof alone[i].values);
    }
}

static int compute_alone(void **state) {
    (void)state;
    worker w;
    prepare(&w, 0);
    for (size_t i = 0; i < JOBS; i++) {
        alone[i] = job(i, w.folder);
        if (alone[i].failed) return -1;
    }
    return rmdir(w.folder);
}

static void test_threads(void **state) {
    (void)state;
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) prepare(&workers[i], i);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < THREADS; i++) check(&workers[i]);
}

static void test_inside_openmp(void **state) {
    (void)state;
    static worker workers[THREADS];
    for (size_t i = 0; i < THREADS; i++) prepare(&workers[i], i);
#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
    for (size_t i = 0; i < THREADS; i++) work(&workers[i]);
    for (size_t i = 0; i < THREADS; i++) check(&workers[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_inside_openmp),
    };
    return cmocka_run_group_tests(tests, compute_alone, NULL);
}
