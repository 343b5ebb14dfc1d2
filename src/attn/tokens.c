/* tokens.c - the tokens of a handle: doubles of the host when somebody asks for them; where
 * ranks share their rows each has its own, and all only as long as somebody needs them. */
#include "attn/attn.h"
#include "attn/norms.h"
#include "core/mem.h"

#include <string.h>

int lipsc_device_takes_tokens(const lipsc_device *device, lipsc_buffer X) {
    if (!X.home && X.type == LIPSC_F64) return 1;
    return lipsc_device_table(device)->tokens_there && X.home == lipsc_device_home(device);
}

double *lipsc_buffer_fetch(lipsc_buffer b, size_t count) {
    double *host = lipsc_alloc(count, sizeof *host);
    if (host && !lipsc_space_download(lipsc_device_space(b.home, b.type), count, b, host))
        return host;
    lipsc_release(host);
    return NULL;
}

lipsc_status lipsc_attn_tokens(lipsc_attn *attn) {
    if (attn->input.X) return LIPSC_OK;
    if (!attn->rows.X.at) return LIPSC_E_ARG; /* forgotten */
    attn->tokens = lipsc_buffer_fetch(attn->rows.X, attn->input.n * attn->layer.d);
    attn->input.X = attn->X = attn->tokens; /* no order moves what a device was given */
    return attn->tokens ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* ---- Rows that ranks share ----------------------------------------------------------- */

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
    attn->input.X = attn->X = NULL;
    attn->rows.X = LIPSC_NOWHERE;
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
    double *all;
    const lipsc_status status = lipsc_attn_whole_tokens(attn, &all);
    const double *X = all ? all : attn->X;
    for (size_t i = 0; i < attn->rows.n && !status; i++)
        lengths[i] = lipsc_safe_length(d, X + i * d);
    lipsc_release(all);
    return status;
}

lipsc_status lipsc_attn_whole_tokens(const lipsc_attn *attn, double **out) {
    const size_t n = attn->rows.n, d = attn->layer.d;
    const lipsc_space *space = shared_space(attn);
    *out = NULL;
    if (!space && attn->X) return LIPSC_OK;
    if (!space) {
        *out = lipsc_buffer_fetch(attn->rows.X, n * d);
        return *out ? LIPSC_OK : LIPSC_E_NOMEM;
    }
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
