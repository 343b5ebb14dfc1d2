/* teller.h - what commands say while a study runs: how far it is, and remarks. */
#ifndef LIPSC_CLI_TELLER_H
#define LIPSC_CLI_TELLER_H

#include "lipscope/claims.h"
#include "lipscope/study.h"
#include "progress.h"

typedef struct {
    const cli_command *self;
    const cli_common *common;
    cli_progress progress;
    long products;  /* of the solve under way, which began at */
    double solving; /* seconds */
} cli_teller;

/* From now on the study tells this one, and Ctrl-C stops it. */
void cli_teller_begin(cli_teller *teller, const cli_command *self, const cli_common *common,
                      lipsc_study_settings *set);
/* The same for claims and the studies that they ask for. */
void cli_teller_claims(cli_teller *teller, const cli_command *self,
                       const cli_common *common, lipsc_claims_settings *set);
/* What a long study will take. */
void cli_teller_plan(const cli_teller *teller, lipsc_study *study, lipsc_device *device);
void cli_teller_end(cli_teller *teller);

#endif
