/* test_norm_move.c - query and key norms over a neighbourhood: what the bounds say of their
 * derivatives against the derivatives at inputs inside, by their definition in plain loops,
 * and layers whose queries come close to zero against LAPACK's norm of the Jacobian. */
#include "bound/around.h"
#include "core/extreme.h"
#include "layers.h"
#include "linalg/dense.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "exact_norm.h"
#include "test_device.h"

/* Where the norm is hard: a query far from zero, near it by r |Q|, or nearer. */
static const double nearness[] = {1.0, 1e-1, 1e-2, 1e-4};
static const double sizes_of_eps[] = {1e-3, 1e-6, 1e-12};

/* One large gain, token 0 with a query and a key of that part of their usual length. */
static test_layer hard_layer(uint64_t seed, unsigned features, double near, double eps) {
    test_layer t = random_layer(seed, features | FEATURE_QK_NORM | FEATURE_BIASES);
    lipsc_layer *l = &t.layer;
    const size_t d = l->d, k = l->key_dim;
    ((double *)l->q_gain)[seed % k] *= 10.0;
    ((double *)l->k_gain)[(seed + 1) % k] *= 10.0;
    l->scale = 0.05;
    l->norm_eps = eps;
    double *const biases[] = {(double *)l->bq, (double *)l->bk};
    const double *const weights[] = {l->Q, l->K};
    const size_t heads[] = {l->heads, l->kv_heads};
    for (int side = 0; side < 2 && near < 1.0; side++)
        for (size_t r = 0; r < heads[side] * k; r++) {
            double y = 0.0;
            for (size_t c = 0; c < d; c++)
                y += (weights[side] ? weights[side][r * d + c] : (r == c)) * t.input.X[c];
            biases[side][r] = near * biases[side][r] - y;
        }
    return t;
}

/* ---- Derivatives -------------------------------------------------------------------- */

/* One of queries and keys of a head, as the layer has it. */
typedef struct {
    const double *W, *bias, *gain; /* W NULL: the identity */
    double scale, eps;
    size_t k, d;
} side;

/* D (k, d; row-major) = scale diag(gain) Norm'(W x + b) W */
static void derivative(const side *s, const double *x, double *D) {
    const size_t k = s->k, d = s->d;
    double y[32], square = 0.0;
    for (size_t l = 0; l < k; l++) {
        y[l] = s->bias ? s->bias[l] : 0.0;
        for (size_t c = 0; c < d; c++) y[l] += (s->W ? s->W[l * d + c] : (l == c)) * x[c];
        square += y[l] * y[l];
    }
    const double rho = sqrt(square / (double)k + s->eps);
    for (size_t c = 0; c < d; c++) {
        double along = 0.0;
        for (size_t l = 0; l < k; l++)
            along += y[l] * (s->W ? s->W[l * d + c] : (l == c)) / ((double)k * rho * rho);
        for (size_t l = 0; l < k; l++)
            D[l * d + c] = s->scale * s->gain[l] *
                           ((s->W ? s->W[l * d + c] : (l == c)) - y[l] * along) / rho;
    }
}

/* |D^T v| */
static double pulled_back(const side *s, const double *D, const double *v) {
    double square = 0.0;
    for (size_t c = 0; c < s->d; c++) {
        double sum = 0.0;
        for (size_t l = 0; l < s->k; l++) sum += D[l * s->d + c] * v[l];
        square += sum * sum;
    }
    return sqrt(square);
}

static double norm_of(const side *s, const double *D) {
    double copy[32 * 32], value = 0.0;
    memcpy(copy, D, s->k * s->d * sizeof *copy);
    assert_int_equal(lipsc_dense_norm(s->d, s->k, copy, &value), LIPSC_OK);
    return value;
}

