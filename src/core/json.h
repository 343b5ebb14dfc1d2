/* json.h - JSON that is read whole or not at all.
 *
 * jansson takes a text that it had no memory for as one that is no JSON, and may lose a
 * character of a name or a number; errno tells. */
#ifndef LIPSC_CORE_JSON_H
#define LIPSC_CORE_JSON_H

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Around what puts JSON together in many small steps: whether one of them had no memory. */
static inline void lipsc_json_begin(void) { errno = 0; }
static inline int lipsc_json_incomplete(void) { return errno == ENOMEM; }

/* A text in pieces that end before what ends a token, so that errno is asked before jansson
 * clears it for the next number. */
typedef struct {
    const char *text;
    size_t left;
    int short_of_memory;
} lipsc_json_pieces;

static inline size_t lipsc_json_piece(void *buffer, size_t room, void *ctx) {
    lipsc_json_pieces *p = ctx;
    size_t size = p->left != 0;
    if (errno == ENOMEM) p->short_of_memory = 1;
    if (p->short_of_memory) return (size_t)-1;
    while (size < p->left && size < room && !strchr(",:]}\"", p->text[size])) size++;
    memcpy(buffer, p->text, size);
    p->text += size;
    p->left -= size;
    return size;
}

/* As json_loadb.  *short_of_memory: why there is none. */
static inline json_t *lipsc_json_load(const char *text, size_t size, size_t flags,
                                      json_error_t *bad, int *short_of_memory) {
    const int before = errno;
    lipsc_json_pieces pieces = {text, size, 0};
    errno = 0;
    json_t *value = json_load_callback(lipsc_json_piece, &pieces, flags, bad);
    *short_of_memory = pieces.short_of_memory || errno == ENOMEM;
    if (*short_of_memory) {
        json_decref(value);
        value = NULL;
    }
    errno = before;
    return value;
}

/* json_dumps, which does not notice where it had no memory for a key: NULL then, too. */
static inline char *lipsc_json_dumps(const json_t *value, size_t flags) {
    const int before = errno;
    errno = 0;
    char *text = json_dumps(value, flags);
    if (text && errno == ENOMEM) {
        free(text);
        text = NULL;
    }
    errno = before;
    return text;
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
