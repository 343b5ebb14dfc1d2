/* part.c - what one rank has of an input: projections, norms, rotations and statistics of
 * its own rows. */
#include "backend/ranks/part.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

/* Rows of one parallel piece of a head: as on a CPU. */
enum { PIECE = 192 };

static size_t own_rows(const lipsc_rank_part *p) { return p->split->rows.own; }
static size_t all_rows(const lipsc_rank_part *p) { return p->split->rows.rows; }

void lipsc_part_free(lipsc_rank_part *p) {
    if (!p) return;
    void *all[] = {p->q,      p->k,        p->z,         p->excess,       p->rowmax,
                   p->rowinv, p->q_unit,   p->q_inverse, p->k_unit,       p->k_inverse,
                   p->cosine, p->sine,     p->root,      p->inverse_root, p->key_bias,
                   p->dq,     p->dk,       p->dz,        p->heads,        p->rows,
                   p->shift,  p->mean,     p->all_k,     p->all_z,        p->all_dk,
                   p->all_dz, p->distance, p->top_slope, p->sink_mass};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lipsc_cpu_release(p->w->space, all[i]);
    lipsc_release(p->top);
    lipsc_release(p->lo);
    lipsc_release(p->hi);
    lipsc_release(p->scratch);
    lipsc_release(p);
}

/* ---- Memory -------------------------------------------------------------------------- */

static int array(lipsc_rank_part *p, size_t rows, size_t width, void **out) {
    size_t count;
    if (!lipsc_mul_size(rows, width, &count)) return 0;
    p->bytes += count * p->w->space->item;
    *out = lipsc_cpu_alloc(p->w->space, count);
    return *out != NULL;
}

static int indices(lipsc_rank_part *p, size_t count, size_t **out) {
    p->bytes += count * sizeof **out;
    *out = lipsc_alloc(count, sizeof **out);
    return *out != NULL;
}

static int uploaded(lipsc_rank_part *p, size_t count, const double *host, void **out) {
    if (!array(p, count, 1, out)) return 0;
    lipsc_cpu_upload(p->w->space, count, host, *out);
    return 1;
}

/* Arrays of own rows, of statistics and of the work. */
static int lay_out(lipsc_rank_part *p) {
    const lipsc_cpu_weights *w = p->w;
    const lipsc_layer *l = w->layer;
    const size_t own = own_rows(p), n = all_rows(p), heads = l->heads, kv = l->kv_heads;
    const size_t widest = l->d > w->width ? l->d : w->width;
    p->some = ceil_div(kv, lipsc_ranks_count(p->split->ranks));
    p->scratch_bytes = ceil_div(w->kernels->scratch_bytes(w->kw, w->vw, 1), 4096) * 4096;
    p->scratch = lipsc_alloc((size_t)p->threads, p->scratch_bytes);
    p->bytes += (size_t)p->threads * p->scratch_bytes;
    return p->scratch && array(p, heads * w->kw, own, &p->q) &&
           array(p, kv * w->kw, own, &p->k) && array(p, kv * w->vw, own, &p->z) &&
           array(p, heads * w->vw, own, &p->excess) && array(p, heads, own, &p->rowmax) &&
           array(p, heads, own, &p->rowinv) && indices(p, heads * own, &p->top) &&
           (!(l->soft_cap > 0) || array(p, heads, own, &p->top_slope)) &&
           (!l->sinks || array(p, heads, own, &p->sink_mass)) &&
           array(p, heads * w->kw, own, &p->dq) && array(p, kv * w->kw, own, &p->dk) &&
           array(p, kv * w->vw, own, &p->dz) && array(p, heads * w->vw, own, &p->heads) &&
           array(p, widest, own, &p->rows) && array(p, heads, own, &p->shift) &&
           array(p, heads, own, &p->mean) && array(p, p->some * w->kw, n, &p->all_k) &&
           array(p, p->some * w->vw, n, &p->all_z) &&
           array(p, p->some * w->kw, n, &p->all_dk) &&
           array(p, p->some * w->vw, n, &p->all_dz);
}

/* ---- What the input brings ---------------------------------------------------------- */

/* The place among all rows of own row r. */
static size_t place_of(const lipsc_rank_part *p, size_t r) {
    const size_t *own = p->split->own, first = own[1] - own[0];
    return r < first ? own[0] + r : own[2] + r - first;
}

