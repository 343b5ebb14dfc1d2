/* bpe_read.c - byte pair encoding: its merges and options read, and between which symbols a
 * word can be cut. */
#include "token/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* ---- Merges ------------------------------------------------------------------- */

void lipsc_bpe_free(lipsc_bpe *bpe) {
    if (!bpe) return;
    free(bpe->merges);
    free(bpe->joins);
    free(bpe->symbols);
    free(bpe->heap);
    free(bpe->cache);
    lipsc_text_free(&bpe->unknown);
    lipsc_text_free(&bpe->prefix);
    lipsc_text_free(&bpe->suffix);
    lipsc_text_free(&bpe->spelled);
    lipsc_text_free(&bpe->keys);
    lipsc_ids_free(&bpe->seen_ids);
    free(bpe);
}

static lipsc_status missing_token(const lipsc_json_place *place, size_t rank,
                                  const char *token, size_t len) {
    char shown[LIPSC_SHOWN_NAME];
    lipsc_show_token(token, len, shown);
    return lipsc_place_fail(place,
                            "merge %zu needs the token '%s', which the vocabulary "
                            "does not have",
                            rank + 1, shown);
}

/* One merge of the file: "left right", or ["left", "right"]. */
static lipsc_status split_merge(const lipsc_json_place *place, json_t *pair, size_t rank,
                                const char *part[2], size_t len[2]) {
    if (json_is_string(pair)) {
        const char *line = json_string_value(pair);
        const size_t size = json_string_length(pair);
        const char *space = memchr(line, ' ', size);
        if (space && !memchr(space + 1, ' ', size - (size_t)(space + 1 - line))) {
            part[0] = line;
            len[0] = (size_t)(space - line);
            part[1] = space + 1;
            len[1] = size - len[0] - 1;
            return LIPSC_OK;
        }
    } else if (json_array_size(pair) == 2 && json_is_string(json_array_get(pair, 0)) &&
               json_is_string(json_array_get(pair, 1))) {
        for (size_t i = 0; i < 2; i++) {
            part[i] = json_string_value(json_array_get(pair, i));
            len[i] = json_string_length(json_array_get(pair, i));
        }
        return LIPSC_OK;
    }
    return lipsc_place_fail(place, "merge %zu is not a pair of tokens", rank + 1);
}

static lipsc_status read_merge(const lipsc_json_place *place, lipsc_bpe *bpe, json_t *pair,
                               size_t rank) {
    const char *part[2];
    size_t len[2];
    uint32_t id[2], merged;
    lipsc_text *joined = &bpe->spelled;
    const lipsc_status status = split_merge(place, pair, rank, part, len);
    if (status) return status;
    for (size_t i = 0; i < 2; i++)
        if (!lipsc_vocab_find(bpe->vocab, part[i], len[i], &id[i]))
            return missing_token(place, rank, part[i], len[i]);
    if (len[1] < bpe->prefix.len)
        return lipsc_place_fail(place,
                                "merge %zu has a second token shorter than "
                                "continuing_subword_prefix",
                                rank + 1);
    joined->len = 0;
    lipsc_text_put(joined, part[0], len[0]);
    lipsc_text_put(joined, part[1] + bpe->prefix.len, len[1] - bpe->prefix.len);
    if (joined->failed) return lipsc_place_nomem(place);
    if (!lipsc_vocab_find(bpe->vocab, joined->data, joined->len, &merged))
        return missing_token(place, rank, joined->data, joined->len);
    *merge_slot(bpe, id[0], id[1]) =
        (bpe_pair){id[0], id[1], (uint32_t)rank, merged, 1}; /* of two the later holds */
    return LIPSC_OK;
}

/* ---- Where a word can be cut ----------------------------------------------- */

/* The symbols that a token can begin (end 0) or end (end 1) with: its outermost character,
 * or a byte or the unknown token when its spelling ends like one.  Returns how many. */
static size_t outermost(const lipsc_bpe *bpe, uint32_t id, int end, uint32_t out[3]) {
    size_t len = 0, width = 0, count = 0;
    const char *token = lipsc_vocab_token(bpe->vocab, id, &len);
    const char *edge = token;
    uint32_t found;
    if (!token) return 0;
    if (len) {
        if (end) edge = lipsc_utf8_before(token, token + len);
        lipsc_utf8_read(edge, &width);
        if (lipsc_vocab_find(bpe->vocab, edge, width, &found)) out[count++] = found;
    }
    if (len >= 6 && lipsc_vocab_find(bpe->vocab, end ? token + len - 6 : token, 6, &found))
        out[count++] = found;
    if (bpe->has_unknown && len >= bpe->unknown.len &&
        lipsc_vocab_find(bpe->vocab, bpe->unknown.data, bpe->unknown.len, &found) &&
        (!bpe->unknown.len || !memcmp(end ? token + len - bpe->unknown.len : token,
                                      bpe->unknown.data, bpe->unknown.len)))
        out[count++] = found;
    return count;
}

