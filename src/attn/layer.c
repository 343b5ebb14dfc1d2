/* layer.c - defaults of a layer, and the checks of a layer and an input.
 *
 * Nothing behind these checks looks at a size or a value again: products of sizes do
 * not overflow, pointers are there, numbers are finite. */
#include "attn/attn.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Weights may differ by this factor: its root, and the inverse of it, are safe in
 * double. */
static const double weight_spread = 1e300;

const char *lipsc_mask_name(lipsc_mask mask) {
    static const char *const names[] = {"none", "causal", "sliding", "times", "local"};
    return (size_t)mask < sizeof names / sizeof *names ? names[mask] : "unknown";
}

void lipsc_layer_defaults(lipsc_layer *layer) {
    memset(layer, 0, sizeof *layer);
    layer->heads = 1;
}

size_t lipsc_layer_width(const lipsc_layer *layer) {
    return layer->O ? layer->out_dim : layer->heads * layer->value_dim;
}

const char *lipsc_layer_beyond(const lipsc_layer *l) {
    if (l->norm_whole && (l->q_gain || l->k_gain))
        return "query and key norms over all heads";
    if (l->soft_cap > 0.0) return "soft-capped scores";
    if (l->bias_rule != LIPSC_BIAS_NONE) return "a bias of the scores";
    if (l->sinks) return "sinks in the softmax";
    return NULL;
}

/* An array of a layer or an input, by name.  cols 0: a vector of `rows` numbers. */
typedef struct {
    const char *name;
    const double *values; /* NULL: absent, nothing to check */
    size_t rows, cols;
} named_array;

static lipsc_status check_finite(const named_array *a, lipsc_error *err) {
    const size_t count = a->cols ? a->rows * a->cols : a->rows;
    for (size_t e = 0; a->values && e < count; e++) {
        if (isfinite(a->values[e])) continue;
        if (!a->cols)
            return lipsc_fail(err, LIPSC_E_NONFIN, "%s[%zu] is not finite", a->name, e);
        return lipsc_fail(err, LIPSC_E_NONFIN, "%s[%zu,%zu] is not finite", a->name,
                          e / a->cols, e % a->cols);
    }
    return LIPSC_OK;
}

/* a * b * c doubles fit into memory that a pointer can address */
static lipsc_status check_product(const char *name, size_t a, size_t b, size_t c,
                                  lipsc_error *err) {
    size_t ab, abc;
    if (lipsc_mul_size(a, b, &ab) && lipsc_mul_size(ab, c, &abc) &&
        abc <= PTRDIFF_MAX / sizeof(double))
        return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_RANGE, "the size of %s, %zu x %zu x %zu, is too large",
                      name, a, b, c);
}

static lipsc_status check_sizes(const lipsc_layer *r, lipsc_error *err) {
    const struct {
        const char *name;
        size_t value;
    } positive[] = {{"d", r->d},
                    {"heads", r->heads},
                    {"key_dim", r->key_dim},
                    {"value_dim", r->value_dim},
                    {"out_dim", r->O ? r->out_dim : 1}};
    for (size_t s = 0; s < sizeof positive / sizeof positive[0]; s++)
        if (positive[s].value == 0)
            return lipsc_fail(err, LIPSC_E_ARG, "%s is zero", positive[s].name);

    if (r->heads % r->kv_heads != 0)
        return lipsc_fail(err, LIPSC_E_ARG, "kv_heads = %zu does not divide heads = %zu",
                          r->kv_heads, r->heads);
    if (!r->K && r->kv_heads != 1)
        return lipsc_fail(err, LIPSC_E_ARG, "without K kv_heads must be 1, not %zu",
                          r->kv_heads);
    if (!r->K && r->key_dim != r->d)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "without K key_dim = %zu must be equal to d = %zu", r->key_dim,
                          r->d);

    lipsc_status status = check_product("Q", r->heads, r->key_dim, r->d, err);
    if (!status) status = check_product("K", r->kv_heads, r->key_dim, r->d, err);
    if (!status) status = check_product("V", r->kv_heads, r->value_dim, r->d, err);
    if (!status && r->O)
        status = check_product("O", r->out_dim, r->heads, r->value_dim, err);
    if (!status) status = check_product("a row of heads", r->heads, r->value_dim, 1, err);
    return status;
}

