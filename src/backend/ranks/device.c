/* device.c - the CPUs of all ranks as one device: rows of one input, vectors and sums are
 * shared (split.h); all else each rank's CPU does, alike. */
#include <stdio.h>
#include <string.h>

#include "backend/ranks/part.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

static lipsc_row_split *split_of(const lipsc_device *device) { return device->state; }

/* ---- Vectors ------------------------------------------------------------------------- */

static const lipsc_space *host(const lipsc_space *self) {
    return lipsc_space_host(self->dtype);
}

static void *alloc(const lipsc_space *self, size_t elements) {
    return lipsc_space_alloc(host(self), lipsc_space_here(self, elements));
}

static void release(const lipsc_space *self, void *p) {
    lipsc_space_release(host(self), p);
}

static lipsc_status upload(const lipsc_space *self, size_t elements, const double *from,
                           void *dst) {
    const lipsc_row_split *split = split_of(self->device);
    const size_t width = elements / split->rows.rows;
    lipsc_status status = LIPSC_OK;
    for (size_t r = 0; r < split->rows.own && !status; r++)
        status = lipsc_space_upload(host(self), width, from + split->place[r] * width,
                                    (char *)dst + r * width * self->item);
    return status;
}

/* Whoever has a place for it has all of it.  Rows come in so many cuts, that the room for
 * what was sent is small beside them. */
static lipsc_status download(const lipsc_space *self, size_t elements, const void *src,
                             double *to) {
    enum { CUTS = 16 };
    lipsc_row_split *split = split_of(self->device);
    const size_t n = split->rows.rows, own = split->rows.own, width = elements / n;
    const size_t most = lipsc_split_most_of_cut(split, CUTS), row = width * sizeof *to;
    size_t *place = lipsc_alloc(most, sizeof *place);
    double *rows = lipsc_alloc(own + most, row);
    lipsc_status status = place && rows ? LIPSC_OK : LIPSC_E_NOMEM;
    double *all = rows + own * width;
    if (!status) status = lipsc_space_download(host(self), own * width, src, rows);
    status = lipsc_split_agree(split, status, NULL);
    for (size_t cut = 0; cut < CUTS && !status; cut++) {
        size_t count;
        status = lipsc_split_gather_cut(split, cut, CUTS, row, rows, all, &count);
        if (!status)
            status = lipsc_split_gather_cut(split, cut, CUTS, sizeof *place, split->place,
                                            place, &count);
        for (size_t i = 0; i < count && to && !status; i++)
            memcpy(to + place[i] * width, all + i * width, row);
    }
    lipsc_release(place);
    lipsc_release(rows);
    return status;
}

static lipsc_status copy(const lipsc_space *self, size_t elements, const void *src,
                         void *dst) {
    return lipsc_space_copy(host(self), lipsc_space_here(self, elements), src, dst);
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s, void *x) {
    return lipsc_space_scale(host(self), lipsc_space_here(self, elements), s, x);
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, void *dst) {
    const lipsc_row_split *split = split_of(self->device);
    const size_t width = elements / split->rows.rows;
    lipsc_status status = LIPSC_OK;
    for (size_t r = 0; r < split->rows.own && !status; r++)
        status = lipsc_space_random(host(self), seed, first + split->place[r] * width,
                                    width, (char *)dst + r * width * self->item);
    return status;
}

/* Sums of the ranks are added in their order, on every rank: the same bits everywhere. */
static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, const void *a,
                         size_t kb, const void *b, double *c) {
    lipsc_ranks *ranks = split_of(self->device)->ranks;
    const size_t count = ka * kb, all = lipsc_ranks_count(ranks);
    double *parts = lipsc_alloc(all + 1, count * sizeof *parts);
    if (!parts) return LIPSC_E_NOMEM;
    double *own = parts + all * count;
    lipsc_status status =
        lipsc_space_gram(host(self), lipsc_space_here(self, len), ka, a, kb, b, own);
    if (!status) status = lipsc_ranks_gather(ranks, count * sizeof *own, own, parts);
    for (size_t e = 0; e < count && !status; e++) {
        c[e] = parts[e];
        for (size_t r = 1; r < all; r++) c[e] += parts[r * count + e];
    }
    lipsc_release(parts);
    return status;
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, const void *a,
                            size_t kb, const double *c, double beta, void *b) {
    return lipsc_space_combine(host(self), lipsc_space_here(self, len), ka, a, kb, c, beta,
                               b);
}

