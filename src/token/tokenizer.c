/* tokenizer.c - the parts of a tokenizer, put together: text -> added tokens -> normalizer
 * -> words -> model -> special tokens, and back. */
#include "token/parts.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/show.h"

#include <stdlib.h>
#include <string.h>

struct lipsc_tokenizer {
    lipsc_vocab *vocab;
    lipsc_bpe *bpe; /* NULL: WordPiece */
    lipsc_wordpiece wordpiece;
    lipsc_added *added;
    lipsc_normalizer *normalizer;
    lipsc_pretokenizer *pretokenizer;
    lipsc_postprocessor post;
    lipsc_decoder *decoder;
};

void lipsc_tokenizer_free(lipsc_tokenizer *tokenizer) {
    if (!tokenizer) return;
    lipsc_bpe_free(tokenizer->bpe);
    lipsc_wordpiece_free(&tokenizer->wordpiece);
    lipsc_added_free(tokenizer->added);
    lipsc_normalizer_free(tokenizer->normalizer);
    lipsc_pretokenizer_free(tokenizer->pretokenizer);
    lipsc_postprocessor_free(&tokenizer->post);
    lipsc_decoder_free(tokenizer->decoder);
    lipsc_vocab_free(tokenizer->vocab);
    free(tokenizer);
}

/* ---- Reading --------------------------------------------------------------- */

/* Files from before models had a type: BPE has merges. */
static lipsc_status model_type(const lipsc_json_place *place, json_t *model, int *is_bpe) {
    static const char *const names[] = {"BPE", "WordPiece", NULL};
    int index;
    if (!json_is_object(model))
        return lipsc_place_fail(place, "is missing or not an object");
    if (!json_object_get(model, "type")) {
        *is_bpe = json_object_get(model, "merges") != NULL;
        return LIPSC_OK;
    }
    const lipsc_status status = lipsc_field_type(place, model, names, &index);
    *is_bpe = index == 0;
    return status;
}

static lipsc_status read_model(const char *file, json_t *root, lipsc_tokenizer *t,
                               lipsc_error *err) {
    const lipsc_json_place place = {file, "model", err};
    json_t *model = json_object_get(root, "model");
    int is_bpe = 0;
    lipsc_status status = model_type(&place, model, &is_bpe);
    if (!status)
        status = lipsc_vocab_read(&place, json_object_get(model, "vocab"), &t->vocab);
    if (status) return status;
    if (is_bpe) return lipsc_bpe_read(&place, model, t->vocab, &t->bpe);
    return lipsc_wordpiece_read(&place, model, t->vocab, &t->wordpiece);
}

static lipsc_status check_version(const char *file, json_t *root, lipsc_error *err) {
    json_t *version = json_object_get(root, "version");
    if (!json_is_object(root))
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: is not a JSON object", file);
    if (version &&
        (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0))
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: version is not \"1.0\"", file);
    return LIPSC_OK;
}

lipsc_status lipsc_tokenizer_assemble(json_t *root, const char *file, lipsc_tokenizer **out,
                                      lipsc_error *err) {
    const lipsc_json_place normalizer = {file, "normalizer", err};
    const lipsc_json_place pretokenizer = {file, "pre_tokenizer", err};
    const lipsc_json_place post = {file, "post_processor", err};
    const lipsc_json_place decoder = {file, "decoder", err};
    const lipsc_json_place added = {file, "added_tokens", err};
    lipsc_status status = check_version(file, root, err);
    if (status) return status;
    lipsc_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", file);
    status = lipsc_normalizer_read(&normalizer, json_object_get(root, normalizer.part),
                                   &t->normalizer);
    if (!status)
        status = lipsc_pretokenizer_read(
            &pretokenizer, json_object_get(root, pretokenizer.part), &t->pretokenizer);
    if (!status)
        status =
            lipsc_postprocessor_read(&post, json_object_get(root, post.part), &t->post);
    if (!status)
        status =
            lipsc_decoder_read(&decoder, json_object_get(root, decoder.part), &t->decoder);
    if (!status) status = read_model(file, root, t, err);
    if (!status)
        status = lipsc_added_read(&added, json_object_get(root, added.part), t->vocab,
                                  t->normalizer, &t->added);
    if (status)
        lipsc_tokenizer_free(t);
    else
        *out = t;
    return status;
}

