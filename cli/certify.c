/* certify.c - a certificate is told before it starts, shown while it runs, and judged. */
#include "certify.h"

#include <string.h>

#include "interrupt.h"

/* Below, a certificate starts without a word. */
static const double worth_telling = 1.0; /* seconds */

static int tell_plan(void *ctx, const lipsc_certify_plan *plan) {
    cli_certifier *c = ctx;
    c->rung = plan->rung;
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

void cli_certify_begin(cli_certifier *c, const cli_command *self, const cli_certify *how,
                       const cli_common *common, const char *name, double lower,
                       double upper, uint64_t seed) {
    *c = (cli_certifier){.self = self, .how = how, .name = name, .quiet = common->quiet};
    lipsc_certify_defaults(&c->set);
    c->set.eps = how->eps;
    c->set.max_seconds = how->seconds;
    c->set.max_bytes = (size_t)(how->memory * (double)(1 << 30));
    if (lower > 0.0) c->set.lower = lower; /* not a NaN */
    if (!isnan(upper)) c->set.upper = upper;
    c->set.seed = seed;
    c->set.begin = tell_plan;
    c->set.stop = cli_interrupted;
    c->set.progress = show;
    c->set.ctx = c;
    cli_progress_begin(&c->progress, common);
}

lipsc_status cli_certify_end(cli_certifier *c, lipsc_status status, const lipsc_error *err,
                             cli_certified *out) {
    cli_progress_end(&c->progress);
    out->refused = status == LIPSC_E_REFUSED;
    if (out->refused)
        cli_failure(c->self, "%s: %s; --certify-seconds and --certify-memory set the limit",
                    c->name, err->text);
    else if (status == LIPSC_E_NOCONV && !c->quiet)
        cli_failure(c->self, "%s: %s", c->name, err->text);
    return out->refused || status == LIPSC_E_NOCONV ? LIPSC_OK : status;
}

/* ---- Fields ------------------------------------------------------------------------ */

static const lipsc_column fields[CLI_CERTIFY_COLUMNS] = {
    {"certified", LIPSC_COLUMN_BOOL},
    {"certificate", LIPSC_COLUMN_STRING},
    {"certify_products", LIPSC_COLUMN_INTEGER}};

size_t cli_certify_columns(lipsc_column columns[CLI_CERTIFY_COLUMNS]) {
    memcpy(columns, fields, sizeof fields);
    return CLI_CERTIFY_COLUMNS;
}

void cli_certify_fill(lipsc_table *t, const cli_certified *certified) {
    const lipsc_certificate *found = &certified->found;
    lipsc_table_bool(t, fields[0].name, found->certified);
    if (found->rung) lipsc_table_string(t, fields[1].name, found->rung);
    lipsc_table_integer(t, fields[2].name, found->products);
}
