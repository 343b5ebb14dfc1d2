/* attn.c - the handle of an attention Jacobian: an input made ready for a device, over
 * packed weights. */
#include "attn/attn.h"
#include "attn/arena.h"
#include "core/error.h"
#include "core/extreme.h"

#include <math.h>

/* In f32 the roots of the weights, and their inverses, must fit into a float. */
static const double weight_spread_f32 = 1e60;

/* Pieces of the storage that are filled after it exists. */
typedef struct {
    double *X, *log_weight, *root_weight, *positions, *distance;
    size_t *lo, *hi, *order;
} rows_storage;

/* Lays out, and with a base copies, the tokens of a checked input. */
static void place_tokens(lipsc_arena *a, const lipsc_input *input, lipsc_attn *attn,
                         rows_storage *rows) {
    const size_t count = input->n * attn->layer.d;
    const int sorted = attn->layer.mask == LIPSC_MASK_TIMES; /* no other mask moves one */
    attn->input.X = lipsc_arena_copy(a, count, input->X);
    rows->X = sorted ? lipsc_arena_take(a, count, sizeof *rows->X) : NULL;
}

/* The same of all other arrays. */
static void place(lipsc_arena *a, const lipsc_input *input, lipsc_attn *attn,
                  rows_storage *rows) {
    const lipsc_layer *l = &attn->layer;
    const size_t n = input->n;
    attn->input.n = n;
    attn->input.weights = lipsc_arena_copy(a, n, input->weights);
    attn->input.times = lipsc_arena_copy(a, n, input->times);
    attn->input.positions = lipsc_arena_copy(a, n, l->rotary_dim ? input->positions : NULL);

    rows->log_weight =
        input->weights ? lipsc_arena_take(a, n, sizeof *rows->log_weight) : NULL;
    rows->root_weight =
        input->weights ? lipsc_arena_take(a, n, sizeof *rows->root_weight) : NULL;
    rows->positions =
        l->rotary_dim ? lipsc_arena_take(a, n, sizeof *rows->positions) : NULL;
    rows->distance = l->bias_rule != LIPSC_BIAS_NONE
                         ? lipsc_arena_take(a, l->heads * (2 * n - 1), sizeof(double))
                         : NULL;
    rows->lo = lipsc_arena_take(a, n, sizeof *rows->lo);
    rows->hi = lipsc_arena_take(a, n, sizeof *rows->hi);
    rows->order = lipsc_arena_take(a, n, sizeof *rows->order);
}

/* ---- The input in the device's order ---------------------------------------------- */

/* Scores see log a_j only up to a constant, and D^{1/2} J D^{-1/2} sees a only up to a
 * factor: both are taken relative to the largest weight, which keeps them in range. */
static lipsc_status prepare_rows(lipsc_attn *attn, const rows_storage *s) {
    const lipsc_input *input = &attn->input;
    const size_t n = input->n, d = attn->layer.d;
    int identity;
    lipsc_status status =
        lipsc_mask_ranges(&attn->layer, input, s->order, s->lo, s->hi, &identity);
    if (status) return status;

    double largest = 0.0;
    for (size_t i = 0; input->weights && i < n; i++)
        largest = lipsc_max(largest, input->weights[i]);
    for (size_t i = 0; i < n; i++) {
        const size_t token = s->order[i];
        if (!identity) memcpy(s->X + i * d, input->X + token * d, d * sizeof *s->X);
        if (input->weights) {
            s->log_weight[i] = log(input->weights[token]) - log(largest);
            s->root_weight[i] = sqrt(input->weights[token]) / sqrt(largest);
        }
        if (s->positions)
            s->positions[i] = input->positions ? input->positions[token] : (double)token;
    }
    for (size_t h = 0; s->distance && h < attn->layer.heads; h++)
        for (size_t e = 0; e < 2 * n - 1; e++)
            s->distance[h * (2 * n - 1) + e] =
                lipsc_layer_bias(&attn->layer, h, e < n ? n - 1 - e : e - (n - 1), e >= n);
    attn->X = identity ? input->X : s->X;
    attn->rows = (lipsc_rows){.n = n,
                              .X = attn->X ? lipsc_host_view(n * d, attn->X) : attn->kept,
                              .log_weight = s->log_weight,
                              .root_weight = s->root_weight,
                              .positions = s->positions,
                              .distance = s->distance,
                              .lo = s->lo,
                              .hi = s->hi,
                              .order = identity ? NULL : s->order};
    return LIPSC_OK;
}

