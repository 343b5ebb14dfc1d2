/* device.c - the devices of all ranks as one: rows of one input, vectors and sums are
 * shared (split.h), each rank's part of them is its own device's; all else its CPU does,
 * alike. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/ranks/part.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

typedef struct {
    lipsc_row_split split;
    lipsc_device *own;    /* of this rank, on which its part is computed; opened here    */
    lipsc_device_ops ops; /* what they can do together                                  */
    lipsc_space kept;     /* host doubles that are split like its vectors               */
} shared_device;

static shared_device *shared_of(const lipsc_device *device) { return device->state; }
static lipsc_row_split *split_of(const lipsc_device *device) {
    return &shared_of(device)->split;
}
static const lipsc_device *own_of(const lipsc_device *device) {
    return shared_of(device)->own;
}

/* ---- Vectors ------------------------------------------------------------------------- */

/* The space of what is here. */
static const lipsc_space *here(const lipsc_space *self) { return self->part; }

static void *alloc(const lipsc_space *self, size_t elements) {
    return lipsc_space_alloc(here(self), lipsc_space_here(self, elements)).at;
}

static void release(const lipsc_space *self, lipsc_buffer b) {
    lipsc_space_release(here(self), lipsc_space_own(self, b));
}

/* Own rows of `width` numbers, one after the other. */
static lipsc_status upload(const lipsc_space *self, size_t elements, const double *from,
                           lipsc_buffer dst) {
    const lipsc_row_split *split = split_of(self->device);
    const size_t width = elements / split->rows.rows, own = split->rows.own;
    double *rows = lipsc_alloc(own, width * sizeof *rows);
    if (!rows) return LIPSC_E_NOMEM;
    for (size_t r = 0; r < own; r++)
        memcpy(rows + r * width, from + split->place[r] * width, width * sizeof *rows);
    const lipsc_status status =
        lipsc_space_upload(here(self), own * width, rows, lipsc_space_own(self, dst));
    lipsc_release(rows);
    return status;
}

/* Whoever has a place for it has all of it.  Rows come in so many cuts, that the room for
 * what was sent is small beside them. */
static lipsc_status download(const lipsc_space *self, size_t elements, lipsc_buffer src,
                             double *to) {
    enum { CUTS = 16 };
    lipsc_row_split *split = split_of(self->device);
    const size_t n = split->rows.rows, own = split->rows.own, width = elements / n;
    const size_t most = lipsc_split_most_of_cut(split, CUTS), row = width * sizeof *to;
    size_t *place = lipsc_alloc(most, sizeof *place);
    double *rows = lipsc_alloc(own + most, row);
    lipsc_status status = place && rows ? LIPSC_OK : LIPSC_E_NOMEM;
    double *all = rows + own * width;
    if (!status)
        status =
            lipsc_space_download(here(self), own * width, lipsc_space_own(self, src), rows);
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

static lipsc_status copy(const lipsc_space *self, size_t elements, lipsc_buffer src,
                         lipsc_buffer dst) {
    return lipsc_space_copy(here(self), lipsc_space_here(self, elements),
                            lipsc_space_own(self, src), lipsc_space_own(self, dst));
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s,
                          lipsc_buffer x) {
    return lipsc_space_scale(here(self), lipsc_space_here(self, elements), s,
                             lipsc_space_own(self, x));
}

/* Own rows from r on that follow each other in the caller's order, too. */
static size_t in_a_row(const lipsc_row_split *split, size_t r) {
    size_t count = 1;
    while (r + count < split->rows.own &&
           split->place[r + count] == split->place[r] + count)
        count++;
    return count;
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, lipsc_buffer dst) {
    const lipsc_row_split *split = split_of(self->device);
    const size_t width = elements / split->rows.rows;
    const lipsc_buffer own = lipsc_space_own(self, dst);
    lipsc_status status = LIPSC_OK;
    for (size_t r = 0, count; r < split->rows.own && !status; r += count) {
        count = in_a_row(split, r);
        status =
            lipsc_space_random(here(self), seed, first + split->place[r] * width,
                               count * width, lipsc_space_at(here(self), own, r * width));
    }
    return status;
}

/* Sums of the ranks are added in their order, on every rank: the same bits everywhere. */
static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                         size_t kb, lipsc_buffer b, double *c) {
    lipsc_ranks *ranks = split_of(self->device)->ranks;
    const size_t count = ka * kb, all = lipsc_ranks_count(ranks);
    double *parts = lipsc_alloc(all + 1, count * sizeof *parts);
    if (!parts) return LIPSC_E_NOMEM;
    double *own = parts + all * count;
    lipsc_status status =
        lipsc_space_gram(here(self), lipsc_space_here(self, len), ka,
                         lipsc_space_own(self, a), kb, lipsc_space_own(self, b), own);
    if (!status) status = lipsc_ranks_gather(ranks, count * sizeof *own, own, parts);
    for (size_t e = 0; e < count && !status; e++) {
        c[e] = parts[e];
        for (size_t r = 1; r < all; r++) c[e] += parts[r * count + e];
    }
    lipsc_release(parts);
    return status;
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                            size_t kb, const double *c, double beta, lipsc_buffer b) {
    return lipsc_space_combine(here(self), lipsc_space_here(self, len), ka,
                               lipsc_space_own(self, a), kb, c, beta,
                               lipsc_space_own(self, b));
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

/* ---- Attention ---------------------------------------------------------------------- */

/* What the rank's device has made. */
typedef struct {
    const lipsc_layer *layer;
    void *own;
} made;

static made *new_made(const lipsc_layer *layer) {
    made *m = lipsc_alloc_zero(1, sizeof *m);
    if (m) m->layer = layer;
    return m;
}

static lipsc_status weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                lipsc_dtype dtype, void **weights, lipsc_error *err) {
    const lipsc_device *own = own_of(device);
    made *w = new_made(layer);
    lipsc_status status =
        w ? own->ops->weights_new(own, layer, dtype, &w->own, err)
          : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    const lipsc_status agreed = lipsc_split_agree(split_of(device), status, err);
    if (agreed && !status) own->ops->weights_free(own, w->own);
    if (agreed)
        lipsc_release(w);
    else
        *weights = w;
    return agreed;
}

