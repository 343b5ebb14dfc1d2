/* plan.c - what the computations that are not in the run file will take, roughly. */
#include "claims/claims.h"
#include "core/extreme.h"
#include "study/needs.h"

/* Of each part, in 1e9 operations in double: what was timed with what is built in, the
 * quick form and the whole.  Of text and adversarial inputs for a model of the size of
 * that. */
static const double timed[LIPSC_CLAIM_PARTS][2] = {
    [LIPSC_CLAIM_SPLIT] = {2, 17},        [LIPSC_CLAIM_BASICS] = {1, 2},
    [LIPSC_CLAIM_BOUNDS] = {20, 100},     [LIPSC_CLAIM_LEMMAS] = {2, 6},
    [LIPSC_CLAIM_WORST] = {3, 7},         [LIPSC_CLAIM_MEAN_FIELD] = {30, 34},
    [LIPSC_CLAIM_REGIMES] = {1, 3},       [LIPSC_CLAIM_LAYERS] = {40, 51},
    [LIPSC_CLAIM_RELEASED] = {2, 2},      [LIPSC_CLAIM_TEXT] = {60, 1e4},
    [LIPSC_CLAIM_ADVERSARIAL] = {30, 435}};

/* d^2, of all layers or of one; 0: it cannot be opened, which its computation will say. */
static double size_of(claims_work *r, const char *spec, int all_layers) {
    lipsc_model *model = NULL;
    if (claims_model_open(r, spec, &model, NULL)) return 0.0;
    const lipsc_model_info *info = lipsc_model_describe(model);
    const double size =
        (double)info->d * (double)info->d * (all_layers ? (double)info->layers : 1.0);
    claims_model_close(r, model);
    return size;
}

/* How much larger a part is than the one that was timed. */
static double times_larger(claims_work *r, lipsc_claim_part part) {
    const double nano = 192.0 * 192.0, gpt2 = r->set->quick ? 0.0 : 768.0 * 768.0;
    const char *decoder = r->set->gpt2 ? r->set->gpt2 : r->decoder;
    if (part == LIPSC_CLAIM_TEXT)
        return (double)r->texts.count * size_of(r, r->decoder, 1) / (6.0 * nano);
    if (part == LIPSC_CLAIM_ADVERSARIAL)
        return (2.0 * size_of(r, decoder, 0) + gpt2 +
                2.0 * size_of(r, claims_encoder(r), 0)) /
               (2.0 * nano + gpt2);
    return 1.0;
}

/* Only these share their work among threads. */
static double threads_of(const claims_work *r, lipsc_claim_part part) {
    const double most = 8.0;
    return part == LIPSC_CLAIM_TEXT || part == LIPSC_CLAIM_ADVERSARIAL
               ? lipsc_min(r->threads, most)
               : 1.0;
}

double claims_seconds(claims_work *r, const char open[LIPSC_CLAIM_PARTS]) {
    const double speed = lipsc_study_speed(LIPSC_F64);
    double seconds = 0.0;
    for (lipsc_claim_part part = 0; part < LIPSC_CLAIM_PARTS; part++)
        if (open[part])
            seconds += timed[part][!r->set->quick] * 1e9 * times_larger(r, part) /
                       (speed * threads_of(r, part));
    return seconds / (double)lipsc_ranks_count(r->set->ranks);
}
