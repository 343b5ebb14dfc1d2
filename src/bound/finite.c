/* finite.c - bounds over a ball for n tokens or weighted atoms (docs/maths.md 3.4 - 3.6).
 */
#include "bound/zoo.h"

#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"

/* log sqrt(n) min( sqrt(1 + a^2), 1 + a/sqrt(2) ): the rows of the key and value paths */
static double log_rows(const lipsc_zoo_case *z, double log_a) {
    return 0.5 * log((double)z->n) + lipsc_min(lipsc_log_root_1_a2(log_a),
                                               lipsc_log_add(0.0, log_a - 0.5 * log(2.0)));
}

/* max_j sum over the rows i that see j of 1 / (1 + (c_i - 1) e^{-2a}), c_i the number of
 * tokens that i sees: a difference array over the ranges. */
static double equal_columns(const lipsc_rows *rows, double shrink, double *sum) {
    double running = 0.0, largest = 0.0;
    memset(sum, 0, (rows->n + 1) * sizeof *sum);
    for (size_t i = 0; i < rows->n; i++) {
        const double others = (double)(rows->hi[i] - rows->lo[i] - 1);
        const double share = 1.0 / (1.0 + others * shrink);
        sum[rows->lo[i]] += share;
        sum[rows->hi[i]] -= share;
    }
    for (size_t j = 0; j < rows->n; j++) {
        running += sum[j];
        largest = lipsc_max(largest, running);
    }
    return largest;
}

static double weighted_columns(const lipsc_rows *rows, double shrink, double *before) {
    const size_t n = rows->n;
    double largest = 0.0;
    before[0] = 0.0;
    for (size_t i = 0; i < n; i++)
        before[i + 1] = before[i] + rows->root_weight[i] * rows->root_weight[i];
    for (size_t j = 0; j < n; j++) {
        const double a_j = rows->root_weight[j] * rows->root_weight[j];
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            if (j < rows->lo[i] || j >= rows->hi[i]) continue;
            const double a_i = rows->root_weight[i] * rows->root_weight[i];
            const double seen = before[rows->hi[i]] - before[rows->lo[i]];
            sum += a_i / (a_j + lipsc_max(seen - a_j, 0.0) * shrink);
        }
        largest = lipsc_max(largest, sum);
    }
    return largest;
}

double lipsc_log_columns(const lipsc_zoo_case *z, double a) {
    const lipsc_rows *rows = &z->attn->rows;
    double *room = lipsc_alloc(rows->n + 1, sizeof *room);
    if (!room) {
        if (z->short_of_memory) *z->short_of_memory = 1;
        return NAN;
    }
    const double shrink = exp(-2.0 * a);
    const double columns = z->weighted ? weighted_columns(rows, shrink, room)
                                       : equal_columns(rows, shrink, room);
    lipsc_release(room);
    return log(columns);
}

const char *lipsc_finite_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_paper_finite_refuse(z);
    if (!why) why = lipsc_refuse_biased(z);
    return why ? why : lipsc_refuse_masked(z);
}

/* a1 + min{ sqrt(n) min(sqrt(1+a^2), 1 + a/sqrt2), sqrt((1+a^2) n / (1+(n-1)e^{-2a})) } */
double lipsc_finite(const lipsc_zoo_case *z, size_t h) {
    const double log_a = lipsc_log_a2(z, h), a = lipsc_a2(z, h), n = (double)z->n;
    const double columns =
        lipsc_log_root_1_a2(log_a) + 0.5 * (log(n) - log1p((n - 1.0) * exp(-2.0 * a)));
    return lipsc_log_add(lipsc_log_a1(z, h), lipsc_min(log_rows(z, log_a), columns));
}

const char *lipsc_rows_refuse(const lipsc_zoo_case *z) {
    return lipsc_paper_finite_refuse(z);
}

/* a1 + sqrt(n) min(sqrt(1+a^2), 1 + a/sqrt2), with any mask */
double lipsc_rows_bound(const lipsc_zoo_case *z, size_t h) {
    return lipsc_log_add(lipsc_log_a1(z, h), log_rows(z, lipsc_log_a2(z, h)));
}

/* a1 + sqrt((1+a^2) columns): unmasked, columns = 1 / (a_min + (1 - a_min) e^{-2a}) */
double lipsc_atoms(const lipsc_zoo_case *z, size_t h) {
    const double columns = lipsc_log_columns(z, lipsc_a2(z, h));
    return lipsc_log_add(lipsc_log_a1(z, h),
                         lipsc_log_root_1_a2(lipsc_log_a2(z, h)) + 0.5 * columns);
}

/* 1 + a1 + a2: no length and no exponential; any mask, any weights */
double lipsc_max_token(const lipsc_zoo_case *z, size_t h) {
    return lipsc_log_add(0.0, lipsc_log_add(lipsc_log_a1(z, h), lipsc_log_a2(z, h)));
}

const char *lipsc_masked_finite_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_paper_finite_refuse(z);
    if (!why) why = lipsc_refuse_biased(z);
    if (why) return why;
    return z->layer->mask == LIPSC_MASK_NONE ? "no mask: finite-n is the sharper form"
                                             : NULL;
}

/* a1 + min{ sqrt((1+a^2) S), sqrt(n) min(sqrt(1+a^2), 1 + a/sqrt2) }; S = S_n for a causal
 * mask, the same sum over the visible counts for the others */
double lipsc_masked_finite(const lipsc_zoo_case *z, size_t h) {
    const double log_a = lipsc_log_a2(z, h);
    const double columns =
        lipsc_log_root_1_a2(log_a) + 0.5 * lipsc_log_columns(z, lipsc_a2(z, h));
    return lipsc_log_add(lipsc_log_a1(z, h), lipsc_min(log_rows(z, log_a), columns));
}