/* Along a row of Q, against the query itself, or anywhere, on the wall or inside. */
static void move_token(const side *s, const double *x, double r, uint64_t seed,
                       double *to) {
    double *way = random_vectors(seed, s->d);
    if (seed % 3 == 1)
        for (size_t c = 0; c < s->d; c++)
            way[c] = s->W ? s->W[(seed / 3 % s->k) * s->d + c] : (c == seed / 3 % s->k);
    if (seed % 3 == 2) { /* towards a query of zero */
        double y[32];
        for (size_t l = 0; l < s->k; l++) {
            y[l] = s->bias ? s->bias[l] : 0.0;
            for (size_t c = 0; c < s->d; c++)
                y[l] += (s->W ? s->W[l * s->d + c] : (l == c)) * x[c];
        }
        for (size_t c = 0; c < s->d; c++) {
            way[c] *= 0.1;
            for (size_t l = 0; l < s->k; l++)
                way[c] -= (s->W ? s->W[l * s->d + c] : (l == c)) * y[l];
        }
    }
    const double length = vector_norm(s->d, way), part = seed % 2 ? 1.0 : 0.3;
    for (size_t c = 0; c < s->d; c++)
        to[c] = x[c] + (length > 0.0 ? part * r * way[c] / length : 0.0);
    free(way);
}

typedef struct {
    double bend, stretch; /* how much of them was reached */
} reached;

/* Everything about one side of one token. */
static void check_side(const side *s, const lipsc_head_at *head, const lipsc_reach *reach,
                       int of_keys, size_t i, uint64_t seed, const char *name,
                       reached *best) {
    const lipsc_side *own = of_keys ? &reach->key : &reach->query;
    const lipsc_factor *F = of_keys ? &head->Kt : &head->Qt;
    const double *x = head->X + i * s->d;
    double here[32 * 32], there[32 * 32], moved[32], balance[64], seen[32 * 32];
    double *v = random_vectors(seed, s->k);
    lipsc_balance(head, balance);
    derivative(s, x, here);
    /* c = gain o v, as the bound gets it */
    double c[32], along = 0.0, pull = 0.0;
    const lipsc_norm_move *norm = own->norm + i;
    const lipsc_turn *turn = of_keys ? &head->key_turn : &head->query_turn;
    for (size_t l = 0; l < s->k; l++) {
        c[l] = s->gain[l] * v[l];
        along += c[l] * turn->raw[i * s->k + l] * turn->inverse[i] / sqrt((double)s->k);
    }
    for (size_t a = 0; a < F->rank; a++) {
        double sum = 0.0;
        for (size_t l = 0; l < s->k; l++) sum += F->values[a + l * F->rank] * c[l];
        pull += sum * sum;
    }
    const double length = vector_norm(s->k, c);
    const double bend =
        reach->r * lipsc_norm_bend(norm, sqrt(pull) * (1.0 + 1e-12), along, length) +
        norm->blur * length;
    for (uint64_t try = 0; try < 12; try++) {
        move_token(s, x, reach->r, 31 * seed + try, moved);
        derivative(s, moved, there);
        for (size_t l = 0; l < s->k; l++)
            for (size_t e = 0; e < s->d; e++)
                seen[l * s->d + e] =
                    there[l * s->d + e] * (of_keys ? balance[l] : 1.0 / balance[l]);
        const double stretch = norm_of(s, seen);
        for (size_t e = 0; e < s->k * s->d; e++) seen[e] = there[e] - here[e];
        const double change = pulled_back(s, seen, v);
        if (!(stretch * (1.0 - 1e-9) <= own->balanced[i]))
            fail_msg("%s: a derivative of %.15g above %.15g", name, stretch,
                     own->balanced[i]);
        if (!(change * (1.0 - 1e-6) <= bend))
            fail_msg("%s: a derivative moves by %.15g, above %.15g", name, change, bend);
        best->bend = lipsc_max(best->bend, change / bend);
        best->stretch = lipsc_max(best->stretch, stretch / own->balanced[i]);
    }
    free(v);
}

