/* rounding_side.c - queries, keys or values of one head: lengths, and bounds of their
 * errors from the norms of the weights and of the tokens (docs/maths.md 7.6). */
#include "attn/rounding_side.h"

#include "core/vector.h"

lipsc_precision lipsc_precision_of(lipsc_dtype dtype, const lipsc_device *device) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    const double normal = ldexp(1.0, dtype == LIPSC_F32 ? -126 : -1022);
    return (lipsc_precision){.unit = ldexp(1.0, dtype == LIPSC_F32 ? -24 : -53),
                             .normal = normal,
                             .tiny = ldexp(1.0, dtype == LIPSC_F32 ? -149 : -1074),
                             .folds = ops->folds,
                             .least = ops->least > normal ? ops->least : normal};
}

double lipsc_precision_gamma(double operations, lipsc_precision in) {
    const double error = (operations + in.folds) * in.unit;
    return error < 0.01 ? error / (1.0 - error) : INFINITY;
}

lipsc_side lipsc_side_of(const lipsc_attn *attn, const lipsc_head_norms *norms, int keys,
                         size_t index) {
    const lipsc_layer *l = &attn->layer;
    const lipsc_raw raw = attn->rows.raw;
    const size_t n = attn->rows.n, k = l->key_dim, heads = keys ? l->kv_heads : l->heads;
    const double *gain = keys ? l->k_gain : l->q_gain, *b = keys ? l->bk : l->bq;
    const int whole = gain && l->norm_whole;
    const size_t first = whole ? 0 : index, count = whole ? heads : 1;
    return (lipsc_side){.dim = k,
                        .norm_dim = count * k,
                        .n = n,
                        .raw = raw.q ? (keys ? raw.key : raw.q) + first * n * k : NULL,
                        .weight = lipsc_side_norms(l, norms, keys, index),
                        .bias = b ? lipsc_safe_length(count * k, b + first * k) : 0.0,
                        .gain = whole ? gain + index * k : gain,
                        .scale = keys ? 1.0 : l->scale,
                        .norm_eps = l->norm_eps};
}

/* |W x_i + b| as it was found in twice the precision. */
static double raw_length(const lipsc_side *p, size_t i) {
    double length = 0.0;
    for (size_t h = 0; h < p->norm_dim / p->dim; h++)
        length = hypot(length, lipsc_safe_length(p->dim, p->raw + (h * p->n + i) * p->dim));
    return length;
}

double lipsc_side_raw_error(const lipsc_side *p, size_t i, size_t d, lipsc_precision in,
                            double size) {
    const double terms = (double)d + 4.0, gamma = lipsc_precision_gamma(terms, in);
    const double most = p->weight.frobenius * size + p->bias;
    const double steps =
        2.0 * terms * sqrt((double)p->norm_dim) * (1.0 + size + p->weight.frobenius);
    /* products with the smallest number take a hundred times as long as others, and are
     * nothing beside an ordinary error */
    if (!p->raw && steps * in.normal < 0x1p-60 * gamma * most) return gamma * most;
    const double lost = steps * in.tiny;
    if (!p->raw) return gamma * most + lost;
    return 2.0 * in.unit * raw_length(p, i) + gamma * gamma * most + lost;
}

/* An error of which nothing is known is as large as it can be. */
static double at_most(double error, double most) { return error < most ? error : most; }

void lipsc_side_errors(const lipsc_side *p, size_t n, size_t d, const double *sizes,
                       const double *y, const double *over, lipsc_precision in,
                       lipsc_precision own, lipsc_projected *out) {
    const double root = sqrt((double)p->norm_dim), scale = fabs(p->scale);
    const double gain = p->gain ? lipsc_largest(p->dim, p->gain) : 1.0;
    const double turns = (p->gain ? 4.0 * (double)p->norm_dim : 0.0) + 40.0;
    out->longest = out->longest_error = out->most_stretch = out->most_stretch_error = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double size = sizes[i];
        const double raw = lipsc_side_raw_error(p, i, d, in, size);
        const double raw_own = lipsc_side_raw_error(p, i, d, own, size);
        double factor = scale, moved = raw, moved_own = raw_own, bend = 0.0;
        if (p->gain) {
            const double radius = root / over[i] * (1.0 - turns * own.unit);
            const double floor = root * sqrt(p->norm_eps), rest = radius - raw - raw_own;
            const double least = rest > floor ? rest : floor;
            factor = least > 0.0 ? scale * gain * root / least : INFINITY;
            moved = at_most(raw, 2.0 * least);
            moved_own = at_most(raw_own, 2.0 * least);
            bend = at_most(6.0 * raw / least, 2.0);
        }
        const double length = lipsc_safe_length(p->dim, y + i * p->dim);
        out->own_error[i] = factor * moved_own + turns * own.unit * length;
        out->error[i] = factor * moved + turns * in.unit * (length + out->own_error[i]);
        out->length[i] = length + out->own_error[i] + out->error[i];
        out->stretch[i] = factor * p->weight.spectral;
        out->stretch_error[i] = out->stretch[i] * bend +
                                factor * p->weight.frobenius *
                                    lipsc_precision_gamma((double)d + 4.0 + turns, in) +
                                factor * ((double)d + 4.0) * root * in.tiny;
        out->longest = lipsc_max(out->longest, out->length[i]);
        out->longest_error = lipsc_max(out->longest_error, out->error[i]);
        out->most_stretch = lipsc_max(out->most_stretch, out->stretch[i]);
        out->most_stretch_error = lipsc_max(out->most_stretch_error, out->stretch_error[i]);
    }
}
