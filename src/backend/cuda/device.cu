// device.cu - devices, lanes, recorded work: the table that the plugin shows.
#include "internal.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

// ---- Devices
// -------------------------------------------------------------------------------

static lipsc_status count(int *devices, lipsc_error *err) {
    *devices = 0;
    const cudaError_t e = cudaGetDeviceCount(devices);
    if (e == cudaErrorInsufficientDriver)
        return fail(err, LIPSC_E_REFUSED,
                    "the NVIDIA driver is missing or too old for CUDA %d.%d",
                    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (e == cudaErrorNoDevice) return fail(err, LIPSC_E_REFUSED, "there is no NVIDIA GPU");
    if (e != cudaSuccess) return fail_cuda(err, e, "looking for devices");
    return LIPSC_OK;
}

static __global__ void probe() {}

static lipsc_status about(int index, lipsc_cuda_about *out, lipsc_error *err) {
    int devices;
    PASS(count(&devices, err));
    if (index < 0 || index >= devices)
        return fail(err, LIPSC_E_ARG, "there is no GPU %d: %d in all", index, devices);
    cudaDeviceProp p;
    TRY(cudaGetDeviceProperties(&p, index), "asking for a device");
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%.127s", p.name);
    out->major = p.major;
    out->minor = p.minor;
    out->multiprocessors = p.multiProcessorCount;
    TRY(cudaDriverGetVersion(&out->driver), "asking for the driver");
    TRY(cudaRuntimeGetVersion(&out->runtime), "asking for the runtime");
    int before;
    TRY(cudaGetDevice(&before), "asking for the device in use");
    TRY(cudaSetDevice(index), "choosing a device");
    cudaFuncAttributes attributes;
    out->usable = cudaFuncGetAttributes(&attributes, probe) == cudaSuccess;
    cudaGetLastError();
    const cudaError_t e = cudaMemGetInfo(&out->free_memory, &out->memory);
    cudaSetDevice(before);
    TRY(e, "asking for memory");
    return LIPSC_OK;
}

// ---- Lanes ----

unsigned lane_of_thread() {
    static std::atomic<unsigned> threads{0};
    static thread_local const unsigned mine = threads++;
    return mine % DEVICE_LANES;
}

static lipsc_status make_lane(lipsc_cuda_device *device, Lane *lane, lipsc_error *err) {
    if (device->sleeps) lane->waits |= cudaEventBlockingSync;
    TRY(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking), "a stream");
    TRY(cudaStreamCreateWithFlags(&lane->side, cudaStreamNonBlocking), "a stream");
    TRY(cudaEventCreateWithFlags(&lane->forked, cudaEventDisableTiming), "an event");
    TRY(cudaEventCreateWithFlags(&lane->joined, cudaEventDisableTiming), "an event");
    const size_t ring = (size_t)RING_PARTS * RING_PART;
    TRY(cudaHostAlloc((void **)&lane->ring, ring + 2 * SLOT_HALF, cudaHostAllocPortable),
        "copies to and from the GPU");
    for (cudaEvent_t &done : lane->ring_done)
        TRY(cudaEventCreateWithFlags(&done, lane->waits), "an event");
    Slot slot;
    slot.host = lane->ring + ring;
    for (cudaEvent_t &done : slot.done)
        TRY(cudaEventCreateWithFlags(&done, lane->waits), "an event");
    lane->slots.push_back(slot);
    return LIPSC_OK;
}

lipsc_status blas_of(Lane *lane, cublasHandle_t *out, lipsc_error *err) {
    const size_t workspace = 32u << 20; // what cuBLAS advises for Hopper
    cublasStatus_t e = CUBLAS_STATUS_SUCCESS;
    if (!lane->workspace)
        TRY(cudaMalloc(&lane->workspace, workspace), "the workspace of cuBLAS");
    if (!lane->blas) {
        e = cublasCreate(&lane->blas);
        if (e == CUBLAS_STATUS_SUCCESS) e = cublasSetStream(lane->blas, lane->stream);
        if (e == CUBLAS_STATUS_SUCCESS)
            e = cublasSetWorkspace(lane->blas, lane->workspace, workspace);
    }
    *out = lane->blas;
    return e == CUBLAS_STATUS_SUCCESS ? LIPSC_OK : fail_blas(err, e, "starting");
}

