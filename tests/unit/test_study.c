/* test_study.c - studies: what they refuse, stop, continue and tell. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lipscope/study.h"

static const uint32_t ids[] = {5, 9, 13, 2, 77, 5, 40, 8, 21, 34, 3, 17, 9, 9, 60, 11};
enum { IDS = sizeof ids / sizeof *ids };
static const size_t lengths[] = {4, 8}, layers[] = {0, 2};

/* Who listens: the last remark, how many rows, and when to stop. */
typedef struct {
    char remark[900];
    size_t rows, limit;
    double last_left;
} listener;

static int stop(void *ctx) {
    const listener *l = ctx;
    return l->limit && l->rows >= l->limit;
}

static void hear_row(void *ctx, const lipsc_row *row) {
    listener *l = ctx;
    assert_true(row->sigma > 0.0);
    l->rows++;
}

static void hear_progress(void *ctx, const lipsc_study_progress *p) {
    listener *l = ctx;
    assert_true(p->done <= p->total && p->seconds_left >= 0.0);
    l->last_left = p->seconds_left;
}

static void hear_remark(void *ctx, const char *sentence) {
    listener *l = ctx;
    snprintf(l->remark, sizeof l->remark, "%s", sentence);
}

/* Two layers at two lengths and as many windows as fit. */
static lipsc_study_settings settings(listener *l) {
    lipsc_study_settings s;
    lipsc_study_defaults(&s);
    s.model = "random:gpt2:nano";
    s.source.id_list = ids;
    s.source.id_count = IDS;
    s.lengths = (lipsc_sizes){2, lengths};
    s.layers = (lipsc_sizes){2, layers};
    s.stop = stop;
    s.row = hear_row;
    s.progress = hear_progress;
    s.remark = hear_remark;
    s.ctx = l;
    return s;
}

static lipsc_study *opened(const lipsc_study_settings *s) {
    lipsc_study *study = NULL;
    lipsc_error err;
    if (lipsc_study_open(s, &study, &err)) fail_msg("%s", err.text);
    return study;
}

static void run(lipsc_study *study) {
    lipsc_error err;
    if (lipsc_study_run(study, &err)) fail_msg("%s", err.text);
}

/* The same values, bit for bit, in the same order. */
static void assert_same(lipsc_study *a, lipsc_study *b) {
    size_t count, other;
    const lipsc_row *const *x = lipsc_study_rows(a, &count);
    const lipsc_row *const *y = lipsc_study_rows(b, &other);
    assert_int_equal(count, other);
    for (size_t i = 0; i < count; i++) {
        assert_memory_equal(&x[i]->sigma, &y[i]->sigma, sizeof(double));
        assert_memory_equal(&x[i]->lower, &y[i]->lower, sizeof(double));
        assert_int_equal(x[i]->layer, y[i]->layer);
        assert_int_equal(x[i]->start, y[i]->start);
    }
}

static void plans_and_tells(void **state) {
    (void)state;
    listener l = {.limit = 0};
    lipsc_study_settings s = settings(&l);
    lipsc_study *study = opened(&s);
    char key[LIPSC_CELL_KEY];
    assert_int_equal(lipsc_study_count(study), 8); /* 2 layers, 2 lengths, 2 windows */
    assert_string_equal(l.remark,
                        "the ids: 16 tokens; 16 windows do not fit and are left out");
    lipsc_study_key(study, 1, key);
    assert_string_equal(key, "map=attention layer=2 head=all n=4 window=0");
    const lipsc_study_cost needs = lipsc_study_needs(study);
    assert_int_equal(needs.cells, 8);
    assert_true(needs.seconds > 0.0 && needs.seconds < 1.0 && needs.bytes > 0.0);
    run(study);
    assert_int_equal(l.rows, 8);
    assert_true(l.last_left == 0.0);
    assert_int_equal(lipsc_study_needs(study).cells, 0);
    run(study); /* nothing is left */
    assert_int_equal(l.rows, 8);
    const lipsc_cell cell = lipsc_study_cell(study, 7);
    assert_int_equal(cell.start, 8);
    assert_int_equal(cell.row->n, 8);
    assert_true(isnan(cell.row->upper));
    lipsc_study_close(study);
}

