/* bounds_around.c - `bounds --around` and `--below`: the row of a neighbourhood. */
#include <math.h>

#include "bounds.h"

double bounds_mean_token(size_t n, size_t d, const double *X) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double length = 0.0;
        for (size_t c = 0; c < d; c++) length = hypot(length, X[i * d + c]);
        sum += length;
    }
    return sum / (double)n;
}

static double mean_of(const bounds_source *source) {
    const lipsc_attn *attn = source->attn;
    return bounds_mean_token(attn->input.n, attn->layer.d, attn->input.X);
}

int bounds_around_check(const cli_command *self, const bounds_settings *s) {
    const int around = !isnan(s->around), below = !isnan(s->below);
    if (around && below)
        return cli_wrong_use(self, "--below S finds the radius: leave out --around");
    if ((around || below) && s->radius)
        return cli_wrong_use(self,
                             "%s: the ball is that of the longest token and the "
                             "neighbourhood: leave out --radius",
                             around ? "--around" : "--below");
    if (s->relative && !around)
        return cli_wrong_use(self, "--relative goes with --around R");
    return CLI_RUN;
}

lipsc_status bounds_around_find(const bounds_settings *s, const bounds_source *source,
                                lipsc_zoo_case *zoo, bounds_around *out, lipsc_error *err) {
    lipsc_status status;
    *out = (bounds_around){.mean = mean_of(source)};
    if (isnan(s->around) && isnan(s->below)) return LIPSC_OK;
    if (isnan(s->below))
        status = lipsc_around_at(zoo, s->around * (s->relative ? out->mean : 1.0),
                                 &out->found, err);
    else
        status = lipsc_around_below(zoo, s->below, &out->found, err);
    if (status) return status;
    out->asked = 1;
    zoo->radius += out->found.radius; /* that of the longest token before */
    return LIPSC_OK;
}

/* ---- What is printed -------------------------------------------------------------------
 */

void bounds_around_row(const bounds_around *around, const char *norm, double sigma,
                       lipsc_table *t) {
    const lipsc_around *a = &around->found;
    lipsc_table_row(t);
    lipsc_table_string(t, "name", "around");
    lipsc_table_string(t, "source", "maths 3.15");
    lipsc_table_string(t, "kind", lipsc_bound_kind_name(LIPSC_KIND_UPPER));
    lipsc_table_string(t, "norm", norm);
    lipsc_table_string(t, "domain", "around");
    lipsc_table_real(t, "radius", a->radius);
    lipsc_table_real(t, "value", a->value);
    if (a->value > 0.0) lipsc_table_real(t, "log_value", log(a->value));
    lipsc_table_real(t, "sigma", sigma);
    if (sigma > 0.0) lipsc_table_real(t, "ratio", a->value / sigma);
}

json_t *bounds_around_json(const bounds_settings *s, const bounds_around *around) {
    const lipsc_around *a = &around->found;
    if (!around->asked) return json_null();
    return json_pack("{s:f, s:o, s:f, s:o, s:o, s:o, s:o, s:o}", "radius", a->radius,
                     "relative", lipsc_json_real(a->radius / around->mean), "value",
                     a->value, "ends", lipsc_json_real(a->ends), "change",
                     lipsc_json_real(a->change), "point", lipsc_json_real(a->point), "ball",
                     lipsc_json_real(a->ball), "below", lipsc_json_real(s->below));
}

void bounds_around_say(const bounds_settings *s, const bounds_around *around) {
    const lipsc_around *a = &around->found;
    if (!around->asked) return;
    printf("\nsigma is at most %.6g wherever no token moves by more than %.6g (%.4g of the "
           "mean token length)\n",
           isnan(s->below) ? a->value : s->below, a->radius, a->radius / around->mean);
}