static int compare_keys(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All pairs of the merges, many of them the same: sorted, each once.  NULL: no memory. */
static uint64_t *list_joins(const lipsc_bpe *bpe, size_t *count) {
    uint64_t *keys = NULL;
    size_t used = 0, room = 0, once = 0;
    for (size_t i = 0; i <= bpe->mask; i++) {
        uint32_t lefts[3], rights[3];
        void *data = keys;
        if (!lipsc_grow(&data, &room, used + 9, sizeof *keys)) {
            free(keys);
            return NULL;
        }
        keys = data;
        if (!bpe->merges[i].used) continue;
        const size_t left_count = outermost(bpe, bpe->merges[i].left, 1, lefts);
        const size_t right_count = outermost(bpe, bpe->merges[i].right, 0, rights);
        for (size_t l = 0; l < left_count; l++)
            for (size_t r = 0; r < right_count; r++)
                keys[used++] = ((uint64_t)lefts[l] << 32 | rights[r]) + 1;
    }
    qsort(keys, used, sizeof *keys, compare_keys);
    for (size_t i = 0; i < used; i++)
        if (!i || keys[i] != keys[i - 1]) keys[once++] = keys[i];
    *count = once;
    return keys;
}

/* With a prefix or a suffix symbols are no characters, then nothing is cut. */
static lipsc_status find_joins(const lipsc_json_place *place, lipsc_bpe *bpe) {
    size_t count;
    if (bpe->prefix.len || bpe->suffix.len) return LIPSC_OK;
    uint64_t *keys = list_joins(bpe, &count);
    if (!keys) return lipsc_place_nomem(place);
    bpe->joins_mask = 15;
    while (bpe->joins_mask < 4 * count) bpe->joins_mask = 2 * bpe->joins_mask + 1;
    bpe->joins = calloc(bpe->joins_mask + 1, sizeof *bpe->joins);
    for (size_t i = 0; bpe->joins && i < count; i++)
        bpe->joins[join_slot(bpe, keys[i])] = keys[i];
    free(keys);
    return bpe->joins ? LIPSC_OK : lipsc_place_nomem(place);
}

static void find_small(lipsc_bpe *bpe) {
    for (uint32_t code = 0; code < SMALL; code++) {
        char bytes[4];
        const size_t len = lipsc_utf8_write(code, bytes);
        if (!lipsc_vocab_find(bpe->vocab, bytes, len, &bpe->small_id[code]))
            bpe->small_id[code] = NO_ID;
    }
}

/* In merges.txt's own form each line may also be a comment on the version. */
static int is_version(json_t *pair) {
    return json_is_string(pair) && !strncmp(json_string_value(pair), "#version", 8);
}

static lipsc_status read_merges(const lipsc_json_place *place, lipsc_bpe *bpe,
                                json_t *object) {
    json_t *list, *pair;
    size_t i, rank = 0;
    lipsc_status status = lipsc_field_array(place, object, "merges", &list);
    if (status) return status;
    if (json_array_size(list) >= NO_ID / 4)
        return lipsc_place_fail(place, "has too many merges");
    bpe->mask = 15;
    while (bpe->mask < 2 * json_array_size(list)) bpe->mask = 2 * bpe->mask + 1;
    bpe->merges = calloc(bpe->mask + 1, sizeof *bpe->merges);
    if (!bpe->merges) return lipsc_place_nomem(place);
    json_array_foreach(list, i, pair) {
        if (is_version(pair)) continue;
        status = read_merge(place, bpe, pair, rank++);
        if (status) return status;
    }
    return LIPSC_OK;
}

static lipsc_status read_string(const lipsc_json_place *place, json_t *object,
                                const char *key, lipsc_text *out, int *present) {
    const char *value;
    size_t len;
    const lipsc_status status =
        lipsc_field_string_or_null(place, object, key, &value, &len);
    if (present) *present = value != NULL;
    if (!status && value) lipsc_text_put(out, value, len);
    return !status && out->failed ? lipsc_place_nomem(place) : status;
}

static lipsc_status read_options(const lipsc_json_place *place, lipsc_bpe *bpe,
                                 json_t *object) {
    json_t *dropout = json_object_get(object, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0.0)
        return lipsc_place_fail(place, "dropout is not supported: ids would be random");
    if (dropout && !json_is_null(dropout) && !json_is_number(dropout))
        return lipsc_place_fail(place, "field 'dropout' is not a number");
    lipsc_status status =
        read_string(place, object, "unk_token", &bpe->unknown, &bpe->has_unknown);
    if (!status)
        status =
            read_string(place, object, "continuing_subword_prefix", &bpe->prefix, NULL);
    if (!status)
        status = read_string(place, object, "end_of_word_suffix", &bpe->suffix, NULL);
    if (!status)
        status = lipsc_field_bool_or(place, object, "fuse_unk", &bpe->fuse_unknown);
    if (!status)
        status = lipsc_field_bool_or(place, object, "byte_fallback", &bpe->byte_fallback);
    if (!status)
        status = lipsc_field_bool_or(place, object, "ignore_merges", &bpe->ignore_merges);
    return status;
}

lipsc_status lipsc_bpe_read(const lipsc_json_place *place, json_t *object,
                            const lipsc_vocab *vocab, lipsc_bpe **out) {
    lipsc_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe) return lipsc_place_nomem(place);
    bpe->vocab = vocab;
    lipsc_status status = read_options(place, bpe, object);
    if (!status) status = read_merges(place, bpe, object);
    if (!status) status = find_joins(place, bpe);
    find_small(bpe);
    for (unsigned byte = 0; byte < 256; byte++) {
        char token[8];
        snprintf(token, sizeof token, "<0x%02X>", byte);
        bpe->has_byte[byte] = lipsc_vocab_find(vocab, token, 6, &bpe->byte_id[byte]);
    }
    if (!status) {
        bpe->cache = calloc(CACHE_SLOTS, sizeof *bpe->cache);
        if (!bpe->cache) status = lipsc_place_nomem(place);
    }
    if (status)
        lipsc_bpe_free(bpe);
    else
        *out = bpe;
    return status;
}
