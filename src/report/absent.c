/* absent.c - stands in where the page is not built. */
#include "lipscope/report.h"

#include "core/error.h"

int lipsc_report_is_built(void) { return 0; }

static lipsc_status refuse(const char *path, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_REFUSED,
                      "%s: this build writes no pages: it was configured without Vega",
                      path);
}

lipsc_status lipsc_report_write(size_t count, const char *const *runs, const char *path,
                                lipsc_error *err) {
    (void)count;
    (void)runs;
    return refuse(path, err);
}

lipsc_status lipsc_report_perturbed(const lipsc_perturbation_rows *rows,
                                    const lipsc_perturbed_of *of, const char *path,
                                    lipsc_error *err) {
    (void)rows;
    (void)of;
    return refuse(path, err);
}