static int copy_ranges(lipsc_rank_part *p, const lipsc_rows *rows) {
    if (!indices(p, rows->n, &p->lo) || !indices(p, rows->n, &p->hi)) return 0;
    memcpy(p->lo, rows->lo, rows->n * sizeof *p->lo);
    memcpy(p->hi, rows->hi, rows->n * sizeof *p->hi);
    return 1;
}

/* Log weights of all, roots of own rows. */
static int copy_weights(lipsc_rank_part *p, const lipsc_rows *rows) {
    const size_t own = own_rows(p);
    if (!rows->log_weight) return 1;
    double *root = lipsc_alloc(2 * own, sizeof *root), *inverse = root + own;
    int good = root && uploaded(p, rows->n, rows->log_weight, &p->key_bias);
    for (size_t r = 0; r < own && good; r++) {
        root[r] = rows->root_weight[place_of(p, r)];
        inverse[r] = 1 / root[r];
    }
    good = good && uploaded(p, own, root, &p->root) &&
           uploaded(p, own, inverse, &p->inverse_root);
    lipsc_release(root);
    return good;
}

/* Biases by distance of one head, with a panel of zeros behind. */
static size_t distances(const lipsc_rank_part *p) {
    return 2 * all_rows(p) - 1 + p->w->kernels->nr;
}

static int copy_distances(lipsc_rank_part *p, const lipsc_rows *rows) {
    const size_t heads = p->w->layer->heads, count = 2 * rows->n - 1;
    if (!rows->distance) return 1;
    double *host = lipsc_alloc_zero(heads * distances(p), sizeof *host);
    for (size_t h = 0; h < heads && host; h++)
        memcpy(host + h * distances(p), rows->distance + h * count, count * sizeof *host);
    const int good = host && uploaded(p, heads * distances(p), host, &p->distance);
    lipsc_release(host);
    return good;
}

static int copy_angles(lipsc_rank_part *p, const lipsc_rows *rows) {
    const lipsc_layer *l = p->w->layer;
    const size_t own = own_rows(p), half = l->rotary_dim / 2;
    if (!half) return 1;
    double *cosine = lipsc_alloc(own, 2 * half * sizeof *cosine);
    if (!cosine) return 0;
    double *sine = cosine + own * half;
    for (size_t r = 0; r < own; r++)
        for (size_t c = 0; c < half; c++) {
            const double angle = rows->positions[place_of(p, r)] * l->rotary_freq[c];
            cosine[r * half + c] = cos(angle);
            sine[r * half + c] = sin(angle);
        }
    const int good = uploaded(p, own * half, cosine, &p->cosine) &&
                     uploaded(p, own * half, sine, &p->sine);
    lipsc_release(cosine);
    return good;
}

/* ---- Projections --------------------------------------------------------------------- */

static int norm_heads(lipsc_rank_part *p, size_t heads, const void *gain, void *x,
                      void **unit, void **inverse) {
    const lipsc_layer *l = p->w->layer;
    const size_t own = own_rows(p), span = l->norm_whole ? heads : 1;
    if (!gain) return 1;
    if (!array(p, heads * own, p->w->kw, unit) || !array(p, heads, own, inverse)) return 0;
    p->w->stages->norm(heads / span * own, p->w->kw, l->key_dim, span, l->norm_eps, gain, x,
                       *unit, *inverse);
    return 1;
}

static void rotate(const lipsc_rank_part *p, size_t heads, int sign, void *x) {
    const size_t own = own_rows(p), half = p->w->layer->rotary_dim / 2;
    if (half && own)
        p->w->stages->rotate(heads * own, own, p->w->kw, half, p->cosine, p->sine, sign, x);
}

