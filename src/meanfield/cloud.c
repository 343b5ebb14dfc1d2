/* cloud.c - measures that own their numbers; equal atoms as one, and back to tokens. */
#include "core/error.h"
#include "core/mem.h"
#include "meanfield/meanfield.h"
#include "ot/check.h"

#include <math.h>
#include <string.h>

void lipsc_cloud_free(lipsc_cloud *cloud) {
    if (!cloud) return;
    lipsc_release(cloud->storage);
    *cloud = (lipsc_cloud){0};
}

lipsc_status lipsc_cloud_new(size_t n, size_t d, int timed, lipsc_cloud *out,
                             lipsc_cloud_parts *parts, lipsc_error *err) {
    double *storage = d > SIZE_MAX / sizeof *storage - 2
                          ? NULL
                          : lipsc_alloc(n, (d + 2) * sizeof *storage);
    if (!storage) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu atoms", n);
    *parts = (lipsc_cloud_parts){.points = storage,
                                 .weights = storage + n * d,
                                 .times = timed ? storage + n * (d + 1) : NULL};
    out->storage = storage;
    out->measure = (lipsc_measure){n, d, parts->points, parts->weights, parts->times};
    return LIPSC_OK;
}

/* ---- Equal atoms -------------------------------------------------------------------- */

/* +0 and -0 are the same point. */
static uint64_t bits_of(double x) {
    uint64_t bits;
    if (x == 0.0) return 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t stir(uint64_t hash, double x) {
    hash = (hash ^ bits_of(x)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static uint64_t hash_of(const lipsc_measure *mu, size_t i) {
    uint64_t hash = mu->times ? stir(1, mu->times[i]) : 1;
    for (size_t c = 0; c < mu->d; c++) hash = stir(hash, mu->points[i * mu->d + c]);
    return hash;
}

static int same(const lipsc_measure *mu, size_t i, size_t j) {
    if (mu->times && mu->times[i] != mu->times[j]) return 0;
    for (size_t c = 0; c < mu->d; c++)
        if (mu->points[i * mu->d + c] != mu->points[j * mu->d + c]) return 0;
    return 1;
}

/* place[i]: which different atom i is; first: the first of each.  Returns their number,
 * 0 when memory is short.  A hash table, because a sort would take most of the second that
 * a million tokens are given. */
static size_t number_atoms(const lipsc_measure *mu, size_t *place, size_t *first) {
    size_t slots = 16, count = 0;
    while (slots / 2 < mu->n && slots <= SIZE_MAX / 4) slots *= 2;
    size_t *table = lipsc_alloc_zero(slots, sizeof *table); /* number + 1; 0: empty */
    if (!table) return 0;
    for (size_t i = 0; i < mu->n; i++) {
        size_t at = (size_t)hash_of(mu, i) & (slots - 1);
        while (table[at] && !same(mu, first[table[at] - 1], i)) at = (at + 1) & (slots - 1);
        if (!table[at]) {
            first[count] = i;
            table[at] = ++count;
        }
        place[i] = table[at] - 1;
    }
    lipsc_release(table);
    return count;
}

static lipsc_status merge(const lipsc_measure *mu, size_t *place, size_t *first,
                          lipsc_cloud *out, lipsc_error *err) {
    const size_t d = mu->d, count = number_atoms(mu, place, first);
    lipsc_cloud_parts parts = {0};
    if (!count) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu atoms", mu->n);
    lipsc_status status = lipsc_cloud_new(count, d, mu->times != NULL, out, &parts, err);
    if (status) return status;
    for (size_t q = 0; q < count; q++) {
        memcpy(parts.points + q * d, mu->points + first[q] * d, d * sizeof *parts.points);
        parts.weights[q] = 0.0;
        if (mu->times) parts.times[q] = mu->times[first[q]];
    }
    for (size_t i = 0; i < mu->n; i++)
        parts.weights[place[i]] += mu->weights ? mu->weights[i] : 1.0;
    for (size_t q = 0; !mu->weights && q < count; q++) parts.weights[q] /= (double)mu->n;
    return LIPSC_OK;
}

lipsc_status lipsc_measure_merge(const lipsc_measure *mu, lipsc_cloud *out, size_t *atom,
                                 lipsc_error *err) {
    lipsc_status status = lipsc_measure_check(mu, "given", err);
    if (status) return status;
    size_t *own = lipsc_alloc(mu->n, 2 * sizeof *own);
    if (!own) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu atoms", mu->n);
    status = merge(mu, atom ? atom : own, own + mu->n, out, err);
    lipsc_release(own);
    return status;
}

/* ---- Tokens ------------------------------------------------------------------------- */

lipsc_status lipsc_measure_tokens(const lipsc_measure *mu, size_t n, double *X,
                                  lipsc_error *err) {
    const double tolerance = 1e-6; /* of a count: weights sum to 1 within 1e-9 only */
    lipsc_status status = lipsc_measure_check(mu, "given", err);
    if (status) return status;
    size_t done = 0;
    for (size_t pass = 0; pass < 2; pass++) /* counts are checked before X is written */
        for (size_t i = done = 0; i < mu->n; i++) {
            const double count =
                (mu->weights ? mu->weights[i] : 1.0 / (double)mu->n) * (double)n;
            const double whole = round(count);
            if (!(whole >= 1.0) || fabs(count - whole) > tolerance ||
                whole > (double)(n - done))
                return lipsc_fail(err, LIPSC_E_REFUSED,
                                  "weight %zu of the measure is no multiple of 1/%zu", i,
                                  n);
            for (size_t k = 0; pass && k < (size_t)whole; k++)
                memcpy(X + (done + k) * mu->d, mu->points + i * mu->d, mu->d * sizeof *X);
            done += (size_t)whole;
        }
    if (done != n)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "the weights of the measure make %zu tokens, not %zu", done, n);
    return LIPSC_OK;
}