lipsc_status lipsc_tokenizer_parse(const char *json, size_t size, const char *name,
                                   lipsc_tokenizer **out, lipsc_error *err) {
    char file[LIPSC_SHOWN_PATH];
    json_t *root;
    lipsc_show_path(name, file);
    lipsc_status status = lipsc_json_read(json, size, file, &root, err);
    if (status) return status;
    status = lipsc_tokenizer_assemble(root, file, out, err);
    json_decref(root);
    return status;
}

/* ---- Text to ids ----------------------------------------------------------- */

/* The text with its added tokens found, each of the parts between them normalized. */
static lipsc_status find_added(lipsc_tokenizer *t, const lipsc_text *text,
                               lipsc_pieces *pieces, lipsc_error *err) {
    lipsc_pieces raw = {0};
    lipsc_text part = {0};
    lipsc_status status = LIPSC_OK;
    size_t first = 0;
    if (text->len) lipsc_utf8_read(text->data, &first);
    lipsc_added_cut(t->added, 0, text->data, text->len, first, &raw);
    for (size_t i = 0; i < raw.count && !raw.bytes.failed && !status; i++) {
        const lipsc_piece *piece = &raw.data[i];
        if (piece->is_token) {
            lipsc_pieces_put(pieces, *piece);
            continue;
        }
        size_t origin = piece->origin;
        part.len = 0;
        lipsc_text_put(&part, raw.bytes.data + piece->begin, piece->len);
        if (part.failed) break;
        status = lipsc_normalizer_apply(t->normalizer, &part, &origin, err);
        if (!status) lipsc_added_cut(t->added, 1, part.data, part.len, origin, pieces);
    }
    if (!status && (raw.failed || raw.bytes.failed || part.failed || pieces->failed ||
                    pieces->bytes.failed))
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    lipsc_text_free(&part);
    lipsc_pieces_free(&raw);
    return status;
}

static lipsc_status encode_pieces(lipsc_tokenizer *t, const lipsc_pieces *pieces,
                                  lipsc_ids *ids, lipsc_error *err) {
    for (size_t i = 0; i < pieces->count; i++) {
        const lipsc_piece *piece = &pieces->data[i];
        lipsc_status status = LIPSC_OK;
        if (piece->is_token)
            lipsc_ids_put(ids, piece->id);
        else if (t->bpe)
            status = lipsc_bpe_encode(t->bpe, pieces->bytes.data + piece->begin, piece->len,
                                      ids, err);
        else
            status = lipsc_wordpiece_encode(
                &t->wordpiece, pieces->bytes.data + piece->begin, piece->len, ids, err);
        if (status) return status;
    }
    return LIPSC_OK;
}

lipsc_status lipsc_tokenizer_encode(lipsc_tokenizer *tokenizer, const char *bytes,
                                    size_t size, int special, uint32_t **ids, size_t *count,
                                    lipsc_error *err) {
    lipsc_text text = {0};
    lipsc_pieces pieces = {0};
    lipsc_ids plain = {0}, all = {0};
    lipsc_status status = LIPSC_OK;
    lipsc_text_put_repaired(&text, bytes, size);
    if (text.failed) status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    if (!status) status = find_added(tokenizer, &text, &pieces, err);
    lipsc_text_free(&text);
    if (!status) status = lipsc_pretokenizer_apply(tokenizer->pretokenizer, &pieces, err);
    if (!status) status = encode_pieces(tokenizer, &pieces, &plain, err);
    lipsc_pieces_free(&pieces);
    if (!status) {
        lipsc_postprocessor_apply(&tokenizer->post, &plain, special, &all);
        uint32_t *copy = lipsc_alloc(all.count, sizeof *copy);
        if (plain.failed || all.failed || !copy) {
            lipsc_release(copy);
            status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
        } else {
            if (all.count) memcpy(copy, all.data, all.count * sizeof *copy);
            *ids = copy;
            *count = all.count;
        }
    }
    lipsc_ids_free(&plain);
    lipsc_ids_free(&all);
    return status;
}

