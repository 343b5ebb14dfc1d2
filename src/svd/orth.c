/* orth.c - block Gram-Schmidt, repeated where a vector lost most of its length.
 *
 * One pass leaves errors of eps |x_before| along Q; relative to what remains that is
 * eps |x_before| / |x_after|, so another pass is needed exactly when the length dropped
 * ("twice is enough": Kahan and Parlett; Daniel, Gragg, Kaufman and Stewart 1976).
 * Coefficients are double in any precision of the vectors. */
#include "svd/orth.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

/* More passes than a vector outside the span of Q can need. */
enum { MAX_PASSES = 5 };

static lipsc_buffer at(const lipsc_space *space, lipsc_buffer vectors, size_t len,
                       size_t i) {
    return lipsc_space_at(space, vectors, i * len);
}

static lipsc_buffer vector_of(const lipsc_orth *o, size_t i) {
    return at(o->space, o->q, o->len, o->j + i);
}

/* Takes the vectors base .. j+rank-1 out of x, which stands right behind them, again and
 * again until its length stays.  First only base = j, the vectors accepted from the
 * same block; later passes take all from `from` on.  *length is 0 when x lies in their
 * span. */
static lipsc_status finish_vector(const lipsc_orth *o, size_t rank, double before,
                                  double least, double *coef, double *length) {
    const lipsc_space *space = o->space;
    const lipsc_buffer x = vector_of(o, rank);
    lipsc_status status = LIPSC_OK;
    *length = 0.0;
    for (int pass = 0; pass < MAX_PASSES; pass++) {
        const size_t base = pass ? o->from : o->j, vectors = o->j + rank - base;
        double square, *work = o->work;
        const lipsc_buffer basis = at(space, o->q, o->len, base);
        if (vectors) {
            status = lipsc_space_gram(space, o->len, vectors, basis, 1, x, work);
            if (status) return status;
            for (size_t i = 0; i < vectors; i++) {
                coef[base + i] += work[i];
                work[i] = -work[i];
            }
            status = lipsc_space_combine(space, o->len, vectors, basis, 1, work, 1.0, x);
        }
        if (!status) status = lipsc_space_gram(space, o->len, 1, x, 1, x, &square);
        if (status) return status;
        const double after = sqrt(square);
        if (!(after > least)) return LIPSC_OK;
        if (after > 0.7 * before) {
            *length = after;
            return LIPSC_OK;
        }
        before = after;
    }
    return LIPSC_OK;
}

/* What the caller knows is taken out of X. */
static lipsc_status take_known(const lipsc_orth *o) {
    const size_t known = o->j - o->known;
    for (size_t c = 0; c < o->k; c++) {
        double *column = o->coef + c * o->ldc;
        memset(column, 0, o->known * sizeof *column);
        memset(column + o->j, 0, o->k * sizeof *column);
        for (size_t i = 0; i < known; i++) o->work[c * known + i] = -column[o->known + i];
    }
    if (!known) return LIPSC_OK;
    return lipsc_space_combine(o->space, o->len, known,
                               at(o->space, o->q, o->len, o->known), o->k, o->work, 1.0,
                               vector_of(o, 0));
}

/* Takes Q out of X once.  before (k): the lengths until then; *left: the square of that of
 * the first vector from then on, by Pythagoras. */
static lipsc_status take_all(const lipsc_orth *o, double *before, double *left) {
    const size_t old = o->j - o->from, rows = old + o->k, k = o->k;
    double *work = o->work;
    const lipsc_buffer basis = at(o->space, o->q, o->len, o->from);
    /* [Q X]^T X: the coefficients and, on the diagonal of X^T X, the squares */
    const lipsc_status status =
        lipsc_space_gram(o->space, o->len, rows, basis, k, vector_of(o, 0), work);
    if (status) return status;
    *left = work[old];
    for (size_t c = 0; c < k; c++) {
        before[c] = sqrt(work[c * rows + old + c]);
        if (!isfinite(before[c])) return LIPSC_E_NONFIN;
        if (before[c] > *o->scale) *o->scale = before[c];
    }
    for (size_t c = 0; c < k; c++)
        for (size_t i = 0; i < old; i++) {
            const double g = work[c * rows + i];
            o->coef[c * o->ldc + o->from + i] += g;
            work[c * old + i] = -g; /* never ahead of what is still to be read */
            if (c == 0) *left -= g * g;
        }
    return old ? lipsc_space_combine(o->space, o->len, old, basis, k, work, 1.0,
                                     vector_of(o, 0))
               : LIPSC_OK;
}

