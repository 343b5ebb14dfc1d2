/* perturbed.c - the page of changes of finite size. */
#include <stdlib.h>

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "lipscope/report.h"
#include "report/made.h"
#include "row/field.h"

/* The text of a token in quotes, a line break as \n, or its number. */
static json_t *word(const lipsc_tokenizer *tokenizer, uint32_t id) {
    char *bytes = NULL;
    size_t size = 0;
    if (!tokenizer || lipsc_tokenizer_decode(tokenizer, &id, 1, 0, &bytes, &size, NULL))
        return json_sprintf("%lu", (unsigned long)id);
    json_t *text = json_stringn(bytes, size);
    char *quoted = text ? lipsc_json_dumps(text, JSON_ENCODE_ANY) : NULL;
    json_t *shown = quoted ? json_string(quoted) : NULL;
    free(quoted);
    json_decref(text);
    lipsc_release(bytes);
    return shown;
}

/* The row that `perturb` prints, and what it is of.  NULL when memory is short. */
static json_t *row_of(const lipsc_perturbed *r, const lipsc_perturbed_of *of) {
    json_t *from = word(of->tokenizer, r->from), *to = word(of->tokenizer, r->to);
    const lipsc_perturbed_row made =
        lipsc_perturbed_row_of(r, json_string_value(from), json_string_value(to));
    json_t *row =
        from && to ? lipsc_fields_json(lipsc_perturbed_fields(), &made, ~0u) : NULL;
    int bad = !row;
#define SET(name, value) bad |= json_object_set_new(row, name, value)
    SET("n", json_integer((json_int_t)of->n));
    SET("model", lipsc_json_text(of->model));
    SET("model_hash", lipsc_json_text(of->model_hash));
    SET("text_hash", lipsc_json_text(of->text_hash));
#undef SET
    json_decref(from);
    json_decref(to);
    if (!bad) return row;
    json_decref(row);
    return NULL;
}

static json_t *head_of(const lipsc_perturbed_of *of) {
    return json_pack("{s:s, s:o, s:{s:I, s:o, s:o}}", "command", "perturb", "command_line",
                     lipsc_json_text(of->command_line), "settings", "seed",
                     (json_int_t)of->seed, "model_hash", lipsc_json_text(of->model_hash),
                     "text_hash", lipsc_json_text(of->text_hash));
}

lipsc_status lipsc_report_perturbed(const lipsc_perturbation_rows *rows,
                                    const lipsc_perturbed_of *of, const char *path,
                                    lipsc_error *err) {
    if (!rows || !rows->count || !of || !path)
        return lipsc_fail(err, LIPSC_E_ARG, "a page of changes needs rows and a path");
    json_t *head = head_of(of);
    json_t **made = lipsc_alloc_zero(rows->count, sizeof *made);
    int bad = !head || !made;
    for (size_t i = 0; i < rows->count && !bad; i++)
        bad = !(made[i] = row_of(&rows->at[i], of));
    const lipsc_status status =
        bad ? lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a report")
            : lipsc_report_made(head, rows->count, made, path, err);
    for (size_t i = 0; made && i < rows->count; i++) json_decref(made[i]);
    lipsc_release(made);
    json_decref(head);
    return status;
}
