/* postprocessor.h - the tokens that a model expects around a text. */
#ifndef LIPSC_TOKEN_POSTPROCESSOR_H
#define LIPSC_TOKEN_POSTPROCESSOR_H

#include "token/fields.h"
#include "token/text.h"

typedef struct {
    int is_text; /* the text itself; otherwise ids that are put in */
    lipsc_ids ids;
} lipsc_post_part;

typedef struct {
    lipsc_post_part *parts;
    size_t count, room;
    int given; /* 0: the text alone */
} lipsc_postprocessor;

/* object may be NULL or null. */
lipsc_status lipsc_postprocessor_read(const lipsc_place *place, json_t *object,
                                      lipsc_postprocessor *out);
void lipsc_postprocessor_free(lipsc_postprocessor *post);

/* Appends to out what becomes of one text. */
void lipsc_postprocessor_apply(const lipsc_postprocessor *post, const lipsc_ids *text,
                               int special, lipsc_ids *out);

#endif
