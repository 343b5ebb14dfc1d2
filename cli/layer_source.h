/* layer_source.h - the layer that acts on a measure, for split, push and distance: from a
 * layer file, whose input does not matter, or from a model; and the measure. */
#ifndef LIPSC_CLI_LAYER_SOURCE_H
#define LIPSC_CLI_LAYER_SOURCE_H

#include "args.h"

/* The first member of the settings of a command, so that offsets in it are offsets there.
 */
typedef struct {
    cli_common common;
    const char *path; /* --layer */
    cli_layer_file file;
    const char *model, *head;
    size_t layer;
    int map, mask, part;
    uint64_t seed;
    int normalise; /* of the measure */
    size_t samples;
} layer_settings;

enum { LAYER_MASK_MODEL, LAYER_MASK_NONE, LAYER_MASK_CAUSAL };

#define LAYER_SETTINGS_DEFAULT \
    { .map = 1, .seed = 1 }

#define LAYER_SOURCE_OPTIONS                                                         \
    {.kind = CLI_GROUP, .name = "The layer"},                                        \
        CLI_OPTION(layer_settings, TEXT, "layer", "LAYERFILE", path,                 \
                   .help = "a layer file; its X, weights and times are not used"),   \
        CLI_LAYER_OPTIONS(layer_settings),                                           \
        CLI_OPTION(layer_settings, TEXT, "model", "MODEL", model,                    \
                   .help = "a layer of a model instead"),                            \
        CLI_OPTION(layer_settings, SIZE, "layers", "L", layer, .min = 0, .max = 1e8, \
                   .help = "which one, from 0 (default 0)"),                         \
        CLI_ONE_HEAD_OPTION(layer_settings), CLI_MAP_OPTION(layer_settings),         \
        CLI_MASK_OPTION(layer_settings), CLI_PART_OPTION(layer_settings),            \
        CLI_THREADS_OPTION(layer_settings),                                          \
        CLI_OPTION(layer_settings, SEED, "seed", "N", seed,                          \
                   .help = "of random models, start vectors and searches (default 1)")

#define MEASURE_NORMALISE_OPTION                                   \
    CLI_OPTION(layer_settings, FLAG, "normalise", NULL, normalise, \
               .help = "divide the weights by their sum")
#define MEASURE_SAMPLES_OPTION                                                      \
    CLI_OPTION(layer_settings, SIZE, "samples", "N", samples, .min = 1, .max = 1e8, \
               .help = "of a Gaussian or a mixture: take N random tokens of it")

typedef struct {
    lipsc_layer layer;
    const char *name; /* --layer or --model as typed */
    lipsc_layer_file file;
    lipsc_model *model;
    lipsc_measure_file mu; /* empty where no measure was asked for */
} layer_source;

/* timed: the measure has times, which then say who sees whom in place of a model's causal
 * mask.  Says what is wrong on standard error.  CLI_RUN, or the exit code; close it in
 * both cases. */
int layer_source_open(const cli_command *self, const layer_settings *s, int timed,
                      layer_source *out);
/* The measure in a file, or --samples of the Gaussian or mixture there, and the layer that
 * acts on it. */
int layer_source_open_measure(const cli_command *self, const layer_settings *s,
                              const char *path, layer_source *out);
/* How the map is called: with the output projection it is the attention module, without it
 * only its heads; and who sees whom. */
const char *layer_source_map(const layer_source *source);
const char *layer_source_mask(const layer_source *source);
void layer_source_close(layer_source *source);

#endif