static void check_derivatives(const test_layer *t, double r, uint64_t seed,
                              const char *name, reached *best) {
    const lipsc_layer *l = &t->layer;
    const size_t n = t->input.n, d = l->d, k = l->key_dim;
    lipsc_attn *attn = NULL;
    lipsc_head_at head;
    lipsc_reach reach;
    assert_true(k <= 32 && d <= 32);
    assert_int_equal(lipsc_attn_new(l, &t->input, LIPSC_F64, test_device(1), &attn, NULL),
                     LIPSC_OK);
    assert_int_equal(lipsc_head_new(attn, &head), LIPSC_OK);
    assert_int_equal(lipsc_reach_new(n, &reach), LIPSC_OK);
    for (size_t h = 0; h < l->heads; h++) {
        const size_t g = h * l->kv_heads / l->heads;
        const side query = {l->Q + h * k * d,
                            l->bq ? l->bq + h * k : NULL,
                            l->q_gain,
                            fabs(head.scale),
                            l->norm_eps,
                            k,
                            d};
        const side key = {l->K ? l->K + g * k * d : NULL,
                          l->bk ? l->bk + g * k : NULL,
                          l->k_gain,
                          1.0,
                          l->norm_eps,
                          k,
                          d};
        assert_int_equal(lipsc_head_enter(attn, h, &head), LIPSC_OK);
        assert_int_equal(lipsc_reach_make(attn, h, &head, r, &reach), LIPSC_OK);
        for (size_t i = 0; i < n; i++) {
            check_side(&query, &head, &reach, 0, i, 100 * seed + i, name, best);
            check_side(&key, &head, &reach, 1, i, 200 * seed + i, name, best);
        }
    }
    lipsc_reach_free(&reach);
    lipsc_head_free(&head);
    lipsc_attn_free(attn);
}

static double mean_length(const test_layer *t) {
    double sum = 0.0;
    for (size_t i = 0; i < t->input.n; i++)
        sum += vector_norm(t->layer.d, t->input.X + i * t->layer.d);
    return sum / (double)t->input.n;
}

static unsigned features_of(uint64_t seed) {
    const unsigned kinds[] = {0,
                              FEATURE_CAUSAL,
                              FEATURE_ROTARY,
                              FEATURE_GROUPED,
                              FEATURE_NO_OUTPUT | FEATURE_ROTARY,
                              FEATURE_A_FORM,
                              FEATURE_WEIGHTS,
                              FEATURE_SINKS | FEATURE_ROTARY};
    return kinds[seed % (sizeof kinds / sizeof *kinds)];
}

static void derivatives(void **state) {
    (void)state;
    reached best = {0};
    for (uint64_t seed = 1; seed <= 48; seed++)
        for (int e = 0; e < 3; e++) {
            const double near = nearness[seed % 4], eps = sizes_of_eps[e];
            test_layer t = hard_layer(seed, features_of(seed), near, eps);
            const double r = pow(10.0, -1.0 - (double)(seed % 5)) * mean_length(&t);
            char name[100];
            snprintf(name, sizeof name, "seed %d, near %g, eps %g, r %g", (int)seed, near,
                     eps, r);
            check_derivatives(&t, r, seed, name, &best);
            test_layer_free(&t);
        }
    print_message("of the bounds %.3f (bend), %.3f (stretch) is reached\n", best.bend,
                  best.stretch);
    assert_true(best.bend > 0.3 && best.stretch > 0.9);
}

/* ---- Layers -------------------------------------------------------------------------- */

/* Every token by `part` R, the first one so that its query shrinks. */
static double sigma_near(const test_layer *t, double R, uint64_t seed) {
    const size_t n = t->input.n, d = t->layer.d, k = t->layer.key_dim;
    double *X = doubles(n * d);
    const int of_keys = seed % 2;
    const side s = {of_keys ? t->layer.K : t->layer.Q,
                    of_keys ? t->layer.bk : t->layer.bq,
                    t->layer.q_gain,
                    1.0,
                    t->layer.norm_eps,
                    k,
                    d};
    for (size_t i = 0; i < n; i++)
        move_token(&s, t->input.X + i * d, R, 7 * seed + i, X + i * d);
    lipsc_input moved = t->input;
    moved.X = X;
    const double sigma = exact_norm(&t->layer, &moved);
    free(X);
    return sigma;
}