static lipsc_status check_f32_weights(const lipsc_input *input, lipsc_error *err) {
    double smallest = INFINITY, largest = 0.0;
    for (size_t i = 0; i < input->n; i++) {
        smallest = lipsc_min(smallest, input->weights[i]);
        largest = lipsc_max(largest, input->weights[i]);
    }
    if (largest / smallest <= weight_spread_f32) return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_RANGE,
                      "weights differ by more than a factor of %g, too much for f32",
                      weight_spread_f32);
}

/* ---- Life of a handle -------------------------------------------------------------- */

/* The states that the products work with, made together where the device can. */
static lipsc_status open_states(size_t count, lipsc_attn *const *attn, lipsc_error *err) {
    const lipsc_device *device = attn[0]->device;
    const lipsc_device_ops *ops = lipsc_device_table(device);
    const void *weights;
    lipsc_status status =
        lipsc_packed_weights(attn[0]->packed, device, attn[0]->dtype, &weights, err);
    for (size_t i = 0; !status && i < count && (count == 1 || !ops->batch_new); i++)
        status = ops->input_new(device, weights, &attn[i]->rows, &attn[i]->state, err);
    if (status || count == 1 || !ops->batch_new) return status;

    lipsc_rows *rows = lipsc_alloc(count, sizeof *rows);
    void **states = lipsc_alloc(count, sizeof *states);
    if (!rows || !states)
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu inputs", count);
    for (size_t i = 0; !status && i < count; i++) rows[i] = attn[i]->rows;
    if (!status) status = ops->batch_new(device, weights, count, rows, states, err);
    for (size_t i = 0; !status && i < count; i++) attn[i]->state = states[i];
    lipsc_release(rows);
    lipsc_release(states);
    return status;
}

/* The state of a long input is made when it is first asked for: a solve may begin in
 * another precision, and two of them may not fit into a device's memory.  Vectors that
 * ranks share need it: it says who has which rows. */
static int waits(const lipsc_attn *attn) {
    const size_t half = lipsc_device_table(attn->device)->half;
    const int shared = lipsc_device_space(attn->device, attn->dtype)->split != NULL;
    return half && !shared && attn->dtype == LIPSC_F32 &&
           attn->input.n >= LIPSC_LONG * half;
}

lipsc_status lipsc_attn_ready(lipsc_attn *attn) {
    return attn->state ? LIPSC_OK : open_states(1, &attn, NULL);
}

/* Everything of a handle but its state. */
static lipsc_status prepare(lipsc_attn *attn, const lipsc_input *input, lipsc_error *err) {
    lipsc_arena a = {0}, tokens = {0};
    rows_storage rows;
    place(&a, input, attn, &rows);
    place_tokens(&tokens, input, attn, &rows);
    if (a.overflow || tokens.overflow)
        return lipsc_fail(err, LIPSC_E_RANGE, "an input of %zu tokens is too large",
                          input->n);
    attn->storage = lipsc_alloc(a.used, 1);
    attn->tokens = input->X ? lipsc_alloc(tokens.used, 1) : NULL;
    if (!attn->storage || (input->X && !attn->tokens))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input of %zu tokens",
                          input->n);
    a = (lipsc_arena){.base = attn->storage};
    place(&a, input, attn, &rows);
    tokens = (lipsc_arena){.base = (char *)attn->tokens};
    place_tokens(&tokens, input, attn, &rows);
    if (prepare_rows(attn, &rows))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory to sort %zu times", input->n);
    return LIPSC_OK;
}

/* Tokens that the device of a borrowing handle does not take become doubles of the host. */
static int bring_tokens(lipsc_attn *own) {
    const size_t count = own->input.n * own->layer.d;
    if (!own->rows.X.at || lipsc_device_takes_tokens(own->device, own->rows.X)) return 1;
    if (!own->X)
        own->input.X = own->X = own->fetched = lipsc_buffer_fetch(own->rows.X, count);
    own->rows.X = lipsc_host_view(count, own->X);
    return own->X != NULL;
}

/* What every handle that borrows from attn begins with. */
static lipsc_attn borrowed(const lipsc_attn *attn, lipsc_dtype dtype,
                           const lipsc_device *device) {
    lipsc_attn own = *attn;
    own.owns_packed = 0;
    own.storage = own.state = NULL;
    own.tokens = own.own_tokens = own.fetched = NULL;
    own.kept = LIPSC_NOWHERE;
    own.twin = NULL;
    own.dtype = dtype;
    own.device = device;
    return own;
}

lipsc_status lipsc_attns_as(size_t count, const lipsc_attn *const *attn, lipsc_dtype dtype,
                            const lipsc_device *device, lipsc_attn *const *own) {
    for (size_t i = 0; i < count; i++) *own[i] = borrowed(attn[i], dtype, device);
    for (size_t i = 0; i < count; i++)
        if (!bring_tokens(own[i])) return LIPSC_E_NOMEM;
    return open_states(count, own, NULL);
}

