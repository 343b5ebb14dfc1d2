/* judge.c - singular values of operators side by side: what the solver found in its
 * precision is evaluated in double and enclosed.
 *
 * The solver hands over directions v.  Whatever precision found them, |J v| / |v| with J
 * in double, less what rounding can do to it, is a lower bound of sigma. */
#include "value/judge.h"

#include "core/clock.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "svd/solver.h"
#include "value/length.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void swap(size_t n, double *a, double *b) {
    for (size_t e = 0; e < n; e++) {
        const double t = a[e];
        a[e] = b[e];
        b[e] = t;
    }
}

/* Largest first.  Almost sorted already: only values that agree within the solver's
 * precision can have changed places. */
void lipsc_judge_sort(size_t count, size_t m, size_t n, answer *a) {
    double *sigma = a->sigma;
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && sigma[j] > sigma[j - 1]; j--) {
            swap(1, sigma + j, sigma + j - 1);
            swap(1, a->length + j, a->length + j - 1);
            if (a->u) swap(m, a->u + j * m, a->u + (j - 1) * m);
            if (a->v) swap(n, a->v + j * n, a->v + (j - 1) * n);
        }
}

/* Rounding below that part of the value is not worth a look at all scores. */
static const double enough_of_sigma = 1e-6;

/* lower of the first value, which is image / length. */
lipsc_status lipsc_judge_enclose(const lipsc_judge *judge, found_length image,
                                 found_length length, lipsc_svd_info *info) {
    double eps;
    info->unknown[0] = '\0';
    info->rounding = info->lower = NAN;
    if (!judge->rounding) return LIPSC_OK;
    const double by = length.value > 0.0 ? length.value : 1.0, sigma = image.value / by;
    const lipsc_status status = judge->rounding(judge->ctx, enough_of_sigma * sigma, &eps,
                                                info->unknown, sizeof info->unknown);
    if (status) return status;
    const double longest = length.value * (1.0 + length.error);
    const double lost = eps * longest + image.value * image.error;
    info->rounding = lost / by;
    info->lower = (image.value - lost) / longest * (1.0 - 4.0 * DBL_EPSILON);
    if (info->lower > 0.0 && !info->unknown[0]) return LIPSC_OK;
    info->lower = 0.0;
    if (!info->unknown[0] && sigma > 0.0)
        snprintf(info->unknown, sizeof info->unknown,
                 "rounding may change this value by %.1e, more than itself",
                 info->rounding);
    return LIPSC_OK;
}

/* ---- upper_prob of an operator in f32 ------------------------------------------------ */

/* A solve in f32 speaks of the operator in f32.  Let E be its difference to the one in
 * double and w standard normal: |E| <= |E w| / |g| with g the component of w along E's
 * first direction, and Prob(|g| < t) <= t sqrt(2 / pi).  Half of the risk goes here. */
static const double risk_share = 0.5;

static double operator_difference(double length, double probability) {
    return length / (risk_share * (1.0 - probability) * sqrt(acos(-1.0) / 2.0));
}

static double length_of_difference(const lipsc_space *in, size_t m, const double *in_f32,
                                   double *in_f64) {
    const size_t here = lipsc_space_here(in, m);
    for (size_t e = 0; e < here; e++) in_f64[e] -= in_f32[e];
    return lipsc_vector_length(in, m, in_f64);
}

/* ---- Solve, then evaluate ----------------------------------------------------------- */

static void answer_free(const lipsc_space *space, answer *a) {
    lipsc_release(a->sigma);
    lipsc_release(a->u);
    lipsc_release(a->v);
    lipsc_release(a->image);
    lipsc_release(a->length);
    lipsc_space_release(space, a->found_v);
    lipsc_space_release(space, a->w);
    lipsc_space_release(space, a->w_image);
    if (!a->there) return;
    lipsc_space_release(a->there, a->x);
    lipsc_space_release(a->there, a->y);
}

/* Vectors that ranks share stay where they are, if the judge can do with that. */
static const lipsc_space *judged_in(const lipsc_sigma_task *task) {
    const lipsc_space *space = task->op->space;
    const int parts = task->judge->parts && space->split;
    return parts ? lipsc_space_kept(space) : lipsc_space_host(LIPSC_F64);
}

