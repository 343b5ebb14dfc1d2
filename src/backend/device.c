/* device.c - what is opened and passed to whatever computes. */
#define _DEFAULT_SOURCE /* pthread_once, sysconf of memory */
#include "lipscope/device.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/cuda/host.h"
#include "backend/guard/guard.h"
#include "core/error.h"
#include "core/mem.h"

static void make_cpu(int threads, lipsc_device *device) {
    *device = (lipsc_device){.ops = &lipsc_cpu_ops, .threads = threads, .name = "cpu"};
    for (int t = 0; t < 2; t++) {
        device->space[t] = *lipsc_space_host((lipsc_dtype)t);
        device->space[t].device = device;
    }
    device->cpu = device;
}

/* ---- Kinds -------------------------------------------------------------------------- */

static lipsc_status open_cpu(int index, int threads, lipsc_device *device,
                             lipsc_error *err) {
    if (index)
        return lipsc_fail(err, LIPSC_E_BACKEND, "there is one cpu, not cpu:%d", index);
    make_cpu(threads, device);
    return LIPSC_OK;
}

static size_t one(void) { return 1; }

static void describe_cpu(int index, lipsc_device_info *out) {
    (void)index;
    snprintf(out->about, sizeof out->about, "%d threads, %s", lipsc_device_threads(NULL),
             lipsc_cpu_isa());
    out->memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    out->usable = 1;
}

static void describe_guard(int index, lipsc_device_info *out) {
    describe_cpu(index, out);
    snprintf(out->about, sizeof out->about,
             "the cpu with memory that the host cannot touch, for tests");
}

/* open fills what is of its kind; describe fills about, memory, usable. */
static const struct {
    const char *name;
    lipsc_status (*open)(int index, int threads, lipsc_device *device, lipsc_error *err);
    size_t (*count)(void);
    void (*describe)(int index, lipsc_device_info *out);
} kinds[] = {{"cpu", open_cpu, one, describe_cpu},
             {"guard", lipsc_guard_open, one, describe_guard},
             {"cuda", lipsc_cuda_open, lipsc_cuda_count, lipsc_cuda_describe}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The kind of NAME[:INDEX], KINDS: none; *index -1: not a number. */
static size_t find_kind(const char *name, int *index) {
    const size_t length = strcspn(name, ":");
    char *end = NULL;
    size_t k = 0;
    *index = 0;
    if (name[length] && name[length + 1] >= '0' && name[length + 1] <= '9') {
        const long at = strtol(name + length + 1, &end, 10);
        *index = *end || at > 1023 ? -1 : (int)at;
    } else if (name[length]) {
        *index = -1;
    }
    while (k < KINDS &&
           (strlen(kinds[k].name) != length || strncmp(kinds[k].name, name, length) != 0))
        k++;
    return k;
}

lipsc_status lipsc_device_open(const char *name, int threads, lipsc_device **out,
                               lipsc_error *err) {
    int index;
    if (!out || threads < 0)
        return lipsc_fail(err, LIPSC_E_ARG, "a device needs a place and 0 or more threads");
    const int choose = !name || !strcmp(name, "auto");
    if (choose) name = "cpu";
    const size_t kind = find_kind(name, &index);
    if (kind == KINDS || index < 0)
        return lipsc_fail(err, LIPSC_E_BACKEND,
                          "there is no device '%.40s'; lipscope devices lists them", name);
    lipsc_device *device = lipsc_alloc_zero(1, sizeof *device);
    if (!device) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    device->threads = threads;
    snprintf(device->name, sizeof device->name, "%s", name);
    const lipsc_status status = kinds[kind].open(index, threads, device, err);
    device->chooses = choose;
    if (status)
        lipsc_release(device);
    else
        *out = device;
    return status;
}

/* From how many seconds of the CPU on a GPU is worth its start, which takes about one. */
static double worth_seconds(void) {
    const char *told = getenv("LIPSCOPE_AUTO_SECONDS");
    char *end = NULL;
    const double seconds = told ? strtod(told, &end) : 0.0;
    return told && end != told && !*end && seconds >= 0.0 ? seconds : 4.0;
}

/* In place of the CPU that it is. */
static lipsc_status open_gpu(lipsc_device *device, int index, lipsc_error *err) {
    const lipsc_status status = lipsc_cuda_open(index, device->threads, device, err);
    if (status) return status;
    device->chosen = 1;
    snprintf(device->name, sizeof device->name, index ? "cuda:%d" : "cuda", index);
    return LIPSC_OK;
}

void lipsc_device_choose(lipsc_device *device, double operations) {
    const double of_a_thread = 4e10; /* operations in a second, in the long run */
    if (!device || !device->chooses) return;
    device->chooses = 0;
    if (operations < worth_seconds() * of_a_thread * lipsc_device_threads(device)) return;
    open_gpu(device, 0, NULL);
}

lipsc_status lipsc_device_take(lipsc_device *device, const char *kind, size_t number,
                               lipsc_error *err) {
    if (!device || !device->chooses) return LIPSC_OK;
    device->chooses = 0;
    const size_t gpus = lipsc_cuda_count();
    if (strcmp(kind, "cuda")) return LIPSC_OK;
    return open_gpu(device, gpus ? (int)(number % gpus) : 0, err);
}

size_t lipsc_device_count(void) {
    size_t sum = 0;
    for (size_t k = 0; k < KINDS; k++) sum += kinds[k].count();
    return sum;
}

lipsc_status lipsc_device_describe(size_t which, lipsc_device_info *out) {
    for (size_t k = 0; k < KINDS; k++) {
        const size_t count = kinds[k].count();
        if (which < count) {
            *out = (lipsc_device_info){.usable = 0};
            snprintf(out->name, sizeof out->name, which ? "%s:%zu" : "%s", kinds[k].name,
                     which);
            kinds[k].describe((int)which, out);
            return LIPSC_OK;
        }
        which -= count;
    }
    return LIPSC_E_ARG;
}

void lipsc_device_close(lipsc_device *device) {
    if (device && device->ops->close) device->ops->close(device);
    lipsc_release(device);
}

const char *lipsc_device_name(const lipsc_device *device) {
    return device ? device->name : "cpu";
}

int lipsc_device_threads(const lipsc_device *device) {
    return device && device->threads ? device->threads : omp_get_max_threads();
}

void lipsc_device_fill(lipsc_device *device, const lipsc_device_ops *ops,
                       const lipsc_space_ops *space, void *state, int threads) {
    device->ops = ops;
    device->state = state;
    device->home = device;
    device->cpu = lipsc_cpu_of(threads);
    for (int t = 0; t < 2; t++)
        device->space[t] =
            (lipsc_space){.ops = space,
                          .device = device,
                          .home = device,
                          .dtype = (lipsc_dtype)t,
                          .room = ops->room,
                          .item = t == LIPSC_F32 ? sizeof(float) : sizeof(double)};
}

/* ---- Inside the library ------------------------------------------------------------- */

const lipsc_device_ops *lipsc_device_table(const lipsc_device *device) {
    return device ? device->ops : &lipsc_cpu_ops;
}

const lipsc_space *lipsc_device_space(const lipsc_device *device, lipsc_dtype dtype) {
    const lipsc_dtype vectors = dtype == LIPSC_F16 ? LIPSC_F32 : dtype;
    return device ? &device->space[vectors] : lipsc_space_host(vectors);
}

int lipsc_device_was_chosen(const lipsc_device *device) { return device && device->chosen; }

const char *lipsc_device_failure(const lipsc_device *device) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    return ops->failure ? ops->failure(device) : NULL;
}