static void weights_free(const lipsc_device *device, void *weights) {
    const lipsc_device *own = own_of(device);
    own->ops->weights_free(own, ((made *)weights)->own);
    lipsc_release(weights);
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

static lipsc_status begin(lipsc_row_split *split, const lipsc_rows *rows,
                          lipsc_error *err) {
    if (split->users && !is_same(split, rows))
        return lipsc_fail(err, LIPSC_E_BACKEND,
                          "ranks share the rows of one input at a time");
    if (split->users) return LIPSC_OK;
    lipsc_split_end(split);
    const lipsc_status status = lipsc_split_begin(split, rows->n, rows->order);
    if (status) lipsc_fail(err, status, "out of memory for ranks");
    return status;
}

static lipsc_status input_new(const lipsc_device *device, const void *weights,
                              const lipsc_rows *rows, void **input, lipsc_error *err) {
    const lipsc_device *own = own_of(device);
    const made *w = weights;
    lipsc_row_split *split = split_of(device);
    made *in = new_made(w->layer);
    lipsc_status status = in ? begin(split, rows, err)
                             : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
    status = lipsc_split_agree(split, status, err);
    if (!status)
        status = own->ops->part->make(own, w->own, rows, &split->share, &in->own, err);
    if (status) {
        lipsc_release(in);
        return status;
    }
    split->users++;
    *input = in;
    return LIPSC_OK;
}

static void input_free(const lipsc_device *device, void *input) {
    const lipsc_device *own = own_of(device);
    if (!input) return;
    split_of(device)->users--;
    own->ops->part->free(own, ((made *)input)->own);
    lipsc_release(input);
}

static lipsc_status product(const lipsc_device *device, void *input, int trans, size_t k,
                            lipsc_buffer x, lipsc_buffer y) {
    const lipsc_device *own = own_of(device);
    const lipsc_space *space = lipsc_device_space(device, x.type);
    return own->ops->part->product(own, ((made *)input)->own, trans, k,
                                   lipsc_space_own(space, x), lipsc_space_own(space, y));
}

static size_t bytes(const lipsc_device *device, const void *input) {
    const lipsc_device *own = own_of(device);
    return own->ops->part->bytes(own, ((const made *)input)->own);
}

/* Own rows of the arrays, one array after the other, then those of all ranks. */
static lipsc_status projections(const lipsc_device *device, const void *input, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over) {
    enum { ARRAYS = 5 };
    const lipsc_device *at = own_of(device);
    const made *in = input;
    lipsc_row_split *split = split_of(device);
    const size_t k = in->layer->key_dim, v = in->layer->value_dim, rows = split->rows.own;
    const size_t width[ARRAYS] = {k, k, v, 1, 1};
    double *const all[ARRAYS] = {q, key, z, q_over, k_over};
    double *room = lipsc_alloc(rows, (2 * k + v + 2) * sizeof *room), *own[ARRAYS] = {room};
    for (size_t i = 1; i < ARRAYS && room; i++) own[i] = own[i - 1] + rows * width[i - 1];
    lipsc_status status = room ? at->ops->part->projections(at, in->own, head, own[0],
                                                            own[1], own[2], own[3], own[4])
                               : LIPSC_E_NOMEM;
    status = lipsc_split_agree(split, status, NULL);
    for (size_t i = 0; i < ARRAYS && !status; i++)
        status = lipsc_split_gather(split, width[i] * sizeof *room, own[i], all[i]);
    lipsc_release(room);
    return status;
}

static const char *failure(const lipsc_device *device) {
    return lipsc_device_failure(own_of(device));
}

static double largest(const lipsc_device *device, double own) {
    return lipsc_split_largest(split_of(device), own);
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

/* ---- What the ranks cost and bring -------------------------------------------------- */

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

/* Seconds of a gather in which each rank gives so many bytes, and all are put to their
 * places: of a few in turn, the least of several times, which is what the link takes
 * without the turns that other programs have at the cores. */
static lipsc_status time_gather(lipsc_ranks *ranks, size_t bytes, char *room,
                                double *seconds) {
    enum { TIMES = 7, IN_TURN = 8 };
    const size_t sum = lipsc_ranks_count(ranks) * bytes;
    char *own = room, *all = own + bytes, *places = all + sum;
    lipsc_status status = LIPSC_OK;
    *seconds = INFINITY;
    for (int i = 0; i < TIMES && !status; i++) {
        const double start = lipsc_seconds();
        for (int j = 0; j < IN_TURN && !status; j++) {
            status = lipsc_ranks_gather(ranks, bytes, own, all);
            memcpy(places, all, sum);
        }
        *seconds = lipsc_min(*seconds, (lipsc_seconds() - start) / IN_TURN);
    }
    return status;
}

static lipsc_status measure_link(const lipsc_device *device, lipsc_link *out) {
    enum { FEW = 8, MANY = 1 << 20 };
    lipsc_ranks *ranks = split_of(device)->ranks;
    const size_t count = lipsc_ranks_count(ranks);
    double much = 0.0;
    *out = (lipsc_link){NAN, NAN, LIPSC_SPLIT_MESSAGE};
    char *room = lipsc_alloc_zero(2 * count + 1, MANY);
    lipsc_status status = room ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = time_gather(ranks, FEW, room, &out->latency);
    if (!status) status = time_gather(ranks, MANY, room, &much);
    if (!status)
        out->byte = lipsc_max(much - out->latency, 0.0) / (double)((count - 1) * MANY);
    lipsc_release(room);
    return status;
}

/* ---- Life ---------------------------------------------------------------------------- */

static void close_shared(lipsc_device *device) {
    lipsc_split_end(split_of(device));
    lipsc_device_close(shared_of(device)->own);
    lipsc_release(device->state);
}

static const lipsc_device_ops ops = {.name = "ranks",
                                     .weights_new = weights_new,
                                     .weights_free = weights_free,
                                     .input_new = input_new,
                                     .input_free = input_free,
                                     .product = product,
                                     .bytes = bytes,
                                     .close = close_shared,
                                     .failure = failure,
                                     .largest = largest,
                                     .total = total,
                                     .alone = alone,
                                     .link = measure_link,
                                     .own = own_of,
                                     .projections = projections};

/* Rows of J x have the bits of the rank's device, which is as good as it says. */
static lipsc_device_ops ops_on(const lipsc_device *own, size_t ranks) {
    lipsc_device_ops all = ops;
    all.proved = own->ops->proved;
    all.folds = own->ops->folds;
    all.least = own->ops->least;
    all.coarse_f32 = own->ops->coarse_f32;
    all.half = own->ops->half;
    all.leaves_zeros = own->ops->leaves_zeros;
    all.speed = own->ops->speed * (double)ranks;
    all.room = own->ops->room * ranks;
    return all;
}

/* Vectors of a CPU are the host's. */
static const lipsc_space *space_of(const lipsc_device *own, lipsc_dtype dtype) {
    return own->ops == &lipsc_cpu_ops ? lipsc_space_host(dtype)
                                      : lipsc_device_space(own, dtype);
}

static void fill(lipsc_device *device, shared_device *all, int threads) {
    device->threads = threads;
    snprintf(device->name, sizeof device->name, "ranks");
    lipsc_device_fill(device, &all->ops, &space_ops, all, threads);
    for (int t = 0; t < 2; t++) {
        device->space[t].split = &all->split.rows;
        device->space[t].part = space_of(all->own, (lipsc_dtype)t);
        device->space[t].kept = &all->kept;
    }
    all->kept = device->space[LIPSC_F64];
    all->kept.part = lipsc_space_host(LIPSC_F64);
    all->kept.home = NULL; /* the host's */
}

lipsc_status lipsc_device_share(lipsc_ranks *ranks, const char *name, int threads,
                                lipsc_device **out, lipsc_error *err) {
    const size_t count = lipsc_ranks_count(ranks);
    if (count < 2) return lipsc_device_open(name, threads, out, err);
    lipsc_device *device = lipsc_alloc_zero(1, sizeof *device);
    shared_device *all = lipsc_alloc_zero(1, sizeof *all);
    lipsc_status status = device && all ? LIPSC_OK : LIPSC_E_NOMEM;
    if (status) lipsc_fail(err, status, "no memory for a device");
    if (!status) status = lipsc_device_open(name ? name : "cpu", threads, &all->own, err);
    if (!status && !all->own->ops->part)
        status = lipsc_fail(err, LIPSC_E_BACKEND, "%s cannot share the rows of one input",
                            lipsc_device_name(all->own));
    const lipsc_row_split together = {.ranks = ranks};
    status = lipsc_split_agree(&together, status, err);
    if (status) {
        if (all) lipsc_device_close(all->own);
        lipsc_release(device);
        lipsc_release(all);
        return status;
    }
    all->split = together;
    all->ops = ops_on(all->own, count);
    fill(device, all, threads);
    *out = device;
    return LIPSC_OK;
}