/* LAPACK's SVD of the assembled Jacobians. */
static void agrees_with_lapack(void **state) {
    (void)state;
    listener l = {.limit = 0};
    lipsc_study_settings s = settings(&l);
    size_t count;
    s.lengths.count = 1;
    s.dtype = LIPSC_F64;
    lipsc_study *lanczos = opened(&s);
    s.method = LIPSC_DENSE;
    lipsc_study *dense = opened(&s);
    run(lanczos);
    run(dense);
    const lipsc_row *const *x = lipsc_study_rows(lanczos, &count);
    const lipsc_row *const *y = lipsc_study_rows(dense, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) /* residual 1e-8: the value to its square */
        assert_true(fabs(x[i]->sigma - y[i]->sigma) <= 1e-12 * y[i]->sigma);
    lipsc_study_close(lanczos);
    lipsc_study_close(dense);
}

/* Rows handed out one by one beside those of another study, in their order. */
typedef struct {
    const lipsc_row *const *wanted;
    size_t count;
} follower;

static void follow(void *ctx, size_t cell, const lipsc_row *row) {
    follower *f = ctx;
    const lipsc_row *wanted = f->wanted[f->count++];
    assert_true(cell < 8);
    assert_int_equal(row->layer, wanted->layer);
    assert_int_equal(row->n, wanted->n);
    assert_int_equal(row->window, wanted->window);
    assert_memory_equal(&row->sigma, &wanted->sigma, sizeof(double));
}

static void assert_each(lipsc_study *study, lipsc_study *whole) {
    size_t count;
    lipsc_growths laws;
    follower f = {.wanted = lipsc_study_rows(whole, &count)};
    assert_int_equal(lipsc_study_each(study, follow, &f, &laws, NULL), LIPSC_OK);
    assert_int_equal(f.count, count);
    assert_int_equal(laws.count, 0); /* two lengths */
    lipsc_growths_free(&laws);
}

/* Stopped behind three rows, or what was computed together with the third; continued from
 * the file: as if in one go.  stay: the rows are in the file alone. */
static void stop_and_continue(int stay) {
    char path[] = "study_test_XXXXXX";
    const int fd = mkstemp(path);
    listener l = {.limit = 3}, other = {.limit = 0};
    lipsc_study_settings s = settings(&l), plain = settings(&other);
    lipsc_error err;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(unlink(path), 0);
    s.run_file = path;
    s.rows_stay = stay;
    lipsc_device *one;
    assert_int_equal(lipsc_device_open(NULL, 1, &one, &err), LIPSC_OK);
    s.device = one;
    lipsc_study *study = opened(&s);
    assert_int_equal(lipsc_study_run(study, &err), LIPSC_E_STOPPED);
    assert_in_range(l.rows, 3, 7);
    const size_t left = 8 - (size_t)l.rows;
    lipsc_study_close(study);
    l.limit = 0;
    study = opened(&s);
    assert_int_equal(lipsc_study_needs(study).cells, left);
    run(study);
    assert_int_equal(l.rows, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_true(lipsc_study_cell(study, i).finished);
        assert_int_equal(lipsc_study_cell(study, i).row == NULL, stay);
    }
    lipsc_study *whole = opened(&plain);
    run(whole);
    assert_each(study, whole);
    assert_same(study, whole);
    lipsc_study_close(study);
    s.tol = 1e-3;
    assert_int_not_equal(lipsc_study_open(&s, &study, &err), LIPSC_OK);
    assert_non_null(strstr(err.text, "tol is 0.01 there and 0.001 here"));
    lipsc_study_close(whole);
    lipsc_device_close(one);
    unlink(path);
    char lock[64];
    snprintf(lock, sizeof lock, "%s-lock", path);
    unlink(lock);
}

