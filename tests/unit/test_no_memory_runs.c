/* test_no_memory_runs.c - models, tables and run files where memory runs out. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include "no_memory.h"

#define SEED LIPSC_TEST_DATA "/../fuzz/corpus/run_file/measure"

static const uint32_t ids[] = {5, 3, 5, 90, 17, 2};

/* ---- Models ------------------------------------------------------------------------- */

static lipsc_model *open_model(answer *a) {
    lipsc_model *model = NULL;
    a->status = lipsc_model_open("random:gpt2:nano", 1, &model, &a->err);
    return model;
}

static void sigma_of_map(lipsc_model *model, lipsc_map_kind kind, answer *a) {
    const lipsc_map_options options = {.map = kind, .layer = 1, .head = -1};
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_acts *acts = NULL;
    lipsc_map *map = NULL;
    lipsc_svd_defaults(&set);
    set.max_products = 3;
    a->status = lipsc_acts_new(model, LIPSC_F64, NULL, 4, ids, 0, &acts, &a->err);
    if (!a->status) a->status = lipsc_map_new(model, acts, &options, &map, &a->err);
    if (!a->status) {
        a->status = lipsc_map_sigma(map, &set, &a->value, NULL, NULL, &info);
        if (a->status == LIPSC_E_NOCONV) a->status = LIPSC_OK;
    }
    lipsc_map_free(map);
    lipsc_acts_free(acts);
}

static void heads(const given *g, answer *a) {
    (void)g;
    lipsc_model *model = open_model(a);
    if (!a->status) sigma_of_map(model, LIPSC_MAP_HEADS, a);
    lipsc_model_free(model);
}

static void block(const given *g, answer *a) {
    (void)g;
    lipsc_model *model = open_model(a);
    if (!a->status) sigma_of_map(model, LIPSC_MAP_BLOCK, a);
    lipsc_model_free(model);
}

static void nearest(const given *g, answer *a) {
    (void)g;
    lipsc_model *model = open_model(a);
    uint32_t near[2];
    double distance[2];
    size_t found;
    if (!a->status)
        a->status = lipsc_model_nearest(model, 5, 2, near, distance, &found, &a->err);
    if (!a->status) a->value = distance[0] + distance[1] + near[0];
    lipsc_model_free(model);
}

static void test_models(void **state) {
    const given nothing = {.bytes = NULL};
    (void)state;
    sweep("heads of a model", heads, &nothing, 12);
    sweep("block of a model", block, &nothing, 12);
    sweep("nearest words of a model", nearest, &nothing, 8);
}

/* ---- A study: windows and cells side by side ---------------------------------------- */

static lipsc_model *studied; /* open: what the model's own memory does is swept above */

static void study(const given *g, answer *a) {
    (void)g;
    static const size_t lengths[] = {2}, layers[] = {0};
    lipsc_study_settings set;
    lipsc_study *made_of = NULL;
    size_t count = 0;
    lipsc_study_defaults(&set);
    set.model = "random:gpt2:nano";
    set.open = studied;
    set.source.id_list = ids;
    set.source.id_count = sizeof ids / sizeof *ids;
    set.lengths = (lipsc_sizes){1, lengths};
    set.layers = (lipsc_sizes){1, layers};
    set.details = 1;
    a->status = lipsc_study_open(&set, &made_of, &a->err);
    if (!a->status) a->status = lipsc_study_run(made_of, &a->err);
    if (!a->status) {
        const lipsc_row *const *rows = lipsc_study_rows(made_of, &count);
        if (!rows) a->status = LIPSC_E_NOMEM;
        for (size_t i = 0; rows && i < count; i++)
            a->value += rows[i]->sigma * (double)(i + 1);
    }
    lipsc_study_close(made_of);
}

static void test_study(void **state) {
    const given nothing = {.bytes = NULL};
    (void)state;
    assert_int_equal(lipsc_model_open("random:gpt2:nano", 1, &studied, NULL), LIPSC_OK);
    sweep("a study", study, &nothing, 150);
    lipsc_model_free(studied);
}

/* ---- Run files ---------------------------------------------------------------------- */

static void rows_of_run(const given *g, answer *a) {
    (void)g;
    lipsc_rows_file file;
    a->status = lipsc_rows_file_open(SEED, &file, &a->err);
    for (size_t i = 0; !a->status && i < file.count; i++) a->value += file.rows[i].sigma;
    lipsc_rows_file_close(&file);
}

