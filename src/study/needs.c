/* needs.c - what a sweep needs: the memory that it keeps to, and the time. */
#include "study/needs.h"

#include "attack/plan.h"
#include "backend/backend.h"
#include "core/clock.h"
#include "core/extreme.h"
#include "core/mem.h"

const double lipsc_study_streams_room = 256e6;
const double lipsc_study_pairs_of_cell = 12.0;

/* Bytes: of weights that are ready at a time; of those that stay behind (hold.c); of the
 * vectors of all threads side by side; of the program itself with a tokenizer. */
static const double weights_room = 192e6, queued_room = 3e9, idle_room = 268e6,
                    vectors_room = 1e9, program = 64e6;

/* The model's map needs all layers at once. */
size_t lipsc_study_layers_ready(const study_kind *kind) {
    const size_t layers = lipsc_model_describe(kind->model)->layers;
    if (kind->map == LIPSC_MAP_MODEL) return layers;
    const double block =
        (double)lipsc_model_block_bytes(kind->model, kind->map, kind->dtype);
    const double room = kind->queued ? queued_room : weights_room;
    const double ready = lipsc_max(1.0, room / block);
    return ready < (double)layers ? (size_t)ready : layers;
}

double lipsc_study_stream_bytes(const lipsc_model *model, size_t n) {
    return (double)n * (double)lipsc_model_describe(model)->d * sizeof(double);
}

/* Some sixty vectors in f32, thirty in double. */
double lipsc_study_solve_bytes(const lipsc_model *model, size_t n) {
    return 30.0 * lipsc_study_stream_bytes(model, n);
}

int lipsc_study_side_by_side(const study_kind *kind, size_t n) {
    return kind->threads * lipsc_study_solve_bytes(kind->model, n) <= vectors_room;
}

double lipsc_study_sweep_bytes(const study_kind *kind, size_t longest, double streams) {
    const double block =
        (double)lipsc_model_block_bytes(kind->model, kind->map, kind->dtype);
    const double all = block * (double)lipsc_model_describe(kind->model)->layers;
    const double ready = block * (double)lipsc_study_layers_ready(kind) + idle_room;
    const double reading = (double)lipsc_model_reading_bytes(kind->model);
    const double solve = lipsc_study_solve_bytes(kind->model, longest);
    const int side_by_side = lipsc_study_side_by_side(kind, longest);
    return program + lipsc_min(all, ready) + reading +
           lipsc_min(streams, lipsc_max(lipsc_study_streams_room,
                                        lipsc_study_stream_bytes(kind->model, longest))) +
           (side_by_side ? kind->threads * solve : solve);
}

double lipsc_study_bytes(const lipsc_model *model, lipsc_map_kind map, lipsc_dtype dtype,
                         lipsc_device *device, size_t longest, double windows) {
    const study_kind kind = {model, map, dtype, lipsc_device_threads(device),
                             lipsc_device_table(device)->batch_tokens != 0};
    return lipsc_study_sweep_bytes(&kind, longest,
                                   windows * lipsc_study_stream_bytes(model, longest));
}

/* ---- Time ---------------------------------------------------------------------------- */

/* Rows of x through a square matrix, until some of it was not disturbed by others: the
 * fastest counts. */
static double time_products(const lipsc_device *device, const void *linear, size_t rows,
                            size_t d, lipsc_buffer x, lipsc_buffer y) {
    const double begin = lipsc_seconds();
    double fastest = 0.0, now = begin;
    do {
        const double before = now;
        if (lipsc_linear_apply(device, linear, rows, x, 0, 0, y)) return 0.0;
        now = lipsc_seconds();
        fastest = lipsc_max(fastest, 2.0 * (double)rows * (double)d * (double)d /
                                         lipsc_max(now - before, 1e-9));
    } while (now - begin < 0.01);
    return fastest;
}

double lipsc_study_speed(lipsc_dtype dtype) {
    enum { D = 384, ROWS = 64 };
    const lipsc_device *device = lipsc_cpu_of(1);
    const lipsc_device_ops *ops = lipsc_device_table(device);
    const lipsc_space *space = lipsc_device_space(device, dtype);
    double *w = lipsc_alloc(D * D, sizeof *w);
    const lipsc_buffer x = lipsc_space_alloc(space, ROWS * D),
                       y = lipsc_space_alloc(space, ROWS * D);
    void *linear = NULL;
    double speed = 0.0;
    for (size_t i = 0; w && i < D * D; i++) w[i] = 1.0 / D;
    if (w && x.at && y.at && !lipsc_space_upload(space, ROWS * D, w, x) &&
        !ops->linear_new(device, D, D, w, 0, NULL, dtype, &linear, NULL))
        speed = time_products(device, linear, ROWS, D, x, y);
    if (linear) ops->linear_free(device, linear);
    lipsc_space_release(space, x);
    lipsc_space_release(space, y);
    lipsc_release(w);
    return speed;
}

static double share_of(double operations, lipsc_dtype dtype, int threads) {
    return operations / (lipsc_study_speed(dtype) * lipsc_max(1.0, threads));
}

/* Of a pair of products with J and its transpose: projections and, in each head, products
 * as long as the window squared. */
static double pair_operations(const lipsc_layer *layer, size_t n) {
    const double tokens = (double)n, d = (double)layer->d;
    const double wide = (double)layer->heads * (double)(layer->key_dim + layer->value_dim);
    return 8.0 * tokens * wide * (d + tokens);
}

double lipsc_study_solve_seconds(const lipsc_layer *layer, size_t n, lipsc_dtype dtype,
                                 int threads) {
    const double pairs = 30.0;
    return share_of(pairs * pair_operations(layer, n), dtype, threads);
}

/* In units of a product in double, in each head: eigenvalues of matrices of the width, and
 * of the tokens what was timed for windows of 64 to 512 tokens of widths 192 and 768. */
double lipsc_study_bounds_seconds(const lipsc_layer *layer, size_t n, size_t radii,
                                  int threads) {
    const double tokens = (double)n, d = (double)layer->d, others = 5.0;
    const double head =
        11.0 * d * d * d + 270.0 * tokens * d * d + 220.0 * tokens * tokens * d;
    return share_of((double)layer->heads * head * (1.0 + (double)radii / others), LIPSC_F64,
                    threads);
}

/* Facts of every head; constructions of every head; iterations.  As was timed for 16 to 256
 * tokens of widths 192 and 768, and for small layers, whose pairs are all found at once.
 * Products of one window keep few threads busy. */
double lipsc_study_attack_seconds(const lipsc_layer *layer,
                                  const lipsc_attack_settings *set, int threads) {
    const double heads = (double)layer->heads, d = (double)layer->d, most_threads = 4.0;
    const double iterations = (double)lipsc_attack_iterations(layer, set);
    const double facts = 100.0 * heads * d * d * d;
    const double order = (double)set->n * lipsc_max(d, (double)lipsc_layer_width(layer));
    const int busy = (int)lipsc_min(threads, most_threads);
    if (lipsc_attack_dense(layer, set->n))
        return share_of(facts + 300.0 * iterations * order * order * order, LIPSC_F64, 1);
    return share_of(facts, LIPSC_F64, busy) +
           share_of((150.0 * heads + 14.0 * iterations) * pair_operations(layer, set->n),
                    set->dtype, busy);
}