/* Room for host vectors, and one more of each for the probe. */
static lipsc_status make_vectors(const lipsc_linop *op, size_t count, answer *a) {
    size_t all_u, all_v;
    if (!lipsc_mul_size(count + 1, op->m, &all_u) ||
        !lipsc_mul_size(count + 1, op->n, &all_v))
        return LIPSC_E_RANGE;
    a->u = lipsc_alloc(lipsc_space_here(a->in, all_u), sizeof *a->u);
    a->v = lipsc_alloc(lipsc_space_here(a->in, all_v), sizeof *a->v);
    return a->u && a->v ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* Elements of a direction that stays on its device: the operator in double is made beside
 * it, of which a long one leaves no memory for more. */
enum { MOST_THERE = 1 << 26 };

static lipsc_status answer_new(const lipsc_sigma_task *task, size_t count, answer *a) {
    const lipsc_linop *op = task->op;
    const lipsc_space *space = op->space;
    lipsc_status status = LIPSC_OK;
    *a = (answer){.in = judged_in(task)};
    if (space->dtype == LIPSC_F32 && !space->split && !task->turn &&
        max_size(op->m, op->n) <= MOST_THERE)
        a->there = task->judge->wide;
    if (!a->there || task->u || task->v) status = make_vectors(op, count, a);
    a->sigma = lipsc_alloc_zero(count, sizeof *a->sigma);
    a->length = lipsc_alloc_zero(count, sizeof *a->length);
    a->found_v = lipsc_space_alloc(space, count * op->n);
    if (status) return status;
    return a->sigma && a->length && a->found_v.at ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* The time of products goes to each by the elements that it reads. */
void lipsc_share_time(court *b, double seconds) {
    double all = 0.0;
    for (size_t i = 0; i < b->count; i++)
        if (b->a[i].judged) all += (double)(b->task[i].op->n + b->task[i].op->m);
    for (size_t i = 0; i < b->count; i++)
        if (b->a[i].judged)
            b->a[i].found.product_seconds +=
                seconds * (double)(b->task[i].op->n + b->task[i].op->m) / all;
}

/* k vectors of length len in double; what is here of them, where that is what is judged. */
static lipsc_status to_double(const lipsc_space *space, const lipsc_space *in, size_t len,
                              size_t k, lipsc_buffer from, double *to) {
    if (!in->split) return lipsc_vectors_download(space, len, k, from, to);
    return lipsc_space_download(lipsc_space_part(space), lipsc_space_here(in, k * len),
                                lipsc_space_own(space, from), to);
}

/* Vector i of length len. */
static double *vector_at(const answer *a, double *vectors, size_t len, size_t i) {
    return vectors + i * lipsc_space_here(a->in, len);
}

/* What is the operator's becomes the judge's. */
static lipsc_status turn_back(const lipsc_sigma_task *task, int image, size_t k,
                              double *x) {
    return task->turn ? task->turn(task->judge->ctx, image, k, x) : LIPSC_OK;
}

/* A probe where it is needed. */
static lipsc_status make_probe(const lipsc_sigma_task *task, const lipsc_svd_settings *set,
                               answer *a) {
    const lipsc_linop *op = task->op;
    const lipsc_space *space = op->space;
    const int coarse = space->dtype == LIPSC_F32;
    a->probed = coarse && !task->unprobed && !isnan(a->found.upper_prob);
    if (coarse && task->unprobed) a->found.upper_prob = NAN;
    if (!a->probed) return LIPSC_OK;
    if (!a->there) {
        a->image = lipsc_alloc(lipsc_space_here(a->in, op->m), sizeof *a->image);
        if (!a->image) return LIPSC_E_NOMEM;
    }
    a->w = lipsc_space_alloc(space, op->n);
    a->w_image = lipsc_space_alloc(space, op->m);
    if (!a->w.at || !a->w_image.at) return LIPSC_E_NOMEM;
    return lipsc_space_random(space, set->seed + 0x9e3779b97f4a7c15u, 0, op->n, a->w);
}

/* The directions in double, of length one. */
static lipsc_status fetch(const lipsc_sigma_task *task, size_t count, answer *a) {
    const lipsc_linop *op = task->op;
    const lipsc_space *space = op->space;
    lipsc_status status = to_double(space, a->in, op->n, count, a->found_v, a->v);
    lipsc_space_release(space, a->found_v); /* room for the operator in double */
    a->found_v = LIPSC_NOWHERE;
    if (!status) status = turn_back(task, 0, count, a->v);
    for (size_t i = 0; !status && i < count; i++)
        lipsc_vector_normalise(a->in, op->n, vector_at(a, a->v, op->n, i));
    return status;
}

static lipsc_status fetch_probe(const lipsc_sigma_task *task, size_t count, answer *a) {
    const lipsc_linop *op = task->op;
    const lipsc_space *space = op->space;
    double *w = vector_at(a, a->v, op->n, count);
    lipsc_status status = to_double(space, a->in, op->n, 1, a->w, w);
    if (!status) status = to_double(space, a->in, op->m, 1, a->w_image, a->image);
    if (!status) status = turn_back(task, 0, 1, w);
    return status ? status : turn_back(task, 1, 1, a->image);
}

/* The products of all probes. */
static lipsc_status probe(court *b) {
    size_t made = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->a[i].judged && b->a[i].probed)
            b->product[made++] = (lipsc_product){
                .of = b->task[i].op->ctx, .k = 1, .x = b->a[i].w, .y = b->a[i].w_image};
    if (!made) return LIPSC_OK;
    const lipsc_linop *op =
        b->task->op; /* the only one, where they are not made together */
    const lipsc_product *p = b->product;
    const double start = lipsc_seconds();
    lipsc_status status =
        b->products ? b->products(0, made, p) : op->apply(op->ctx, 0, 1, p->x, p->y);
    lipsc_share_time(b, lipsc_seconds() - start);
    for (size_t i = 0; i < b->count && !status; i++)
        if (b->a[i].judged && b->a[i].probed && !b->a[i].there)
            status = fetch_probe(&b->task[i], b->used->count, &b->a[i]);
    return status;
}

/* The products in double of all directions and probes that are on the host. */
static lipsc_status evaluate(court *b) {
    const lipsc_judge *judge = b->task->judge;
    size_t made = 0;
    for (size_t i = 0; i < b->count; i++) {
        const lipsc_linop *op = b->task[i].op;
        const answer *a = &b->a[i];
        const size_t k = b->used->count + (size_t)a->probed;
        if (a->judged && !a->there)
            b->product[made++] =
                (lipsc_product){.of = b->task[i].judge->ctx,
                                .k = k,
                                .x = lipsc_space_view(a->in, k * op->n, a->v),
                                .y = lipsc_space_view(a->in, k * op->m, a->u)};
    }
    const double start = lipsc_seconds();
    const lipsc_status status = made ? judge->apply(made, b->product) : LIPSC_OK;
    lipsc_share_time(b, lipsc_seconds() - start);
    return status;
}

/* What the products in double say. */
static lipsc_status judge_host(const lipsc_sigma_task *task, size_t count, answer *a) {
    const size_t m = task->op->m, n = task->op->n;
    if (a->probed)
        a->difference =
            length_of_difference(a->in, m, a->image, vector_at(a, a->u, m, count));
    for (size_t i = 0; i < count; i++)
        a->sigma[i] = lipsc_vector_normalise(a->in, m, vector_at(a, a->u, m, i));
    lipsc_judge_sort(count, lipsc_space_here(a->in, m), lipsc_space_here(a->in, n), a);
    const found_length image = {a->sigma[0], lipsc_vector_error(a->in, m)};
    const found_length length = {lipsc_vector_length(a->in, n, a->v),
                                 lipsc_vector_error(a->in, n)};
    return lipsc_judge_enclose(task->judge, image, length, &a->found);
}

static lipsc_status judge_answer(const lipsc_sigma_task *task, size_t count, answer *a) {
    lipsc_svd_info *found = &a->found;
    const lipsc_status status =
        a->there ? lipsc_judge_there(task, count, a) : judge_host(task, count, a);
    if (a->probed)
        found->upper_prob += operator_difference(a->difference, found->probability);
    if (!status && !a->probed && task->judge->rounding)
        found->upper_prob += found->rounding;
    if (found->unknown[0]) found->upper_prob = NAN;
    if (found->upper_prob < a->sigma[0]) found->upper_prob = a->sigma[0];
    return status;
}

/* Whole vectors to whichever of the ranks that share them has a place for them. */
static lipsc_status deliver_vectors(const answer *a, size_t len, size_t count,
                                    double *vectors, double *to) {
    lipsc_status status = LIPSC_OK;
    if (!a->in->split && to) memcpy(to, vectors, count * len * sizeof *to);
    if (!a->in->split || lipsc_largest_of_all(a->in, to != NULL) == 0.0) return LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = lipsc_space_download(
            a->in, len, lipsc_space_view(a->in, len, vector_at(a, vectors, len, i)),
            to ? to + i * len : NULL);
    return status;
}

/* Hands an answer to the caller. */
static lipsc_status deliver(const lipsc_sigma_task *task, size_t count, const answer *a) {
    lipsc_status status = deliver_vectors(a, task->op->m, count, a->u, task->u);
    if (!status) status = deliver_vectors(a, task->op->n, count, a->v, task->v);
    if (status) return status;
    memcpy(task->sigma, a->sigma, count * sizeof *task->sigma);
    /* found.residual stays what the solver measured with its own operator: in f32
     * it says when that solve had to end, and its floor is f32 rounding. */
    if (task->info) *task->info = a->found;
    return LIPSC_OK;
}

/* Judges one after the other what was found, and delivers it; the time goes to each. */
static void conclude(court *b) {
    const size_t count = b->used->count;
    const double start = lipsc_seconds();
    size_t judged = 0;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < b->count; i++) {
        const lipsc_status solved = b->task[i].status;
        answer *a = &b->a[i];
        a->judged = !solved || solved == LIPSC_E_NOCONV || solved == LIPSC_E_STOPPED;
        judged += (size_t)a->judged;
        a->found.probability = b->probability;
        if (a->judged && !a->there && !status) status = fetch(&b->task[i], count, a);
        if (a->judged && !status) status = make_probe(&b->task[i], b->used, a);
    }
    if (!status) status = probe(b);
    for (size_t i = 0; i < b->count; i++)
        if (b->task[i].solved) b->task[i].solved(b->task[i].op->ctx);
    if (!status) status = evaluate(b);
    if (!status) status = lipsc_evaluate_there(b);
    const double together = (lipsc_seconds() - start) / (double)(judged ? judged : 1);
    for (size_t i = 0; i < b->count; i++) {
        if (!b->a[i].judged) continue;
        const double own = lipsc_seconds();
        lipsc_status failed = status ? status : judge_answer(&b->task[i], count, &b->a[i]);
        b->a[i].found.seconds += together + lipsc_seconds() - own;
        if (!failed) failed = deliver(&b->task[i], count, &b->a[i]);
        if (failed) b->task[i].status = failed;
    }
}