static const lipsc_space_ops space_ops = {.alloc = alloc,
                                          .release = release,
                                          .upload = upload,
                                          .download = download,
                                          .copy = copy,
                                          .scale = scale,
                                          .random = random_numbers,
                                          .gram = gram,
                                          .combine = combine};

/* ---- Attention ------------------------------------------------------------------------
 */

static lipsc_status weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                lipsc_dtype dtype, void **weights, lipsc_error *err) {
    return lipsc_cpu_ops.weights_new(device->cpu, layer, dtype, weights, err);
}

static void weights_free(const lipsc_device *device, void *weights) {
    lipsc_cpu_ops.weights_free(device->cpu, weights);
}

/* Whether rows of this order are split already, which others may share. */
static int is_same(const lipsc_row_split *split, const lipsc_rows *rows) {
    if (split->rows.rows != rows->n) return 0;
    size_t at = 0;
    for (int part = 0; part < 4; part += 2)
        for (size_t i = split->own[part]; i < split->own[part + 1]; i++)
            if (split->place[at++] != (rows->order ? rows->order[i] : i)) return 0;
    return 1;
}

static int threads_for(const lipsc_device *device, const lipsc_cpu_weights *w,
                       const lipsc_rows *rows) {
    return lipsc_device_useful_threads(device, w->layer, rows->n);
}

static lipsc_status input_new(const lipsc_device *device, const void *weights,
                              const lipsc_rows *rows, void **input, lipsc_error *err) {
    lipsc_row_split *split = split_of(device);
    lipsc_rank_part *part = NULL;
    lipsc_status status = LIPSC_OK;
    if (split->users && !is_same(split, rows))
        return lipsc_fail(err, LIPSC_E_BACKEND,
                          "ranks share the rows of one input at a time");
    if (!split->users) {
        lipsc_split_end(split);
        status = lipsc_split_begin(split, rows->n, rows->order);
        if (status) lipsc_fail(err, status, "out of memory for ranks");
        status = lipsc_split_agree(split, status, err);
    }
    if (!status)
        status = lipsc_part_new(split, weights, rows, threads_for(device, weights, rows),
                                &part, err);
    if (status) return status;
    split->users++;
    *input = part;
    return LIPSC_OK;
}

static void input_free(const lipsc_device *device, void *input) {
    if (!input) return;
    split_of(device)->users--;
    lipsc_part_free(input);
}

static lipsc_status product(const lipsc_device *device, void *input, int trans, size_t k,
                            const void *x, void *y) {
    (void)device;
    return lipsc_part_product(input, trans, k, x, y);
}

static lipsc_status projections(const lipsc_device *device, const void *input, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over) {
    (void)device;
    return lipsc_part_projections((lipsc_rank_part *)input, head, q, key, z, q_over,
                                  k_over);
}

static size_t bytes(const lipsc_device *device, const void *input) {
    (void)device;
    return ((const lipsc_rank_part *)input)->bytes;
}

static double largest(const lipsc_device *device, double own) {
    lipsc_ranks *ranks = split_of(device)->ranks;
    const size_t count = lipsc_ranks_count(ranks);
    double *all = lipsc_alloc(count, sizeof *all);
    if (all && !lipsc_ranks_gather(ranks, sizeof own, &own, all))
        for (size_t r = 0; r < count; r++) own = lipsc_max(own, all[r]);
    lipsc_release(all);
    return own;
}

