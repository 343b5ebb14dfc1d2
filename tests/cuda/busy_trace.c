/* busy_trace.c - how busy the GPU was: the kernels' intervals by CUPTI, merged over
 * streams.
 *
 *     CUDA_INJECTION64_PATH=libbusy_trace.so lipscope measure ... --device cuda
 *
 * prints, when the program ends, the time from the begin of the first kernel to the end of
 * the last, the part of it in which at least one ran, and how that part went tenth by
 * tenth. BUSY_TRACE=FILE keeps the intervals (begin, end in ns, stream, name), and with
 * BUSY_TRACE_CALLS=1 the calls of the runtime too (thread for stream).  For people with
 * questions: no test needs it. */
#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include <cupti.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 8 << 20, TENTHS = 10 };

typedef struct {
    uint64_t begin, end;
    uint32_t stream, is_call;
    char name[40];
} interval;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static interval *all;
static size_t count, room;

static void keep(uint64_t begin, uint64_t end, uint32_t stream, int is_call,
                 const char *name) {
    if (count == room) {
        room = room ? 2 * room : 1 << 16;
        all = realloc(all, room * sizeof *all);
        if (!all) abort();
    }
    interval *i = &all[count++];
    *i = (interval){.begin = begin, .end = end, .stream = stream, .is_call = is_call};
    snprintf(i->name, sizeof i->name, "%.39s", name ? name : "");
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records) {
    void *p = NULL;
    *records = 0;
    *size = posix_memalign(&p, 8, BUFFER) ? 0 : BUFFER;
    *buffer = p;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer,
                                 size_t size, size_t valid) {
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&lock);
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)record;
            keep(k->start, k->end, k->streamId, 0, k->name);
        } else if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
            const CUpti_ActivityAPI *call = (const CUpti_ActivityAPI *)record;
            const char *name = NULL;
            cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, call->cbid, &name);
            keep(call->start, call->end, call->threadId, 1, name);
        }
    }
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static int by_begin(const void *a, const void *b) {
    const interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Adds the part of [begin, end) that lies in each tenth of the whole. */
static void add_tenths(double *busy, double from, double whole, double begin, double end) {
    for (int t = 0; t < TENTHS; t++) {
        const double low = from + whole * t / TENTHS, high = low + whole / TENTHS;
        const double a = begin > low ? begin : low, b = end < high ? end : high;
        if (b > a) busy[t] += b - a;
    }
}

static void tell(void) {
    size_t kernels = 0;
    double sum = 0, busy[TENTHS] = {0};
    uint64_t first = UINT64_MAX, last = 0, reached = 0;
    cuptiActivityFlushAll(1);
    qsort(all, count, sizeof *all, by_begin);
    for (size_t i = 0; i < count; i++) {
        if (all[i].is_call) continue;
        kernels++;
        if (all[i].begin < first) first = all[i].begin;
        if (all[i].end > last) last = all[i].end;
    }
    for (size_t i = 0; i < count; i++) {
        if (all[i].is_call || all[i].end <= reached) continue;
        const uint64_t from = all[i].begin > reached ? all[i].begin : reached;
        sum += (double)(all[i].end - from);
        add_tenths(busy, (double)first, (double)(last - first), (double)from,
                   (double)all[i].end);
        reached = all[i].end;
    }
    fprintf(stderr, "%zu kernels in %.3f s, busy %.1f %%; by tenths", kernels,
            (double)(last - first) * 1e-9, 100 * sum / (double)(last - first));
    for (int t = 0; t < TENTHS; t++)
        fprintf(stderr, " %.0f", 100 * TENTHS * busy[t] / (double)(last - first));
    fprintf(stderr, "\n");
    const char *path = getenv("BUSY_TRACE");
    FILE *file = path ? fopen(path, "w") : NULL;
    for (size_t i = 0; file && i < count; i++)
        fprintf(file, "%d\t%llu\t%llu\t%u\t%s\n", (int)all[i].is_call,
                (unsigned long long)all[i].begin, (unsigned long long)all[i].end,
                all[i].stream, all[i].name);
    if (file) fclose(file);
}

/* Called by the driver before anything else. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (getenv("BUSY_TRACE_CALLS")) cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME);
    atexit(tell);
    return 1;
}