static void compared(const given *g, answer *a) {
    (void)g;
    lipsc_comparison found;
    a->status = lipsc_runs_compare(SEED, SEED, &found, &a->err);
    if (a->status) return;
    a->value = (double)found.count;
    lipsc_comparison_free(&found);
}

static void test_runs(void **state) {
    const given nothing = {.bytes = NULL};
    (void)state;
    sweep("rows of a run file", rows_of_run, &nothing, 200);
    sweep("two run files", compared, &nothing, 100);
}

/* ---- Tables: the whole text that is printed ----------------------------------------- */

static char printed[1 << 14]; /* memory that is not counted */

static void print(lipsc_format format, lipsc_layout layout, answer *a) {
    static const lipsc_column columns[] = {{"word", LIPSC_COLUMN_STRING},
                                           {"count", LIPSC_COLUMN_INTEGER},
                                           {"value", LIPSC_COLUMN_REAL},
                                           {"sure", LIPSC_COLUMN_BOOL},
                                           {"all", LIPSC_COLUMN_REALS}};
    static const double all[] = {1.5, -2.0, 1e-300};
    memset(printed, 0, sizeof printed);
    FILE *to = fmemopen(printed, sizeof printed, "w");
    assert_non_null(to);
    lipsc_table *table = lipsc_table_new("test", format, layout, to, 5, columns);
    for (int row = 0; row < 3; row++) {
        lipsc_table_row(table);
        lipsc_table_string(table, "word", row ? "caf\xc3\xa9 \x1b[31m" : NULL);
        lipsc_table_integer(table, "count", row * 1000000007LL);
        lipsc_table_real(table, "value", row ? 1.0 / row : NAN);
        lipsc_table_bool(table, "sure", row == 1);
        lipsc_table_reals(table, "all", (size_t)row, all);
    }
    a->status = lipsc_table_end(table, &a->err);
    lipsc_table_free(table);
    fclose(to);
    for (size_t i = 0; !a->status && printed[i]; i++)
        a->value = fmod(a->value * 257 + (unsigned char)printed[i], 1e12);
}

static void wide(const given *g, answer *a) {
    (void)g;
    print(LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_WIDE, a);
}
static void upright(const given *g, answer *a) {
    (void)g;
    print(LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_UPRIGHT, a);
}
static void tsv(const given *g, answer *a) {
    (void)g;
    print(LIPSC_FORMAT_TSV, LIPSC_LAYOUT_WIDE, a);
}
static void json(const given *g, answer *a) {
    (void)g;
    print(LIPSC_FORMAT_JSON, LIPSC_LAYOUT_WIDE, a);
}

static void test_tables(void **state) {
    const given nothing = {.bytes = NULL};
    (void)state;
    sweep("table", wide, &nothing, 300);
    sweep("table, upright", upright, &nothing, 300);
    sweep("TSV", tsv, &nothing, 300);
    sweep("JSON", json, &nothing, 300);
}

/* ---- Fits --------------------------------------------------------------------------- */

static void fitted(const given *g, answer *a) {
    (void)g;
    enum { LENGTHS = 4, STARTS = 7 };
    lipsc_row rows[LENGTHS * STARTS];
    const lipsc_row *at[LENGTHS * STARTS];
    lipsc_growths laws;
    for (size_t i = 0; i < LENGTHS * STARTS; i++) {
        lipsc_fields_clear(lipsc_row_fields(), &rows[i]);
        rows[i].layer = 0;
        rows[i].map = "attention";
        rows[i].n = (size_t)8 << i / STARTS;
        rows[i].window = rows[i].start = i % STARTS;
        rows[i].sigma = sqrt((double)rows[i].n) * (1 + 0.01 * (double)(i % STARTS));
        rows[i].radius_rms = 1 + 0.1 * (double)i;
        at[i] = &rows[i];
    }
    lipsc_rows_sort(LENGTHS * STARTS, at);
    a->status = lipsc_rows_fit(LENGTHS * STARTS, at, 1, &laws);
    if (!a->status) {
        assert_true(laws.count >= 1);
        a->value = laws.at[0].exponent;
        assert_true(fabs(a->value - 0.5) < 1e-9); /* what the rows were made of */
    }
    lipsc_growths_free(&laws);
}

static void test_fits(void **state) {
    const given nothing = {.bytes = NULL};
    (void)state;
    sweep("laws of rows", fitted, &nothing, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models), cmocka_unit_test(test_study),
        cmocka_unit_test(test_runs),   cmocka_unit_test(test_tables),
        cmocka_unit_test(test_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