static void close_lane(lipsc_cuda_device *device, Lane *lane) {
    if (lane->stream) give_spare(device, lane);
    if (lane->stream) cudaStreamSynchronize(lane->stream);
    if (lane->blas) cublasDestroy(lane->blas);
    cudaFree(lane->workspace);
    cudaFree(lane->scratch);
    for (Slot &slot : lane->slots) {
        for (cudaEvent_t &done : slot.done) cudaEventDestroy(done);
        if (slot.own) cudaFreeHost(slot.host);
    }
    for (cudaEvent_t &done : lane->ring_done)
        if (done) cudaEventDestroy(done);
    cudaFreeHost(lane->ring);
    if (lane->forked) cudaEventDestroy(lane->forked);
    if (lane->joined) cudaEventDestroy(lane->joined);
    if (lane->side) cudaStreamDestroy(lane->side);
    if (lane->stream) cudaStreamDestroy(lane->stream);
}

// What is queued on a lane that cannot be made fails with a sentence.
Hold::Hold(lipsc_cuda_device *device) : lane(device->lane()) {
    lane->lock.lock();
    cudaSetDevice(device->index);
    if (lane->made) return;
    lane->made = true;
    make_lane(device, lane, nullptr);
}

static void close_device(lipsc_cuda_device *device) {
    if (!device) return;
    cudaSetDevice(device->index);
    end_early(device);
    for (cudaEvent_t &mark : device->marks)
        if (mark) cudaEventDestroy(mark);
    for (Lane &lane : device->lanes)
        if (lane.made) close_lane(device, &lane);
    if (device->light) cublasLtDestroy(device->light);
    cudaFree(device->constants);
    delete device;
}

// Which kernels it runs: those for its shared memory, or, where the code that was loaded
// for it has others alone (needed() in core.cuh), those.  LIPSCOPE_CUDA_KERNELS: portable,
// those that every GPU can; middle or small, those of GPUs with so much shared memory, of a
// plugin that has them for this one (LIPSCOPE_CUDA_EVERY_ROOM).
static lipsc_status choose_kernels(lipsc_cuda_device *device, int major, lipsc_error *err) {
    static const int sizes[] = {ROOM_LARGE, ROOM_MIDDLE, ROOM_SMALL};
    const char *wanted = getenv("LIPSCOPE_CUDA_KERNELS");
    const auto wants = [&](const char *name) { return wanted && !strcmp(wanted, name); };
    int room;
    cudaFuncAttributes code;
    TRY(cudaSetDevice(device->index), "choosing a device");
    TRY(cudaFuncGetAttributes(&code, probe), "asking for the code of this device");
    TRY(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                               device->index),
        "asking for shared memory");
    device->room_of_block = wants("small")                                   ? SMALL
                            : wants("middle")                                ? MIDDLE
                            : code.ptxVersion == 80                          ? MIDDLE
                            : code.ptxVersion == 86 || code.ptxVersion == 89 ? SMALL
                            : room < ROOM_MIDDLE                             ? SMALL
                            : room < ROOM_LARGE                              ? MIDDLE
                                                                             : LARGE;
    const int needed = sizes[device->room_of_block];
    if (room < needed)
        return fail(err, LIPSC_E_REFUSED,
                    "its %d KiB of shared memory for a block are too few: %d are needed",
                    room >> 10, needed >> 10);
    device->follows = major >= 9;
    device->hopper = major == 9 && device->room_of_block == LARGE && !wants("portable");
    return LIPSC_OK;
}

// Each time that the pool grows, all threads stand for milliseconds: a part of the memory is
// taken into it before they begin.  None to be had is no error here.
static void take_ahead() {
    size_t free_memory = 0, memory = 0;
    void *p = nullptr;
    const size_t most = (size_t)1 << 29;
    if (cudaMemGetInfo(&free_memory, &memory) == cudaSuccess &&
        cudaMallocAsync(&p, std::min(most, free_memory / 128), nullptr) == cudaSuccess)
        cudaFreeAsync(p, nullptr);
    cudaGetLastError();
}

