/* mpi.c - the plugin: MPI behind the table of mpi_api.h. */
#define _GNU_SOURCE /* RTLD_DEFAULT, setenv */
#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ranks/mpi/mpi_api.h"

static MPI_Comm ours = MPI_COMM_NULL; /* nobody else's messages are in it */

static int good(int code) { return code == MPI_SUCCESS ? 1 : -1; }

static int lowest_here(int rank, int *first) {
    MPI_Comm here;
    if (MPI_Comm_split_type(ours, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here)) return -1;
    const int code = MPI_Allreduce(&rank, first, 1, MPI_INT, MPI_MIN, here);
    MPI_Comm_free(&here);
    return good(code);
}

/* ---- The beginning ------------------------------------------------------------------- */

/* MPI_Init waits for the launcher, also for one that has been killed meanwhile: a rank
 * whose parent is gone ends as if it had been told to. */
typedef struct {
    pthread_mutex_t turn;
    pthread_cond_t over;
    int done;
    pid_t parent;
} watch;

static void *look_after(void *ctx) {
    watch *w = ctx;
    pthread_mutex_lock(&w->turn);
    while (!w->done) {
        struct timespec later;
        clock_gettime(CLOCK_REALTIME, &later);
        later.tv_sec++;
        pthread_cond_timedwait(&w->over, &w->turn, &later);
        if (!w->done && getppid() != w->parent) kill(getpid(), SIGTERM);
    }
    pthread_mutex_unlock(&w->turn);
    return NULL;
}

static int init_watched(int *given) {
    watch w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, getppid()};
    pthread_t looker;
    const int watched = !pthread_create(&looker, NULL, look_after, &w);
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, given);
    pthread_mutex_lock(&w.turn);
    w.done = 1;
    pthread_cond_signal(&w.over);
    pthread_mutex_unlock(&w.turn);
    if (watched) pthread_join(looker, NULL);
    return code;
}

static int begin(int *rank, int *count, int *first, char *why, size_t room) {
    int given = 0, there = 0;
    /* who waits in a call lets others have the core; whoever has said otherwise may */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    MPI_Initialized(&there);
    if (there)
        MPI_Query_thread(&given);
    else if (init_watched(&given))
        given = -1;
    if (given < MPI_THREAD_SERIALIZED) {
        snprintf(why, room,
                 given < 0 ? "MPI_Init failed"
                           : "this MPI cannot be used from several threads");
        return -1;
    }
    if (MPI_Comm_dup(MPI_COMM_WORLD, &ours) ||
        MPI_Comm_set_errhandler(ours, MPI_ERRORS_RETURN) || MPI_Comm_rank(ours, rank) ||
        MPI_Comm_size(ours, count) || lowest_here(*rank, first) < 0) {
        snprintf(why, room, "MPI_Comm_dup failed");
        return -1;
    }
    return 1;
}

static void end(void) {
    MPI_Comm_free(&ours);
    MPI_Finalize();
}

static void end_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

static int probe(int *from, int *tag, size_t *bytes) {
    MPI_Status status;
    int there = 0, count = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ours, &there, &status)) return -1;
    if (!there) return 0;
    if (MPI_Get_count(&status, MPI_BYTE, &count) || count < 0) return -1;
    *from = status.MPI_SOURCE;
    *tag = status.MPI_TAG;
    *bytes = (size_t)count;
    return 1;
}

static int receive(int from, int tag, size_t bytes, void *to) {
    return good(MPI_Recv(to, (int)bytes, MPI_BYTE, from, tag, ours, MPI_STATUS_IGNORE));
}

static int begin_send(int to, int tag, size_t bytes, const void *from, void **pending) {
    MPI_Request *request = bytes <= INT_MAX ? malloc(sizeof *request) : NULL;
    *pending = request;
    if (!request) return -1;
    if (MPI_Isend(from, (int)bytes, MPI_BYTE, to, tag, ours, request)) {
        free(request);
        return -1;
    }
    return 1;
}

static int sent(void **pending) {
    MPI_Request *request = *pending;
    int done = 0;
    const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (!code && !done) return 0;
    free(request);
    *pending = NULL;
    return good(code);
}

static int gather(size_t bytes, const void *own, void *all) {
    if (bytes > INT_MAX) return -1;
    return good(MPI_Allgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, ours));
}

/* Where each part begins, in a list to be freed; NULL: memory is short, or it is too much.
 */
static int *begins(int count, const int *bytes) {
    int *at = malloc((size_t)count * sizeof *at);
    size_t sum = 0;
    for (int r = 0; at && r < count; r++) {
        at[r] = (int)sum;
        sum += (size_t)bytes[r];
    }
    if (sum <= INT_MAX) return at;
    free(at);
    return NULL;
}

static int gather_parts(const int *bytes, const void *own, void *all) {
    int count, rank;
    MPI_Comm_size(ours, &count);
    MPI_Comm_rank(ours, &rank);
    int *at = begins(count, bytes);
    const int code =
        at ? MPI_Allgatherv(own, bytes[rank], MPI_BYTE, all, bytes, at, MPI_BYTE, ours)
           : MPI_ERR_OTHER;
    free(at);
    return good(code);
}

static int exchange(const int *bytes_out, const void *out, const int *bytes_in, void *in) {
    int count;
    MPI_Comm_size(ours, &count);
    int *from = begins(count, bytes_out), *to = begins(count, bytes_in);
    const int code = from && to ? MPI_Alltoallv(out, bytes_out, from, MPI_BYTE, in,
                                                bytes_in, to, MPI_BYTE, ours)
                                : MPI_ERR_OTHER;
    free(from);
    free(to);
    return good(code);
}

/* An extension of Open MPI, which others have as well; who has it not is not asked. */
static int takes_gpu(void) {
    int (*query)(void) = NULL;
    *(void **)&query = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    return query && query() == 1;
}

static const lipsc_mpi_api api = {.abi = LIPSC_MPI_ABI,
                                  .size = sizeof api,
                                  .begin = begin,
                                  .end = end,
                                  .abort = end_all,
                                  .probe = probe,
                                  .receive = receive,
                                  .send = begin_send,
                                  .sent = sent,
                                  .gather = gather,
                                  .gather_parts = gather_parts,
                                  .exchange = exchange,
                                  .takes_gpu = takes_gpu};

__attribute__((visibility("default"))) const lipsc_mpi_api *lipsc_mpi_plugin(void);
const lipsc_mpi_api *lipsc_mpi_plugin(void) { return &api; }