/* Whether Pythagoras knows the length as well as a sum over the vector would: what was
 * taken out is so little that nothing cancels. */
static int is_sharp(double left, double before) { return left >= 0.99 * before * before; }

lipsc_status lipsc_svd_orth(const lipsc_orth *o) {
    double *before = o->work + (o->j - o->from + o->k) * o->k, left = 0.0;
    size_t rank = 0;
    *o->rank = 0;
    lipsc_status status = take_known(o);
    if (!status) status = take_all(o, before, &left);
    const double least = 16.0 * o->eps * *o->scale;
    for (size_t c = 0; c < o->k && !status; c++) {
        const lipsc_buffer place = vector_of(o, rank);
        double *coef = o->coef + c * o->ldc, length = 0.0;
        if (c != rank) status = lipsc_space_copy(o->space, o->len, vector_of(o, c), place);
        if (c == 0 && is_sharp(left, before[0]))
            length = sqrt(left) > least ? sqrt(left) : 0.0;
        else if (!status)
            status = finish_vector(o, rank, before[c], least, coef, &length);
        if (!status && length > 0.0 && o->j + rank < o->len) {
            status = lipsc_space_scale(o->space, o->len, 1.0 / length, place);
            coef[o->j + rank++] = length;
        }
    }
    *o->rank = rank;
    return status;
}

/* ---- Several together ---------------------------------------------------------------- */

int lipsc_svd_sums_together(const lipsc_space *space) {
    return space->ops->grams && space->ops->combines;
}

/* Those that are worked on, one vector each, and what is asked for next. */
typedef struct {
    const lipsc_space *space;
    size_t count;
    lipsc_orth **orth; /* (count) the active ones, in order */
    lipsc_gram *gram;
    lipsc_combination *combination;
} group;

/* x += Q' c for the columns from .. j-1 of Q, c in work. */
static lipsc_status add_columns(group *g, int known) {
    size_t asked = 0;
    for (size_t i = 0; i < g->count; i++) {
        lipsc_orth *o = g->orth[i];
        const size_t from = known ? o->known : o->from;
        if (from == o->j) continue;
        g->combination[asked++] = (lipsc_combination){.len = o->len,
                                                      .ka = o->j - from,
                                                      .a = at(o->space, o->q, o->len, from),
                                                      .kb = 1,
                                                      .c = o->work,
                                                      .beta = 1.0,
                                                      .b = vector_of(o, 0)};
    }
    return asked ? lipsc_space_combines(g->space, asked, g->combination) : LIPSC_OK;
}

/* work = [Q x]^T x, or of x alone. */
static lipsc_status ask_sums(group *g, int basis) {
    for (size_t i = 0; i < g->count; i++) {
        lipsc_orth *o = g->orth[i];
        const size_t from = basis ? o->from : o->j;
        g->gram[i] = (lipsc_gram){.len = o->len,
                                  .ka = o->j + 1 - from,
                                  .a = at(o->space, o->q, o->len, from),
                                  .kb = 1,
                                  .b = vector_of(o, 0),
                                  .c = o->work};
    }
    return g->count ? lipsc_space_grams(g->space, g->count, g->gram) : LIPSC_OK;
}

/* What is in work is taken out of x and counted among the coefficients; the square of the
 * length that is left. */
static double take_out(lipsc_orth *o) {
    const size_t old = o->j - o->from;
    double left = o->work[old];
    for (size_t i = 0; i < old; i++) {
        left -= o->work[i] * o->work[i];
        o->coef[o->from + i] += o->work[i];
        o->work[i] = -o->work[i];
    }
    return left;
}

static void begin_all(const group *g) {
    for (size_t i = 0; i < g->count; i++) {
        lipsc_orth *o = g->orth[i];
        memset(o->coef, 0, o->known * sizeof *o->coef);
        o->coef[o->j] = 0.0;
        for (size_t l = o->known; l < o->j; l++) o->work[l - o->known] = -o->coef[l];
    }
}