static void stops_and_continues(void **state) {
    (void)state;
    stop_and_continue(0);
    stop_and_continue(1);
}

/* The parts of a study are the whole of it, each cell once. */
static void parts_make_the_whole(void **state) {
    (void)state;
    listener l = {.limit = 0};
    lipsc_study_settings s = settings(&l);
    size_t cells = 0;
    s.shards = 3;
    for (s.shard = 1; s.shard <= 3; s.shard++) {
        lipsc_study *study = opened(&s);
        cells += lipsc_study_count(study);
        lipsc_study_close(study);
    }
    assert_int_equal(cells, 8);
}

/* The row of that layer, length and start, or NULL. */
static const lipsc_row *row_at(lipsc_study *study, const lipsc_row *like) {
    size_t count;
    const lipsc_row *const *rows = lipsc_study_rows(study, &count);
    for (size_t i = 0; i < count; i++)
        if (rows[i]->layer == like->layer && rows[i]->n == like->n &&
            rows[i]->start == like->start)
            return rows[i];
    return NULL;
}

/* Rows of both have the same bits; how many there are. */
static size_t common_rows(lipsc_study *a, lipsc_study *b) {
    size_t count, common = 0;
    const lipsc_row *const *rows = lipsc_study_rows(a, &count);
    for (size_t i = 0; i < count; i++) {
        const lipsc_row *other = row_at(b, rows[i]);
        if (!other) continue;
        assert_memory_equal(&rows[i]->sigma, &other->sigma, sizeof(double));
        assert_memory_equal(&rows[i]->lower, &other->lower, sizeof(double));
        assert_memory_equal(&rows[i]->residual, &other->residual, sizeof(double));
        assert_int_equal(rows[i]->products, other->products);
        common++;
    }
    return common;
}

/* Windows that begin alike share their forward pass, short ones a batch: a cell has the
 * bits that it has in a study of its length and layer alone, whatever else is asked for. */
static void cells_know_no_neighbours(void **state) {
    (void)state;
    enum { TEXT = 120, LENGTHS = 6 };
    static const size_t all[LENGTHS] = {3, 8, 17, 24, 33, 40}, windows[] = {0, 1, 2};
    uint32_t text[TEXT];
    listener l = {.limit = 0};
    lipsc_study_settings s = settings(&l);
    for (size_t i = 0; i < TEXT; i++) text[i] = (uint32_t)(i * i * 31 + 5 * i) % 101;
    s.source.id_list = text;
    s.source.id_count = TEXT;
    s.source.stride = 40;
    s.windows = (lipsc_sizes){3, windows};
    lipsc_study *alone[LENGTHS];
    for (size_t i = 0; i < LENGTHS; i++) {
        s.lengths = (lipsc_sizes){1, &all[i]};
        alone[i] = opened(&s);
        run(alone[i]);
    }
    uint64_t dice = 12345;
    for (int plan = 0; plan < 12; plan++) {
        size_t some[LENGTHS], count = 0, common = 0;
        for (size_t i = 0; i < LENGTHS; i++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            if (dice >> 63 || (i == 5 && !count)) some[count++] = all[i];
        }
        s.lengths = (lipsc_sizes){count, some};
        s.layers = (lipsc_sizes){1 + (size_t)(plan & 1), layers};
        s.shards = plan % 4 ? 2 : 0;
        s.shard = s.shards ? 1 + (size_t)plan % 2 : 0;
        lipsc_study *together = opened(&s);
        run(together);
        for (size_t i = 0; i < LENGTHS; i++) common += common_rows(together, alone[i]);
        assert_int_equal(common, lipsc_study_count(together));
        lipsc_study_close(together);
    }
    for (size_t i = 0; i < LENGTHS; i++) lipsc_study_close(alone[i]);
}

