/* config_reader.h - fields of a config.json, one kind at a time; the first thing that is
 * wrong is remembered, and what is read afterwards does not matter.
 *
 * Names of fields may be several spellings, separated by '|': the first that is there and
 * not null is read. */
#ifndef LIPSC_MODEL_CONFIG_READER_H
#define LIPSC_MODEL_CONFIG_READER_H

#include "io/show.h"
#include "model/config.h"

#include <jansson.h>

/* MOST_TURNED: dimensions of a head with rotary positions; each pair has a frequency. */
enum {
    LIPSC_LARGEST_SIZE = 1 << 28,
    LIPSC_MOST_LAYERS = 1 << 16,
    LIPSC_MOST_TURNED = 1 << 16
};

typedef struct {
    char file[LIPSC_SHOWN_PATH];
    json_t *root;
    lipsc_status status;
    lipsc_error *err;
} lipsc_reader;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void lipsc_read_wrong(lipsc_reader *r, const char *format, ...);
/* The value, NULL when it is missing, is not what it should be. */
void lipsc_read_not_a(lipsc_reader *r, const char *key, const json_t *value,
                      const char *what);
void lipsc_read_unsupported(lipsc_reader *r, const char *key, const json_t *value);

/* NULL when absent or null; the plain one also when the name is NULL. */
json_t *lipsc_read_field(const lipsc_reader *r, const char *names);
/* 1 when one of the names is in the file, be it null. */
int lipsc_read_present(const lipsc_reader *r, const char *names);

size_t lipsc_read_size(lipsc_reader *r, const char *names); /* must be there */
size_t lipsc_read_size_or(lipsc_reader *r, const char *names, size_t otherwise);
void lipsc_read_pair(lipsc_reader *r, const char *names, size_t pair[2]); /* 16, [16, 16] */
double lipsc_read_number(lipsc_reader *r, lipsc_number number); /* from 0 upwards */
size_t lipsc_read_count(lipsc_reader *r, lipsc_number number);  /* that, and whole  */
int lipsc_read_flag(lipsc_reader *r, lipsc_flag flag);
/* The id of a token, or LIPSC_NO_TOKEN. */
size_t lipsc_read_token(lipsc_reader *r, const char *names, size_t otherwise);
/* The field, written as JSON, is this text; "null" also when it is absent. */
int lipsc_read_is(const lipsc_reader *r, lipsc_condition condition);

/* Parts of a configuration that have files of their own. */
void lipsc_read_rope(lipsc_reader *r, lipsc_config *c);    /* config_rope.c    */
void lipsc_read_windows(lipsc_reader *r, lipsc_config *c); /* config_windows.c */
/* config_parts.c: of a model of several parts, root becomes the object of the one. */
void lipsc_read_part(lipsc_reader *r, lipsc_part part);

#endif
