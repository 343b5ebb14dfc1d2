/* words.c - the texts of a window's tokens go into the run file, once, with the first of
 * its cells. */
#include "core/error.h"
#include "row/field.h"
#include "run/words.h"
#include "study/study.h"

/* Ids that were given need no tokenizer; where there is one all the same, it is taken. */
static void find_tokenizer(lipsc_study *study) {
    const lipsc_study_settings *s = &study->set;
    if (study->source.tokenizer || study->looked_for_words) return;
    study->looked_for_words = 1;
    if (lipsc_tokenizer_open(s->source.tokenizer ? s->source.tokenizer : s->model,
                             &study->source.tokenizer, NULL))
        study->source.tokenizer = NULL;
}

/* An id that the tokenizer does not know, too, stands for itself. */
static json_t *word_of(const lipsc_source *source, size_t start, size_t n, size_t i) {
    char *text = NULL;
    json_t *word = NULL;
    if (!lipsc_window_word(source, start, n, i, &text, NULL)) word = lipsc_json_text(text);
    lipsc_release(text);
    return word ? word : json_integer(lipsc_window_id(source, start, n, i));
}

static json_t *words_of(const lipsc_source *source, size_t start, size_t n) {
    json_t *words = json_array();
    for (size_t i = 0; words && i < n; i++)
        if (json_array_append_new(words, word_of(source, start, n, i))) {
            json_decref(words);
            words = NULL;
        }
    return words;
}

lipsc_status lipsc_study_store_words(lipsc_study *study, const study_cell *cell,
                                     lipsc_error *err) {
    const lipsc_source *source = &study->source;
    const lipsc_run_window at = {.model_hash = study->info->hash,
                                 .text_hash = source->hash,
                                 .special = study->set.source.special,
                                 .start = cell->start};
    int there = 0;
    if (source->pixels) return LIPSC_OK;
    lipsc_status status = lipsc_run_has_words(study->run, &at, cell->n, &there, err);
    if (status || there) return status;
    find_tokenizer(study);
    json_t *words = words_of(source, cell->start, cell->n);
    status = words
                 ? lipsc_run_put_words(study->run, &at, cell->n, source->after, words, err)
                 : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for words");
    json_decref(words);
    return status;
}
