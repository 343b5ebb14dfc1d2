/* layer_row.h - the row of one layer at one input: sigma and all that can be told beside
 * it; what `lipscope layer` does.
 *
 *     lipsc_layer_row_settings set;
 *     lipsc_layer_row found;
 *     lipsc_layer_row_defaults(&set);
 *     set.upper = 1;
 *     lipsc_layer_row_find(&file.layer, &file.input, &set, &found, &err);
 *     printf("%.6g to %.6g\n", found.row.lower, found.row.upper);
 *     lipsc_layer_row_free(&found); */
#ifndef LIPSCOPE_LAYER_ROW_H
#define LIPSCOPE_LAYER_ROW_H

#include "lipscope/file.h"
#include "lipscope/row.h"
#include "lipscope/sigma.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *name;  /* of the layer, in the row and in sentences; default "layer" */
    lipsc_dtype dtype; /* of the products; the value is re-evaluated in double      */
    lipsc_svd_settings solve; /* as for lipsc_attn_sigma; in f32 without a tolerance the
                               * value is good to 1e-6 */
    int sigmas;      /* list all solve.count values                               */
    int upper;       /* a proved upper bound                                      */
    int as_released; /* what the paper's scripts return; not with weights         */
    const lipsc_certify_settings *certify; /* a proved and tight one, or NULL; its lower and
                                            * upper are those of the row */
    const char *save_direction;   /* a direction file (lipscope/check.h); NULL: none   */
    const lipsc_layer_file *from; /* whose words on its origin go into that; NULL: none */
    const lipsc_device *device; /* NULL: the CPU                                         */
    lipsc_layer_file *spent;    /* the file of layer and input, to be freed as soon as it is
                                 * not needed any more, or NULL: its caller frees it     */
} lipsc_layer_row_settings;

LIPSC_API void lipsc_layer_row_defaults(lipsc_layer_row_settings *set);

typedef struct {
    lipsc_row row; /* its texts and lists stand in settings and storage         */
    lipsc_status certificate; /* LIPSC_E_NOCONV, LIPSC_E_REFUSED: none, `why` says it */
    lipsc_error why;
    void *storage;
} lipsc_layer_row;

/* LIPSC_E_NOCONV and LIPSC_E_STOPPED: the row is there, with what was reached.  Free it in
 * any case. */
LIPSC_API lipsc_status lipsc_layer_row_find(const lipsc_layer *layer,
                                            const lipsc_input *input,
                                            const lipsc_layer_row_settings *set,
                                            lipsc_layer_row *out, lipsc_error *err);
LIPSC_API void lipsc_layer_row_free(lipsc_layer_row *row);

/* Seconds that the solve will take, roughly: from the sizes, and the speed of a product
 * that is tried now. */
LIPSC_API double lipsc_layer_row_seconds(const lipsc_layer *layer, const lipsc_input *input,
                                         const lipsc_layer_row_settings *set);

#ifdef __cplusplus
}
#endif
#endif
