/* teleport.c - a search for the place z to which a vanishing part of an atom is sent:
 *
 *     s(z) = |Gamma(z) - Gamma(x_i)| / |z - x_i|        (docs/maths.md 2)
 *
 * is not concave, so it is climbed from several starts for each atom, all of them at once:
 * probes are tokens that ask at z and add nothing, because their keys and values are those
 * of atom i with a weight that no sum in double notices.  With u the unit vector along
 * Gamma(z) - Gamma(x_i),
 *
 *     grad s = ( DGamma(z)^T u - s (z - x_i)/|z - x_i| ) / |z - x_i|.
 *
 * What is found is a value that s takes: below its supremum. */
#include "bound/facts.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/order.h"
#include "core/rng.h"
#include "core/vector.h"
#include "linalg/dense.h"
#include "meanfield/meanfield.h"

#include <math.h>
#include <string.h>

enum { MOST_ATOMS = 32, CLIMB_STEPS = 80 };
static const double least_stride = 1e-8; /* of the radius: the climb is over */
static const double no_weight = 1e-40;   /* of a probe, beside that of its atom */
static const double nearest = 1e-5;      /* of the radius: closer is |V C A| itself  */

typedef struct {
    const lipsc_atom_field *field;
    lipsc_packed *paths;
    const lipsc_device *device;
    size_t n, d, width, count; /* atoms, probes                                       */
    double radius;
    size_t *owner; /* (count) atom of each probe                                     */
    /* atoms, then probes: n + count rows */
    double *queries, *points, *weights, *times;
    double *output, *covector, *room, *pulled; /* widths: width, width, 2 d, d       */
    double *best, *gradient; /* (count, d) place of the largest slope, gradient there  */
    double *slope, *stride;  /* (count)                                              */
    double *previous;        /* (count) slopes before a step                          */
} climb;

static double apart(size_t count, const double *x, const double *y) {
    double sum = 0.0;
    for (size_t e = 0; e < count; e++) sum += (x[e] - y[e]) * (x[e] - y[e]);
    return sqrt(sum);
}

/* z := the nearest point of the ball */
static void into_ball(size_t d, double radius, double *z) {
    const double size = lipsc_length(d, z);
    for (size_t c = 0; size > radius && c < d; c++) z[c] *= radius / size;
}

/* ---- Slopes of all probes at their queries ------------------------------------------ */

/* trial (count) slopes; where one beats its best so far, best, slope, gradient follow. */
static lipsc_status evaluate(climb *k, double *trial, lipsc_error *err) {
    const size_t n = k->n, d = k->d, m = k->width;
    const lipsc_input tokens = {.n = n + k->count,
                                .X = k->points,
                                .weights = k->weights,
                                .times = k->field->atoms.measure.times ? k->times : NULL};
    lipsc_attn *attn;
    lipsc_status status = lipsc_paths_at(k->paths, k->field->layer.mask, &tokens,
                                         k->queries, k->device, &attn, err);
    if (status) return status;
    status = lipsc_attn_output(attn, k->output);
    memset(k->covector, 0, (n + k->count) * m * sizeof *k->covector);
    for (size_t p = 0; !status && p < k->count; p++) {
        const double *x = k->points + (n + p) * d, *z = k->queries + (n + p) * d;
        const double *y = k->output + (n + p) * m, *y0 = k->output + k->owner[p] * m;
        const double away = apart(d, x, z), gain = apart(m, y, y0);
        trial[p] = away > nearest * k->radius ? gain / away : -1.0;
        for (size_t e = 0; gain > 0.0 && e < m; e++)
            k->covector[(n + p) * m + e] = (y[e] - y0[e]) / gain;
    }
    if (!status) status = lipsc_paths_apply(attn, 1, k->covector, k->room, k->pulled);
    lipsc_attn_free(attn);
    if (status) return status;
    for (size_t p = 0; p < k->count; p++) {
        const double *x = k->points + (n + p) * d, *z = k->queries + (n + p) * d;
        if (!(trial[p] > k->slope[p])) continue;
        const double away = apart(d, x, z);
        k->slope[p] = trial[p];
        memcpy(k->best + p * d, z, d * sizeof *z);
        for (size_t c = 0; c < d; c++)
            k->gradient[p * d + c] =
                trial[p] < 0.0
                    ? 0.0
                    : (k->pulled[(n + p) * d + c] - trial[p] * (z[c] - x[c]) / away) / away;
    }
    return LIPSC_OK;
}

/* ---- Starts ------------------------------------------------------------------------- */

/* Number `which` of an atom: close by along the direction that its halves take, across the
 * ball, at other atoms, anywhere. */