static lipsc_status fill_device(lipsc_cuda_device *device, lipsc_error *err) {
    TRY(cudaSetDevice(device->index), "choosing a device");
    for (cudaEvent_t &mark : device->marks) TRY(cudaEventCreate(&mark), "an event");
    int pools = 0;
    TRY(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device->index),
        "asking for memory");
    device->pooled = pools != 0;
    if (pools) { // what was given back stays at hand
        cudaMemPool_t pool;
        uint64_t all = UINT64_MAX;
        TRY(cudaDeviceGetDefaultMemPool(&pool, device->index), "memory");
        TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "memory");
        take_ahead();
    }
    struct {
        float f[2];
        double d[2];
        int i[2];
    } constants = {{0, 1}, {0, 1}, {0, 1}};
    TRY(cudaMalloc(&device->constants, sizeof constants), "constants");
    TRY(cudaMemcpy(device->constants, &constants, sizeof constants, cudaMemcpyHostToDevice),
        "constants");
    const cublasStatus_t e = cublasLtCreate(&device->light);
    if (e != CUBLAS_STATUS_SUCCESS) return fail_blas(err, e, "starting");
    Lane *lane = device->lane(); // of the thread that opens it
    lane->made = true;
    ask_early(device);
    return make_lane(device, lane, err);
}

static lipsc_status open_device(int index, int sleeps, lipsc_cuda_device **out,
                                lipsc_error *err) {
    lipsc_cuda_about it;
    PASS(about(index, &it, err));
    if (!it.usable)
        return fail(err, LIPSC_E_REFUSED,
                    "%s has compute capability %d.%d, for which this plugin was not built",
                    it.name, it.major, it.minor);
    lipsc_cuda_device *device = new (std::nothrow) lipsc_cuda_device();
    if (!device) return fail(err, LIPSC_E_NOMEM, "out of memory for a device");
    device->index = index;
    device->sleeps = sleeps != 0;
    device->multiprocessors = it.multiprocessors;
    lipsc_status status = choose_kernels(device, it.major, err);
    if (!status) status = fill_device(device, err);
    if (status) {
        close_device(device);
        return status;
    }
    *out = device;
    return LIPSC_OK;
}

static lipsc_status wait(lipsc_cuda_device *device, lipsc_error *err) {
    const Hold hold(device);
    return finish(device, "waiting for the GPU", err);
}
static lipsc_status mark(lipsc_cuda_device *device, int which, lipsc_error *err) {
    const Hold hold(device);
    if (which < 0 || which > 7) return fail(err, LIPSC_E_ARG, "there is no mark %d", which);
    TRY(cudaEventRecord(device->marks[which], device->stream()), "a mark");
    return LIPSC_OK;
}
static lipsc_status between(lipsc_cuda_device *device, int from, int to, double *ms,
                            lipsc_error *err) {
    float f = 0;
    TRY(cudaEventSynchronize(device->marks[to]), "a mark");
    TRY(cudaEventElapsedTime(&f, device->marks[from], device->marks[to]), "a mark");
    *ms = (double)f;
    return LIPSC_OK;
}

static lipsc_status alloc(lipsc_cuda_device *device, size_t bytes, void **out,
                          lipsc_error *err) {
    const Hold hold(device);
    return take_memory(device, bytes, out, "a buffer", err);
}
static void release(lipsc_cuda_device *device, void *p) {
    const Hold hold(device);
    give_memory(device, p);
}
static lipsc_status upload(lipsc_cuda_device *device, size_t bytes, const void *host,
                           void *to, lipsc_error *err) {
    const Hold hold(device);
    return send(device, bytes, host, to, err);
}
static lipsc_status download(lipsc_cuda_device *device, size_t bytes, const void *from,
                             void *host, lipsc_error *err) {
    const Hold hold(device);
    return fetch(device, bytes, from, host, err);
}
static lipsc_status fill(lipsc_cuda_device *device, size_t bytes, int byte, void *to,
                         lipsc_error *err) {
    const Hold hold(device);
    TRY(cudaMemsetAsync(to, byte, bytes, device->stream()), "filling a buffer");
    return LIPSC_OK;
}

// ---- Recorded work
// ---------------------------------------------------------------------------

