/* lipscope.h - how far can an attention layer stretch a small change of its input?  The
 * front page of the library; each header that it names is a chapter.
 *
 * A complete program:
 *
 *     #include <lipscope.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         const double X[] = {-1, 1, 1, 1};       // four tokens of width one
 *         const double minus_one[] = {-1}, one[] = {1};
 *         lipsc_layer layer;
 *         lipsc_layer_defaults(&layer);           // one head, no mask
 *         layer.d = layer.key_dim = layer.value_dim = 1;
 *         layer.Q = minus_one;                    // scores (Q x_i).(K x_j)
 *         layer.K = layer.V = one;
 *
 *         lipsc_input input = {.n = 4, .X = X};
 *         lipsc_error err;
 *         lipsc_attn *attn;
 *         if (lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, &err)) {
 *             fprintf(stderr, "%s\n", err.text);
 *             return 1;
 *         }
 *         lipsc_svd_settings set;
 *         lipsc_svd_info info;
 *         double sigma;
 *         lipsc_svd_defaults(&set);
 *         lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
 *         printf("sigma %.12g, residual %.1e\n", sigma, info.residual);
 *         lipsc_attn_free(attn);
 *     }
 *
 * Rules that hold for every function below:
 *   - inputs are const and, unless a line says otherwise, are never kept after
 *     the call returns;
 *   - whoever allocates frees; every *_free(NULL) does nothing;
 *   - a function that can fail returns lipsc_status; results are written only on
 *     LIPSC_OK, LIPSC_E_NOCONV and LIPSC_E_STOPPED.  err may be NULL;
 *   - matrices are row-major, sequences are (n, width) row-major, so a sequence
 *     is also one vector of n * width numbers;
 *   - the library never prints, never exits, and keeps no global state.  Two
 *     threads may use two handles at once, never one.  It changes nothing of the
 *     process: numbers in files have a decimal point in any locale, OpenMP's number
 *     of threads is changed for the calling thread alone and set back, that of a BLAS
 *     with threads of its own never (OpenBLAS built on OpenMP follows OpenMP). */
#ifndef LIPSCOPE_H
#define LIPSCOPE_H

/* What everything else is made of. */
#include "lipscope/status.h" /* status, error, precision                              */
#include "lipscope/device.h" /* where numbers are computed                            */
#include "lipscope/ranks.h"  /* several processes that share a work                   */
#include "lipscope/row.h"    /* a row of results: a struct and its list of fields     */
#include "lipscope/table.h"  /* rows on a screen, as TSV or as JSON                   */

/* One layer in memory. */
#include "lipscope/layer.h"     /* an attention layer, its Jacobian at an input       */
#include "lipscope/sigma.h"     /* singular values of an operator, certificates       */
#include "lipscope/bound.h"     /* proved upper bounds                                */
#include "lipscope/construct.h" /* explicit worst cases of a head                     */
#include "lipscope/attack.h"    /* the worst input that a search finds                */

/* Files and models. */
#include "lipscope/file.h"      /* layer files                                        */
#include "lipscope/layer_row.h" /* sigma of a layer at an input: `layer`              */
#include "lipscope/check.h"     /* a stored value, confirmed without the solver       */
#include "lipscope/model.h"     /* checkpoints, activations, the maps of a model      */
#include "lipscope/tokens.h"    /* text to token ids                                  */
#include "lipscope/source.h"    /* texts, ids, images, and windows of them            */
#include "lipscope/perturb.h"   /* what finite changes do, beside sigma               */
#include "lipscope/place.h"     /* a layer of a file or a model, and an input: its
                                 * bounds, attacks, finite changes                    */

/* Many cells. */
#include "lipscope/study.h"   /* sigma of every layer at every window: `measure`      */
#include "lipscope/run.h"     /* run files: rows that are kept                        */
#include "lipscope/fit.h"     /* growth laws                                          */
#include "lipscope/compare.h" /* two sets of rows against each other                  */
#include "lipscope/report.h"  /* a page of run files, or of finite changes            */

/* Sequences without a length. */
#include "lipscope/meanfield.h" /* measures, their distances, attention on them       */

/* What is known, and what this machine does. */
#include "lipscope/claims.h" /* what is claimed, computed and judged: `reproduce`     */
#include "lipscope/trial.h"  /* this build on this machine: correct, fast             */

#endif