static lipsc_status check_bias(const lipsc_layer *r, lipsc_error *err) {
    if (!r->score_bias) return lipsc_fail(err, LIPSC_E_ARG, "score_bias is NULL");
    if (r->mask == LIPSC_MASK_TIMES)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "a bias of the scores counts places, which a mask by times does "
                          "not have");
    switch (r->bias_rule) {
    case LIPSC_BIAS_LINEAR:
        return LIPSC_OK;
    case LIPSC_BIAS_BUCKETS:
        if (r->bias_buckets >= 4 && r->bias_buckets % 4 == 0 &&
            r->bias_distance > r->bias_buckets / 4)
            return check_product("score_bias", r->heads, r->bias_buckets, 1, err);
        return lipsc_fail(err, LIPSC_E_ARG,
                          "%zu buckets up to a distance of %zu have no meaning",
                          r->bias_buckets, r->bias_distance);
    default:
        return lipsc_fail(err, LIPSC_E_ARG, "bias_rule = %d is not a rule",
                          (int)r->bias_rule);
    }
}

static lipsc_status check_options(const lipsc_layer *r, lipsc_error *err) {
    if (!isfinite(r->scale)) return lipsc_fail(err, LIPSC_E_NONFIN, "scale is not finite");
    switch (r->mask) {
    case LIPSC_MASK_NONE:
    case LIPSC_MASK_CAUSAL:
    case LIPSC_MASK_TIMES:
        break;
    case LIPSC_MASK_SLIDING:
    case LIPSC_MASK_LOCAL:
        if (r->window == 0) return lipsc_fail(err, LIPSC_E_ARG, "window is zero");
        break;
    default:
        return lipsc_fail(err, LIPSC_E_ARG, "mask = %d is not a mask", (int)r->mask);
    }
    if (r->rotary_dim % 2 != 0)
        return lipsc_fail(err, LIPSC_E_ARG, "rotary_dim = %zu is odd", r->rotary_dim);
    if (r->rotary_dim > r->key_dim)
        return lipsc_fail(err, LIPSC_E_ARG, "rotary_dim = %zu is above key_dim = %zu",
                          r->rotary_dim, r->key_dim);
    if (r->rotary_dim && !r->rotary_freq)
        return lipsc_fail(err, LIPSC_E_ARG, "rotary_freq is NULL");
    if (!isfinite(r->norm_eps))
        return lipsc_fail(err, LIPSC_E_NONFIN, "norm_eps is not finite");
    if (r->norm_eps < 0.0)
        return lipsc_fail(err, LIPSC_E_ARG, "norm_eps = %g is negative", r->norm_eps);
    if (!isfinite(r->soft_cap))
        return lipsc_fail(err, LIPSC_E_NONFIN, "soft_cap is not finite");
    if (r->soft_cap < 0.0)
        return lipsc_fail(err, LIPSC_E_ARG, "soft_cap = %g is negative", r->soft_cap);
    if (r->bias_rule != LIPSC_BIAS_NONE) {
        const lipsc_status status = check_bias(r, err);
        if (status) return status;
    }
    if (r->bo && !r->O) return lipsc_fail(err, LIPSC_E_ARG, "bo is given without O");
    return LIPSC_OK;
}

/* The numbers of the bias and the sinks. */
static lipsc_status check_rules(const lipsc_layer *r, lipsc_error *err) {
    const named_array sinks = {"sinks", r->sinks, r->heads, 0};
    const named_array bias = {
        "score_bias", r->bias_rule != LIPSC_BIAS_NONE ? r->score_bias : NULL, r->heads,
        r->bias_rule == LIPSC_BIAS_BUCKETS ? r->bias_buckets : 0};
    const lipsc_status status = check_finite(&sinks, err);
    return status ? status : check_finite(&bias, err);
}

