/* ranks.h - several processes that share a work, on one machine or many.
 *
 * Whoever starts a program by mpirun (or srun) has as many ranks of it as he asked for.
 * They talk by MPI, which the plugin liblipscope_mpi.so brings: it lies beside the library
 * or the program, or where LIPSCOPE_MPI_PLUGIN says, and is loaded only where there are
 * other ranks. */
#ifndef LIPSCOPE_RANKS_H
#define LIPSCOPE_RANKS_H

#include "lipscope/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lipsc_ranks lipsc_ranks;

/* How many ranks the environment says there are, 1 where nobody has started several, and
 * which of them this one is; number may be NULL. */
LIPSC_API size_t lipsc_ranks_started(size_t *number);

/* Joins the others; all of them must.  *out is NULL, the only rank, where nobody has
 * started several.  Once in a process: MPI cannot begin again after its end. */
LIPSC_API lipsc_status lipsc_ranks_open(lipsc_ranks **out, lipsc_error *err);
/* Waits for the others, who must close theirs as well. */
LIPSC_API void lipsc_ranks_close(lipsc_ranks *ranks);
/* Ends all ranks at once, with this exit status; it does not return. */
LIPSC_API void lipsc_ranks_abort(lipsc_ranks *ranks, int code);

/* NULL is the only rank. */
LIPSC_API size_t lipsc_ranks_count(const lipsc_ranks *ranks);
LIPSC_API size_t lipsc_ranks_number(const lipsc_ranks *ranks); /* from 0 */
/* The same among those of its machine, from 0: which GPU is this one's. */
LIPSC_API size_t lipsc_ranks_local(const lipsc_ranks *ranks);
/* How many there are on its machine. */
LIPSC_API size_t lipsc_ranks_together(const lipsc_ranks *ranks);
/* Its part of the cores that its machine lends to several ranks, at least one; 0: all,
 * there is no other rank. */
LIPSC_API int lipsc_ranks_threads(const lipsc_ranks *ranks);
/* Whether the others wait for a word of this one, or never had one: it cannot end alone. */
LIPSC_API int lipsc_ranks_awaited(const lipsc_ranks *ranks);

#ifdef __cplusplus
}
#endif
#endif
