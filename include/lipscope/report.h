/* report.h - one self-contained HTML page from run files. */
#ifndef LIPSCOPE_REPORT_H
#define LIPSCOPE_REPORT_H

#include "lipscope/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0: this build has no page, for want of Vega at its configuration; lipsc_report_write then
 * says so and fails. */
LIPSC_API int lipsc_report_is_built(void);

/* Writes the page of `count` run files (at least one), compared where there are several, to
 * `path`.  The runs are only read, also while a sweep still writes them.  When it fails
 * (no run file, a newer schema, a full disk) the sentence names the file, and nothing that
 * stood under `path` before is lost. */
LIPSC_API lipsc_status lipsc_report_write(size_t count, const char *const *runs,
                                          const char *path, lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
