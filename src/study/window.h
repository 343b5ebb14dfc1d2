/* window.h - the window of a source on its way through a model, beyond lipscope/source.h.
 */
#ifndef LIPSC_STUDY_WINDOW_H
#define LIPSC_STUDY_WINDOW_H

#include "lipscope/source.h"
#include "model/model.h"

/* Its tokens, lipsc_release; NULL: an image has none to be read before. */
lipsc_status lipsc_window_read(const lipsc_source *source, size_t start, size_t n,
                               lipsc_model *model, double **tokens, lipsc_error *err);
/* The window, or the image, before block 0. */
lipsc_status lipsc_window_begin(const lipsc_source *source, size_t start, size_t n,
                                lipsc_model *model, lipsc_dtype dtype, lipsc_acts **acts,
                                lipsc_error *err);

/* The remark on bytes of a text that are not UTF-8. */
void lipsc_source_malformed(const char *path, size_t malformed, size_t size,
                            char remark[LIPSC_SOURCE_REMARK]);

#endif
