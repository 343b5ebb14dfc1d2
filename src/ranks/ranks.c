/* ranks.c - the ranks of one job: the plugin that knows MPI, cores, messages.
 *
 * Blocking calls of MPI keep a core busy while they wait.  Cores are there to compute: who
 * waits for a message asks now and then, and sleeps between. */
#define _GNU_SOURCE /* dladdr, sched_getaffinity */
#include "ranks/ranks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/mem.h"
#include "ranks/mpi/mpi_api.h"

/* Words that are on their way, the oldest first. */
enum { POSTED = 8 };
typedef struct {
    void *pending, *data;
} posted;

struct lipsc_ranks {
    const lipsc_mpi_api *api;
    pthread_mutex_t turn; /* of calls into MPI */
    size_t number, count, local, peers;
    cpu_set_t own, machine; /* cores: its own, and those of all ranks of the machine */
    int threads;
    int used, busy;
    struct lipsc_dealing *dealing;
    posted posted[POSTED];
    size_t posted_count;
    int lost; /* one of them did not go */
};

/* ---- Who started us ------------------------------------------------------------------ */

static int number_of(const char *name, size_t *out) {
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return 0;
    *out = strtoul(text, &end, 10);
    return !*end;
}

size_t lipsc_ranks_started(size_t *number) {
    static const struct {
        const char *count, *number;
    } launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                     {"PMI_SIZE", "PMI_RANK"},
                     {"SLURM_STEP_NUM_TASKS", "PMIX_RANK"}};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        size_t count, own;
        if (!number_of(launchers[i].count, &count) ||
            !number_of(launchers[i].number, &own) || count < 2 || own >= count)
            continue;
        if (number) *number = own;
        return count;
    }
    if (number) *number = 0;
    return 1;
}

/* ---- The plugin ---------------------------------------------------------------------- */

/* Beside what this function is part of, or in lib/ beside its folder. */
static void find_path(char *path, size_t room) {
    Dl_info here;
    const char *named = getenv("LIPSCOPE_MPI_PLUGIN");
    snprintf(path, room, "%s", named ? named : "");
    if (*path || !dladdr((void *)(uintptr_t)&lipsc_ranks_open, &here) || !here.dli_fname)
        return;
    const char *slash = strrchr(here.dli_fname, '/');
    static const char *const folders[] = {"", "/../lib"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (snprintf(path, room, "%.*s%s/liblipscope_mpi.so",
                     slash ? (int)(slash - here.dli_fname) : 1,
                     slash ? here.dli_fname : ".", folders[i]) >= (int)room)
            continue;
        FILE *file = fopen(path, "rb");
        if (file) {
            fclose(file);
            return;
        }
    }
    *path = 0;
}

static lipsc_status load(const lipsc_mpi_api **out, lipsc_error *err) {
    char path[1024];
    const lipsc_mpi_api *(*entry)(void) = NULL;
    find_path(path, sizeof path);
    if (!*path)
        return lipsc_fail(
            err, LIPSC_E_BACKEND,
            "started with %zu ranks, but the plugin liblipscope_mpi.so is not "
            "beside the program (it is built where MPI is found, "
            "LIPSCOPE_MPI_PLUGIN names it)",
            lipsc_ranks_started(NULL));
    /* MPI has plugins of its own, which look for its symbols */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) return lipsc_fail(err, LIPSC_E_BACKEND, "%.390s", dlerror());
    *(void **)&entry = dlsym(library, LIPSC_MPI_PLUGIN);
    *out = entry ? entry() : NULL;
    if (*out && (*out)->abi == LIPSC_MPI_ABI && (*out)->size == sizeof **out)
        return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_BACKEND, "%s: the plugin is of another build", path);
}

/* ---- Cores --------------------------------------------------------------------------- */

typedef struct {
    int first; /* the lowest rank on the same machine */
    cpu_set_t cores;
} seat;

/* A core that several ranks may use counts for each of them as its part; at least one. */
static int share_of(const seat *all, size_t count, size_t own) {
    double sum = 0.0;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        int users = 0;
        if (!CPU_ISSET(core, &all[own].cores)) continue;
        for (size_t r = 0; r < count; r++)
            users += all[r].first == all[own].first && CPU_ISSET(core, &all[r].cores);
        sum += 1.0 / users;
    }
    return sum < 1.0 ? 1 : (int)(sum + 1e-6);
}

