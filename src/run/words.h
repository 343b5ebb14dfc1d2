/* words.h - what the windows of a run say: the texts of their tokens, kept once for a
 * window and not with each of its cells.
 *
 *     table windows    model_hash, text_hash, special, start, n, after, tokens (JSON list)
 *
 * A window of the same start is a piece of the longest one: its first n - after tokens and
 * its last `after`, which are the special tokens behind the text.  Texts are strings; where
 * a run has no tokenizer they are the ids, numbers.  Older files have no such table. */
#ifndef LIPSC_RUN_WORDS_H
#define LIPSC_RUN_WORDS_H

#include "run/run.h"

typedef struct {
    const char *model_hash, *text_hash;
    int special;
    size_t start;
} lipsc_run_window;

/* *there: the window is kept with n tokens at least. */
lipsc_status lipsc_run_has_words(lipsc_run *run, const lipsc_run_window *at, size_t n,
                                 int *there, lipsc_error *err);
/* Keeps n tokens, in place of fewer. */
lipsc_status lipsc_run_put_words(lipsc_run *run, const lipsc_run_window *at, size_t n,
                                 size_t after, const json_t *tokens, lipsc_error *err);

/* Takes over what another run keeps. */
lipsc_status lipsc_run_copy_words(lipsc_run *to, lipsc_run *from, lipsc_error *err);

enum { LIPSC_WINDOW_KEY = 192 };

/* The name of a window in an object of windows. */
void lipsc_run_window_key(const lipsc_run_window *at, char key[LIPSC_WINDOW_KEY]);

/* Of the windows that are members of `wanted` (keys as above) those that are kept, `most`
 * tokens in all: *out has objects of model_hash, text_hash, special, start, after and
 * tokens (json_decref it).  Only looks, as lipsc_run_read does.  *left: windows that there
 * was no room for. */
lipsc_status lipsc_run_words(const char *path, const json_t *wanted, size_t most,
                             json_t **out, size_t *left, lipsc_error *err);

#endif