void lipsc_linops_sigma(size_t count, lipsc_sigma_task *task, const lipsc_svd_settings *set,
                        lipsc_products *products, int threads) {
    const int f32 = task->op->space->dtype == LIPSC_F32;
    lipsc_svd_settings used = *set;
    if (used.count == 0) used.count = 1;
    if (used.tol == 0.0) used.tol = f32 ? 1e-2 : 1e-8;
    if (f32) used.probability = 1.0 - (1.0 - risk_share) * (1.0 - set->probability);

    court b = {.count = count,
               .task = task,
               .a = lipsc_alloc_zero(count, sizeof *b.a),
               .product = lipsc_alloc(count, sizeof *b.product),
               .used = &used,
               .products = products,
               .probability = set->probability};
    lipsc_svd_task *solve = lipsc_alloc_zero(count, sizeof *solve);
    lipsc_status status = b.a && b.product && solve ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        status = answer_new(&task[i], used.count, &b.a[i]);
        solve[i] = (lipsc_svd_task){.op = task[i].op,
                                    .sigma = b.a[i].sigma,
                                    .v = b.a[i].found_v,
                                    .info = &b.a[i].found};
    }
    if (!status) lipsc_svd_batch(count, solve, &used, products, threads);
    for (size_t i = 0; i < count; i++) task[i].status = status ? status : solve[i].status;
    if (!status) conclude(&b);
    for (size_t i = 0; i < count && b.a; i++) answer_free(task[i].op->space, &b.a[i]);
    lipsc_release(b.a);
    lipsc_release(b.product);
    lipsc_release(solve);
}

lipsc_status lipsc_linop_sigma(const lipsc_linop *op, const lipsc_judge *judge,
                               const lipsc_svd_settings *set, double *sigma, double *u,
                               double *v, lipsc_svd_info *info) {
    lipsc_sigma_task task = {
        .op = op, .judge = judge, .sigma = sigma, .u = u, .v = v, .info = info};
    lipsc_linops_sigma(1, &task, set, NULL, 1);
    return task.status;
}