/* q, k, z of own rows. */
static int project(lipsc_rank_part *p, const lipsc_rows *rows) {
    const lipsc_cpu_weights *w = p->w;
    const size_t own = own_rows(p), d = w->layer->d;
    const double *X = rows->X.at; /* of the host: the ranks have no tokens_there */
    for (size_t r = 0; r < own; r++)
        lipsc_cpu_upload(w->space, d,
                         rows->own_X ? rows->own_X + r * d : X + place_of(p, r) * d,
                         (char *)p->rows + r * d * w->kernels->item);
    if (own) lipsc_cpu_project(w, p->threads, own, p->rows, p->q, p->k, p->z, 1);
    if (!norm_heads(p, w->layer->heads, w->q_gain, p->q, &p->q_unit, &p->q_inverse) ||
        !norm_heads(p, w->layer->kv_heads, w->k_gain, p->k, &p->k_unit, &p->k_inverse))
        return 0;
    rotate(p, w->layer->heads, 1, p->q);
    rotate(p, w->layer->kv_heads, 1, p->k);
    return 1;
}

/* Those of one norm, whose heads are own rows apart. */
static void turn_heads(const lipsc_rank_part *p, lipsc_cpu_norm_heads of, int trans,
                       void *x) {
    const lipsc_cpu_weights *w = p->w;
    const size_t own = own_rows(p), item = w->kernels->item, at = of.first * own;
    const void *gain = of.query ? w->q_gain : w->k_gain;
    const char *unit = of.query ? p->q_unit : p->k_unit;
    const char *inverse = of.query ? p->q_inverse : p->k_inverse;
    if (trans) rotate(p, of.span, -1, x);
    if (gain)
        w->stages->norm_derivative(own, own, own, own, w->kw, w->layer->key_dim, of.span,
                                   gain, unit + at * w->kw * item, inverse + at * item,
                                   trans, x);
    if (!trans) rotate(p, of.span, 1, x);
}

void lipsc_part_turn(const lipsc_rank_part *p, int trans, void *dq, void *dk) {
    const lipsc_cpu_weights *w = p->w;
    const lipsc_layer *l = w->layer;
    const size_t norms = lipsc_cpu_norms(l), head = own_rows(p) * w->kw * w->kernels->item;
    if ((!l->rotary_dim && !l->q_gain && !l->k_gain) || !own_rows(p)) return;
#pragma omp parallel for num_threads(p->threads) schedule(static)
    for (size_t t = 0; t < norms; t++) {
        const lipsc_cpu_norm_heads of = lipsc_cpu_norm_at(l, t);
        turn_heads(p, of, trans, (char *)(of.query ? dq : dk) + of.first * head);
    }
}

/* ---- Keys and values of everybody --------------------------------------------------- */

lipsc_status lipsc_part_gather(const lipsc_rank_part *p, size_t count, size_t width,
                               const void *own, void *all) {
    return lipsc_split_gather_heads(p->split, count, width * p->w->kernels->item, own, all);
}

lipsc_status lipsc_part_fetch(lipsc_rank_part *p, size_t g, size_t count) {
    const lipsc_cpu_weights *w = p->w;
    const size_t at = g * own_rows(p) * w->kernels->item;
    const lipsc_status status =
        lipsc_part_gather(p, count, w->kw, (char *)p->k + at * w->kw, p->all_k);
    return status ? status
                  : lipsc_part_gather(p, count, w->vw, (char *)p->z + at * w->vw, p->all_z);
}

/* ---- The kernels' view -------------------------------------------------------------- */

/* Where row 0 of head h would be, if the rows of a block stood among all: kernels count
 * rows from there, and touch own ones only. */
static void *among_all(const lipsc_rank_part *p, void *array, size_t h, int block,
                       size_t row) {
    const size_t *own = p->split->own, before = block ? own[1] - own[0] : 0;
    if (!array) return NULL;
    return (void *)((uintptr_t)array + (h * own_rows(p) + before) * row -
                    own[2 * block] * row);
}

static size_t key_head(const lipsc_rank_part *p, size_t h) {
    return h * p->w->layer->kv_heads / p->w->layer->heads;
}

