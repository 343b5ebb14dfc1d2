/* mpi_api.h - what the plugin liblipscope_mpi.so offers, in one table.
 *
 * The program does not link MPI: ranks.c looks for the plugin where the environment says
 * that there are other ranks.  Calls come one at a time, from any thread.  Each returns 1
 * for yes or done, 0 for no or not yet, and -1 when MPI has failed. */
#ifndef LIPSC_RANKS_MPI_API_H
#define LIPSC_RANKS_MPI_API_H

#include <stddef.h>

#define LIPSC_MPI_PLUGIN "lipsc_mpi_plugin"
enum { LIPSC_MPI_ABI = 2 };

typedef struct {
    int abi;
    size_t size;

    /* first: the lowest rank on the same machine */
    int (*begin)(int *rank, int *count, int *first, char *why, size_t room);
    void (*end)(void);
    void (*abort)(int code); /* ends all ranks */

    /* Whether a message waits. */
    int (*probe)(int *from, int *tag, size_t *bytes);
    /* The message that probe has seen. */
    int (*receive)(int from, int tag, size_t bytes, void *to);
    /* Begins to send; from must stay until sent says 1. */
    int (*send)(int to, int tag, size_t bytes, const void *from, void **pending);
    int (*sent)(void **pending);

    /* all (count, bytes) = own (bytes) of every rank, in their order; all of them call it
     */
    int (*gather)(size_t bytes, const void *own, void *all);
    /* The same with parts of different sizes, bytes (count), one after the other. */
    int (*gather_parts)(const int *bytes, const void *own, void *all);
    /* Each rank sends one part to every rank and has one of each; sizes in bytes (count).
     */
    int (*exchange)(const int *bytes_out, const void *out, const int *bytes_in, void *in);
    /* Whether these two take addresses of a GPU's memory: a CUDA-aware MPI. */
    int (*takes_gpu)(void);
} lipsc_mpi_api;

#endif
