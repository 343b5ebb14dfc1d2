/* experts_at.h - a mixture of experts at one input, as experts.c and router.c share it. */
#ifndef LIPSC_MODEL_EXPERTS_AT_H
#define LIPSC_MODEL_EXPERTS_AT_H

#include "model/experts.h"

/* Pair p is token[p] with its slot among that token's experts; pairs of expert e are
 * first[e] .. first[e+1]-1. */
struct lipsc_experts {
    lipsc_model *model;
    size_t layer, n, pairs;
    lipsc_dtype dtype;
    const lipsc_device *device;
    size_t *token, *slot;        /* (pairs)                                               */
    size_t *first;               /* (experts + 1)                                         */
    size_t *expert;              /* (n, used): which, by slot                             */
    double *weight;              /* (n, used)                                             */
    double *value;               /* (pairs, d): F                                         */
    lipsc_buffer scale;          /* (pairs) weights, device memory                        */
    lipsc_buffer by_gate, by_up; /* (pairs, ffn): a and b                                 */
    double gap;
    double kink; /* least distance of an argument from the clamps */
};

static inline const lipsc_space *lipsc_experts_space(const lipsc_experts *s) {
    return lipsc_device_space(s->device, s->dtype);
}

static inline const lipsc_rowwise *lipsc_experts_rows(const lipsc_experts *s) {
    return lipsc_device_table(s->device)->rowwise(s->dtype);
}

static inline double lipsc_experts_weight(const lipsc_experts *s, size_t p) {
    return s->weight[s->token[p] * s->model->config.experts_used + s->slot[p]];
}

/* ---- router.c ---------------------------------------------------------------------- */

/* logits (rows, experts) of x (rows, d); bias 0: of a direction. */
lipsc_status lipsc_router_logits(const lipsc_experts *s, size_t rows, lipsc_buffer x,
                                 int bias, double *logits);
/* Choices and weights of all tokens, and their order by experts. */
void lipsc_router_assign(lipsc_experts *s, const double *logits);
/* y += the part of the products that goes through the weights. */
lipsc_status lipsc_router_apply(const lipsc_experts *s, int trans, size_t k, lipsc_buffer x,
                                lipsc_buffer y);

#endif