static lipsc_status take_seat(lipsc_ranks *ranks, int first, lipsc_error *err) {
    seat own = {.first = first};
    seat *all = lipsc_alloc_zero(ranks->count, sizeof *all);
    if (!all) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ranks");
    if (sched_getaffinity(0, sizeof own.cores, &own.cores)) CPU_ZERO(&own.cores);
    const int gathered = ranks->api->gather(sizeof own, &own, all);
    if (gathered > 0) {
        ranks->own = own.cores;
        for (size_t r = 0; r < ranks->count; r++) {
            if (all[r].first != first) continue;
            ranks->local += r < ranks->number;
            ranks->peers++;
            CPU_OR(&ranks->machine, &ranks->machine, &all[r].cores);
        }
        ranks->threads = share_of(all, ranks->count, ranks->number);
    }
    lipsc_release(all);
    return gathered > 0 ? LIPSC_OK : lipsc_fail(err, LIPSC_E_BACKEND, "MPI has failed");
}

/* ---- Words on their way -------------------------------------------------------------- */

/* Their data are given back; `turn` is held. */
static void forget_sent(lipsc_ranks *ranks) {
    size_t gone = 0;
    for (; gone < ranks->posted_count; gone++) {
        const int done = ranks->api->sent(&ranks->posted[gone].pending);
        if (!done) break;
        ranks->lost |= done < 0;
        lipsc_release(ranks->posted[gone].data);
    }
    ranks->posted_count -= gone;
    memmove(ranks->posted, ranks->posted + gone,
            ranks->posted_count * sizeof *ranks->posted);
}

/* Takes `turn`, when no more than so many are on their way. */
static void take_turn(lipsc_ranks *ranks, size_t most) {
    unsigned quiet = 0;
    for (;;) {
        pthread_mutex_lock(&ranks->turn);
        forget_sent(ranks);
        if (ranks->posted_count <= most) return;
        pthread_mutex_unlock(&ranks->turn);
        lipsc_ranks_rest(&quiet);
    }
}

lipsc_status lipsc_ranks_post(lipsc_ranks *ranks, size_t to, int tag, size_t bytes,
                              void *data) {
    posted word = {.data = data};
    take_turn(ranks, POSTED - 1);
    const int going =
        ranks->lost ? -1 : ranks->api->send((int)to, tag, bytes, data, &word.pending);
    if (going > 0)
        ranks->posted[ranks->posted_count++] = word;
    else
        lipsc_release(data);
    pthread_mutex_unlock(&ranks->turn);
    return going > 0 ? LIPSC_OK : LIPSC_E_IO;
}

/* ---- Life ---------------------------------------------------------------------------- */

lipsc_status lipsc_ranks_open(lipsc_ranks **out, lipsc_error *err) {
    const lipsc_mpi_api *api = NULL;
    int number, count, first;
    char why[200] = "";
    *out = NULL;
    if (lipsc_ranks_started(NULL) < 2) return LIPSC_OK;
    const lipsc_status status = load(&api, err);
    if (status) return status;
    if (api->begin(&number, &count, &first, why, sizeof why) < 0)
        return lipsc_fail(err, LIPSC_E_BACKEND, "%s", why);
    lipsc_ranks *ranks = lipsc_alloc_zero(1, sizeof *ranks);
    if (!ranks) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ranks");
    ranks->api = api;
    ranks->number = (size_t)number;
    ranks->count = (size_t)count;
    pthread_mutex_init(&ranks->turn, NULL);
    *out = ranks;
    return take_seat(ranks, first, err);
}

void lipsc_ranks_close(lipsc_ranks *ranks) {
    if (!ranks) return;
    take_turn(ranks, 0);
    ranks->api->end();
    pthread_mutex_unlock(&ranks->turn);
    pthread_mutex_destroy(&ranks->turn);
    lipsc_release(ranks);
}

void lipsc_ranks_abort(lipsc_ranks *ranks, int code) { ranks->api->abort(code); }

size_t lipsc_ranks_count(const lipsc_ranks *ranks) { return ranks ? ranks->count : 1; }
size_t lipsc_ranks_number(const lipsc_ranks *ranks) { return ranks ? ranks->number : 0; }
size_t lipsc_ranks_local(const lipsc_ranks *ranks) { return ranks ? ranks->local : 0; }

size_t lipsc_ranks_together(const lipsc_ranks *ranks) { return ranks ? ranks->peers : 1; }

void lipsc_ranks_widen(const lipsc_ranks *ranks, int all) {
    const cpu_set_t *cores = all ? &ranks->machine : &ranks->own;
    if (CPU_COUNT(cores)) (void)!sched_setaffinity(0, sizeof *cores, cores);
}

int lipsc_ranks_threads(const lipsc_ranks *ranks) { return ranks ? ranks->threads : 0; }

int lipsc_ranks_awaited(const lipsc_ranks *ranks) {
    return ranks && (ranks->busy || !ranks->used);
}

void lipsc_ranks_busy(lipsc_ranks *ranks, int busy) {
    ranks->busy = busy;
    ranks->used = 1;
}

void lipsc_ranks_set_dealing(lipsc_ranks *ranks, struct lipsc_dealing *dealing) {
    ranks->dealing = dealing;
}

