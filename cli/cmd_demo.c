/* cmd_demo.c - lipscope demo: a short tour, computed live on what is built in. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "core/clock.h"
#include "golden.h"
#include "interrupt.h"
#include "names.h"
#include "sample.h"

typedef struct {
    const char *strong, *accent, *plain; /* escape sequences, or empty */
} style;

/* Colours on a terminal that has them, unless NO_COLOR says no (no-color.org). */
static style choose_style(void) {
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || (no_color && *no_color) || !terminal ||
        !strcmp(terminal, "dumb"))
        return (style){"", "", ""};
    return (style){"\033[1m", "\033[36m", "\033[0m"};
}

static void heading(const style *s, const char *text) {
    printf("\n%s%s%s\n", s->strong, text, s->plain);
}

/* ---- One outlier ------------------------------------------------------------------ */

enum { LARGEST = 1000, BAR = 26 };

/* A bar for `value` out of `most`. */
static void bar(const style *s, double value, double most) {
    const int length = (int)lrint(BAR * value / most);
    fputs(s->accent, stdout);
    for (int i = 0; i < length; i++) putchar('#');
    puts(s->plain);
}

static lipsc_status show_outlier(const style *s, lipsc_error *err) {
    static const size_t lengths[] = {2, 10, 30, 100, 300, 1000};
    static double X[LARGEST];
    const double R = 1.5, a = R * R, peak = 18.0;
    heading(s, "One outlier");
    puts(
        "One token at -1.5, all others at +1.5, scores -x_i x_j.  Everybody looks at the\n"
        "outlier, so moving it moves everybody: sigma follows sqrt(n) until the crowd\n"
        "drowns it out, near n = e^4.5 = 90.  Every sigma lies below the bound that is\n"
        "proved at this very input, and far below the bound of the paper, which holds for\n"
        "all inputs of this radius.\n");
    printf("%6s  %7s  %7s  %7s  %7s\n", "n", "sigma", "sqrt(n)", "proved", "paper");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        lipsc_layer layer;
        lipsc_input input;
        lipsc_attn *attn = NULL;
        lipsc_svd_settings set;
        lipsc_svd_info info;
        lipsc_upper upper;
        double sigma;
        cli_golden_outlier(n, R, X, &layer, &input);
        lipsc_svd_defaults(&set);
        set.stop = cli_interrupted;
        lipsc_status status = lipsc_attn_new(&layer, &input, LIPSC_F64, 0, &attn, err);
        if (!status) status = lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
        if (!status) status = lipsc_attn_upper(attn, &upper, err);
        lipsc_attn_free(attn);
        if (status) return status;
        const double tokens = (double)n;
        const double paper = sqrt(3.0 * (a * a * (4.0 * tokens + 1.0) + tokens));
        printf("%6zu  %s%7.3f%s  %7.3f  %7.3f  %7.2f  ", n, s->strong, sigma, s->plain,
               sqrt(tokens), upper.value, paper);
        bar(s, sigma, peak);
        fflush(stdout);
    }
    return LIPSC_OK;
}

/* ---- A layer of GPT-2's size ------------------------------------------------------ */

static lipsc_status show_gpt2(const style *s, lipsc_error *err) {
    heading(s, "A layer of GPT-2's size");
    puts("Random weights, d = 768, 12 heads, 256 tokens: a Jacobian with 196608 rows and\n"
         "columns that is never formed.  Solved in f32, re-evaluated in double.\n");
    printf("%6s  %9s  %8s  %8s  %11s  %9s  %7s\n", "mask", "sigma", "residual", "products",
           "<= (99.9 %)", "<= proved", "seconds");
    for (int mask = LIPSC_MASK_NONE; mask <= LIPSC_MASK_CAUSAL; mask++) {
        const double start = lipsc_seconds();
        const cli_sample_shape shape = cli_sample_gpt2(256, (lipsc_mask)mask);
        cli_sample layer = cli_sample_new(&shape);
        lipsc_attn *attn = NULL;
        lipsc_svd_settings set;
        lipsc_svd_info info;
        lipsc_upper upper;
        double sigma;
        lipsc_svd_defaults(&set);
        set.value_tol = 1e-6;
        set.stop = cli_interrupted;
        lipsc_status status = layer.storage ? LIPSC_OK : LIPSC_E_NOMEM;
        if (!status)
            status = lipsc_attn_new(&layer.layer, &layer.input, LIPSC_F32, 0, &attn, err);
        if (!status) status = lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
        const double seconds = lipsc_seconds() - start;
        if (!status) status = lipsc_attn_upper(attn, &upper, err);
        lipsc_attn_free(attn);
        cli_sample_free(&layer);
        if (status) return status;
        printf("%6s  %s%9.6f%s  %8.1e  %8ld  %11.4f  %9.2f  %7.2f\n",
               cli_mask_name((lipsc_mask)mask), s->strong, sigma, s->plain, info.residual,
               info.products, info.upper_prob, upper.value, seconds);
        fflush(stdout);
    }
    puts("\nsigma is reached by a direction, so it is a lower bound that needs no trust.\n"
         "The next bound holds with that probability over the random start of the solver,\n"
         "the last one always.  Seconds are those of the solve.");
    return LIPSC_OK;
}

static void show_next(const style *s) {
    heading(s, "What to type next");
    puts("  lipscope selftest                     is this machine computing correctly?\n"
         "  lipscope bench                        how fast is it?\n"
         "  lipscope layer FILE --causal --upper  your own layer, as a safetensors file\n"
         "  lipscope help layer                   what such a file holds, and all options");
}

static int run(const cli_command *self, int argc, char **argv) {
    int operands;
    const int code = cli_parse(self, argc, argv, NULL, &operands);
    if (code != CLI_RUN) return code;
    const style s = choose_style();
    lipsc_error err = {.text = ""};
    cli_interrupt_begin();
    printf("%slipscope %s%s: how far can attention stretch a small change of its input?\n",
           s.strong, lipsc_version(), s.plain);
    heading(&s, "One number");
    puts(
        "Move the tokens X by a small h, and the output of attention moves by J h.  The\n"
        "largest |J h| / |h| is sigma, the local Lipschitz constant: the largest singular\n"
        "value of the Jacobian J at X.");
    lipsc_status status = show_outlier(&s, &err);
    if (!status) status = show_gpt2(&s, &err);
    if (status == LIPSC_E_STOPPED) return cli_failure(self, "interrupted");
    if (status)
        return cli_failure(self, "%s", *err.text ? err.text : lipsc_strerror(status));
    show_next(&s);
    return CLI_DONE;
}

const cli_command cli_cmd_demo = {
    .name = "demo",
    .operands = "",
    .summary = "a short tour, computed live",
    .about =
        "A short tour on what is built in: what sigma is, the input that makes it grow\n"
        "like sqrt(n), and a layer of GPT-2's size with its bounds.  A few seconds.",
    .example = "  $ lipscope demo\n",
    .run = run,
};
