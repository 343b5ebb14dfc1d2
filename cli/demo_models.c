/* demo_models.c - three models read a story: their studies, and the page of them. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demo.h"
#include "teller.h"

static const size_t some_layers[] = {0, 3, 5};

static const struct {
    const char *spec;
    size_t windows;
    lipsc_sizes layers;
    const char *layer_list, *about, *file;
} models[DEMO_MODELS] = {[DEMO_TRAINED] = {"builtin:gpt2-nano",
                                           10,
                                           {0, NULL},
                                           "all",
                                           "a small GPT-2, trained",
                                           "gpt2-nano.db"},
                         [DEMO_UNTRAINED] = {"random:gpt2:nano",
                                             6,
                                             {3, some_layers},
                                             "0,3,5",
                                             "the same, not trained",
                                             "random-gpt2.db"},
                         [DEMO_ENCODER] = {"random:bert:nano",
                                           6,
                                           {3, some_layers},
                                           "0,3,5",
                                           "a BERT of that size, not trained",
                                           "random-bert.db"}};

/* The run files of the report are kept in a folder of their own, and removed. */
typedef struct {
    char folder[512], files[DEMO_MODELS][544];
} scratch;

static int scratch_make(const cli_command *self, scratch *t) {
    const char *where = getenv("TMPDIR");
    if (!where || !*where || strlen(where) > sizeof t->folder / 2) where = "/tmp";
    char folder[sizeof t->folder];
    snprintf(folder, sizeof folder, "%s/lipscope-demo-XXXXXX", where);
    if (!mkdtemp(folder))
        return cli_failure(self, "%s: cannot make a folder there: %s", where,
                           strerror(errno));
    memcpy(t->folder, folder, sizeof folder);
    for (int i = 0; i < DEMO_MODELS; i++)
        snprintf(t->files[i], sizeof t->files[i], "%s/%s", folder, models[i].file);
    return CLI_RUN;
}

static void scratch_remove(const scratch *t) {
    DIR *folder = opendir(t->folder);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    rmdir(t->folder);
}

/* The study of one model; the run file tells it as the command that makes the same. */
static lipsc_study_settings ask(int quick, int which, lipsc_device *device, const char *run,
                                char line[256]) {
    static const size_t short_lengths[] = {8, 16, 32}, lengths[] = {16, 32, 64, 128, 256};
    lipsc_study_settings s;
    lipsc_study_defaults(&s);
    s.model = models[which].spec;
    s.source.text = "builtin:lighthouse";
    s.lengths = quick ? (lipsc_sizes){3, short_lengths} : (lipsc_sizes){5, lengths};
    s.window_count = quick ? 6 : models[which].windows;
    s.layers = models[which].layers;
    s.upper = 1;
    s.device = device;
    s.run_file = run;
    s.command_line = line;
    snprintf(line, 256,
             "lipscope measure %s --text %s --lengths %s --windows %zu --layers %s --upper",
             s.model, s.source.text, quick ? "8:32:x2" : "16:256:x2", s.window_count,
             models[which].layer_list);
    return s;
}

static void introduce(const cli_screen *style, int which, const lipsc_model_info *info) {
    printf("\n%s%s%s, %s: %zu layers, d = %zu, %s mask\n", style->strong,
           models[which].spec, style->plain, models[which].about, info->layers, info->d,
           info->mask == LIPSC_MASK_NONE ? "no" : "causal");
    fflush(stdout);
}

static int measure_model(const cli_command *self, int quick, int which,
                         lipsc_device *device, const char *run, const cli_screen *style,
                         lipsc_summary *out) {
    static const cli_common common = {.quiet = 0};
    char line[256];
    lipsc_study_settings s = ask(quick, which, device, run, line);
    lipsc_study *study = NULL;
    cli_teller teller;
    lipsc_error err = {.text = ""};
    cli_teller_begin(&teller, self, &common, &s);
    lipsc_status status = lipsc_study_open(&s, &study, &err);
    if (!status) {
        introduce(style, which, lipsc_study_model(study));
        status = lipsc_study_run(study, &err);
    }
    cli_teller_end(&teller);
    if (!status) status = lipsc_study_summary(study, out, &err);
    lipsc_study_close(study);
    const int code = demo_go_on(self, status, &err);
    if (code == CLI_RUN) demo_model_print(out, style);
    fflush(stdout);
    return code;
}

int demo_models(const cli_command *self, int quick, lipsc_device *device, const char *page,
                const cli_screen *s) {
    const double begin = cli_seconds();
    lipsc_summary found[DEMO_MODELS] = {0};
    scratch files;
    lipsc_error err;
    size_t rows = 0, not_converged = 0;
    int code = scratch_make(self, &files);
    if (code != CLI_RUN) return code;
    demo_heading(s, "Three models read a story");
    puts(
        "The map is `attention`: the module with its output projection, at the input that\n"
        "it receives inside the model.  Under each length n: the median of sigma over\n"
        "windows of n tokens that start alike.  e: slope of ln sigma against ln n, with\n"
        "its 95 % interval; with a * no straight line fits, so it is no power law.\n"
        "proved: what sigma cannot exceed, at the longest windows.");
    for (int i = 0; i < DEMO_MODELS && code == CLI_RUN; i++) {
        code = measure_model(self, quick, i, device, files.files[i], s, &found[i]);
        if (code != CLI_RUN) break;
        rows += found[i].rows;
        not_converged += found[i].not_converged;
    }
    if (code == CLI_RUN) {
        const char *const paths[DEMO_MODELS] = {files.files[0], files.files[1],
                                                files.files[2]};
        if (lipsc_report_is_built() && lipsc_report_write(DEMO_MODELS, paths, page, &err))
            code = cli_failure(self, "%s", err.text);
    }
    scratch_remove(&files);
    if (code == CLI_RUN) {
        demo_explain(s, found);
        printf("%zu values in %.0f seconds.\n", rows, cli_seconds() - begin);
        if (lipsc_report_is_built())
            demo_next(s, page);
        else
            puts("No page: this build was configured without Vega.");
        if (not_converged)
            cli_failure(self, "%zu of %zu values did not converge", not_converged, rows);
        code = not_converged ? CLI_NOT_CONVERGED : CLI_DONE;
    }
    for (int i = 0; i < DEMO_MODELS; i++) lipsc_summary_free(&found[i]);
    return code;
}
