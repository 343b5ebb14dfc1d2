/* ref_map.h - the maps behind attention by their definition, in plain double loops. */
#ifndef LIPSC_MODEL_REF_MAP_H
#define LIPSC_MODEL_REF_MAP_H

#include "model/model.h"

/* image = J v and back = J^T J v of norm-attention, residual, block or model at x (n, d),
 * the map's own input; all arrays (n, d).  Shares no code with the operators and the solver
 * but the reading of weights.  LIPSC_E_REFUSED: the family has a part that is not written
 * out here. */
lipsc_status lipsc_model_ref_gram(lipsc_model *model, const lipsc_map_options *options,
                                  size_t n, const double *x, const double *v, double *image,
                                  double *back, lipsc_error *err);

#endif
