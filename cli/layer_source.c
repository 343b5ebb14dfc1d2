/* layer_source.c - the layer that acts on a measure, and the measure. */
#include "layer_source.h"

#include <string.h>

#include "place.h"

static int open_file(const cli_command *self, const layer_settings *s, int timed,
                     layer_source *out) {
    const lipsc_layer_options how = cli_layer_file_how(&s->file, 0);
    lipsc_error err;
    if (lipsc_layer_file_read(s->path, &how, &out->file, &err))
        return cli_failure(self, "%s", err.text);
    out->layer = out->file.layer;
    /* times of the file are those of its own tokens; those of the measure say who sees whom
     * in place of the file's causal mask */
    const lipsc_mask mask = out->layer.mask;
    if (mask == LIPSC_MASK_TIMES || (timed && mask == LIPSC_MASK_CAUSAL && !s->file.causal))
        out->layer.mask = LIPSC_MASK_NONE;
    out->name = s->path;
    return CLI_RUN;
}

static int open_model(const cli_command *self, const layer_settings *s, int timed,
                      layer_source *out) {
    lipsc_error err;
    size_t place = 0;
    if (lipsc_model_open_part(s->model, (lipsc_part)s->part, s->seed, &out->model, &err))
        return cli_failure(self, "%s", err.text);
    const lipsc_model_info *info = lipsc_model_describe(out->model);
    const int one = s->head && strcmp(s->head, "all");
    if (s->layer >= info->layers)
        return cli_failure(self, "%s: --layers %zu: the model has layers 0 to %zu",
                           s->model, s->layer, info->layers - 1);
    if (one && cli_number_size(s->head, 0, info->heads - 1, &place))
        return cli_wrong_use(self, "--heads %s: expected all, or one head from 0 to %zu",
                             s->head, info->heads - 1);
    const lipsc_mask none = LIPSC_MASK_NONE, causal = LIPSC_MASK_CAUSAL;
    const lipsc_mask *mask = s->mask == LAYER_MASK_NONE     ? &none
                             : s->mask == LAYER_MASK_CAUSAL ? &causal
                                                            : NULL;
    if (lipsc_model_layer(out->model, s->layer, one ? (long)place : -1,
                          s->map ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS, mask, &out->layer,
                          &err))
        return cli_failure(self, "%s", err.text);
    if (timed && out->layer.mask == LIPSC_MASK_CAUSAL) out->layer.mask = LIPSC_MASK_NONE;
    out->name = s->model;
    return CLI_RUN;
}

int layer_source_open(const cli_command *self, const layer_settings *s, int timed,
                      layer_source *out) {
    memset(out, 0, sizeof *out);
    if (!s->path == !s->model)
        return cli_wrong_use(self, "give the layer with --layer LAYERFILE, or with --model "
                                   "MODEL --layers L");
    return s->path ? open_file(self, s, timed, out) : open_model(self, s, timed, out);
}

int layer_source_open_measure(const cli_command *self, const layer_settings *s,
                              const char *path, layer_source *out) {
    lipsc_measure_file mu = {.storage = NULL};
    lipsc_error err;
    memset(out, 0, sizeof *out);
    if (s->samples ? lipsc_gauss_file_sample(path, s->samples, s->seed, &mu, &err)
                   : lipsc_measure_file_read(path, s->normalise, &mu, &err))
        return cli_failure(self, "%s", err.text);
    const int code = layer_source_open(self, s, mu.measure.times != NULL, out);
    out->mu = mu;
    return code;
}

const char *layer_source_map(const layer_source *source) {
    return source->layer.O ? "attention" : "heads";
}

const char *layer_source_mask(const layer_source *source) {
    return lipsc_mask_name(source->mu.measure.times ? LIPSC_MASK_TIMES
                                                    : source->layer.mask);
}

void layer_source_close(layer_source *source) {
    lipsc_measure_file_free(&source->mu);
    lipsc_layer_file_free(&source->file);
    lipsc_model_free(source->model);
}
