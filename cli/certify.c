/* certify.c - a certificate is told before it starts, shown while it runs, and judged. */
#include "certify.h"

#include "interrupt.h"

/* Below, a certificate starts without a word. */
static const double worth_telling = 1.0; /* seconds */

static int tell_plan(void *ctx, const lipsc_certify_plan *plan) {
    cli_certifier *c = ctx;
    c->rung = plan->rung;
    cli_progress_end(&c->progress);
    if (!c->quiet && plan->seconds >= worth_telling)
        fprintf(
            stderr,
            "lipscope %s: %s: certificate (%s): about %.0f products, %.0f s, %.2f GiB\n",
            c->self->name, c->name, plan->rung, plan->products, plan->seconds,
            (double)plan->bytes / (double)(1 << 30));
    return 0;
}

static void show(void *ctx, double done, double seconds_left) {
    cli_certifier *c = ctx;
    cli_progress_say(&c->progress, "certificate (%s)  %.0f %%  %.0f s left", c->rung,
                     100.0 * done, seconds_left);
}

const lipsc_certify_settings *cli_certify_begin(cli_certifier *c, const cli_command *self,
                                                const cli_certify *how,
                                                const cli_common *common, const char *name,
                                                uint64_t seed) {
    *c = (cli_certifier){.self = self, .name = name, .quiet = common->quiet};
    lipsc_certify_defaults(&c->set);
    c->set.eps = how->eps;
    c->set.max_seconds = how->seconds;
    c->set.max_bytes = (size_t)(how->memory * (double)(1 << 30));
    c->set.seed = seed;
    c->set.begin = tell_plan;
    c->set.stop = cli_interrupted;
    c->set.progress = show;
    c->set.ctx = c;
    cli_progress_begin(&c->progress, common);
    return how->eps > 0.0 ? &c->set : NULL;
}

void cli_certify_end(cli_certifier *c, lipsc_status status, const lipsc_error *why) {
    cli_progress_end(&c->progress);
    if (status == LIPSC_E_REFUSED)
        cli_failure(c->self, "%s: %s; --certify-seconds and --certify-memory set the limit",
                    c->name, why->text);
    else if (status == LIPSC_E_NOCONV && !c->quiet)
        cli_failure(c->self, "%s: %s", c->name, why->text);
}
