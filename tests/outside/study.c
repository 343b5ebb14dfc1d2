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
    lipsc_place_options of;
    lipsc_place *place;
    lipsc_bounds_settings how;
    lipsc_bounds bounds;
    lipsc_attacks_settings search;
    lipsc_attacks found;
    lipsc_error err;
    lipsc_place_defaults(&of);
    of.from = name;
    of.source.text = "builtin:lighthouse";
    of.layer = 3;
    of.length = 8;
    expect(!lipsc_place_open(&of, &place, &err), err.text);
    lipsc_bounds_defaults(&how);
    expect(!lipsc_place_bounds(place, 0, &how, &bounds, &err), err.text);
    printf("%s: %.4g, sigma %.4g\n", bounds.at[0].name, bounds.at[0].value, bounds.sigma);
    expect(bounds.at[0].value >= bounds.sigma, "the tightest bound is none");
    lipsc_attacks_defaults(&search);
    search.restarts = search.iterations = 3;
    expect(!lipsc_place_attack(place, &search, &found, &err), err.text);
    printf("attack: %.4g, at most %.4g\n", found.rows[0].sigma, found.rows[0].upper);
    expect(found.rows[0].n == of.length, "the attack is of another length than the place");
    expect(found.rows[0].sigma >= bounds.sigma, "an attack found less than the text has");
    lipsc_attacks_free(&found);
    lipsc_bounds_free(&bounds);
    lipsc_place_close(place);
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