static double total(const lipsc_device *device, double own) {
    lipsc_ranks *ranks = split_of(device)->ranks;
    const size_t count = lipsc_ranks_count(ranks);
    double *all = lipsc_alloc(count, sizeof *all), sum = NAN;
    if (all && !lipsc_ranks_gather(ranks, sizeof own, &own, all)) {
        sum = all[0];
        for (size_t r = 1; r < count; r++) sum += all[r];
    }
    lipsc_release(all);
    return sum;
}

/* ---- What the ranks cost and bring ----------------------------------------------------
 */

static lipsc_status alone(const lipsc_device *device, lipsc_status (*work)(void *ctx),
                          void *ctx) {
    lipsc_ranks *ranks = split_of(device)->ranks;
    int status = LIPSC_OK;
    if (!lipsc_ranks_number(ranks)) {
        lipsc_ranks_widen(ranks, 1);
        status = work(ctx);
        lipsc_ranks_widen(ranks, 0);
    }
    const lipsc_status told = lipsc_ranks_tell(ranks, sizeof status, &status);
    return told ? told : (lipsc_status)status;
}

/* Seconds of a gather in which each rank gives so many bytes: of a few in turn, the least
 * of several times, which is what the link takes without the turns that other programs have
 * at the cores. */
static lipsc_status time_gather(lipsc_ranks *ranks, size_t bytes, char *room,
                                double *seconds) {
    enum { TIMES = 7, IN_TURN = 8 };
    char *own = room, *all = room + bytes;
    lipsc_status status = LIPSC_OK;
    *seconds = INFINITY;
    for (int i = 0; i < TIMES && !status; i++) {
        const double start = lipsc_seconds();
        for (int j = 0; j < IN_TURN && !status; j++)
            status = lipsc_ranks_gather(ranks, bytes, own, all);
        *seconds = lipsc_min(*seconds, (lipsc_seconds() - start) / IN_TURN);
    }
    return status;
}

static lipsc_status measure_link(const lipsc_device *device, double *latency,
                                 double *byte) {
    enum { FEW = 8, MANY = 1 << 20 };
    lipsc_ranks *ranks = split_of(device)->ranks;
    const size_t count = lipsc_ranks_count(ranks);
    double much = 0.0;
    char *room = lipsc_alloc_zero(count + 1, MANY);
    lipsc_status status = room ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = time_gather(ranks, FEW, room, latency);
    if (!status) status = time_gather(ranks, MANY, room, &much);
    if (!status) *byte = lipsc_max(much - *latency, 0.0) / (double)((count - 1) * MANY);
    lipsc_release(room);
    return status;
}

static void close_split(lipsc_device *device) {
    lipsc_split_end(split_of(device));
    lipsc_release(device->state);
}

/* proved: rows of J x have the bits of a CPU. */
static const lipsc_device_ops ops = {.name = "ranks",
                                     .proved = 1,
                                     .weights_new = weights_new,
                                     .weights_free = weights_free,
                                     .input_new = input_new,
                                     .input_free = input_free,
                                     .product = product,
                                     .bytes = bytes,
                                     .close = close_split,
                                     .largest = largest,
                                     .total = total,
                                     .alone = alone,
                                     .link = measure_link,
                                     .projections = projections};

lipsc_status lipsc_device_share(lipsc_ranks *ranks, int threads, lipsc_device **out,
                                lipsc_error *err) {
    if (lipsc_ranks_count(ranks) < 2) return lipsc_device_open("cpu", threads, out, err);
    lipsc_device *device = lipsc_alloc_zero(1, sizeof *device);
    lipsc_row_split *split = lipsc_alloc_zero(1, sizeof *split);
    if (!device || !split) {
        lipsc_release(device);
        lipsc_release(split);
        return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    }
    split->ranks = ranks;
    device->threads = threads;
    device->home = device;
    snprintf(device->name, sizeof device->name, "ranks");
    lipsc_device_fill(device, &ops, &space_ops, split, threads);
    for (int t = 0; t < 2; t++) {
        device->space[t].split = &split->rows;
        device->space[t].part = lipsc_space_host((lipsc_dtype)t);
    }
    *out = device;
    return LIPSC_OK;
}
