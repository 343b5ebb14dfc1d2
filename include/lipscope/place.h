/* place.h - one attention layer, from a layer file or a model, and inputs for it: what
 * bounds, attacks and finite changes begin with.
 *
 *     lipsc_place_options of;
 *     lipsc_place_defaults(&of);
 *     of.from = "builtin:gpt2-nano";
 *     of.source.text = "builtin:lighthouse";
 *     of.layer = 3;
 *     lipsc_place *place;
 *     lipsc_place_open(&of, &place, &err);
 *     lipsc_place_bounds(place, 0, &set, &bounds, &err);
 *     lipsc_place_close(place); */
#ifndef LIPSCOPE_PLACE_H
#define LIPSCOPE_PLACE_H

#include "lipscope/attack.h"
#include "lipscope/bound.h"
#include "lipscope/file.h"
#include "lipscope/fit.h"
#include "lipscope/perturb.h"
#include "lipscope/ranks.h"
#include "lipscope/source.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What it points to must stay as it is until the place is closed. */
typedef struct {
    const char *from;  /* a layer file, or a model as lipsc_model_open takes it          */
    lipsc_model *open; /* or NULL; a model that is open already and stays the caller's   */
    lipsc_layer_options file; /* of a layer file                                         */

    /* of a model: */
    lipsc_part part;
    uint64_t seed; /* of random weights.  Default 1                                      */
    size_t layer;
    long head;                       /* default -1: all                                  */
    lipsc_map_kind map;              /* heads or attention, the default                  */
    const lipsc_mask *mask_override; /* NULL: the model's own                            */
    lipsc_source_options source;     /* windows; all NULL: none                          */
    size_t length; /* tokens of a window.  Default 0: 64, or all of the ids              */
    size_t window; /* its number                                                         */
    lipsc_device *device;
    lipsc_ranks *ranks; /* who share what is computed there, all with the same options and
                         * calls: rank 0 alone has results, writes files and run files.
                         * NULL: nobody                                                  */
} lipsc_place_options;

LIPSC_API void lipsc_place_defaults(lipsc_place_options *options);

/* Whether such a word names a model: a folder, a file with the weights of one, random:,
 * builtin:, or what could be a hub name and is no file; else it names a layer file. */
LIPSC_API int lipsc_place_is_model(const char *from);

typedef struct lipsc_place lipsc_place;

/* LIPSC_E_ARG: the options contradict each other, or name what the model has not. */
LIPSC_API lipsc_status lipsc_place_open(const lipsc_place_options *options,
                                        lipsc_place **out, lipsc_error *err);
LIPSC_API void lipsc_place_close(lipsc_place *place);

LIPSC_API const lipsc_layer *lipsc_place_layer(const lipsc_place *place); /* resolved */
/* NULL: a layer file; no windows. */
LIPSC_API const lipsc_model_info *lipsc_place_model(const lipsc_place *place);
LIPSC_API const lipsc_source *lipsc_place_source(const lipsc_place *place);

/* A layer file of the layer of a model and the window (docs/cli.md, "Layer files"). */
LIPSC_API lipsc_status lipsc_place_export(lipsc_place *place, const char *path,
                                          lipsc_error *err);

/* ---- Bounds ----------------------------------------------------------------------- */

/* lipsc_attn_bounds at the input of the file, or at the window; of a pre-norm model the map
 * that begins with the norm has bounds too.  radius_of_norm: the ball is that of the norm
 * in front of the layer, set->radius is ignored. */
LIPSC_API lipsc_status lipsc_place_bounds(lipsc_place *place, int radius_of_norm,
                                          const lipsc_bounds_settings *set,
                                          lipsc_bounds *out, lipsc_error *err);

typedef struct {
    size_t layer;
    lipsc_status status; /* LIPSC_OK, or LIPSC_E_NOCONV as above */
    lipsc_bounds bounds;
} lipsc_layer_bounds;

typedef struct {
    size_t count;
    lipsc_layer_bounds *at; /* in the order asked for */
    lipsc_pool pool;
} lipsc_layers_bounds;

/* The same for several layers of the place's model, each by one of the ranks; of a layer
 * file its only one, whatever its number.  On ranks other than 0 the bounds are empty.
 * Free it in any case. */
LIPSC_API lipsc_status lipsc_place_layers_bounds(lipsc_place *place, lipsc_sizes layers,
                                                 int radius_of_norm,
                                                 const lipsc_bounds_settings *set,
                                                 lipsc_layers_bounds *out,
                                                 lipsc_error *err);
LIPSC_API void lipsc_layers_bounds_free(lipsc_layers_bounds *all);

/* Seconds that it will take, within a factor of three or so on an idle machine: from the
 * sizes, and the speed of a product that is tried now.  NaN: the window is not known. */
LIPSC_API double lipsc_place_bounds_seconds(const lipsc_place *place,
                                            const lipsc_bounds_settings *set);

/* ---- Finite changes --------------------------------------------------------------- */