/* The same text from a file and from memory, and an open model. */
static void memory_is_as_good_as_files(void **state) {
    (void)state;
    static const char text[] = "The lamp turned slowly above the sea, and nobody saw it.";
    char path[] = "study_text_XXXXXX";
    const int fd = mkstemp(path);
    listener l = {.limit = 0};
    lipsc_study_settings s = settings(&l);
    lipsc_error err;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    s.source = (lipsc_source_options){.text = path};
    s.window_count = 1;
    lipsc_study *from_file = opened(&s);
    s.source = (lipsc_source_options){.text_bytes = text, .text_size = sizeof text - 1};
    assert_int_equal(lipsc_model_open(s.model, s.seed, &s.open, &err), LIPSC_OK);
    lipsc_study *from_memory = opened(&s);
    run(from_file);
    run(from_memory);
    assert_same(from_file, from_memory);
    size_t count;
    assert_string_equal(lipsc_study_rows(from_file, &count)[0]->text_hash,
                        lipsc_study_rows(from_memory, &count)[0]->text_hash);
    lipsc_study_close(from_file);
    lipsc_study_close(from_memory);
    lipsc_model_free(s.open);
    unlink(path);
}

static void refused(const lipsc_study_settings *s, lipsc_status status, const char *why) {
    lipsc_study *study = NULL;
    lipsc_error err = {.text = ""};
    assert_int_equal(lipsc_study_open(s, &study, &err), status);
    assert_null(study);
    if (!strstr(err.text, why)) fail_msg("'%s' is not in '%s'", why, err.text);
}

static void refuses_with_reasons(void **state) {
    (void)state;
    static const size_t twice[] = {1, 1}, beyond[] = {6}, zero[] = {0}, far[] = {0, 9};
    listener l = {.limit = 0};
    lipsc_study_settings s = settings(&l);
    s.layers = (lipsc_sizes){2, twice};
    refused(&s, LIPSC_E_ARG, "layers: 1 is named twice");
    s.layers = (lipsc_sizes){1, beyond};
    refused(&s, LIPSC_E_RANGE, "layers 6: the model has layers 0 to 5");
    s = settings(&l);
    s.map = LIPSC_MAP_BLOCK;
    s.each_head = 1;
    refused(&s, LIPSC_E_ARG, "single heads");
    s.each_head = 0;
    s.upper = 1;
    refused(&s, LIPSC_E_ARG, "upper is known for");
    s = settings(&l);
    s.source.tiled = 1;
    s.source.stride = 8;
    refused(&s, LIPSC_E_ARG, "tiled windows have no stride");
    s = settings(&l);
    s.lengths = (lipsc_sizes){1, zero};
    refused(&s, LIPSC_E_RANGE, "length 0 leaves no token");
    s = settings(&l);
    s.windows = (lipsc_sizes){2, far};
    refused(&s, LIPSC_E_RANGE, "window 9 of length 4 is beyond its 16 tokens");
    s = settings(&l);
    s.shard = 3;
    s.shards = 2;
    refused(&s, LIPSC_E_ARG, "there is no part 3 of 2 parts");
    s = settings(&l);
    s.source.text = "also.txt";
    refused(&s, LIPSC_E_ARG, "only one of text, ids and pixels");
    s.source = (lipsc_source_options){.stride = 0};
    refused(&s, LIPSC_E_ARG, "a text, ids or pixels must be given");
    s = settings(&l);
    s.source.id_count = 0;
    refused(&s, LIPSC_E_FORMAT, "the ids: no tokens in it");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_and_tells),
        cmocka_unit_test(agrees_with_lapack),
        cmocka_unit_test(stops_and_continues),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(cells_know_no_neighbours),
        cmocka_unit_test(memory_is_as_good_as_files),
        cmocka_unit_test(refuses_with_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
