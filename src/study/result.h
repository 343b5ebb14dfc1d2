/* result.h - what was found at one cell, on its way from the solve to the row. */
#ifndef LIPSC_STUDY_RESULT_H
#define LIPSC_STUDY_RESULT_H

#include "bound/spread.h"
#include "study/study.h"
#include "value/influence.h"
#include "value/sink.h"

typedef struct {
    double *sigma; /* (count) */
    lipsc_svd_info info;
    double lower, upper, released, seconds, routing_gap;
    lipsc_spread spread;
    int has_spread;
    lipsc_influence influence;
    double *strengths; /* (n) of the tokens; NULL: not asked for */
    lipsc_sink_share share;
    double *u, *v; /* the directions, or NULL */
    lipsc_certificate certificate;
} study_result;

/* Where the map is differentiated, (n, d). */
const double *lipsc_study_input(const lipsc_study *study, const study_cell *cell,
                                const lipsc_acts *acts);

/* fill.c: attn is the map's, NULL where it has none. */
void lipsc_study_fill(const lipsc_study *study, const study_cell *cell,
                      const lipsc_acts *acts, lipsc_attn *attn, const study_result *r,
                      study_room *room, lipsc_row *row);

/* Parts of any row: what a solve found, the lengths of the tokens, a certificate. */
void lipsc_row_set_solve(lipsc_row *row, double sigma, const lipsc_svd_info *info);
void lipsc_row_set_radius(lipsc_row *row, size_t n, size_t d, const double *X);
double lipsc_row_tol(double tol, lipsc_dtype dtype); /* 0: the default there */
void lipsc_row_set_certificate(lipsc_row *row, const lipsc_certificate *found);

/* save.c */
lipsc_status lipsc_study_save_direction(const lipsc_study *study, const study_cell *cell,
                                        const lipsc_acts *acts, const lipsc_attn *attn,
                                        const study_result *r, lipsc_error *err);

#endif