static void start(climb *k, size_t which, size_t atom, const double *direction,
                  uint64_t seed, double *z) {
    const size_t d = k->d;
    const double *x = k->field->atoms.measure.points + atom * d;
    const double *v = direction + atom * d;
    const uint64_t stream = (uint64_t)(atom * 1000 + which) * (d + 2);
    const double reach = which < 2 ? 0.05 : 1.0, sign = which % 2 ? -1.0 : 1.0;
    if (which < 4) {
        for (size_t c = 0; c < d; c++)
            z[c] = (which < 2 ? x[c] : 0.0) + sign * reach * k->radius * v[c];
    } else if (which == 4) {
        for (size_t c = 0; c < d; c++) z[c] = -x[c];
    } else if (which % 2) {
        const size_t other = (size_t)(lipsc_rng_bits(seed, stream) % k->n);
        memcpy(z, k->field->atoms.measure.points + other * d, d * sizeof *z);
    } else {
        for (size_t c = 0; c < d; c++) z[c] = lipsc_rng_normal(seed, stream + c);
        const double size = lipsc_length(d, z);
        const double at = k->radius * lipsc_rng_uniform(seed, stream + d) / size;
        for (size_t c = 0; c < d; c++) z[c] *= at;
    }
    into_ball(d, k->radius, z);
}

/* The atoms that are tried: all, or those with the largest |V C_i A|. */
static size_t choose_atoms(size_t n, const double *norm, lipsc_placed *order) {
    lipsc_order_down(n, norm, order);
    return n < MOST_ATOMS ? n : MOST_ATOMS;
}

/* ---- The climb ---------------------------------------------------------------------- */

static lipsc_status climb_all(climb *k, const lipsc_slope_settings *set, double *trial,
                              lipsc_error *err) {
    const size_t d = k->d;
    lipsc_status status = evaluate(k, trial, err);
    for (int step = 0; step < CLIMB_STEPS && !status; step++) {
        if (set->stop && set->stop(set->ctx)) return LIPSC_E_STOPPED;
        for (size_t p = 0; p < k->count; p++) {
            double *z = k->queries + (k->n + p) * d;
            const double *g = k->gradient + p * d, size = lipsc_length(d, g);
            const double ahead = size > 0.0 ? k->stride[p] * k->radius / size : 0.0;
            memcpy(z, k->best + p * d, d * sizeof *z);
            for (size_t c = 0; c < d; c++) z[c] += ahead * g[c];
            into_ball(d, k->radius, z);
            trial[p] = k->slope[p];
        }
        memcpy(k->previous, trial, k->count * sizeof *trial);
        status = evaluate(k, trial, err);
        double longest = 0.0;
        for (size_t p = 0; p < k->count; p++) {
            k->stride[p] *= k->slope[p] > k->previous[p] ? 1.6 : 0.4;
            longest = lipsc_max(longest, k->stride[p]);
        }
        if (longest < least_stride) break;
    }
    return status;
}

static double *take(double **next, size_t count) {
    double *at = *next;
    *next += count;
    return at;
}

static lipsc_status run(climb *k, const lipsc_slope_settings *set, const double *direction,
                        const lipsc_placed *order, double *numbers, lipsc_teleport *out,
                        lipsc_error *err) {
    const lipsc_measure *mu = &k->field->atoms.measure;
    const size_t n = k->n, d = k->d, rows = n + k->count;
    double *next = numbers;
    k->queries = take(&next, rows * d);
    k->points = take(&next, rows * d);
    k->weights = take(&next, rows);
    k->times = take(&next, rows);
    k->output = take(&next, rows * k->width);
    k->covector = take(&next, rows * k->width);
    k->room = take(&next, rows * 2 * d);
    k->pulled = take(&next, rows * d);
    k->best = take(&next, k->count * d);
    k->gradient = take(&next, k->count * d);
    k->slope = take(&next, k->count);
    k->stride = take(&next, k->count);
    k->previous = take(&next, k->count);
    double *trial = take(&next, k->count);
    memcpy(k->queries, mu->points, n * d * sizeof *mu->points);
    memcpy(k->points, mu->points, n * d * sizeof *mu->points);
    memcpy(k->weights, mu->weights, n * sizeof *mu->weights);
    if (mu->times) memcpy(k->times, mu->times, n * sizeof *mu->times);
    for (size_t p = 0; p < k->count; p++) {
        const size_t atom = order[p / set->restarts].index;
        k->owner[p] = atom;
        k->slope[p] = -2.0; /* below that of a probe too close to its atom */
        k->stride[p] = 0.1;
        k->weights[n + p] = no_weight * mu->weights[atom];
        if (mu->times) k->times[n + p] = mu->times[atom];
        memcpy(k->points + (n + p) * d, mu->points + atom * d, d * sizeof *k->points);
        start(k, p % set->restarts, atom, direction, set->seed, k->queries + (n + p) * d);
    }
    lipsc_status status = climb_all(k, set, trial, err);
    for (size_t p = 0; !status && p < k->count; p++)
        if (k->slope[p] > out->slope) {
            out->slope = k->slope[p];
            out->atom = k->owner[p];
            memcpy(out->target, k->best + p * d, d * sizeof *out->target);
        }
    return status;
}

