/* demo.h - the parts of `lipscope demo`: a measured model in few numbers, and its table.
 *
 *     cmd_demo.c       options, the order of things, what is said
 *     demo_model.c     rows of a measurement to medians, and these to lines */
#ifndef LIPSC_CLI_DEMO_H
#define LIPSC_CLI_DEMO_H

#include "lipscope/study.h"

typedef struct {
    const char *strong, *accent, *faint, *plain; /* escape sequences, or empty */
} demo_style;

enum { DEMO_LENGTHS = 8, DEMO_LAYERS = 12 };

typedef struct {
    size_t layer;
    double sigma[DEMO_LENGTHS]; /* medians over windows                   */
    double proved;              /* median bound at the longest length     */
    double exponent, low, high; /* slope of ln sigma over ln n, with 95 %; NaN: no fit */
    int law;                    /* a straight line fits                   */
} demo_layer;

typedef struct {
    size_t length_count, lengths[DEMO_LENGTHS];
    size_t layer_count;
    demo_layer layers[DEMO_LAYERS];
    double largest; /* sigma, in this layer and window: */
    size_t largest_layer, largest_n, largest_window;
    double tightest, loosest; /* least and greatest proved bound / sigma */
    size_t rows, not_converged;
} demo_model;

/* What the finished cells of a study say.  LIPSC_E_NOMEM, or
 * LIPSC_E_RANGE when there are more lengths or layers than fit. */
lipsc_status demo_model_read(lipsc_study *study, demo_model *out);

/* A line of lengths, then a line for each layer; at most 80 columns. */
void demo_model_print(const demo_model *model, const demo_style *style);

#endif