/* lipsc_perturb of the window, through all layers of the model or those of the settings; on
 * the device of the place.  LIPSC_E_ARG also where it has no tokens: a layer file, an
 * image. */
LIPSC_API lipsc_status lipsc_place_perturb(lipsc_place *place,
                                           const lipsc_perturb_settings *set,
                                           lipsc_perturbation_rows *out, lipsc_error *err);

/* ---- Attacks ---------------------------------------------------------------------- */

/* One length.  X(member, kind, part, shown, unit, what it says) */
#define LIPSC_ATTACK_LIST(X)                                                            \
    X(n, COUNT, 0, 1, "tokens", "of the input")                                         \
    X(radius, REAL, 0, 1, "", "of the domain")                                          \
    X(domain, TEXT, 0, 1, "", "ball, sphere, norm or around")                           \
    X(start, TEXT, 0, 1, "", "where the best climb began")                              \
    X(sigma, REAL, 0, 1, "", "reached by the input that was written")                   \
    X(lower, REAL, 0, 1, "", "sigma less the rounding of its evaluation")               \
    X(residual, REAL, 0, 1, "", "of the direction, relative to sigma")                  \
    X(converged, FLAG, LIPSC_ATTACK_STORED, 0, "",                                      \
      "whether the residual met the tolerance")                                         \
    X(best_construction, REAL, 0, 1, "", "sigma of the best known worst case")          \
    X(upper, REAL, 0, 1, "", "proved for the whole domain")                             \
    X(log_upper, REAL, LIPSC_ATTACK_STORED, 0, "", "its natural logarithm")             \
    X(evaluations, WHOLE, 0, 1, "", "inputs whose sigma was computed")                  \
    X(input, TEXT, 0, 1, "", "the file that holds it")                                  \
    X(given, REAL, LIPSC_ATTACK_GIVEN, 0, "",                                           \
      "sigma of the input that was given; null: none")                                  \
    X(relative, REAL, LIPSC_ATTACK_GIVEN, 0, "", "radius in lengths of its mean token") \
    X(moved, REALS, LIPSC_ATTACK_GIVEN, 0, "", "how far each of its tokens was moved")  \
    X(seconds, REAL, LIPSC_ATTACK_STORED, 0, "s", "of the search")

/* Parts that are in run files, not in tables. */
enum { LIPSC_ATTACK_STORED = 1, LIPSC_ATTACK_GIVEN = 2 /* beside the input given */ };

typedef struct {
    LIPSC_ATTACK_LIST(LIPSC_FIELD_MEMBER)
} lipsc_attack_row;

LIPSC_API lipsc_fields lipsc_attack_fields(void);

typedef struct {
    lipsc_sizes lengths; /* default: that of the place, or of the given input            */
    size_t atoms; /* > 0: a measure of so many atoms, positions and masses              */
    lipsc_attack_domain domain;
    double radius; /* NaN: the longest token of the given input                          */
    int radius_of_norm; /* that of the norm in front of the layer                        */
    int relative; /* around: radius counts in lengths of the mean token                 */
    int dtype;    /* lipsc_dtype of the search; -1: f32 for a model, f64 for a file     */
    size_t restarts, iterations; /* these three as in lipsc_attack_settings              */
    double tol;
    uint64_t seed;
    double seconds;  /* > 0: end then, with the best so far of every length              */
    const char *out; /* the input found, a layer file; with several lengths their number
                      * is put before its ending.  NULL: none                            */
    const char *run_file;     /* finished lengths are kept there; NULL: none             */
    const char *command_line; /* told there, for people; or NULL                         */
    int (*stop)(void *ctx);   /* nonzero: LIPSC_E_STOPPED, with the best so far          */
    void (*progress)(void *ctx, size_t n, const char *doing, long evaluations, double best);
    void (*plan)(void *ctx, double seconds); /* before the first search: what all will
                                              * take, roughly; or NULL                   */
    void (*share)(void *ctx, double done);   /* 0 to 1, of the work at most; or NULL     */
    void (*written)(void *ctx, const char *path); /* a file is there                     */
    void *ctx;
} lipsc_attacks_settings;

LIPSC_API void lipsc_attacks_defaults(lipsc_attacks_settings *set);

typedef struct {
    size_t count;           /* lengths                                                   */
    lipsc_attack_row *rows; /* n LIPSC_NONE: not reached                                 */
    size_t missing;         /* the length that was being sought without an input so far;
                             * LIPSC_NONE: none                                          */
    int has_law;            /* sigma ~ c n^e over three lengths or more; one value for
                             * each, so there is no interval                             */
    lipsc_growth law;
    void *storage;
} lipsc_attacks;

/* The worst input of every length.  Free it in any case; after a failure or
 * LIPSC_E_STOPPED the rows that are finished are there. */
LIPSC_API lipsc_status lipsc_place_attack(lipsc_place *place,
                                          const lipsc_attacks_settings *set,
                                          lipsc_attacks *out, lipsc_error *err);
LIPSC_API void lipsc_attacks_free(lipsc_attacks *attacks);

#ifdef __cplusplus
}
#endif
#endif
