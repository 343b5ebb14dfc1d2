/* acts.c - what is kept of one window: memory of the device, doubles of the host for who
 * asks, and windows that take it over from others. */
#include "model/acts.h"

#include "core/error.h"
#include "core/mem.h"

/* ---- Life ---------------------------------------------------------------------------- */

/* Every place where numbers may be: inputs, attn_in, attn_out and the output, in a row. */
static size_t places(const lipsc_acts *a) { return 3 * a->blocks + 2; }

lipsc_acts *lipsc_acts_empty(const lipsc_model *m, lipsc_dtype dtype, size_t n) {
    lipsc_acts *a = lipsc_alloc_zero(1, sizeof *a);
    if (!a) return NULL;
    a->n = n;
    a->count = n * m->config.d;
    a->dtype = dtype;
    a->blocks = m->config.layers;
    a->space = lipsc_device_space(m->home, dtype);
    a->inputs = lipsc_alloc_zero(places(a), sizeof *a->inputs);
    if (!a->inputs) {
        lipsc_release(a);
        return NULL;
    }
    a->attn_in = a->inputs + a->blocks + 1;
    a->attn_out = a->attn_in + a->blocks;
    a->output = a->attn_out + a->blocks;
    pthread_mutex_init(&a->asked, NULL);
    return a;
}

void lipsc_acts_drop(const lipsc_acts *a, lipsc_kept *k) {
    lipsc_space_release(a->space, k->there);
    lipsc_release(k->host);
    *k = (lipsc_kept){.there = LIPSC_NOWHERE};
}

void lipsc_acts_free(lipsc_acts *a) {
    if (!a) return;
    for (size_t p = 0; p < places(a); p++) lipsc_acts_drop(a, &a->inputs[p]);
    pthread_mutex_destroy(&a->asked);
    lipsc_release(a->inputs);
    lipsc_release(a);
}

int lipsc_acts_room(const lipsc_acts *a, lipsc_kept *k) {
    k->there = lipsc_space_alloc(a->space, a->count);
    return k->there.at != NULL;
}

void lipsc_acts_forget(lipsc_acts *a) {
    for (size_t l = 0; l < a->passed; l++) {
        lipsc_acts_drop(a, &a->inputs[l]);
        lipsc_acts_drop(a, &a->attn_in[l]);
        lipsc_acts_drop(a, &a->attn_out[l]);
    }
}

lipsc_status lipsc_acts_settle(const lipsc_acts *a, const lipsc_kept *last) {
    double square; /* a sum waits for all that was queued before it */
    return lipsc_space_gram(a->space, 1, 1, last->there, 1, last->there, &square);
}

/* ---- Doubles of the host ------------------------------------------------------------- */

size_t lipsc_acts_length(const lipsc_acts *a) { return a->n; }

/* NULL: not known, or out of memory. */
static const double *asked(const lipsc_acts *a, lipsc_kept *k) {
    const lipsc_space *host = lipsc_space_host(LIPSC_F64);
    if (!k->there.at) return NULL;
    if (lipsc_space_fits(host, k->there, 1, a->count)) return k->there.at;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&a->asked;
    pthread_mutex_lock(lock);
    if (!k->host) {
        double *made = lipsc_alloc(a->count, sizeof *made);
        if (made && !lipsc_space_download(a->space, a->count, k->there, made))
            k->host = made;
        else
            lipsc_release(made);
    }
    pthread_mutex_unlock(lock);
    return k->host;
}

const double *lipsc_acts_block_input(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? asked(a, &a->inputs[layer]) : NULL;
}
const double *lipsc_acts_block_output(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? asked(a, &a->inputs[layer + 1]) : NULL;
}
static lipsc_kept *attention_input(const lipsc_acts *a, size_t layer) {
    if (layer >= a->attended) return NULL;
    return a->attn_in[layer].there.at ? &a->attn_in[layer] : &a->inputs[layer];
}
const double *lipsc_acts_attention_input(const lipsc_acts *a, size_t layer) {
    lipsc_kept *k = attention_input(a, layer);
    return k ? asked(a, k) : NULL;
}
lipsc_buffer lipsc_acts_attention_there(const lipsc_acts *a, size_t layer) {
    const lipsc_kept *k = attention_input(a, layer);
    return k ? k->there : LIPSC_NOWHERE;
}
const double *lipsc_acts_attention_output(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? asked(a, &a->attn_out[layer]) : NULL;
}
const double *lipsc_acts_output(const lipsc_acts *a) { return asked(a, a->output); }

