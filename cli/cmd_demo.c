/* cmd_demo.c - lipscope demo: a tour of what is built in, computed live, and its report. */
#define _GNU_SOURCE /* program_invocation_name */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "demo.h"
#include "interrupt.h"
#include "lipscope.h"
#include "screen.h"
#include "teller.h"

typedef struct {
    const char *out;
    int quick;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    OPTION(TEXT, "out", "FILE", out, .letter = 'o',
           .help = "the page (default lipscope-demo.html in this directory)"),
    OPTION(FLAG, "quick", NULL, quick,
           .help = "shorter lengths and six windows: a few seconds"),
};

/* Colours on a terminal that has them, unless NO_COLOR says no (no-color.org). */
static demo_style choose_style(void) {
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || (no_color && *no_color) || !terminal ||
        !strcmp(terminal, "dumb"))
        return (demo_style){"", "", "", ""};
    return (demo_style){"\033[1m", "\033[36m", "\033[2m", "\033[0m"};
}

/* CLI_RUN, or the exit code after a sentence. */
static int go_on(const cli_command *self, lipsc_status status, const lipsc_error *err) {
    if (status == LIPSC_OK) return CLI_RUN;
    if (status == LIPSC_E_STOPPED) return cli_failure(self, "interrupted");
    return cli_failure(self, "%s", *err->text ? err->text : lipsc_strerror(status));
}

static void heading(const demo_style *s, const char *text) {
    printf("\n%s%s%s\n", s->strong, text, s->plain);
}

/* ---- One outlier ------------------------------------------------------------------ */

enum { LARGEST = 1000, BAR = 40 };

/* A bar for `value` out of `most`. */
static void bar(const demo_style *s, double value, double most) {
    const int length = (int)lrint(BAR * value / most);
    fputs(s->accent, stdout);
    for (int i = 0; i < length; i++) putchar('#');
    puts(s->plain);
}

/* X (n) with the layer and the input that it belongs to. */
static void make_outlier(size_t n, double R, double *X, lipsc_layer *layer,
                         lipsc_input *input) {
    static const double minus_one = -1.0, one = 1.0;
    for (size_t i = 0; i < n; i++) X[i] = i ? R : -R;
    lipsc_layer_defaults(layer);
    layer->d = layer->key_dim = layer->value_dim = 1;
    layer->Q = &minus_one;
    layer->V = &one;
    *input = (lipsc_input){.n = n, .X = X};
}

static lipsc_status show_outlier(const demo_style *s, lipsc_error *err) {
    static const size_t lengths[] = {2, 10, 30, 100, 300, 1000};
    static double X[LARGEST];
    const double peak = 18.0;
    heading(s, "One outlier");
    puts("One token at -1.5, all others at +1.5, scores -x_i x_j.  Everybody looks at the\n"
         "outlier, so moving it moves everybody: sigma grows even faster than sqrt(n),\n"
         "until the crowd drowns it out, near n = e^4.5 = 90.  No sigma\n"
         "exceeds what is proved there.\n");
    printf("%s%6s  %7s  %7s  %7s%s\n", s->faint, "n", "sqrt(n)", "proved", "sigma",
           s->plain);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        lipsc_layer layer;
        lipsc_input input;
        lipsc_attn *attn = NULL;
        lipsc_svd_settings set;
        lipsc_svd_info info;
        lipsc_upper upper;
        double sigma;
        make_outlier(n, 1.5, X, &layer, &input);
        lipsc_svd_defaults(&set);
        set.stop = cli_interrupted;
        lipsc_status status = lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, err);
        if (!status) status = lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
        if (!status) status = lipsc_attn_upper(attn, &upper, err);
        lipsc_attn_free(attn);
        if (status) return status;
        printf("%6zu  %7.3f  %7.3f  %s%7.3f%s  ", n, sqrt((double)n), upper.value,
               s->strong, sigma, s->plain);
        bar(s, sigma, peak);
        fflush(stdout);
    }
    return LIPSC_OK;
}

/* ---- Three models ------------------------------------------------------------------ */

enum { TRAINED, UNTRAINED, ENCODER, MODELS };

static const size_t some_layers[] = {0, 3, 5};

static const struct {
    const char *spec;
    size_t windows;
    lipsc_sizes layers;
    const char *layer_list, *about, *file;
} models[MODELS] = {[TRAINED] = {"builtin:gpt2-nano",
                                 10,
                                 {0, NULL},
                                 "all",
                                 "a small GPT-2, trained",
                                 "gpt2-nano.db"},
                    [UNTRAINED] = {"random:gpt2:nano",
                                   6,
                                   {3, some_layers},
                                   "0,3,5",
                                   "the same, not trained",
                                   "random-gpt2.db"},
                    [ENCODER] = {"random:bert:nano",
                                 6,
                                 {3, some_layers},
                                 "0,3,5",
                                 "a BERT of that size, not trained",
                                 "random-bert.db"}};

