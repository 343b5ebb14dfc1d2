/* bounds.h - the parts of `lipscope bounds`: a layer at an input, from a file or a model.
 *
 *     cmd_bounds.c       options, rows, the regime
 *     bounds_source.c    where layer, input and norm come from */
#ifndef LIPSC_CLI_BOUNDS_H
#define LIPSC_CLI_BOUNDS_H

#include "args.h"
#include "bound/zoo.h"
#include "model/model.h"
#include "source.h"

enum { BOUNDS_MASK_MODEL, BOUNDS_MASK_NONE, BOUNDS_MASK_CAUSAL };

typedef struct {
    cli_common common;
    /* a layer file */
    size_t num_heads, kv_heads, sliding;
    int causal;
    double scale;
    /* a model */
    cli_source_options source;
    size_t layer, length, window;
    const char *head; /* NULL or "all": all heads */
    int map;          /* 0 heads, 1 attention     */
    int mask;
    uint64_t seed;
    /* the bounds */
    const char *radius; /* NULL, a number, or "layernorm" */
    double p;
} bounds_settings;

/* What is bounded, and where. */
typedef struct {
    lipsc_attn *attn;
    double radius; /* NaN: max |x_i|                                     */
    lipsc_zoo_norm norm;
    int has_norm; /* pre-norm models: rows of the norm-attention map    */
    lipsc_layer_file file;
    int has_file;
    lipsc_model *model;
    long head; /* of a model; -1: all */
    cli_source source;
    size_t longest; /* of the lengths that are asked for; 0: there is one */
    lipsc_acts *acts;
} bounds_source;

/* Says what is wrong on standard error.  CLI_RUN, or the exit code. */
int bounds_source_open(const cli_command *self, const bounds_settings *s, const char *what,
                       bounds_source *out);
void bounds_source_close(bounds_source *source);

/* ---- Its parts, for `attack`: each says what is wrong, and returns as above ---- */

int bounds_is_model(const char *what); /* a folder or random:...; otherwise a file */

int bounds_file_read(const cli_command *self, const bounds_settings *s, const char *path,
                     int need_input, bounds_source *out);
/* Model, layer, and the text where one is given. */
int bounds_model_open(const cli_command *self, const bounds_settings *s, const char *spec,
                      bounds_source *out, lipsc_layer *layer);
/* out->acts: window s->window of length n. */
int bounds_window_run(const cli_command *self, const bounds_settings *s, const char *spec,
                      size_t n, bounds_source *out);

/* The norm in front of a layer. */
typedef struct {
    double *gain, *shift; /* (d) each, one block: free gain with lipsc_release */
    double largest;       /* max|gain|                    */
    double radius;        /* sqrt(d) max|gain| + |shift|  */
    double eps;
    int rms; /* the mean is not taken off */
} bounds_norm;

/* LIPSC_E_REFUSED: there is none. */
lipsc_status bounds_norm_read(lipsc_model *model, size_t layer, bounds_norm *out,
                              lipsc_error *err);

#endif