lipsc_status lipsc_teleport_find(const lipsc_atom_field *field, lipsc_packed *paths,
                                 const lipsc_slope_settings *set, const double *norm,
                                 const double *direction, lipsc_teleport *out,
                                 lipsc_error *err) {
    const lipsc_measure *mu = &field->atoms.measure;
    climb k = {.field = field,
               .paths = paths,
               .device = set->device,
               .n = mu->n,
               .d = mu->d,
               .width = lipsc_layer_width(&field->layer),
               .radius = set->radius};
    for (size_t i = 0; set->radius == 0.0 && i < mu->n; i++)
        k.radius = lipsc_max(k.radius, lipsc_length(mu->d, mu->points + i * mu->d));
    out->slope = 0.0;
    if (!(k.radius > 0.0) || set->restarts == 0) return LIPSC_OK;

    lipsc_placed *order = lipsc_alloc(mu->n, sizeof *order);
    if (!order) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a search");
    k.count = choose_atoms(mu->n, norm, order) * set->restarts;
    size_t numbers;
    const size_t row = 6 * k.d + 2 * k.width + 2, probe = 2 * k.d + 4;
    lipsc_status status = LIPSC_E_NOMEM;
    double *storage = NULL;
    k.owner = lipsc_alloc(k.count, sizeof *k.owner);
    if (lipsc_mul_size(mu->n + k.count, row + probe, &numbers))
        storage = lipsc_alloc(numbers, sizeof *storage);
    if (storage && k.owner)
        status = run(&k, set, direction, order, storage, out, err);
    else
        lipsc_fail(err, status, "out of memory for a search");
    lipsc_release(storage);
    lipsc_release(k.owner);
    lipsc_release(order);
    return status;
}

/* ---- From above --------------------------------------------------------------------- */

/* The square of the radius of a ball that holds all atoms: around 0, or around the middle
 * of their box.  Covariances do not see where the middle is. */
static double squared_radius(const lipsc_measure *mu, double *middle) {
    double at_zero = 0.0, at_middle = 0.0;
    for (size_t c = 0; c < mu->d; c++) {
        double low = mu->points[c], high = low;
        for (size_t i = 1; i < mu->n; i++) {
            low = lipsc_min(low, mu->points[i * mu->d + c]);
            high = lipsc_max(high, mu->points[i * mu->d + c]);
        }
        middle[c] = 0.5 * low + 0.5 * high;
    }
    for (size_t i = 0; i < mu->n; i++) {
        const double *x = mu->points + i * mu->d, away = apart(mu->d, x, middle);
        at_zero = lipsc_max(at_zero, lipsc_length(mu->d, x));
        at_middle = lipsc_max(at_middle, away);
    }
    const double radius = lipsc_min(at_zero, at_middle);
    return radius * radius;
}

lipsc_status lipsc_teleport_cover(const lipsc_atom_field *field, double *cover) {
    const double margin = 1.0 + 1e-10; /* rounding of the norms */
    const lipsc_layer *layer = &field->layer;
    *cover = NAN;
    if (layer->q_gain || layer->k_gain) return LIPSC_OK;
    double *middle = lipsc_alloc(layer->d, sizeof *middle), out_norm = 1.0;
    if (!middle) return LIPSC_E_NOMEM;
    const double square = squared_radius(&field->atoms.measure, middle);
    lipsc_release(middle);
    double sum = 0.0, squares = 0.0;
    lipsc_status status = LIPSC_OK;
    for (size_t h = 0; h < layer->heads && !status; h++) {
        lipsc_head_facts facts;
        status = lipsc_head_facts_make(layer, h, &facts);
        sum += facts.norm_OV * facts.norm_A * square;
        squares += pow(facts.norm_V * facts.norm_A * square, 2.0);
        lipsc_head_facts_free(&facts);
    }
    if (!status && layer->O) /* read as column-major it is the transpose: the same norm */
        status = lipsc_dense_norm(layer->heads * layer->value_dim, layer->out_dim, layer->O,
                                  &out_norm);
    if (!status) *cover = margin * lipsc_min(sum, out_norm * sqrt(squares));
    return status;
}