/* The run files of the report are kept in a folder of their own, and removed. */
typedef struct {
    char folder[512], files[MODELS][544];
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
    for (int i = 0; i < MODELS; i++)
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
static lipsc_study_settings ask(const settings *set, int which, const char *run,
                                char line[256]) {
    static const size_t short_lengths[] = {8, 16, 32}, lengths[] = {16, 32, 64, 128, 256};
    lipsc_study_settings s;
    lipsc_study_defaults(&s);
    s.model = models[which].spec;
    s.source.text = "builtin:lighthouse";
    s.lengths = set->quick ? (lipsc_sizes){3, short_lengths} : (lipsc_sizes){5, lengths};
    s.window_count = set->quick ? 6 : models[which].windows;
    s.layers = models[which].layers;
    s.upper = 1;
    s.run_file = run;
    s.command_line = line;
    snprintf(line, 256,
             "lipscope measure %s --text %s --lengths %s --windows %zu --layers %s --upper",
             s.model, s.source.text, set->quick ? "8:32:x2" : "16:256:x2", s.window_count,
             models[which].layer_list);
    return s;
}

static void introduce(const demo_style *style, int which, const lipsc_model_info *info) {
    printf("\n%s%s%s, %s: %zu layers, d = %zu, %s mask\n", style->strong,
           models[which].spec, style->plain, models[which].about, info->layers, info->d,
           info->mask == LIPSC_MASK_NONE ? "no" : "causal");
    fflush(stdout);
}

static int measure_model(const cli_command *self, const settings *set, int which,
                         const char *run, const demo_style *style, lipsc_summary *out) {
    static const cli_common common = {.quiet = 0};
    char line[256];
    lipsc_study_settings s = ask(set, which, run, line);
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
    const int code = go_on(self, status, &err);
    if (code == CLI_RUN) demo_model_print(out, style);
    fflush(stdout);
    return code;
}

static const lipsc_layer_summary *steepest(const lipsc_summary *m) {
    const lipsc_layer_summary *best = &m->layers[0];
    for (size_t i = 1; i < m->layer_count; i++)
        if (m->layers[i].exponent > best->exponent) best = &m->layers[i];
    return best;
}

/* A NaN is not lost: fmin and fmax would return the other one. */
static double smaller(double a, double b) { return a < b || isnan(a) ? a : b; }
static double larger(double a, double b) { return a > b || isnan(a) ? a : b; }

/* For two decimals: no -0.00. */
static double tidy(double x) { return fabs(x) < 0.005 ? 0.0 : x; }

/* No sentence here says more than its intervals do. */
static void explain_growth(const lipsc_summary m[MODELS]) {
    const lipsc_summary *trained = &m[TRAINED];
    const lipsc_layer_summary *steep = steepest(trained);
    size_t growing = 0;
    double least = INFINITY, most = -INFINITY;
    for (size_t l = 0; l < trained->layer_count; l++)
        growing += trained->layers[l].low > 0.0;
    for (int i = 0; i < MODELS; i++)
        for (size_t l = 0; l < m[i].layer_count && i != TRAINED; l++) {
            least = smaller(least, m[i].layers[l].low);
            most = larger(most, m[i].layers[l].high);
        }
    if (isnan(steep->low) || isnan(least) || isnan(most)) {
        printf(
            "How sigma grows with the length is left open: there are too few windows for "
            "an\ninterval.\n\n");
        return;
    }
    printf(
        "Over these lengths sigma of the trained model grows in %zu of %zu layers: there\n"
        "the interval of e lies above 0.  The largest e is that of layer %zu, %.2f, with\n"
        "95 %% between %.2f and %.2f; %s.  Without training every\n"
        "interval lies between %.2f and %.2f.  The outlier above is the extreme case: for\n"
        "tokens of bounded size the paper proves that nothing outgrows sqrt(n) in the\n"
        "long run.\n\n",
        growing, trained->layer_count, steep->layer, steep->exponent, steep->low,
        steep->high, steep->law ? "a straight line fits" : "it is no power law",
        tidy(least), tidy(most));
}

static void explain(const demo_style *s, const lipsc_summary m[MODELS]) {
    const lipsc_summary *trained = &m[TRAINED];
    double tightest = INFINITY, loosest = 0.0;
    for (int i = 0; i < MODELS; i++) {
        tightest = smaller(tightest, m[i].tightest);
        loosest = larger(loosest, m[i].loosest);
    }
    heading(s, "What this means");
    printf(
        "Training makes attention sharp.  The largest sigma is %.2f (layer %zu, window\n"
        "%zu of length %zu): a small change of the input can come out that many times as\n"
        "large.  In the windows read before training it is at most %.3f, %.0f times\n"
        "less.\n\n",
        trained->largest, trained->largest_layer, trained->largest_window,
        trained->largest_n, m[UNTRAINED].largest, trained->largest / m[UNTRAINED].largest);
    explain_growth(m);
    printf("Each sigma is reached by a direction that was found, and evaluated in double:\n"
           "a lower bound that needs no trust.  The bound proved at the same input is\n"
           "%.1f to %.1f times as large.\n",
           tightest, loosest);
}

/* Commands that work as typed, from where this one was. */
static void show_next(const demo_style *s, const char *page) {
    static const struct {
        const char *why, *command;
    } next[] = {
        {"which of the heads it is:",
         "measure builtin:gpt2-nano --text builtin:lighthouse --layer 3 --heads each"},
        {"every bound beside the exact value:",
         "bounds builtin:gpt2-nano --text builtin:lighthouse --length 32"},
        {"another model (a Hugging Face folder in the same way), and its page:",
         "measure random:gpt2 --layer 0 --text builtin:lighthouse --run a.db"},
        {NULL, "report a.db -o a.html"}};
    const char *me = program_invocation_name;
    heading(s, "What to type next");
    printf("The charts are in %s%s%s: open it in a browser.\n\n", s->strong, page,
           s->plain);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        if (next[i].why) puts(next[i].why);
        fputs(me, stdout);
        cli_put_words(stdout, next[i].command, cli_screen_width(STDOUT_FILENO), strlen(me),
                      4, " \\");
    }
}

