/* text.c - docs/maths.md 2 and 3.11 at a window of text: what LayerNorm changes,
 * and what writing every token twice does. */
#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "claims/claims.h"

/* sigma of a layer at tokens X (n, d); NaN where something fails or does not converge. */
static double sigma_at(const lipsc_layer *layer, size_t n, const double *X) {
    const lipsc_input input = {.n = n, .X = X};
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_attn *attn = NULL;
    double sigma = NAN;
    lipsc_svd_defaults(&set);
    if (!X || lipsc_attn_new(layer, &input, LIPSC_F64, NULL, &attn, NULL) ||
        lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info))
        sigma = NAN;
    lipsc_attn_free(attn);
    return sigma;
}

/* ---- LayerNorm ----------------------------------------------------------------------- */

void claims_layernorm(claims_work *r) {
    claims_window window;
    size_t layer = 0;
    if (claims_window_open(r, r->decoder, NULL, r->set->quick ? 16 : 64, &layer, &window)) {
        if (!window.point.has_norm) {
            claims_pass(r, "layernorm", "the decoder has no norm in front of attention");
            claims_pass(r, "layernorm-ball",
                        "the decoder has no norm in front of attention");
        } else {
            const lipsc_layer *f = &window.point.attn->layer;
            const lipsc_input *in = &window.point.attn->input;
            const double *raw = lipsc_acts_block_input(window.place->acts, layer);
            const double at_norm = sigma_at(f, in->n, in->X);
            const double without = sigma_at(f, in->n, raw);
            const double image = lipsc_longest_token(in->n, f->d, in->X);
            claims_say(
                r, "layernorm",
                window.point.norm.sigma / (at_norm * window.point.norm.here),
                "decoder, layer %zu, n = %zu: %.4g with its norm, %.4g behind it, %.4g "
                "on the same tokens without one",
                layer, in->n, window.point.norm.sigma, at_norm, without);
            claims_say(r, "layernorm-ball", image / window.point.norm.radius,
                       "longest token %.4g, R_LN = %.4g; without the norm %.4g", image,
                       window.point.norm.radius, lipsc_longest_token(in->n, f->d, raw));
        }
    }
    claims_window_close(r, &window);
}

/* ---- Every token twice --------------------------------------------------------------- */

/* Twice (2n, d), to be released. */
static double *write_twice(size_t n, size_t d, const double *X) {
    double *twice = lipsc_alloc(n, 2 * d * sizeof *twice);
    for (size_t i = 0; twice && i < 2 * n; i++)
        memcpy(twice + i * d, X + i / 2 * d, d * sizeof *twice);
    return twice;
}

/* Moving, duplicated, and what the theorem says of the latter. */
typedef struct {
    double move, twice, theorem;
} doubled;

static doubled duplicate(const lipsc_layer *f, const lipsc_input *in, int causal) {
    const lipsc_measure mu = {.n = in->n, .d = f->d, .points = in->X};
    doubled out = {NAN, NAN, NAN};
    lipsc_slope_settings set;
    lipsc_slopes slopes;
    lipsc_layer layer = *f;
    layer.mask = causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
    double *X = write_twice(in->n, f->d, in->X);
    lipsc_slope_defaults(&set);
    set.restarts = 0; /* teleporting is not asked for */
    set.step = 0.0;
    out.twice = sigma_at(&layer, 2 * in->n, X);
    if (!lipsc_slopes_find(&layer, &mu, &set, &slopes, NULL)) {
        out.move = slopes.move;
        out.theorem = slopes.split;
        lipsc_slopes_free(&slopes);
    }
    lipsc_release(X);
    return out;
}

void claims_duplication(claims_work *r) {
    static const lipsc_mask none = LIPSC_MASK_NONE;
    claims_window window;
    size_t layer = 0;
    if (claims_window_open(r, r->decoder, &none, r->set->quick ? 12 : 48, &layer,
                           &window)) {
        const lipsc_layer *f = &window.point.attn->layer;
        const doubled free_of_mask = duplicate(f, &window.point.attn->input, 0);
        const doubled masked = duplicate(f, &window.point.attn->input, 1);
        claims_say(r, "duplicated-text",
                   fabs(free_of_mask.twice / free_of_mask.theorem - 1.0),
                   "decoder, layer %zu, n = %zu: %.4g moved, %.4g written twice and moved; "
                   "with a causal mask, another system, %.4g and %.4g",
                   layer, window.point.attn->input.n, free_of_mask.move, free_of_mask.twice,
                   masked.move, masked.twice);
    }
    claims_window_close(r, &window);
}