lipsc_status lipsc_layer_check(const lipsc_layer *layer, lipsc_layer *resolved,
                               lipsc_error *err) {
    if (!layer) return lipsc_fail(err, LIPSC_E_ARG, "layer is NULL");
    lipsc_layer r = *layer;
    if (!r.Q) return lipsc_fail(err, LIPSC_E_ARG, "Q is NULL");
    if (!r.V) return lipsc_fail(err, LIPSC_E_ARG, "V is NULL");
    if (r.kv_heads == 0) r.kv_heads = r.heads ? r.heads : 1;

    lipsc_status status = check_sizes(&r, err);
    if (!status) status = check_options(&r, err);
    if (status) return status;
    if (r.scale == 0.0) r.scale = r.K ? 1.0 / sqrt((double)r.key_dim) : 1.0;
    r.out_dim = lipsc_layer_width(&r);

    const named_array arrays[] = {
        {"Q", r.Q, r.heads * r.key_dim, r.d},
        {"K", r.K, r.kv_heads * r.key_dim, r.d},
        {"V", r.V, r.kv_heads * r.value_dim, r.d},
        {"O", r.O, r.out_dim, r.heads * r.value_dim},
        {"bq", r.bq, r.heads * r.key_dim, 0},
        {"bk", r.bk, r.kv_heads * r.key_dim, 0},
        {"bv", r.bv, r.kv_heads * r.value_dim, 0},
        {"bo", r.bo, r.out_dim, 0},
        {"rotary_freq", r.rotary_dim ? r.rotary_freq : NULL, r.rotary_dim / 2, 0},
        {"q_gain", r.q_gain, r.norm_whole ? r.heads * r.key_dim : r.key_dim, 0},
        {"k_gain", r.k_gain, r.norm_whole ? r.kv_heads * r.key_dim : r.key_dim, 0},
    };
    for (size_t a = 0; !status && a < sizeof arrays / sizeof arrays[0]; a++)
        status = check_finite(&arrays[a], err);
    if (!status) status = check_rules(&r, err);
    if (!status) *resolved = r;
    return status;
}

static lipsc_status check_weights(size_t n, const double *weights, lipsc_error *err) {
    double smallest = weights[0], largest = weights[0];
    for (size_t j = 0; j < n; j++) {
        if (!(weights[j] > 0.0))
            return lipsc_fail(err, LIPSC_E_ARG, "weights[%zu] = %g is not positive", j,
                              weights[j]);
        smallest = lipsc_min(smallest, weights[j]);
        largest = lipsc_max(largest, weights[j]);
    }
    if (largest * (1.0 / weight_spread) > smallest)
        return lipsc_fail(err, LIPSC_E_RANGE, "weights differ by more than a factor of %g",
                          weight_spread);
    return LIPSC_OK;
}

lipsc_status lipsc_input_check(const lipsc_layer *resolved, const lipsc_input *input,
                               lipsc_error *err) {
    if (!input) return lipsc_fail(err, LIPSC_E_ARG, "input is NULL");
    if (input->n == 0) return lipsc_fail(err, LIPSC_E_ARG, "n is zero");
    if (!input->X) return lipsc_fail(err, LIPSC_E_ARG, "X is NULL");
    return lipsc_input_check_rest(resolved, input, err);
}

lipsc_status lipsc_input_check_rest(const lipsc_layer *resolved, const lipsc_input *input,
                                    lipsc_error *err) {
    if (input->n == 0) return lipsc_fail(err, LIPSC_E_ARG, "n is zero");
    const int by_times = resolved->mask == LIPSC_MASK_TIMES;
    if (by_times && !input->times) return lipsc_fail(err, LIPSC_E_ARG, "times is NULL");
    if (!by_times && input->times)
        return lipsc_fail(err, LIPSC_E_ARG, "times are given, but the mask is another one");

    if (resolved->sinks && input->weights)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "weights are given, of which only ratios count, but beside sinks "
                          "their size would");
    if (resolved->bias_rule != LIPSC_BIAS_NONE && input->positions)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "positions are given, but the bias of the scores counts places");

    const size_t n = input->n;
    lipsc_status status = check_product("X", n, resolved->d, 1, err);
    if (!status)
        status = check_product("the queries", n, resolved->heads, resolved->key_dim, err);
    if (!status)
        status = check_product("the values", n, resolved->heads, resolved->value_dim, err);
    if (!status) status = check_product("the output", n, resolved->out_dim, 1, err);

    const named_array arrays[] = {
        {"X", input->X, n, resolved->d},
        {"weights", input->weights, n, 0},
        {"times", input->times, n, 0},
        {"positions", resolved->rotary_dim ? input->positions : NULL, n, 0},
    };
    for (size_t a = 0; !status && a < sizeof arrays / sizeof arrays[0]; a++)
        status = check_finite(&arrays[a], err);
    if (!status && input->weights) status = check_weights(n, input->weights, err);
    return status;
}