lipsc_status lipsc_acts_ask(const lipsc_acts *a, size_t layer, lipsc_error *err) {
    if (layer >= a->blocks) return LIPSC_OK;
    lipsc_kept *const all[] = {&a->inputs[layer], &a->inputs[layer + 1], &a->attn_in[layer],
                               &a->attn_out[layer], a->output};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->there.at && !asked(a, all[i]))
            return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", a->n);
    return LIPSC_OK;
}

/* ---- From one to another ------------------------------------------------------------- */

lipsc_status lipsc_acts_follow(const lipsc_model *m, lipsc_acts *a) {
    const lipsc_space *to = lipsc_device_space(m->home, a->dtype), *from = a->space;
    if (to->home == from->home) return LIPSC_OK;
    lipsc_status status = LIPSC_OK;
    for (size_t p = 0; p < places(a); p++) {
        lipsc_kept *k = &a->inputs[p];
        const lipsc_buffer before = k->there;
        const double *host = asked(a, k);
        if (!before.at) continue;
        k->there = lipsc_space_alloc(to, a->count);
        if (!host || !k->there.at) status = LIPSC_E_NOMEM;
        if (!status) status = lipsc_space_upload(to, a->count, host, k->there);
        lipsc_space_release(from, before);
    }
    a->space = to;
    return status;
}

/* The first of the numbers, where there are any. */
static lipsc_status copy_first(const lipsc_acts *from, const lipsc_kept *k, lipsc_acts *to,
                               lipsc_kept *first) {
    if (!k->there.at) return LIPSC_OK;
    if (!lipsc_acts_room(to, first)) return LIPSC_E_NOMEM;
    return lipsc_space_copy(from->space, to->count, k->there, first->there);
}

lipsc_status lipsc_acts_first(const lipsc_model *m, const lipsc_acts *whole, size_t n,
                              lipsc_acts **first, lipsc_error *err) {
    lipsc_acts *a = lipsc_acts_empty(m, whole->dtype, n);
    const lipsc_kept *last = NULL;
    lipsc_status status = a ? LIPSC_OK : LIPSC_E_NOMEM;
    if (a) a->space = whole->space;
    for (size_t p = 0; !status && p < places(a); p++) {
        status = copy_first(whole, &whole->inputs[p], a, &a->inputs[p]);
        if (a->inputs[p].there.at) last = &a->inputs[p];
    }
    if (!status && last) status = lipsc_acts_settle(a, last);
    if (status) {
        lipsc_acts_free(a);
        return lipsc_fail(err, status, "%s: out of memory for %zu tokens", m->shown, n);
    }
    a->passed = whole->passed;
    a->attended = whole->attended;
    *first = a;
    return LIPSC_OK;
}

lipsc_status lipsc_acts_part(const lipsc_model *m, lipsc_acts *a, lipsc_acts **behind,
                             lipsc_error *err) {
    lipsc_acts *b = lipsc_acts_empty(m, a->dtype, a->n);
    if (!b)
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for %zu tokens", m->shown,
                          a->n);
    b->space = a->space;
    for (size_t l = 0; l < a->passed; l++) {
        lipsc_kept *from[] = {&a->inputs[l], &a->attn_in[l], &a->attn_out[l]};
        lipsc_kept *to[] = {&b->inputs[l], &b->attn_in[l], &b->attn_out[l]};
        for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
            *to[i] = *from[i];
            *from[i] = (lipsc_kept){.there = LIPSC_NOWHERE};
        }
    }
    b->passed = b->attended = a->passed;
    *behind = b;
    return LIPSC_OK;
}
