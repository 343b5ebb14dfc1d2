/* report.h - one self-contained HTML page from run files, or of finite changes. */
#ifndef LIPSCOPE_REPORT_H
#define LIPSCOPE_REPORT_H

#include "lipscope/perturb.h"
#include "lipscope/tokens.h"

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

/* What changes were made to; members that are NULL are not told. */
typedef struct {
    const char *model, *model_hash;   /* as lipsc_model_open takes it                    */
    const char *text_hash;            /* SHA-256 of its bytes                            */
    const char *command_line;         /* as typed                                        */
    const lipsc_tokenizer *tokenizer; /* for the words; NULL: ids as numbers           */
    size_t n;                         /* tokens of the window                          */
    uint64_t seed;
} lipsc_perturbed_of;

/* Writes the page of what lipsc_perturb found to `path`: its rows as a table, and how far
 * changes are stretched against their size as a chart.  Fails as lipsc_report_write. */
LIPSC_API lipsc_status lipsc_report_perturbed(const lipsc_perturbation_rows *rows,
                                              const lipsc_perturbed_of *of,
                                              const char *path, lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
