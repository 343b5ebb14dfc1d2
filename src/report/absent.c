/* absent.c - stands in where the page is not built. */
#include "lipscope/report.h"

#include "core/error.h"

int lipsc_report_is_built(void) { return 0; }

lipsc_status lipsc_report_write(size_t count, const char *const *runs, const char *path,
                                lipsc_error *err) {
    (void)count;
    (void)runs;
    return lipsc_fail(err, LIPSC_E_REFUSED,
                      "%s: this build writes no pages: it was configured without Vega",
                      path);
}
