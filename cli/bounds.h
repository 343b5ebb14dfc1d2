/* bounds.h - the parts of `lipscope bounds`: a layer at an input, from a file or a model.
 *
 *     cmd_bounds.c       options, rows, the regime
 *     bounds_source.c    where layer, input and norm come from
 *     bounds_around.c    the row of a neighbourhood */
#ifndef LIPSC_CLI_BOUNDS_H
#define LIPSC_CLI_BOUNDS_H

#include <jansson.h>

#include "args.h"
#include "bound/zoo.h"
#include "model/model.h"
#include "out/table.h"
#include "window.h"

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
    int mask, part;
    uint64_t seed;
    /* the bounds */
    const char *radius; /* NULL, a number, or "layernorm" */
    double p;
    double around, below; /* NaN: not asked for                 */
    int relative;         /* radii in mean token lengths        */
} bounds_settings;

#define CLI_RELATIVE_OPTION(settings, of)                                             \
    {                                                                                 \
        .kind = CLI_FLAG, .name = "relative", .offset = offsetof(settings, relative), \
        .help = "R of " of " counts in lengths of the mean token"                     \
    }

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

/* ---- A neighbourhood of the input: bounds_around.c ---- */

typedef struct {
    int asked;
    lipsc_around found;
    double mean; /* token length */
} bounds_around;

int bounds_around_check(const cli_command *self, const bounds_settings *s);
/* The bound that --around or --below asks for; the ball of the case becomes the one that
 * holds the neighbourhood. */
lipsc_status bounds_around_find(const bounds_settings *s, const bounds_source *source,
                                lipsc_zoo_case *zoo, bounds_around *out, lipsc_error *err);
void bounds_around_row(const bounds_around *around, const char *norm, double sigma,
                       lipsc_table *t);
json_t *bounds_around_json(const bounds_settings *s, const bounds_around *around);
/* For people: the same in a sentence under the table. */
void bounds_around_say(const bounds_settings *s, const bounds_around *around);

double bounds_mean_token(size_t n, size_t d, const double *X);

/* ---- Its parts, for `attack`: each says what is wrong, and returns as above ---- */

/* A folder, a GGUF file, random:..., or a hub name; otherwise a layer file. */
int bounds_is_model(const char *what);

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
