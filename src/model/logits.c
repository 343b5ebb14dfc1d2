/* logits.c - what a decoder says of the next token: its last hidden states against the
 * table of its output, which is stored or that of the embeddings, some rows at a time.
 *
 * Constant factors of all logits (cohere, granite) are left out. */
#include "lipscope/perturb.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "linalg/dense.h"
#include "model/state.h"

typedef struct {
    lipsc_tensor weight; /* (vocab, d) */
    lipsc_tensor bias;   /* (vocab)    */
    int has_bias;
} head;

static lipsc_tensor vocabulary(const lipsc_model *m, const char *name, size_t ndim) {
    lipsc_tensor t = {.ndim = ndim,
                      .shape = {m->config.vocab, m->config.d},
                      .count = m->config.vocab * (ndim == 2 ? m->config.d : 1),
                      .zero_row = LIPSC_NO_TOKEN};
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

/* 1: a table of its own is stored, as transformers and GGUF name them. */
static int stored_head(const lipsc_model *m, head *h) {
    static const char *const names[][2] = {{"lm_head.weight", "lm_head.bias"},
                                           {"embed_out.weight", "embed_out.bias"},
                                           {"output.weight", "output.bias"}};
    if (!m->tensors.files) return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        h->weight = vocabulary(m, names[i][0], 2);
        h->bias = vocabulary(m, names[i][1], 1);
        h->has_bias = lipsc_tensors_has(&m->tensors, &h->bias);
        if (lipsc_tensors_has(&m->tensors, &h->weight)) return 1;
    }
    h->has_bias = 0;
    return 0;
}

static lipsc_status find_head(const lipsc_model *m, head *h, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    if (!c->causal || c->family->no_logits || !m->info.has_embeddings || m->info.has_pixels)
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: predicts no next token", m->shown);
    if (c->embed_width != c->d || c->embed_projected)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "%s: projects its last hidden states, which is not supported",
                          m->shown);
    if (c->logit_cap < 0)
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: final_logit_softcapping is no number",
                          m->shown);
    if (stored_head(m, h)) {
        const lipsc_status status = lipsc_tensors_check(&m->tensors, &h->weight, err);
        return status || !h->has_bias ? status
                                      : lipsc_tensors_check(&m->tensors, &h->bias, err);
    }
    if (!c->tied || m->part != LIPSC_PART_WHOLE ||
        !lipsc_tensor_describe(c, LIPSC_TOKENS, 0, &h->weight))
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: stores no table of its output",
                          m->shown);
    return LIPSC_OK;
}

lipsc_status lipsc_model_logits(lipsc_model *model, size_t n, const double *hidden,
                                size_t first, size_t count, double *out, lipsc_error *err) {
    const size_t d = model->config.d;
    const double cap = model->config.logit_cap;
    head h;
    lipsc_status status = find_head(model, &h, err);
    if (status) return status;
    if (first > model->config.vocab || count > model->config.vocab - first)
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: logits %zu to %zu of %zu", model->shown,
                          first, first + count, model->config.vocab);
    if (!n || !count) return LIPSC_OK;
    double *rows = lipsc_alloc(count * (d + 1), sizeof *rows), *bias = NULL;
    if (!rows) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for logits");
    status =
        lipsc_tensors_read(&model->tensors, &h.weight, first * d, count * d, rows, err);
    if (!status && h.has_bias) {
        bias = rows + count * d;
        status = lipsc_tensors_read(&model->tensors, &h.bias, first, count, bias, err);
    }
    if (!status)
        lipsc_dense_gemm(1, 0, count, n, d, 1.0, rows, d, hidden, d, 0.0, out, count);
    for (size_t i = 0; !status && (bias || cap > 0) && i < n * count; i++) {
        if (bias) out[i] += bias[i % count];
        if (cap > 0) out[i] = cap * tanh(out[i] / cap);
    }
    lipsc_tensors_forget(&model->tensors, &h.weight);
    lipsc_release(rows);
    return status;
}