lipsc_head lipsc_part_head(const lipsc_rank_part *p, size_t h, size_t g0, int block) {
    const lipsc_cpu_weights *w = p->w;
    const lipsc_layer *l = w->layer;
    const size_t item = w->kernels->item, key = (key_head(p, h) - g0) * all_rows(p) * item;
    return (lipsc_head){
        .n = all_rows(p),
        .kw = w->kw,
        .vw = w->vw,
        .q = among_all(p, p->q, h, block, w->kw * item),
        .k = (char *)p->all_k + key * w->kw,
        .z = (char *)p->all_z + key * w->vw,
        .rowmax = among_all(p, p->rowmax, h, block, item),
        .rowinv = among_all(p, p->rowinv, h, block, item),
        .excess = among_all(p, p->excess, h, block, w->vw * item),
        .top = among_all(p, p->top, h, block, sizeof *p->top),
        .bias = p->key_bias,
        .lo = p->lo,
        .hi = p->hi,
        .distance = p->distance ? (char *)p->distance + h * distances(p) * item : NULL,
        .soft_cap = l->soft_cap,
        .top_slope = among_all(p, p->top_slope, h, block, item),
        .has_sink = l->sinks != NULL,
        .sink = l->sinks ? l->sinks[h] : 0,
        .sink_mass = among_all(p, p->sink_mass, h, block, item)};
}

lipsc_head_dirs lipsc_part_dirs(const lipsc_rank_part *p, size_t h, size_t g0, int block) {
    const lipsc_cpu_weights *w = p->w;
    const size_t item = w->kernels->item, key = (key_head(p, h) - g0) * all_rows(p) * item;
    char *dq = among_all(p, p->dq, h, block, w->kw * item);
    char *heads = among_all(p, p->heads, h, block, w->vw * item);
    char *dk = (char *)p->all_dk + key * w->kw, *dz = (char *)p->all_dz + key * w->vw;
    return lipsc_head_dirs_at(1, dq, dk, dz, heads, among_all(p, p->shift, h, block, item),
                              among_all(p, p->mean, h, block, item));
}

void *lipsc_part_scratch(const lipsc_rank_part *p) {
    return p->scratch + (size_t)omp_get_thread_num() * p->scratch_bytes;
}

size_t lipsc_part_cuts(const lipsc_rank_part *p, size_t size) {
    const size_t *own = p->split->own;
    return ceil_div(own[1] - own[0], size) + ceil_div(own[3] - own[2], size);
}

int lipsc_part_cut(const lipsc_rank_part *p, size_t size, size_t c, size_t *i0,
                   size_t *i1) {
    const size_t *own = p->split->own, front = ceil_div(own[1] - own[0], size);
    const int block = c >= front;
    *i0 = own[2 * block] + (block ? c - front : c) * size;
    *i1 = min_size(*i0 + size, own[2 * block + 1]);
    return block;
}

/* ---- Statistics --------------------------------------------------------------------- */

static int head_statistics(const lipsc_rank_part *p, size_t g0, size_t h, size_t cut) {
    size_t i0, i1;
    const int block = lipsc_part_cut(p, PIECE, cut, &i0, &i1);
    const lipsc_head head = lipsc_part_head(p, h, g0, block);
    return p->w->kernels->statistics(&head, i0, i1, lipsc_part_scratch(p));
}

/* Of all query heads of the key heads g0 .. g0+count-1, which are fetched. */
static int some_statistics(const lipsc_rank_part *p, size_t g0, size_t count) {
    const size_t share = p->w->layer->heads / p->w->layer->kv_heads;
    const size_t cuts = lipsc_part_cuts(p, PIECE);
    int finite = 1;
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1) reduction(&& : finite)
    for (size_t task = 0; task < count * share * cuts; task++)
        finite = head_statistics(p, g0, g0 * share + task / cuts, task % cuts) && finite;
    return finite;
}

static lipsc_status statistics(lipsc_rank_part *p, lipsc_error *err) {
    const size_t kv = p->w->layer->kv_heads;
    const int f32 = p->w->dtype == LIPSC_F32;
    int finite = 1;
    for (size_t g = 0; g < kv; g += p->some) {
        const size_t count = min_size(p->some, kv - g);
        const lipsc_status status = lipsc_part_fetch(p, g, count);
        if (status) return lipsc_fail(err, status, "the other ranks are out of reach");
        finite = some_statistics(p, g, count) && finite;
    }
    return finite ? LIPSC_OK
                  : lipsc_fail(err, LIPSC_E_NONFIN,
                               "attention scores overflow %s at this input%s",
                               f32 ? "f32" : "f64", f32 ? "; f64 reaches further" : "");
}

/* ---- Life --------------------------------------------------------------------------- */

