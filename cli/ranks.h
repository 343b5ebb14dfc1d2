/* ranks.h - the program started several times by mpirun: one speaks, all compute. */
#ifndef LIPSC_CLI_RANKS_H
#define LIPSC_CLI_RANKS_H

#include "args.h"

/* Runs the command; the ranks of one that shares its work have joined before. */
int cli_ranks_run(const cli_command *command, int argc, char **argv);

/* Ends what cli_ranks_run began; code is that of the command. */
void cli_ranks_end(int code);

lipsc_ranks *cli_ranks(void); /* NULL: the only one           */
int cli_ranks_leads(void);    /* whether this one has the word */

/* The exit code of one that has not: what rank 0 was told is rank 0's to say. */
int cli_ranks_followed(void);

/* Threads that this rank takes where none are asked for: a core is not for two.  0: as many
 * as OpenMP gives. */
int cli_ranks_threads(void);

/* The GPU of this rank, where just "cuda" is asked for; room for what it returns. */
const char *cli_ranks_device(const char *name, char room[32]);

#endif