lipsc_status lipsc_tokenizer_around(const lipsc_tokenizer *tokenizer, uint32_t **ids,
                                    size_t *before, size_t *after, lipsc_error *err) {
    const lipsc_postprocessor *post = &tokenizer->post;
    lipsc_ids all = {0};
    size_t texts = 0;
    *before = 0;
    for (size_t i = 0; i < post->count; i++) {
        const lipsc_post_part *part = &post->parts[i];
        if (part->is_text && !texts++) *before = all.count;
        if (!part->is_text) lipsc_ids_put_all(&all, part->ids.data, part->ids.count);
    }
    lipsc_status status = LIPSC_OK;
    *ids = lipsc_alloc(all.count, sizeof **ids);
    if (post->given && texts != 1)
        status = lipsc_fail(err, LIPSC_E_REFUSED,
                            "the tokenizer's post_processor writes the text %zu times: "
                            "windows cannot have special tokens around them",
                            texts);
    else if (all.failed || !*ids)
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    else if (all.count)
        memcpy(*ids, all.data, all.count * sizeof **ids);
    *after = all.count - *before;
    lipsc_ids_free(&all);
    if (!status) return LIPSC_OK;
    lipsc_release(*ids);
    *ids = NULL;
    return status;
}

size_t lipsc_tokenizer_malformed(const char *bytes, size_t size) {
    return lipsc_utf8_malformed(bytes, size);
}

/* ---- Ids to text ----------------------------------------------------------- */

const char *lipsc_tokenizer_token(const lipsc_tokenizer *tokenizer, uint32_t id,
                                  size_t *size) {
    const char *token = lipsc_added_token(tokenizer->added, id, size);
    return token ? token : lipsc_vocab_token(tokenizer->vocab, id, size);
}

int lipsc_tokenizer_find(const lipsc_tokenizer *tokenizer, const char *token, size_t size,
                         uint32_t *id) {
    return lipsc_added_find(tokenizer->added, token, size, id) ||
           lipsc_vocab_find(tokenizer->vocab, token, size, id);
}

size_t lipsc_tokenizer_vocab_size(const lipsc_tokenizer *tokenizer) {
    const size_t added = lipsc_added_end(tokenizer->added);
    const size_t own = lipsc_vocab_end(tokenizer->vocab);
    return added > own ? added : own;
}

lipsc_status lipsc_tokenizer_decode(const lipsc_tokenizer *tokenizer, const uint32_t *ids,
                                    size_t count, int skip_special, char **bytes,
                                    size_t *size, lipsc_error *err) {
    lipsc_strings tokens = {0};
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++) {
        size_t len;
        const char *token = lipsc_tokenizer_token(tokenizer, ids[i], &len);
        if (!token) {
            status = lipsc_fail(err, LIPSC_E_RANGE, "no token has the id %lu",
                                (unsigned long)ids[i]);
        } else if (!skip_special || !lipsc_added_is_special(tokenizer->added, token, len)) {
            lipsc_text_put(&tokens.bytes, token, len);
            lipsc_strings_end(&tokens);
        }
    }
    if (!status && tokens.failed) status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    if (!status) status = lipsc_decoder_apply(tokenizer->decoder, &tokens, err);
    if (!status) {
        char *copy = lipsc_alloc(tokens.bytes.len + 1, 1);
        if (!copy) {
            status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
        } else {
            if (tokens.bytes.len) memcpy(copy, tokens.bytes.data, tokens.bytes.len);
            copy[tokens.bytes.len] = '\0';
            *bytes = copy;
            *size = tokens.bytes.len;
        }
    }
    lipsc_strings_free(&tokens);
    return status;
}