static lipsc_status record(lipsc_cuda_device *device, lipsc_error *err) {
    const Hold hold(device);
    cublasHandle_t blas; // cannot be made while work is recorded
    PASS(blas_of(device->lane(), &blas, err));
    TRY(cudaStreamBeginCapture(device->stream(), cudaStreamCaptureModeThreadLocal),
        "recording");
    return LIPSC_OK;
}
static lipsc_status recorded(lipsc_cuda_device *device, lipsc_cuda_graph **out,
                             lipsc_error *err) {
    const Hold hold(device);
    cudaGraph_t graph = nullptr;
    TRY(cudaStreamEndCapture(device->stream(), &graph), "recording");
    lipsc_cuda_graph *g = new (std::nothrow) lipsc_cuda_graph();
    if (!g) return fail(err, LIPSC_E_NOMEM, "out of memory for a graph");
    g->device = device;
    const cudaError_t e = cudaGraphInstantiate(&g->exec, graph, 0);
    cudaGraphDestroy(graph);
    if (e != cudaSuccess) {
        delete g;
        return fail_cuda(err, e, "recording");
    }
    *out = g;
    return LIPSC_OK;
}
static lipsc_status replay(lipsc_cuda_graph *graph, lipsc_error *err) {
    const Hold hold(graph->device);
    TRY(cudaGraphLaunch(graph->exec, graph->device->stream()), "replaying");
    return LIPSC_OK;
}
static void graph_free(lipsc_cuda_graph *graph) {
    if (!graph) return;
    cudaGraphExecDestroy(graph->exec);
    delete graph;
}

// ---- Attention
// ---------------------------------------------------------------------------------

static lipsc_status new_weights(lipsc_cuda_device *device, const lipsc_layer *layer,
                                lipsc_cuda_precision precision, lipsc_cuda_weights **out,
                                lipsc_error *err) {
    const Hold hold(device);
    PASS(weights_new(device, layer, precision, out, err));
    const lipsc_status status = finish(device, "packing weights", err);
    if (status) delete *out; // other threads may use them from here on
    return status;
}
static void weights_free(lipsc_cuda_weights *weights) {
    if (!weights) return;
    const Hold hold(weights->device);
    delete weights;
}
static lipsc_status batch_new(lipsc_cuda_weights *weights, size_t inputs,
                              const lipsc_rows *rows, size_t dirs, lipsc_cuda_batch **out,
                              lipsc_error *err) {
    if (!inputs || !dirs)
        return fail(err, LIPSC_E_ARG, "a batch without inputs or directions");
    const Hold hold(weights->device);
    return weights->batch_new(inputs, rows, dirs, nullptr, out, err);
}
static lipsc_status part_new(lipsc_cuda_weights *weights, const lipsc_rows *rows,
                             const lipsc_share *share, lipsc_cuda_batch **out,
                             lipsc_error *err) {
    const Hold hold(weights->device);
    return weights->batch_new(1, rows, 1, share, out, err);
}
// What a long input had goes back to the GPU: other sizes come next, which would not fit
// into its pieces.
static void trim(lipsc_cuda_device *device) {
    cudaMemPool_t pool;
    give_spare(device, device->lane());
    if (cudaStreamSynchronize(device->stream()) == cudaSuccess &&
        cudaDeviceGetDefaultMemPool(&pool, device->index) == cudaSuccess)
        cudaMemPoolTrimTo(pool, 0);
}
static void batch_free(lipsc_cuda_batch *batch) {
    if (!batch) return;
    lipsc_cuda_device *device = batch->device;
    const Hold hold(device);
    const bool large = batch->memory.bytes > (size_t)1 << (batch->part ? 28 : 32);
    delete batch;
    if (large && device->pooled) trim(device);
}
static size_t batch_bytes(const lipsc_cuda_batch *batch) { return batch->memory.bytes; }
static size_t batch_tokens(const lipsc_cuda_batch *batch) { return batch->tokens; }
static lipsc_status product(lipsc_cuda_batch *batch, int trans, size_t k, const void *x,
                            void *y, int plain, lipsc_error *err) {
    if (k > batch->dirs)
        return fail(err, LIPSC_E_ARG, "%zu directions at once, the batch has room for %zu",
                    k, batch->dirs);
    const Hold hold(batch->device);
    return k ? batch->product(trans, k, x, y, plain, err) : LIPSC_OK;
}
static lipsc_status core(lipsc_cuda_batch *batch, int trans, size_t k, lipsc_error *err) {
    if (!k || k > batch->dirs || batch->part)
        return fail(err, LIPSC_E_ARG, "a core of %zu directions", k);
    const Hold hold(batch->device);
    return batch->core(trans, k, err);
}
static lipsc_status gradient(lipsc_cuda_batch *batch, const void *u, const void *v,
                             void *grad, void *grad_score, lipsc_error *err) {
    const Hold hold(batch->device);
    return batch->gradient(u, v, grad, grad_score, err);
}
static lipsc_status activate(lipsc_cuda_batch *batch, const int *active, lipsc_error *err) {
    const Hold hold(batch->device);
    batch->active = active ? batch->active_store : nullptr;
    return active ? send(batch->device, batch->inputs * sizeof(int), active, batch->active,
                         err)
                  : LIPSC_OK;
}
static void headroom(lipsc_cuda_batch *batch, int bits) { batch->room = bits; }
static lipsc_status output(lipsc_cuda_batch *batch, size_t input, int wide, void *y,
                           lipsc_error *err) {
    const Hold hold(batch->device);
    if (input >= batch->inputs)
        return fail(err, LIPSC_E_ARG, "a batch has no input %zu", input);
    return batch->output(input, wide, y, err);
}
static lipsc_status projections(lipsc_cuda_batch *batch, size_t input, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over, lipsc_error *err) {
    const Hold hold(batch->device);
    if (input >= batch->inputs)
        return fail(err, LIPSC_E_ARG, "a batch has no input %zu", input);
    return batch->projections(input, head, q, key, z, q_over, k_over, err);
}
static lipsc_status spread(lipsc_cuda_batch *batch, size_t input, double *entropy,
                           double *columns, lipsc_error *err) {
    const Hold hold(batch->device);
    if (input >= batch->inputs)
        return fail(err, LIPSC_E_ARG, "a batch has no input %zu", input);
    return batch->spread(input, entropy, columns, err);
}
static lipsc_status gram_held(lipsc_cuda_batch *b, int side, size_t ka, const void *a,
                              size_t kb, const void *x, double *c, lipsc_error *err) {
    const Hold hold(b->device);
    return gram(b, side, ka, a, kb, x, c, err);
}
static lipsc_status combine_held(lipsc_cuda_batch *b, int side, size_t ka, const void *a,
                                 size_t kb, const double *c, double beta, void *x,
                                 lipsc_error *err) {
    const Hold hold(b->device);
    return combine(b, side, ka, a, kb, c, beta, x, err);
}
static lipsc_status scale_held(lipsc_cuda_batch *b, int side, const double *factor,
                               int invert, void *x, lipsc_error *err) {
    const Hold hold(b->device);
    return scale(b, side, factor, invert, x, err);
}

