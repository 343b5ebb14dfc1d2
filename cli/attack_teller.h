/* attack_teller.h - what is said while worst inputs are sought. */
#ifndef LIPSC_CLI_ATTACK_TELLER_H
#define LIPSC_CLI_ATTACK_TELLER_H

#include "progress.h"

typedef struct {
    const cli_command *self;
    const cli_common *common;
    cli_progress line;
    double limit;         /* --seconds; 0: none                               */
    double begin, climbs; /* seconds of the clock: of all, of the first climb */
    double done;          /* share of the climbs                              */
    int estimated;
} attack_teller;

/* From now on the search tells this one, and Ctrl-C stops it. */
void attack_teller_begin(attack_teller *teller, const cli_command *self,
                         const cli_common *common, lipsc_attacks_settings *set);
void attack_teller_end(attack_teller *teller);
/* The search was interrupted: what is kept, and in which run file, or NULL.  The exit code.
 */
int attack_teller_stopped(const attack_teller *teller, const char *run,
                          const lipsc_attacks *attacks);

#endif