lipsc_status lipsc_attns_over(size_t count, lipsc_attn *const *attn, lipsc_packed *packed,
                              double *const *X, lipsc_attn *const *own) {
    for (size_t i = 0; i < count; i++) {
        const size_t all = attn[i]->input.n * attn[i]->layer.d;
        const lipsc_mask mask = attn[i]->layer.mask;
        *own[i] = borrowed(attn[i], attn[i]->dtype, attn[i]->device);
        own[i]->packed = packed;
        own[i]->layer = *lipsc_packed_layer(packed);
        own[i]->layer.mask = mask;
        own[i]->tokens = X[i];
        own[i]->input.X = own[i]->X = NULL;
        if (attn[i]->rows.own_X)
            own[i]->rows.own_X = X[i];
        else
            own[i]->rows.X = lipsc_host_view(all, X[i]);
    }
    return open_states(count, own, NULL);
}

lipsc_status lipsc_attn_as(const lipsc_attn *attn, lipsc_dtype dtype,
                           const lipsc_device *device, lipsc_attn *own) {
    return lipsc_attns_as(1, &attn, dtype, device, &own);
}

static void forget_twin(lipsc_attn *attn) {
    if (!attn->twin) return;
    lipsc_attn_close(attn->twin);
    lipsc_release(attn->twin);
    attn->twin = NULL;
}

void lipsc_attn_close(lipsc_attn *own) {
    if (own->state) lipsc_device_table(own->device)->input_free(own->device, own->state);
    own->state = NULL;
    lipsc_release(own->fetched);
    own->fetched = NULL;
}

lipsc_status lipsc_attns_keep(size_t count, lipsc_attn *const *attn) {
    const lipsc_attn **from = lipsc_alloc(count, sizeof *from);
    lipsc_attn **own = lipsc_alloc(count, sizeof *own);
    lipsc_status status = from && own ? LIPSC_OK : LIPSC_E_NOMEM;
    size_t made = 0;
    for (size_t i = 0; i < count && !status; i++) {
        if (attn[i]->twin) continue;
        from[made] = attn[i];
        own[made] = attn[i]->twin = lipsc_alloc_zero(1, sizeof *own[made]);
        if (!own[made++]) status = LIPSC_E_NOMEM;
    }
    if (!status && made)
        status = lipsc_attns_as(made, from, LIPSC_F64, from[0]->device, own);
    for (size_t i = 0; i < count && status; i++) forget_twin(attn[i]);
    lipsc_release(from);
    lipsc_release(own);
    return status;
}

/* A copy of X in the same memory. */
static lipsc_status keep_tokens(lipsc_attn *attn, size_t n, lipsc_buffer X,
                                lipsc_error *err) {
    const lipsc_space *space = lipsc_device_space(X.home, X.type);
    const size_t count = n * attn->layer.d;
    attn->kept = lipsc_space_alloc(space, count);
    lipsc_status status = attn->kept.at ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_space_copy(space, count, X, attn->kept);
    return status ? lipsc_fail(err, status, "out of memory for %zu tokens", n) : LIPSC_OK;
}

/* A look at its numbers. */
static lipsc_status check_tokens(lipsc_attn *attn, size_t n, lipsc_buffer X,
                                 lipsc_error *err) {
    const lipsc_space *space = lipsc_device_space(X.home, X.type);
    const size_t count = n * attn->layer.d;
    double square = 0.0;
    lipsc_status status = lipsc_space_gram(space, count, 1, X, 1, X, &square);
    if (status) return lipsc_fail(err, status, "out of memory for %zu tokens", n);
    if (isfinite(square)) return LIPSC_OK;
    double *host = lipsc_buffer_fetch(X, count); /* squares may overflow */
    const lipsc_input input = {.n = n, .X = host};
    status = host ? lipsc_input_check(&attn->layer, &input, err)
                  : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", n);
    lipsc_release(host);
    return status;
}

/* there: the tokens where a device has them, or nowhere; input has them too, for as long as
 * the handle, or NULL. */
static lipsc_status new_handle(lipsc_packed *packed, const lipsc_mask *mask,
                               const lipsc_input *input, lipsc_buffer there,
                               lipsc_dtype dtype, const lipsc_device *device,
                               lipsc_attn **out, lipsc_error *err) {
    lipsc_layer layer = *lipsc_packed_layer(packed);
    if (mask) layer.mask = *mask;
    lipsc_status status = there.at ? lipsc_input_check_rest(&layer, input, err)
                                   : lipsc_input_check(&layer, input, err);
    if (!status && dtype == LIPSC_F32 && input->weights)
        status = check_f32_weights(input, err);
    if (status) return status;

    lipsc_attn *attn = lipsc_alloc_zero(1, sizeof *attn);
    if (!attn) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a handle");
    attn->packed = packed;
    attn->layer = layer;
    attn->dtype = dtype;
    attn->device = device;
    *out = attn;
    if (!there.at) return prepare(attn, input, err);
    lipsc_input rest = *input;
    rest.X = NULL;
    status = keep_tokens(attn, input->n, there, err);
    if (!status && !input->X) status = check_tokens(attn, input->n, there, err);
    if (!status) status = prepare(attn, &rest, err);
    if (!status) attn->input.X = attn->X = input->X;
    return status;
}

