/* fuzz_config.c - any bytes as a config.json, or as a GGUF file whose notes are one: what
 * is accepted must describe every tensor with an exact size, and what is refused has a
 * sentence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf_config.h"
#include "model/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensors(const lipsc_config *c) {
    for (int role = 0; role < LIPSC_ROLES; role++) {
        lipsc_tensor t;
        if (!lipsc_tensor_describe(c, (lipsc_role)role, c->layers - 1, &t)) continue;
        size_t left = t.count;
        for (size_t i = 0; i < t.ndim; i++) {
            if (!t.shape[i] || left % t.shape[i]) abort();
            left /= t.shape[i];
        }
        if (left != 1 || !t.name[0] || strchr(t.name, '#')) abort();
    }
}

static void check_refusal(const lipsc_error *err) {
    if (!err->code || strncmp(err->text, "fuzz: ", 6) != 0) abort();
}

static void check_part(const char *text, size_t size, lipsc_part part) {
    lipsc_config c;
    lipsc_error err;
    memset(&err, 0, sizeof err);
    if (lipsc_config_parse(text, size, "fuzz", part, &c, &err)) {
        check_refusal(&err);
        return;
    }
    if (!c.family || !c.layers || !c.d || !c.heads || !c.kv_heads || !c.head_dim ||
        !c.ffn || c.heads % c.kv_heads || !(c.norm_eps >= 0) || !isfinite(c.norm_eps) ||
        !c.sliding)
        abort();
    for (size_t l = 0; l < c.layers; l++)
        if (c.sliding[l] && !c.window) abort();
    check_tensors(&c);
    lipsc_config_free(&c);
}

static void check_gguf(const uint8_t *data, size_t size) {
    lipsc_gguf *gguf = NULL;
    lipsc_error err;
    char *json = NULL;
    memset(&err, 0, sizeof err);
    if (lipsc_gguf_parse(data, size, "fuzz", &gguf, &err) ||
        lipsc_gguf_config(gguf, &json, &err))
        check_refusal(&err);
    else
        check_part(json, strlen(json), LIPSC_PART_WHOLE);
    free(json);
    lipsc_gguf_free(gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size >= 4 && !memcmp(data, "GGUF", 4)) {
        check_gguf(data, size);
        return 0;
    }
    for (int part = 0; part < LIPSC_PARTS; part++)
        check_part((const char *)data, size, (lipsc_part)part);
    return 0;
}
