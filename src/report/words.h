/* words.h - the words that a page can show of a run, no more than a browser takes. */
#ifndef LIPSC_REPORT_WORDS_H
#define LIPSC_REPORT_WORDS_H

#include "run/rows_file.h"

/* Adds the windows of these rows to the head of the run, as `windows`, and takes the
 * influence of tokens out of the rows of smallest sigma where there is too much of it
 * (`influence_left` is their number).  share: of so many runs on the page. */
lipsc_status lipsc_report_words(const char *path, const lipsc_rows_file *file, size_t share,
                                lipsc_error *err);

#endif