extern "C" __attribute__((visibility("default"))) const lipsc_cuda_api *lipsc_cuda_plugin(
    void) {
    static const lipsc_cuda_api api = {LIPSC_CUDA_ABI,
                                       sizeof(lipsc_cuda_api),
                                       count,
                                       about,
                                       open_device,
                                       close_device,
                                       wait,
                                       ready,
                                       mark,
                                       between,
                                       busy,
                                       alloc,
                                       release,
                                       upload,
                                       download,
                                       fill,
                                       record,
                                       recorded,
                                       replay,
                                       graph_free,
                                       new_weights,
                                       weights_free,
                                       batch_new,
                                       part_new,
                                       batch_free,
                                       batch_bytes,
                                       batch_tokens,
                                       product,
                                       core,
                                       activate,
                                       headroom,
                                       output,
                                       projections,
                                       spread,
                                       gradient,
                                       gram_held,
                                       combine_held,
                                       scale_held,
                                       Space::put,
                                       Space::get,
                                       Space::copy,
                                       Space::widen,
                                       Space::copies,
                                       Space::times,
                                       Space::random,
                                       Space::dots,
                                       Space::mix,
                                       Space::dots_of,
                                       Space::mix_of,
                                       Linear::make,
                                       Linear::free,
                                       Linear::apply,
                                       Rowwise::norm,
                                       Rowwise::norm_derivative,
                                       Rowwise::activation,
                                       Rowwise::multiply,
                                       Rowwise::add};
    return &api;
}
