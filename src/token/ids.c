/* ids.c - token ids written as text: separated by white space or commas, or one JSON list.
 */
#include "token/token.h"

#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "io/show.h"

typedef struct {
    const char *name, *bytes; /* name: of the file, in sentences */
    size_t size, at;
    int list; /* between [ and ], where commas must stand */
} reader;

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void skip_space(reader *r) {
    while (r->at < r->size && is_space(r->bytes[r->at])) r->at++;
}

static int ends(const reader *r) { return r->at == r->size; }

static int take(reader *r, char c) {
    if (ends(r) || r->bytes[r->at] != c) return 0;
    r->at++;
    return 1;
}

static lipsc_status wrong(const reader *r, const char *reason, lipsc_error *err) {
    return lipsc_fail_at(err, LIPSC_E_FORMAT, r->at, "%s: byte %zu: %s", r->name, r->at,
                         reason);
}

/* 1 and *id when the word is digits and no more than an id can be. */
static int number(const char *word, size_t length, uint32_t *id) {
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9') return 0;
        value = 10 * value + (uint64_t)(word[i] - '0');
        if (value > UINT32_MAX) return 0;
    }
    *id = (uint32_t)value;
    return length > 0;
}

static lipsc_status read_id(reader *r, uint32_t *id, lipsc_error *err) {
    char word[24];
    size_t length = 0;
    while (r->at + length < r->size && !is_space(r->bytes[r->at + length]) &&
           r->bytes[r->at + length] != ',' && r->bytes[r->at + length] != ']')
        length++;
    const size_t kept = length < sizeof word ? length : sizeof word - 1;
    memcpy(word, r->bytes + r->at, kept);
    word[kept] = '\0';
    if (kept < length || !number(word, length, id)) {
        char shown[LIPSC_SHOWN_NAME];
        lipsc_show_name(word, shown);
        return lipsc_fail_at(err, LIPSC_E_FORMAT, r->at,
                             "%s: '%s' at byte %zu is not an id", r->name, shown, r->at);
    }
    r->at += length;
    return LIPSC_OK;
}

/* What stands before the next id, of which there are `count` already; *more: there is one.
 */
static lipsc_status next(reader *r, size_t count, int *more, lipsc_error *err) {
    skip_space(r);
    const int comma = count && take(r, ',');
    if (comma) skip_space(r);
    *more = !ends(r) && !(r->list && r->bytes[r->at] == ']');
    if (ends(r) && r->list) return wrong(r, "the list does not end", err);
    if (comma && !*more) return wrong(r, "an id is missing behind a comma", err);
    if (!*more) return LIPSC_OK;
    if (r->bytes[r->at] == ',') return wrong(r, "an id is missing before a comma", err);
    if (r->bytes[r->at] == '[')
        return wrong(r, "a list in the list: ids stand in one list", err);
    return r->list && count && !comma ? wrong(r, "a comma is missing", err) : LIPSC_OK;
}

/* At most one id for every two bytes. */
static lipsc_status read_all(reader *r, uint32_t *ids, size_t *count, lipsc_error *err) {
    int more;
    lipsc_status status;
    *count = 0;
    skip_space(r);
    r->list = take(r, '[');
    while (!(status = next(r, *count, &more, err)) && more) {
        status = read_id(r, &ids[*count], err);
        if (status) return status;
        ++*count;
    }
    if (status || !r->list) return status;
    r->at++; /* ] */
    skip_space(r);
    return ends(r) ? LIPSC_OK : wrong(r, "something stands behind the list", err);
}

lipsc_status lipsc_ids_parse(const char *name, const char *bytes, size_t size,
                             uint32_t **ids, size_t *count, lipsc_error *err) {
    reader r = {.name = name, .bytes = bytes, .size = size};
    *ids = lipsc_alloc(size / 2 + 1, sizeof **ids);
    if (!*ids) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    const lipsc_status status = read_all(&r, *ids, count, err);
    if (!status) return LIPSC_OK;
    lipsc_release(*ids);
    *ids = NULL;
    return status;
}

void lipsc_ids_hash(size_t count, const uint32_t *ids, char hash[65]) {
    lipsc_sha256 sha;
    lipsc_sha256_begin(&sha);
    for (size_t i = 0; i < count; i++) {
        const uint32_t id = ids[i];
        const uint8_t little[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16),
                                   (uint8_t)(id >> 24)};
        lipsc_sha256_add(&sha, little, sizeof little);
    }
    lipsc_sha256_end(&sha, hash);
}
