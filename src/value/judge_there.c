/* judge_there.c - directions that stay on the device that found them: they are widened
 * there, multiplied in double, and only lengths come back.
 *
 * One direction of every operator goes at a time, the probe last, so that no more than two
 * vectors in double are needed beside what was found.  Host memory of their size would be
 * touched for the first time again and again, which costs more than the products. */
#include "value/judge.h"

#include "core/clock.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "value/length.h"

#include <float.h>

static int goes(const answer *a, size_t count, size_t i) {
    return a->judged && a->there && i < count + (size_t)a->probed;
}

/* Direction i in double, or the probe behind them, and room for its product. */
static lipsc_status widen(const lipsc_linop *op, size_t count, size_t i, answer *a) {
    if (!a->x.at) a->x = lipsc_space_alloc(a->there, max_size(op->n, op->m));
    if (!a->y.at) a->y = lipsc_space_alloc(a->there, op->m);
    if (!a->x.at || !a->y.at) return LIPSC_E_NOMEM;
    const lipsc_buffer from =
        i < count ? lipsc_space_at(op->space, a->found_v, i * op->n) : a->w;
    return lipsc_space_widen(a->there, op->n, from, a->x);
}

/* y less the product in the precision of the operator; x is lost. */
static lipsc_status subtract(const lipsc_linop *op, answer *a) {
    const double minus = -1.0;
    const lipsc_status status = lipsc_space_widen(a->there, op->m, a->w_image, a->x);
    return status ? status
                  : lipsc_space_combine(a->there, op->m, 1, a->x, 1, &minus, 1.0, a->y);
}

/* The products of direction i of all. */
static lipsc_status multiply(court *b, size_t i) {
    const size_t count = b->used->count;
    size_t made = 0;
    lipsc_status status = LIPSC_OK;
    for (size_t t = 0; t < b->count && !status; t++) {
        answer *a = &b->a[t];
        if (!goes(a, count, i)) continue;
        status = widen(b->task[t].op, count, i, a);
        b->product[made++] =
            (lipsc_product){.of = b->task[t].judge->ctx, .k = 1, .x = a->x, .y = a->y};
    }
    if (status || !made) return status;
    const double start = lipsc_seconds();
    status = b->task->judge->apply(made, b->product);
    lipsc_share_time(b, lipsc_seconds() - start);
    return status;
}

/* The lengths of direction i of all, and of their products. */
static lipsc_status measure(court *b, size_t i, lipsc_gram *gram) {
    const size_t count = b->used->count;
    const lipsc_space *there = NULL;
    size_t made = 0;
    lipsc_status status = LIPSC_OK;
    for (size_t t = 0; t < b->count && !status; t++) {
        const lipsc_linop *op = b->task[t].op;
        answer *a = &b->a[t];
        if (!goes(a, count, i)) continue;
        there = a->there;
        if (i < count)
            gram[made++] = (lipsc_gram){op->n, 1, a->x, 1, a->x, &a->length[i]};
        else
            status = subtract(op, a);
        double *to = i < count ? &a->sigma[i] : &a->difference;
        gram[made++] = (lipsc_gram){op->m, 1, a->y, 1, a->y, to};
    }
    return status || !made ? status : lipsc_vector_lengths_there(there, made, gram);
}

/* Where the caller wants a direction and its product, both of length one. */
static lipsc_status fetch(const lipsc_space *space, size_t len, lipsc_buffer from,
                          double *to) {
    const lipsc_status status = lipsc_space_download(space, len, from, to);
    if (!status) lipsc_vector_normalise(lipsc_space_host(LIPSC_F64), len, to);
    return status;
}

static lipsc_status fetch_wanted(const court *b, size_t i) {
    const size_t count = b->used->count;
    lipsc_status status = LIPSC_OK;
    for (size_t t = 0; t < b->count && i < count && !status; t++) {
        const lipsc_linop *op = b->task[t].op;
        const answer *a = &b->a[t];
        if (!a->v || !goes(a, count, i)) continue;
        status = fetch(a->there, op->n, a->x, a->v + i * op->n);
        if (!status) status = fetch(a->there, op->m, a->y, a->u + i * op->m);
    }
    return status;
}

lipsc_status lipsc_evaluate_there(court *b) {
    lipsc_gram *gram = lipsc_alloc(2 * b->count, sizeof *gram);
    lipsc_status status = gram ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i <= b->used->count && !status; i++) {
        status = multiply(b, i);
        if (!status) status = measure(b, i, gram);
        if (!status) status = fetch_wanted(b, i);
    }
    lipsc_release(gram);
    return status;
}

lipsc_status lipsc_judge_there(const lipsc_sigma_task *task, size_t count, answer *a) {
    const size_t m = task->op->m, n = task->op->n;
    for (size_t i = 0; i < count; i++)
        if (a->length[i] != 0.0) a->sigma[i] /= a->length[i];
    lipsc_judge_sort(count, m, n, a);
    /* what was divided and is multiplied again is rounded twice */
    const double again = 2.0 * DBL_EPSILON;
    const found_length image = {a->sigma[0] * a->length[0],
                                lipsc_vector_error_there(m) + again};
    const found_length length = {a->length[0], lipsc_vector_error_there(n)};
    return lipsc_judge_enclose(task->judge, image, length, &a->found);
}
