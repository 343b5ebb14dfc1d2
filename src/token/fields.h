/* fields.h - reads the fields of a JSON object, with a sentence for each that is wrong. */
#ifndef LIPSC_TOKEN_FIELDS_H
#define LIPSC_TOKEN_FIELDS_H

#include "io/show.h"
#include "lipscope.h"
#include "token/text.h"

#include <jansson.h>

/* Where a part of a tokenizer comes from.  Every function here that fails fills err with
 * "file: part: ..." and returns its code. */
typedef struct {
    const char *file; /* as it is shown */
    const char *part; /* "pre_tokenizer", "model", ... */
    lipsc_error *err;
} lipsc_json_place;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
lipsc_status
lipsc_place_fail(const lipsc_json_place *place, const char *format, ...);
lipsc_status lipsc_place_nomem(const lipsc_json_place *place);

/* lipsc_show_name for a token that no NUL ends. */
void lipsc_show_token(const char *token, size_t len, char shown[LIPSC_SHOWN_NAME]);

/* The value of a field that must be there and be a string; it stays in the object. */
lipsc_status lipsc_field_string(const lipsc_json_place *place, json_t *object,
                                const char *key, const char **value, size_t *len);
/* The same, put into a text. */
lipsc_status lipsc_field_text(const lipsc_json_place *place, json_t *object,
                              const char *key, lipsc_text *out);
/* The same, but null or absent gives NULL. */
lipsc_status lipsc_field_string_or_null(const lipsc_json_place *place, json_t *object,
                                        const char *key, const char **value, size_t *len);
/* A string of one character. */
lipsc_status lipsc_field_character(const lipsc_json_place *place, json_t *object,
                                   const char *key, uint32_t *value);
lipsc_status lipsc_field_bool(const lipsc_json_place *place, json_t *object,
                              const char *key, int *value);
/* Null or absent leaves *value as it is. */
lipsc_status lipsc_field_bool_or(const lipsc_json_place *place, json_t *object,
                                 const char *key, int *value);
lipsc_status lipsc_field_size(const lipsc_json_place *place, json_t *object,
                              const char *key, size_t *value);
lipsc_status lipsc_field_array(const lipsc_json_place *place, json_t *object,
                               const char *key, json_t **value);
/* An id: a whole number below 2^31. */
lipsc_status lipsc_value_id(const lipsc_json_place *place, json_t *value, const char *what,
                            uint32_t *id);

/* The index of object's "type" among the names, which end with NULL; any other type is
 * refused by name. */
lipsc_status lipsc_field_type(const lipsc_json_place *place, json_t *object,
                              const char *const *names, int *index);

/* Calls read for object, or in order for each member of the list `members` of objects whose
 * type is "Sequence", to any depth that JSON was read with. */
typedef lipsc_status (*lipsc_part_fn)(const lipsc_json_place *place, json_t *object,
                                      void *context);
lipsc_status lipsc_each_part(const lipsc_json_place *place, json_t *object,
                             const char *members, lipsc_part_fn read, void *context);

/* A list of steps, `size` bytes each; free(at) frees it. */
typedef struct {
    void *at;
    size_t count, room, size;
} lipsc_steps;

/* One step, zeros until now, whose "type" has that index among the kinds. */
typedef lipsc_status (*lipsc_step_fn)(const lipsc_json_place *place, json_t *object,
                                      int index, void *step);

/* What object says, in parts as above and none where it is NULL or null: after a failure
 * the steps so far stand in the list. */
lipsc_status lipsc_steps_read(const lipsc_json_place *place, json_t *object,
                              const char *members, const char *const *kinds,
                              lipsc_step_fn read, lipsc_steps *out);

#endif
