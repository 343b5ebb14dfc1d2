/* demo_outlier.c - the outlier that makes sigma grow with n, and proves the bounds sharp.
 */
#include <math.h>
#include <stdio.h>

#include "demo.h"
#include "interrupt.h"
#include "lipscope.h"

enum { LARGEST = 1000, BAR = 40 };

/* A bar for `value` out of `most`. */
static void bar(const cli_screen *s, double value, double most) {
    const int length = (int)lrint(BAR * value / most);
    fputs(s->accent, stdout);
    for (int i = 0; i < length; i++) putchar('#');
    puts(s->plain);
}

lipsc_status demo_outlier(const cli_screen *s, lipsc_device *device, lipsc_error *err) {
    static const size_t lengths[] = {2, 10, 30, 100, 300, 1000};
    static double X[LARGEST];
    const double peak = 18.0;
    demo_heading(s, "One outlier");
    puts("One token at -1.5, all others at +1.5, scores -x_i x_j.  Everybody looks at the\n"
         "outlier, so moving it moves everybody: sigma grows even faster than sqrt(n),\n"
         "until the crowd drowns it out, near n = e^4.5 = 90.  No sigma\n"
         "exceeds what is proved there.\n");
    printf("%s%6s  %7s  %7s  %7s%s\n", s->faint, "n", "sqrt(n)", "proved", "sigma",
           s->plain);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        lipsc_layer layer;
        lipsc_input input;
        lipsc_attn *attn = NULL;
        lipsc_svd_settings set;
        lipsc_svd_info info;
        lipsc_upper upper;
        double sigma;
        lipsc_known_outlier(n, 1.5, X, &layer, &input);
        lipsc_svd_defaults(&set);
        set.stop = cli_interrupted;
        lipsc_status status = lipsc_attn_new(&layer, &input, LIPSC_F64, device, &attn, err);
        if (!status) status = lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
        if (!status) status = lipsc_attn_upper(attn, &upper, err);
        lipsc_attn_free(attn);
        if (status) return status;
        printf("%6zu  %7.3f  %7.3f  %s%7.3f%s  ", n, sqrt((double)n), upper.value,
               s->strong, sigma, s->plain);
        bar(s, sigma, peak);
        fflush(stdout);
    }
    return LIPSC_OK;
}
