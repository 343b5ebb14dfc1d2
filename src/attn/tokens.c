/* tokens.c - the tokens of a handle whose rows several ranks share: each has its own, and
 * the whole input only as long as somebody needs it. */
#include "attn/attn.h"
#include "attn/norms.h"
#include "core/mem.h"

#include <string.h>

static const lipsc_space *shared_space(const lipsc_attn *attn) {
    const lipsc_space *space =
        lipsc_space_kept(lipsc_device_space(attn->device, LIPSC_F64));
    return space->split && attn->rows.own_X ? space : NULL;
}

lipsc_status lipsc_attn_share_tokens(lipsc_attn *attn) {
    const lipsc_space *space =
        lipsc_space_kept(lipsc_device_space(attn->device, LIPSC_F64));
    const size_t count = attn->input.n * attn->layer.d;
    if (!space->split || attn->rows.own_X) return LIPSC_OK;
    attn->own_tokens = lipsc_alloc(lipsc_space_here(space, count), sizeof(double));
    if (!attn->own_tokens) return LIPSC_E_NOMEM;
    attn->rows.own_X = attn->own_tokens;
    return lipsc_space_upload(space, count, attn->input.X,
                              lipsc_space_view(space, count, attn->own_tokens));
}

void lipsc_attn_forget_tokens(lipsc_attn *attn) {
    if (!shared_space(attn)) return;
    lipsc_release(attn->tokens);
    attn->tokens = NULL;
    attn->input.X = attn->rows.X = NULL;
}

/* From the caller's order, which vectors have, to the device's. */
static size_t token_at(const lipsc_attn *attn, size_t i) {
    return attn->rows.order ? attn->rows.order[i] : i;
}

static lipsc_status shared_lengths(const lipsc_attn *attn, const lipsc_space *space,
                                   double *lengths) {
    const size_t n = attn->rows.n, d = attn->layer.d, own = space->split->own;
    double *here = lipsc_alloc(own + n, sizeof *here), *all = here + own;
    if (!here) return LIPSC_E_NOMEM;
    for (size_t r = 0; r < own; r++)
        here[r] = lipsc_safe_length(d, attn->rows.own_X + r * d);
    const lipsc_status status =
        lipsc_space_download(space, n, lipsc_space_view(space, n, here), all);
    for (size_t i = 0; i < n && !status; i++) lengths[i] = all[token_at(attn, i)];
    lipsc_release(here);
    return status;
}

lipsc_status lipsc_attn_token_lengths(const lipsc_attn *attn, double *lengths) {
    const size_t d = attn->layer.d;
    const lipsc_space *space = shared_space(attn);
    if (space) return shared_lengths(attn, space, lengths);
    for (size_t i = 0; i < attn->rows.n; i++)
        lengths[i] = lipsc_safe_length(d, attn->rows.X + i * d);
    return LIPSC_OK;
}

lipsc_status lipsc_attn_whole_tokens(const lipsc_attn *attn, double **out) {
    const size_t n = attn->rows.n, d = attn->layer.d;
    const lipsc_space *space = shared_space(attn);
    *out = NULL;
    if (!space) return LIPSC_OK;
    double *all = lipsc_alloc(n * d, sizeof *all), *X = all;
    if (attn->rows.order) X = lipsc_alloc(n * d, sizeof *X);
    lipsc_status status = all && X ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status)
        status = lipsc_space_download(
            space, n * d, lipsc_space_view(space, n * d, attn->rows.own_X), all);
    for (size_t i = 0; i < n && X != all && !status; i++)
        memcpy(X + i * d, all + attn->rows.order[i] * d, d * sizeof *X);
    if (X != all) lipsc_release(all);
    if (status)
        lipsc_release(X);
    else
        *out = X;
    return status;
}