const lipsc_device *lipsc_device_home(const lipsc_device *device) {
    return device ? device->home : NULL;
}

const lipsc_device *lipsc_device_cpu(const lipsc_device *device) {
    return device ? device->cpu : NULL;
}

void lipsc_device_lend(const lipsc_device *device, int threads, lipsc_device *out) {
    if (!device || device->ops == &lipsc_cpu_ops) {
        make_cpu(threads, out);
        return;
    }
    *out = *device;
    out->threads = threads;
    out->cpu = lipsc_cpu_of(threads);
    for (int t = 0; t < 2; t++) out->space[t].device = out;
}

enum { MOST_KEPT = 512 };
static lipsc_device cpus[MOST_KEPT];

static void make_cpus(void) {
    for (int t = 0; t < MOST_KEPT; t++) make_cpu(t, &cpus[t]);
}

const lipsc_device *lipsc_cpu_of(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (threads <= 0) return NULL;
    pthread_once(&once, make_cpus);
    return &cpus[threads < MOST_KEPT ? threads : MOST_KEPT - 1];
}

const lipsc_device *lipsc_device_dense(const lipsc_device *device) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    return ops->proved && ops->linear_new && ops->rowwise ? device : device->cpu;
}

double lipsc_device_largest(const lipsc_device *device, double own) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    return ops->largest ? ops->largest(device, own) : own;
}

double lipsc_device_total(const lipsc_device *device, double own) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    return ops->total ? ops->total(device, own) : own;
}

lipsc_status lipsc_device_alone(const lipsc_device *device, lipsc_status (*work)(void *ctx),
                                void *ctx) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    return ops->alone ? ops->alone(device, work, ctx) : work(ctx);
}

int lipsc_device_side_by_side(const lipsc_device *device) {
    return lipsc_device_table(device)->concurrent ? lipsc_device_threads(device) : 1;
}

const lipsc_device *lipsc_device_proved(const lipsc_device *device) {
    return lipsc_device_table(device)->proved ? device : device->cpu;
}

const lipsc_device *lipsc_device_raw(const lipsc_device *device) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    return ops->proved && ops->raw ? device : device->cpu;
}

int lipsc_device_useful_threads(const lipsc_device *device, const lipsc_layer *layer,
                                size_t n) {
    const double small_pair = 1e6; /* floating-point operations */
    const double tokens = (double)n, width = (double)layer->heads * (double)layer->key_dim;
    const double pair =
        16.0 * tokens * (double)layer->d * width + 16.0 * tokens * tokens * width;
    return pair < small_pair ? 1 : lipsc_device_threads(device);
}

const char *lipsc_backends(void) { return "cpu"; }