static int prepare(lipsc_rank_part *p, const lipsc_rows *rows) {
    return lay_out(p) && copy_ranges(p, rows) && copy_weights(p, rows) &&
           copy_distances(p, rows) && copy_angles(p, rows) && project(p, rows);
}

lipsc_status lipsc_part_new(lipsc_row_split *split, const lipsc_cpu_weights *w,
                            const lipsc_rows *rows, int threads, lipsc_rank_part **out,
                            lipsc_error *err) {
    lipsc_rank_part *p = lipsc_alloc_zero(1, sizeof *p);
    lipsc_status status = LIPSC_E_NOMEM;
    *out = NULL;
    if (p) {
        *p = (lipsc_rank_part){.split = split, .w = w, .threads = threads};
        if (prepare(p, rows)) status = LIPSC_OK;
    }
    if (status)
        lipsc_fail(err, status, "out of memory for an input of %zu tokens", rows->n);
    status = lipsc_split_agree(split, status, err);
    if (!status) status = lipsc_split_agree(split, statistics(p, err), err);
    if (status)
        lipsc_part_free(p);
    else
        *out = p;
    return status;
}

/* ---- Told to the host --------------------------------------------------------------- */

/* to (own, dim) = the first dim columns of own rows, from (own, width). */
static void tell(const lipsc_rank_part *p, size_t width, size_t dim, const void *from,
                 double *to) {
    for (size_t r = 0; r < own_rows(p); r++)
        lipsc_cpu_download(p->w->space, dim,
                           (const char *)from + r * width * p->w->kernels->item,
                           to + r * dim);
}

/* 1 where there is no norm. */
static void tell_over(const lipsc_rank_part *p, const void *inverse, size_t head,
                      double *to) {
    const size_t own = own_rows(p), at = p->w->layer->norm_whole ? 0 : head;
    for (size_t i = 0; i < own && !inverse; i++) to[i] = 1;
    if (inverse) tell(p, 1, 1, (const char *)inverse + at * own * p->w->kernels->item, to);
}

static lipsc_status projections(const lipsc_device *device, const void *part, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over) {
    const lipsc_rank_part *p = part;
    const lipsc_cpu_weights *w = p->w;
    const lipsc_layer *l = w->layer;
    const size_t g = key_head(p, head), rows = own_rows(p) * w->kernels->item;
    (void)device;
    tell(p, w->kw, l->key_dim, (char *)p->q + head * rows * w->kw, q);
    tell(p, w->kw, l->key_dim, (char *)p->k + g * rows * w->kw, key);
    tell(p, w->vw, l->value_dim, (char *)p->z + g * rows * w->vw, z);
    tell_over(p, p->q_inverse, head, q_over);
    tell_over(p, p->k_inverse, g, k_over);
    return LIPSC_OK;
}

/* ---- In the table of devices -------------------------------------------------------- */

static lipsc_status make(const lipsc_device *device, const void *weights,
                         const lipsc_rows *rows, const lipsc_share *share, void **part,
                         lipsc_error *err) {
    const lipsc_cpu_weights *w = weights;
    lipsc_rank_part *made;
    const int threads = lipsc_device_useful_threads(device, w->layer, rows->n);
    const lipsc_status status = lipsc_part_new(share->ctx, w, rows, threads, &made, err);
    *part = made;
    return status;
}

static void free_part(const lipsc_device *device, void *part) {
    (void)device;
    lipsc_part_free(part);
}

static lipsc_status product(const lipsc_device *device, void *part, int trans, size_t k,
                            lipsc_buffer x, lipsc_buffer y) {
    const lipsc_rank_part *p = part;
    const size_t d = own_rows(p) * p->w->layer->d, width = own_rows(p) * p->w->width;
    (void)device;
    if (!lipsc_space_fits(p->w->space, x, k, trans ? width : d) ||
        !lipsc_space_fits(p->w->space, y, k, trans ? d : width))
        return LIPSC_E_ARG;
    return lipsc_part_product(part, trans, k, x.at, y.at);
}

static size_t bytes(const lipsc_device *device, const void *part) {
    (void)device;
    return ((const lipsc_rank_part *)part)->bytes;
}

const lipsc_part_ops lipsc_cpu_parts = {.make = make,
                                        .free = free_part,
                                        .product = product,
                                        .bytes = bytes,
                                        .projections = projections};