static void layers(void **state) {
    (void)state;
    double worst = 0.0;
    for (uint64_t seed = 1; seed <= 160; seed++) {
        const double near = nearness[seed % 4], eps = sizes_of_eps[seed / 4 % 3];
        test_layer t = hard_layer(seed, features_of(seed / 3), near, eps);
        for (int e = 2; e < 7; e++) {
            const double R = pow(10.0, -e) * mean_length(&t);
            lipsc_attn *attn = NULL;
            lipsc_around found;
            lipsc_error err = {.text = ""};
            assert_int_equal(
                lipsc_attn_new(&t.layer, &t.input, LIPSC_F64, test_device(1), &attn, &err),
                LIPSC_OK);
            const lipsc_status status = lipsc_attn_around(attn, R, &found, &err);
            lipsc_attn_free(attn);
            if (status == LIPSC_E_RANGE) continue; /* too close to zero */
            assert_int_equal(status, LIPSC_OK);
            for (uint64_t try = 0; try < 4; try++) {
                const double sigma = sigma_near(&t, R, 10 * seed + try) * (1.0 - 1e-9);
                /* each of the ways for itself, not only the smallest */
                if (!(sigma <= found.value) || found.ends < sigma ||
                    found.point + found.change < sigma)
                    fail_msg("seed %d, near %g, eps %g, R %g: sigma %.15g above %.15g "
                             "(%.15g, %.15g + %.15g)",
                             (int)seed, near, eps, R, sigma, found.value, found.ends,
                             found.point, found.change);
            }
            if (near == 1.0 && e == 3) worst = lipsc_max(worst, found.value / found.point);
        }
        test_layer_free(&t);
    }
    print_message("a large gain, R 0.001: at most %.4f times the bound at the point\n",
                  worst);
}

/* Queries and keys along which a gain is large, weights that have nothing there: |Q|
 * max|gain| says nothing.  1.2 at a thousandth, where the product of worst cases is far
 * above. */
static void useless_gain(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        const layer_sizes sizes = {.n = 12, .d = 8, .heads = 2, .key_dim = 6};
        test_layer t =
            random_layer_of(seed, FEATURE_QK_NORM | (seed % 2 ? FEATURE_ROTARY : 0), sizes);
        lipsc_layer *l = &t.layer;
        for (size_t c = 0; c < 6; c++) {
            ((double *)l->q_gain)[c] = c == 2 ? 60.0 : 1.0;
            ((double *)l->k_gain)[c] = c == 2 ? 60.0 : 1.0;
        }
        l->scale = 0.4;
        for (size_t h = 0; h < 2; h++)
            for (size_t e = 0; e < 8; e++) {
                ((double *)l->Q)[(h * 6 + 2) * 8 + e] *= 1e-3;
                ((double *)l->K)[(h * 6 + 2) * 8 + e] *= 1e-3;
            }
        lipsc_attn *attn = NULL;
        lipsc_around found;
        assert_int_equal(
            lipsc_attn_new(l, &t.input, LIPSC_F64, test_device(1), &attn, NULL), LIPSC_OK);
        assert_int_equal(lipsc_attn_around(attn, 1e-3 * mean_length(&t), &found, NULL),
                         LIPSC_OK);
        lipsc_attn_free(attn);
        if (!(found.value <= 1.2 * found.point))
            fail_msg("seed %d: %.4f times the bound at the point", (int)seed,
                     found.value / found.point);
        test_layer_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives),
        cmocka_unit_test(layers),
        cmocka_unit_test(useless_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