/* ---- Together ---------------------------------------------------------------------- */

/* What would fail at the end is better known before the work. */
static int check_files(const cli_command *self, const char *page) {
    char path[LIPSC_PATH_ROOM];
    struct stat info;
    lipsc_error err;
    if (lipsc_builtin_path("gpt2-nano", path, &err) ||
        lipsc_builtin_path("lighthouse", path, &err))
        return cli_failure(self, "%s", err.text);
    if (!stat(page, &info) && !S_ISREG(info.st_mode)) return CLI_RUN; /* a device */
    const int size = snprintf(path, sizeof path, "%s.XXXXXX", page);
    const int fd = size < (int)sizeof path ? mkstemp(path) : -1;
    if (fd < 0)
        return cli_failure(self, "%s: cannot write the page: %s; -o FILE puts it elsewhere",
                           page, strerror(errno));
    close(fd);
    unlink(path);
    return CLI_RUN;
}

static int show_models(const cli_command *self, const settings *set, const demo_style *s) {
    const double begin = cli_seconds();
    lipsc_summary found[MODELS] = {0};
    scratch files;
    lipsc_error err;
    size_t rows = 0, not_converged = 0;
    int code = scratch_make(self, &files);
    if (code != CLI_RUN) return code;
    heading(s, "Three models read a story");
    puts(
        "The map is `attention`: the module with its output projection, at the input that\n"
        "it receives inside the model.  Under each length n: the median of sigma over\n"
        "windows of n tokens that start alike.  e: slope of ln sigma against ln n, with\n"
        "its 95 % interval; with a * no straight line fits, so it is no power law.\n"
        "proved: what sigma cannot exceed, at the longest windows.");
    for (int i = 0; i < MODELS && code == CLI_RUN; i++) {
        code = measure_model(self, set, i, files.files[i], s, &found[i]);
        if (code != CLI_RUN) break;
        rows += found[i].rows;
        not_converged += found[i].not_converged;
    }
    if (code == CLI_RUN) {
        const char *const paths[MODELS] = {files.files[0], files.files[1], files.files[2]};
        if (lipsc_report_is_built() && lipsc_report_write(MODELS, paths, set->out, &err))
            code = cli_failure(self, "%s", err.text);
    }
    scratch_remove(&files);
    if (code == CLI_RUN) {
        explain(s, found);
        printf("%zu values in %.0f seconds.\n", rows, cli_seconds() - begin);
        if (lipsc_report_is_built())
            show_next(s, set->out);
        else
            puts("No page: this build was configured without Vega.");
        if (not_converged)
            cli_failure(self, "%zu of %zu values did not converge", not_converged, rows);
        code = not_converged ? CLI_NOT_CONVERGED : CLI_DONE;
    }
    for (int i = 0; i < MODELS; i++) lipsc_summary_free(&found[i]);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings set = {.out = "lipscope-demo.html"};
    int operands;
    int code = cli_parse(self, argc, argv, &set, &operands);
    if (code == CLI_RUN) code = check_files(self, set.out);
    if (code != CLI_RUN) return code;
    const demo_style s = choose_style();
    lipsc_error err = {.text = ""};
    cli_interrupt_begin();
    printf("%slipscope %s%s: how far can attention stretch a small change of its input?\n",
           s.strong, lipsc_version(), s.plain);
    heading(&s, "One number");
    puts(
        "Move the tokens X by a small h, and the output of attention moves by J h.  The\n"
        "largest |J h| / |h| is sigma, the local Lipschitz constant: the largest singular\n"
        "value of the Jacobian J at X.");
    const lipsc_status status = show_outlier(&s, &err);
    code = go_on(self, status, &err);
    return code == CLI_RUN ? show_models(self, &set, &s) : code;
}

const cli_command cli_cmd_demo = {
    .name = "demo",
    .operands = "",
    .summary = "a short tour, computed live",
    .about =
        "A tour on what is built in: an outlier that makes sigma grow with n, then a\n"
        "trained GPT-2, the same before training and a BERT on one text, with what the\n"
        "numbers mean.  Writes the page lipscope-demo.html.  Under a minute.",
    .example = "  $ lipscope demo\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
