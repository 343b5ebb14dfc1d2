/* json.h - JSON that is read whole or not at all.
 *
 * jansson takes a text that it had no memory for as one that is no JSON, and may lose a
 * character of a name or a number; errno tells. */
#ifndef LIPSC_CORE_JSON_H
#define LIPSC_CORE_JSON_H

#include <errno.h>
#include <jansson.h>
#include <string.h>

/* Around what puts JSON together in many small steps: whether one of them had no memory. */
static inline void lipsc_json_begin(void) { errno = 0; }
static inline int lipsc_json_incomplete(void) { return errno == ENOMEM; }

/* As json_loadb.  *short_of_memory: why there is none. */
static inline json_t *lipsc_json_load(const char *text, size_t size, size_t flags,
                                      json_error_t *bad, int *short_of_memory) {
    const int before = errno;
    errno = 0;
    json_t *value = json_loadb(text, size, flags, bad);
    *short_of_memory = errno == ENOMEM;
    if (*short_of_memory) {
        json_decref(value);
        value = NULL;
    }
    errno = before;
    return value;
}

/* An object without duplicates in a text (NULL: none), or NULL. */
static inline json_t *lipsc_json_object(const char *text, int *short_of_memory) {
    *short_of_memory = 0;
    json_t *value = text ? lipsc_json_load(text, strlen(text), JSON_REJECT_DUPLICATES, NULL,
                                           short_of_memory)
                         : NULL;
    if (json_is_object(value)) return value;
    json_decref(value);
    return NULL;
}

#endif