/* Those whose lengths are not finite leave. */
static void first_pass(group *g) {
    size_t left = 0;
    for (size_t i = 0; i < g->count; i++) {
        lipsc_orth *o = g->orth[i];
        o->before = sqrt(o->work[o->j - o->from]);
        o->status = isfinite(o->before) ? LIPSC_OK : LIPSC_E_NONFIN;
        if (o->status) continue;
        if (o->before > *o->scale) *o->scale = o->before;
        const double square = take_out(o);
        o->length = is_sharp(square, o->before) ? sqrt(square) : NAN;
        g->orth[left++] = o;
    }
    g->count = left;
}

/* Those whose length is known leave. */
static void leave_known(group *g) {
    size_t left = 0;
    for (size_t i = 0; i < g->count; i++) {
        lipsc_orth *o = g->orth[i];
        if (isnan(o->length)) g->orth[left++] = o;
        if (!(o->length > 16.0 * o->eps * *o->scale)) o->length = 0.0;
    }
    g->count = left;
}

/* Those whose length stayed, or that are rounding, leave. */
static void judge_lengths(group *g) {
    size_t left = 0;
    for (size_t i = 0; i < g->count; i++) {
        lipsc_orth *o = g->orth[i];
        const double after = sqrt(o->work[0]);
        if (!(after > 16.0 * o->eps * *o->scale)) continue;
        if (after > 0.7 * o->before) {
            o->length = after;
            continue;
        }
        o->before = after;
        g->orth[left++] = o;
    }
    g->count = left;
}

static lipsc_status normalise(group *g, size_t count, lipsc_orth *const *orth) {
    size_t asked = 0;
    for (size_t i = 0; i < count; i++) {
        lipsc_orth *o = orth[i];
        if (o->status || !(o->length > 0.0) || o->j == o->len) continue;
        o->work[0] = 1.0 / o->length;
        o->coef[o->j] = o->length;
        *o->rank = 1;
        g->combination[asked++] = (lipsc_combination){.len = o->len,
                                                      .ka = 1,
                                                      .a = vector_of(o, 0),
                                                      .kb = 1,
                                                      .c = o->work,
                                                      .beta = 0.0,
                                                      .b = vector_of(o, 0)};
    }
    return asked ? lipsc_space_combines(g->space, asked, g->combination) : LIPSC_OK;
}

/* lipsc_svd_orth for all of the group at once. */
static lipsc_status together(group *g) {
    begin_all(g);
    lipsc_status status = add_columns(g, 1);
    if (!status) status = ask_sums(g, 1);
    if (status) return status;
    first_pass(g);
    status = add_columns(g, 0);
    leave_known(g);
    for (int pass = 0; !status && g->count && pass < MAX_PASSES; pass++) {
        if (pass) status = ask_sums(g, 1);
        for (size_t i = 0; pass && !status && i < g->count; i++) (void)take_out(g->orth[i]);
        if (pass && !status) status = add_columns(g, 0);
        if (!status) status = ask_sums(g, 0);
        if (!status) judge_lengths(g);
    }
    return status;
}

static int fits(size_t count, lipsc_orth *const *orth) {
    int ones = lipsc_svd_sums_together(orth[0]->space);
    for (size_t i = 0; i < count; i++) ones &= orth[i]->k == 1;
    return ones;
}

void lipsc_svd_orths(size_t count, lipsc_orth *const *orth) {
    if (!count) return;
    if (!fits(count, orth)) {
        for (size_t i = 0; i < count; i++) orth[i]->status = lipsc_svd_orth(orth[i]);
        return;
    }
    group g = {.space = orth[0]->space,
               .count = count,
               .orth = lipsc_alloc(count, sizeof *g.orth),
               .gram = lipsc_alloc(count, sizeof *g.gram),
               .combination = lipsc_alloc(count, sizeof *g.combination)};
    lipsc_status status = g.orth && g.gram && g.combination ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        orth[i]->status = LIPSC_OK;
        orth[i]->length = 0.0;
        *orth[i]->rank = 0;
        if (!status) g.orth[i] = orth[i];
    }
    if (!status) status = together(&g);
    if (!status) status = normalise(&g, count, orth);
    for (size_t i = 0; i < count && status; i++) orth[i]->status = status;
    lipsc_release(g.orth);
    lipsc_release(g.gram);
    lipsc_release(g.combination);
}
