/* about.c - what a model is, and what a study of it needs, as a record. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "lipscope/study.h"

typedef lipsc_about record;
static const lipsc_field fields[] = {LIPSC_ABOUT_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_about_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

/* By default, at windows of 512 tokens or of as many as the model has positions for. */
static double sweep_memory(const lipsc_model *model, const lipsc_model_info *info) {
    enum { TOKENS = 512, WINDOWS = 10 };
    const size_t n = info->positions && info->positions < TOKENS ? info->positions : TOKENS;
    return lipsc_study_bytes(model, LIPSC_MAP_ATTENTION, LIPSC_F32, NULL, n, 2.0 * WINDOWS);
}

/* "0:5", or "0,6" where some are missing, "none"; NULL when memory is short. */
static char *stored_layers(const lipsc_model *model, size_t layers) {
    const size_t room = 48 * (layers + 1); /* two numbers for each are less */
    char *text = lipsc_alloc(room, 1);
    size_t used = 0;
    if (!text) return NULL;
    snprintf(text, room, "none");
    for (size_t first = 0, next; first < layers; first = next) {
        next = first + 1;
        if (!lipsc_model_has_layer(model, first)) continue;
        while (next < layers && lipsc_model_has_layer(model, next)) next++;
        used += (size_t)snprintf(text + used, room - used, "%s%zu", used ? "," : "", first);
        if (next - first > 1)
            used += (size_t)snprintf(text + used, room - used, ":%zu", next - 1);
    }
    return text;
}

lipsc_status lipsc_model_about(const lipsc_model *model, const char *name, lipsc_about *out,
                               lipsc_error *err) {
    const lipsc_model_info *info = lipsc_model_describe(model);
    const int windows = info->mask == LIPSC_MASK_SLIDING || info->mask == LIPSC_MASK_LOCAL;
    char *stored = stored_layers(model, info->layers);
    memset(out, 0, sizeof *out);
    if (!stored)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a list of layers");
    *out = (lipsc_about){
        .model = name,
        .architecture = info->architecture,
        .layers = info->layers,
        .layers_stored = stored,
        .d = info->d,
        .heads = info->heads,
        .kv_heads = info->kv_heads,
        .head_dim = info->head_dim,
        .ffn = info->ffn,
        .vocab = info->has_pixels ? LIPSC_NONE : info->vocab,
        .positions = info->positions ? info->positions : LIPSC_NONE,
        .norm = info->pre_norm ? "pre" : "post",
        .mask = lipsc_mask_name(info->mask),
        .sliding = windows ? info->window : LIPSC_NONE,
        .input = !info->has_embeddings ? "none" : (info->has_pixels ? "pixels" : "text"),
        .parameters = (long long)info->parameters,
        .stored = info->stored,
        .memory = (long long)sweep_memory(model, info),
        .model_hash = info->hash};
    return LIPSC_OK;
}

void lipsc_about_free(lipsc_about *about) {
    lipsc_release((void *)(uintptr_t)about->layers_stored);
    about->layers_stored = NULL;
}
