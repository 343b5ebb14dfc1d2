/* known.c - small layers whose values are known to twelve digits.
 *
 * The values were found by dense SVD of Jacobians written out by hand, independently of
 * this program. */
#include "trial/known.h"

#include "lipscope/construct.h"

#include <math.h>
#include <string.h>

void lipsc_known_outlier(size_t n, double R, double *X, lipsc_layer *layer,
                         lipsc_input *input) {
    static const double minus_one = -1.0, one = 1.0;
    for (size_t i = 0; i < n; i++) X[i] = i ? R : -R;
    lipsc_layer_defaults(layer);
    layer->d = layer->key_dim = layer->value_dim = 1;
    layer->Q = &minus_one;
    layer->V = &one;
    *input = (lipsc_input){.n = n, .X = X};
}

/* Ten tokens: `outliers` of them given, the rest at `bulk`; scores a (x_i . x_j). */
static void make_outliers(lipsc_known *g, size_t d, size_t outliers, const double *first,
                          const double *bulk, double a) {
    g->input.n = 10;
    for (size_t i = 0; i < 10; i++)
        memcpy(g->X + i * d, i < outliers ? first + i * d : bulk, d * sizeof *g->X);
    for (size_t i = 0; i < d * d; i++) {
        g->V[i] = i % (d + 1) ? 0.0 : 1.0;
        g->A[i] = a * g->V[i];
    }
    g->layer.d = d;
}

static void make_waves(lipsc_known *g) {
    g->layer.d = 3;
    g->input.n = 6;
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 3; k++) g->X[3 * i + k] = sin(1.0 + 3 * i + k);
        g->weights[i] = (i + 1) / 21.0;
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            g->A[3 * i + k] = cos(2.0 * i + 5 * k);
            g->V[3 * i + k] = cos(1.0 + i - 2 * k);
        }
}

void lipsc_known_make(int which, lipsc_known *g) {
    static const struct {
        const char *name;
        double sigma;
        lipsc_mask mask;
        int weighted;
    } known[LIPSC_KNOWN_COUNT] = {
        {"G1", 2.993716248639, LIPSC_MASK_NONE, 0},
        {"G2", 3.441372507848, LIPSC_MASK_CAUSAL, 0},
        {"G3", 3.222109224297, LIPSC_MASK_NONE, 0},
        {"G4", 8.625871066143, LIPSC_MASK_NONE, 0},
        {"G5", 8.839040401892, LIPSC_MASK_CAUSAL, 0},
        {"G11", 1.747921853181, LIPSC_MASK_NONE, 0},
        {"G12", 2.314757266577, LIPSC_MASK_CAUSAL, 0},
        {"G13", 1.794099288290, LIPSC_MASK_NONE, 1},
    };
    static const double at_minus_one[] = {-1}, at_one[] = {1}, at_two[] = {2};
    static const double poles[] = {0, 2, 0, -2}, east[] = {2, 0};
    memset(g, 0, sizeof *g);
    lipsc_layer_defaults(&g->layer);
    g->name = known[which].name;
    g->sigma = known[which].sigma;
    if (which < 2)
        make_outliers(g, 1, 1, at_minus_one, at_one, -1.0);
    else if (which == 2)
        make_outliers(g, 1, 1, at_two, at_one, 8.0);
    else if (which < 5)
        make_outliers(g, 2, 2, poles, east, -1.0);
    else
        make_waves(g);
    g->layer.key_dim = g->layer.value_dim = g->layer.d;
    g->layer.Q = g->A;
    g->layer.V = g->V;
    g->layer.mask = known[which].mask;
    g->input.X = g->X;
    if (known[which].weighted) g->input.weights = g->weights;
}
