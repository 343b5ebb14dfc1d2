/* study.c - an outside program: measures the built-in model with a run file, fits growth
 * laws, writes the report, bounds and attacks a layer, by the installed headers alone.
 *     study FOLDER      writes study.db and study.html there */
#include <lipscope.h>
#include <stdio.h>
#include <stdlib.h>

static void expect(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void told(void *ctx, const lipsc_row *row) {
    expect(row->lower > 0 && row->sigma <= row->upper, "no 0 < lower, sigma <= upper");
    ++*(size_t *)ctx;
}

static const char name[] = "builtin:gpt2-nano";

static lipsc_study_settings settings(const char *run, size_t *rows) {
    static const size_t lengths[] = {8, 16, 32}, layers[] = {0, 3}; /* all by default */
    lipsc_study_settings set;
    lipsc_study_defaults(&set);
    set.model = name;
    set.source.text = "builtin:lighthouse";
    set.lengths = (lipsc_sizes){3, lengths};
    set.layers = (lipsc_sizes){2, layers};
    set.window_count = 6;
    set.upper = 1;
    set.run_file = run;
    set.row = told;
    set.ctx = rows;
    return set;
}

/* The rows as `lipscope measure` prints them, and the laws in words. */
static void print(lipsc_study *study, const lipsc_study_settings *set) {
    lipsc_column columns[64];
    lipsc_growths laws;
    lipsc_error err;
    size_t count;
    const lipsc_row *const *rows = lipsc_study_rows(study, &count);
    const size_t width = lipsc_table_columns(lipsc_row_fields(), lipsc_study_parts(set),
                                             LIPSC_FORMAT_TABLE, columns);
    lipsc_table *table = lipsc_table_new("study", LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_WIDE,
                                         stdout, width, columns);
    for (size_t i = 0; i < count; i++)
        lipsc_table_record(table, lipsc_row_fields(), rows[i]);
    expect(!lipsc_table_end(table, &err), err.text);
    lipsc_table_free(table);
    expect(!lipsc_study_fits(study, &laws, &err) && laws.count, "no laws");
    for (size_t i = 0; i < laws.count; i++)
        printf("layer %zu: sigma ~ %s^%.3f, %s\n", laws.at[i].layer, laws.at[i].against,
               laws.at[i].exponent, lipsc_growth_verdict(&laws.at[i]));
    lipsc_growths_free(&laws);
}

static void measure(const char *run) {
    size_t rows = 0;
    lipsc_study_settings set = settings(run, &rows);
    lipsc_study *study;
    lipsc_error err;
    expect(!lipsc_study_open(&set, &study, &err) && !lipsc_study_run(study, &err),
           err.text);
    expect(rows == 36, "2 layers, 3 lengths and 6 windows are not 36 rows");
    print(study, &set);
    lipsc_study_close(study);
    expect(!lipsc_study_open(&set, &study, &err), err.text);
    expect(lipsc_study_needs(study).cells == 0, "something is left to compute");
    lipsc_study_close(study);
}

static void bound_and_attack(void) {
    const lipsc_source_options from = {.text = "builtin:lighthouse"};
    lipsc_model *model;
    lipsc_source source;
    lipsc_acts *acts;
    lipsc_layer layer;
    lipsc_attn *attn;
    lipsc_upper upper;
    lipsc_attack_settings search;
    lipsc_attack_result found;
    lipsc_error err;
    expect(
        !lipsc_model_open(name, 1, &model, &err) &&
            !lipsc_source_read(&from, name, lipsc_model_describe(model), &source, &err) &&
            !lipsc_window_acts(&source, 0, 8, model, LIPSC_F64, 0, 3, &acts, &err) &&
            !lipsc_model_layer(model, 3, -1, LIPSC_MAP_ATTENTION, 0, &layer, &err),
        err.text);
    const lipsc_input input = {.n = 8, .X = lipsc_acts_attention_input(acts, 3)};
    expect(!lipsc_attn_new(&layer, &input, LIPSC_F64, 0, &attn, &err) &&
               !lipsc_attn_upper(attn, &upper, &err),
           err.text);
    lipsc_attack_defaults(&search);
    search.n = input.n;
    search.radius = 15;
    search.restarts = search.iterations = 3;
    expect(!lipsc_attack_run(&layer, &search, &found, &err), err.text);
    printf("bound %.4g, attack %.4g of %.4g\n", upper.value, found.sigma, found.upper);
    expect(found.sigma > 0 && found.sigma <= found.upper, "the attack beats a theorem");
    lipsc_attack_result_free(&found);
    lipsc_attn_free(attn);
    lipsc_acts_free(acts);
    lipsc_source_free(&source);
    lipsc_model_free(model);
}

int main(int argc, char **argv) {
    char run[4096], page[4096];
    const char *const runs[] = {run};
    lipsc_error err;
    snprintf(run, sizeof run, "%s/study.db", argc > 1 ? argv[1] : ".");
    snprintf(page, sizeof page, "%s/study.html", argc > 1 ? argv[1] : ".");
    measure(run);
    if (lipsc_report_is_built()) expect(!lipsc_report_write(1, runs, page, &err), err.text);
    bound_and_attack();
    return 0;
}