struct lipsc_dealing *lipsc_ranks_dealing(const lipsc_ranks *ranks) {
    return ranks ? ranks->dealing : NULL;
}

/* ---- Messages ------------------------------------------------------------------------ */

void lipsc_ranks_rest(unsigned *quiet) {
    const unsigned doublings = *quiet / 8 < 5 ? *quiet / 8 : 5;
    const struct timespec moment = {.tv_nsec = 50000L << doublings}; /* to 1.6 ms */
    ++*quiet;
    nanosleep(&moment, NULL);
}

lipsc_status lipsc_ranks_send(lipsc_ranks *ranks, size_t to, int tag, size_t bytes,
                              const void *data) {
    void *pending;
    unsigned quiet = 0;
    pthread_mutex_lock(&ranks->turn);
    int done = ranks->api->send((int)to, tag, bytes, data, &pending);
    if (done > 0) done = ranks->api->sent(&pending);
    pthread_mutex_unlock(&ranks->turn);
    while (!done) {
        lipsc_ranks_rest(&quiet);
        pthread_mutex_lock(&ranks->turn);
        done = ranks->api->sent(&pending);
        pthread_mutex_unlock(&ranks->turn);
    }
    return done > 0 ? LIPSC_OK : LIPSC_E_IO;
}

static lipsc_status take(lipsc_ranks *ranks, int *there, lipsc_message *out) {
    int from;
    *there = ranks->api->probe(&from, &out->tag, &out->bytes);
    if (*there <= 0) return *there ? LIPSC_E_IO : LIPSC_OK;
    out->from = (size_t)from;
    out->at = lipsc_alloc(out->bytes + 1, 1);
    if (!out->at) return LIPSC_E_NOMEM;
    out->at[out->bytes] = 0;
    if (ranks->api->receive(from, out->tag, out->bytes, out->at) > 0) return LIPSC_OK;
    lipsc_release(out->at);
    return LIPSC_E_IO;
}

lipsc_status lipsc_ranks_take(lipsc_ranks *ranks, int *there, lipsc_message *out) {
    pthread_mutex_lock(&ranks->turn);
    const lipsc_status status = take(ranks, there, out);
    pthread_mutex_unlock(&ranks->turn);
    return status;
}

lipsc_status lipsc_ranks_hear(lipsc_ranks *ranks, lipsc_message *out) {
    unsigned quiet = 0;
    int there = 0;
    lipsc_status status = LIPSC_OK;
    while (!status && !there) {
        status = lipsc_ranks_take(ranks, &there, out);
        if (!status && !there) lipsc_ranks_rest(&quiet);
    }
    return status;
}

static lipsc_status hear_told(lipsc_ranks *ranks, size_t bytes, void *word) {
    lipsc_message heard;
    const lipsc_status status = lipsc_ranks_hear(ranks, &heard);
    if (status) return status;
    const int good = heard.tag == LIPSC_RANKS_TELL && heard.bytes == bytes;
    if (good) memcpy(word, heard.at, bytes);
    lipsc_release(heard.at);
    return good ? LIPSC_OK : LIPSC_E_IO;
}

lipsc_status lipsc_ranks_tell(lipsc_ranks *ranks, size_t bytes, void *word) {
    lipsc_status status = LIPSC_OK;
    if (ranks->number) return hear_told(ranks, bytes, word);
    for (size_t r = 1; r < ranks->count && !status; r++)
        status = lipsc_ranks_send(ranks, r, LIPSC_RANKS_TELL, bytes, word);
    return status;
}

int lipsc_ranks_direct(const lipsc_ranks *ranks) {
    const char *told = getenv("LIPSCOPE_MPI_DIRECT");
    return !(told && !strcmp(told, "0")) && ranks->api->takes_gpu() > 0;
}

/* ---- Together ------------------------------------------------------------------------ */

static lipsc_status ended(lipsc_ranks *ranks, int done) {
    pthread_mutex_unlock(&ranks->turn);
    return done > 0 ? LIPSC_OK : LIPSC_E_IO;
}

lipsc_status lipsc_ranks_gather(lipsc_ranks *ranks, size_t bytes, const void *own,
                                void *all) {
    pthread_mutex_lock(&ranks->turn);
    return ended(ranks, ranks->api->gather(bytes, own, all));
}

lipsc_status lipsc_ranks_gather_parts(lipsc_ranks *ranks, const int *bytes, const void *own,
                                      void *all) {
    pthread_mutex_lock(&ranks->turn);
    return ended(ranks, ranks->api->gather_parts(bytes, own, all));
}

lipsc_status lipsc_ranks_exchange(lipsc_ranks *ranks, const int *bytes_out, const void *out,
                                  const int *bytes_in, void *in) {
    pthread_mutex_lock(&ranks->turn);
    return ended(ranks, ranks->api->exchange(bytes_out, out, bytes_in, in));
}