lipsc_status lipsc_attn_batch_there(lipsc_packed *packed, const lipsc_mask *mask,
                                    size_t count, const lipsc_input *inputs,
                                    const lipsc_buffer *there, lipsc_dtype dtype,
                                    const lipsc_device *device, lipsc_attn **out,
                                    lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < count; i++) out[i] = NULL;
    for (size_t i = 0; !status && i < count; i++)
        status = new_handle(packed, mask, &inputs[i], there ? there[i] : LIPSC_NOWHERE,
                            dtype, device, &out[i], err);
    if (!status && count && (count > 1 || !waits(out[0])))
        status = open_states(count, out, err);
    for (size_t i = 0; !status && i < count; i++)
        if (lipsc_attn_share_tokens(out[i]))
            status =
                lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", inputs[i].n);
    for (size_t i = 0; status && i < count; i++) {
        lipsc_attn_free(out[i]);
        out[i] = NULL;
    }
    return status;
}

lipsc_status lipsc_attn_batch_at(lipsc_packed *packed, const lipsc_mask *mask, size_t count,
                                 const lipsc_input *inputs, lipsc_dtype dtype,
                                 const lipsc_device *device, lipsc_attn **out,
                                 lipsc_error *err) {
    return lipsc_attn_batch_there(packed, mask, count, inputs, NULL, dtype, device, out,
                                  err);
}

lipsc_status lipsc_attn_at(lipsc_packed *packed, const lipsc_mask *mask,
                           const lipsc_input *input, lipsc_dtype dtype,
                           const lipsc_device *device, lipsc_attn **out, lipsc_error *err) {
    lipsc_attn *attn;
    const lipsc_status status =
        lipsc_attn_batch_at(packed, mask, 1, input, dtype, device, &attn, err);
    if (!status) *out = attn;
    return status;
}

lipsc_status lipsc_attn_there(lipsc_packed *packed, const lipsc_mask *mask, size_t n,
                              lipsc_buffer X, lipsc_dtype dtype, const lipsc_device *device,
                              lipsc_attn **out, lipsc_error *err) {
    lipsc_input input = {.n = n};
    lipsc_attn *attn = NULL;
    lipsc_status status;
    if (!lipsc_device_takes_tokens(device, X)) {
        double *host = lipsc_buffer_fetch(X, n * lipsc_packed_layer(packed)->d);
        input.X = host;
        status = host ? lipsc_attn_at(packed, mask, &input, dtype, device, out, err)
                      : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", n);
        lipsc_release(host);
        return status;
    }
    status = new_handle(packed, mask, &input, X, dtype, device, &attn, err);
    if (!status && !waits(attn)) status = open_states(1, &attn, err);
    if (status)
        lipsc_attn_free(attn);
    else
        *out = attn;
    return status;
}

lipsc_status lipsc_attn_new(const lipsc_layer *layer, const lipsc_input *input,
                            lipsc_dtype dtype, const lipsc_device *device, lipsc_attn **out,
                            lipsc_error *err) {
    if (!out) return lipsc_fail(err, LIPSC_E_ARG, "out is NULL");
    if (dtype != LIPSC_F64 && dtype != LIPSC_F32)
        return lipsc_fail(err, LIPSC_E_ARG, "dtype = %d is not a precision", (int)dtype);
    lipsc_packed *packed;
    lipsc_status status = lipsc_packed_new(layer, 1, &packed, err);
    if (status) return status;
    status = lipsc_attn_at(packed, NULL, input, dtype, device, out, err);
    if (status)
        lipsc_packed_free(packed);
    else
        (*out)->owns_packed = 1;
    return status;
}

void lipsc_attn_free(lipsc_attn *attn) {
    if (!attn) return;
    forget_twin(attn);
    lipsc_attn_close(attn);
    if (attn->owns_packed) lipsc_packed_free(attn->packed);
    lipsc_release(attn->storage);
    lipsc_space_release(lipsc_device_space(attn->kept.home, attn->kept.type), attn->kept);
    lipsc_release(attn->tokens);
    lipsc_release(attn->own_tokens);
    lipsc_release(attn);
}
