/* demo_words.c - what the numbers of the tour mean, and what to type next. */
#define _GNU_SOURCE /* program_invocation_name */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "demo.h"
#include "screen.h"

void demo_heading(const cli_screen *s, const char *text) {
    printf("\n%s%s%s\n", s->strong, text, s->plain);
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
static void explain_growth(const lipsc_summary m[DEMO_MODELS]) {
    const lipsc_summary *trained = &m[DEMO_TRAINED];
    const lipsc_layer_summary *steep = steepest(trained);
    size_t growing = 0;
    double least = INFINITY, most = -INFINITY;
    for (size_t l = 0; l < trained->layer_count; l++)
        growing += trained->layers[l].low > 0.0;
    for (int i = 0; i < DEMO_MODELS; i++)
        for (size_t l = 0; l < m[i].layer_count && i != DEMO_TRAINED; l++) {
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

void demo_explain(const cli_screen *s, const lipsc_summary m[DEMO_MODELS]) {
    const lipsc_summary *trained = &m[DEMO_TRAINED];
    double tightest = INFINITY, loosest = 0.0;
    for (int i = 0; i < DEMO_MODELS; i++) {
        tightest = smaller(tightest, m[i].tightest);
        loosest = larger(loosest, m[i].loosest);
    }
    demo_heading(s, "What this means");
    printf(
        "Training makes attention sharp.  The largest sigma is %.2f (layer %zu, window\n"
        "%zu of length %zu): a small change of the input can come out that many times as\n"
        "large.  In the windows read before training it is at most %.3f, %.0f times\n"
        "less.\n\n",
        trained->largest, trained->largest_layer, trained->largest_window,
        trained->largest_n, m[DEMO_UNTRAINED].largest,
        trained->largest / m[DEMO_UNTRAINED].largest);
    explain_growth(m);
    printf("Each sigma is reached by a direction that was found, and evaluated in double:\n"
           "a lower bound that needs no trust.  The bound proved at the same input is\n"
           "%.1f to %.1f times as large.\n",
           tightest, loosest);
}

/* Commands that work as typed, from where this one was. */
void demo_next(const cli_screen *s, const char *page) {
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
    demo_heading(s, "What to type next");
    printf("The charts are in %s%s%s: open it in a browser.\n\n", s->strong, page,
           s->plain);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        if (next[i].why) puts(next[i].why);
        fputs(me, stdout);
        cli_put_words(stdout, next[i].command, cli_screen_width(STDOUT_FILENO), strlen(me),
                      4, " \\");
    }
}
