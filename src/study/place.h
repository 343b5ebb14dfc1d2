/* place.h - a place inside: what bounds and attacks share. */
#ifndef LIPSC_STUDY_PLACE_H
#define LIPSC_STUDY_PLACE_H

#include "bound/zoo.h"
#include "lipscope/place.h"

struct lipsc_place {
    lipsc_place_options set;
    lipsc_mask mask;   /* what set.mask_override points to */
    lipsc_layer given; /* as read                          */
    lipsc_layer layer; /* resolved                         */
    lipsc_layer_file file;
    int has_file;
    lipsc_model *model; /* NULL: a layer file */
    const lipsc_model_info *info;
    lipsc_source source;
    int has_source;
    lipsc_acts *acts; /* of the window that was run last */
};

/* Tokens of the given input, 0: none. */
size_t place_given(const lipsc_place *place);

/* place->acts: the window of length n; longest: of all that are asked for. */
lipsc_status place_run(lipsc_place *place, size_t longest, size_t n, lipsc_error *err);

/* The norm in front of the layer. */
typedef struct {
    double *gain, *shift; /* (d) each, one block: free gain with lipsc_release */
    double largest;       /* max|gain|                    */
    double radius;        /* sqrt(d) max|gain| + |shift|  */
    double eps;
    int rms; /* the mean is not taken off */
} place_norm;

/* LIPSC_E_REFUSED: there is none. */
lipsc_status place_norm_read(lipsc_place *place, place_norm *out, lipsc_error *err);

/* The layer at the input of its file, or at the window. */
typedef struct {
    lipsc_attn *attn;
    lipsc_zoo_norm norm; /* in front; its radius alone where wants_norm asked for it */
    int has_norm;        /* the map that begins with the norm has bounds of its own  */
} place_point;

/* Free it in any case.  set: who may stop it, or NULL. */
lipsc_status place_point_make(lipsc_place *place, int wants_norm,
                              const lipsc_bounds_settings *set, place_point *out,
                              lipsc_error *err);
void place_point_free(place_point *point);

#endif
