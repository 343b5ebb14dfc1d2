// memory.cu - errors, memory of the device, and copies from and to the host.
#include "internal.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

// ---- Errors
// ------------------------------------------------------------------------------

lipsc_status fail(lipsc_error *err, lipsc_status code, const char *format, ...) {
    if (!err) return code;
    err->code = code;
    err->offset = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

lipsc_status fail_cuda(lipsc_error *err, cudaError_t e, const char *what) {
    cudaGetLastError(); // so that the next call does not meet it again
    const lipsc_status code =
        e == cudaErrorMemoryAllocation ? LIPSC_E_NOMEM : LIPSC_E_REFUSED;
    if (e == cudaErrorMemoryAllocation)
        return fail(err, code, "the GPU is out of memory for %s", what);
    return fail(err, code, "CUDA, %s: %s", what, cudaGetErrorString(e));
}

lipsc_status fail_blas(lipsc_error *err, cublasStatus_t e, const char *what) {
    return fail(err, e == CUBLAS_STATUS_ALLOC_FAILED ? LIPSC_E_NOMEM : LIPSC_E_REFUSED,
                "cuBLAS, %s: %s", what, cublasGetStatusString(e));
}

// ---- Memory
// ------------------------------------------------------------------------------

// The driver takes and gives memory under a lock of all threads, which is most of the time
// of short batches: so each lane keeps small pieces, which come in the same sizes again.
enum : size_t { SPARE_PIECE = 4 << 20, SPARE_ALL = 64 << 20 };

static void *take_spare(Lane *lane, size_t bytes) {
    const auto found = lane->spare.find(bytes);
    if (found == lane->spare.end() || found->second.empty()) return nullptr;
    void *p = found->second.back();
    found->second.pop_back();
    lane->spare_bytes -= bytes;
    return p;
}

void give_spare(lipsc_cuda_device *device, Lane *lane) {
    const std::lock_guard<std::mutex> held(device->sizes_lock);
    for (auto &size : lane->spare)
        for (void *p : size.second) {
            device->sizes.erase(p);
            cudaFreeAsync(p, lane->stream);
        }
    lane->spare.clear();
    lane->spare_bytes = 0;
}

static cudaError_t take_new(lipsc_cuda_device *device, size_t bytes, void **p) {
    return device->pooled ? cudaMallocAsync(p, bytes, device->stream())
                          : cudaMalloc(p, bytes);
}

lipsc_status take_memory(lipsc_cuda_device *device, size_t bytes, void **out,
                         const char *what, lipsc_error *err) {
    Lane *lane = device->lane();
    if (!bytes) bytes = 1;
    const bool small = device->pooled && bytes <= SPARE_PIECE;
    if (small && (*out = take_spare(lane, bytes))) return LIPSC_OK;
    void *p = nullptr;
    cudaError_t e = take_new(device, bytes, &p);
    if (e == cudaErrorMemoryAllocation && lane->spare_bytes) {
        cudaGetLastError();
        give_spare(device, lane);
        e = take_new(device, bytes, &p);
    }
    TRY(e, what);
    if (small) {
        const std::lock_guard<std::mutex> held(device->sizes_lock);
        device->sizes[p] = bytes;
    }
    *out = p;
    return LIPSC_OK;
}

// 0: not of those that are kept
static size_t spare_size(lipsc_cuda_device *device, void *p) {
    const std::lock_guard<std::mutex> held(device->sizes_lock);
    const auto found = device->sizes.find(p);
    return found == device->sizes.end() ? 0 : found->second;
}

void give_memory(lipsc_cuda_device *device, void *p) {
    if (!p) return;
    if (!device->pooled) {
        cudaFree(p);
        return;
    }
    Lane *lane = device->lane();
    const size_t bytes = spare_size(device, p);
    if (!bytes) {
        cudaFreeAsync(p, lane->stream);
        return;
    }
    if (lane->spare_bytes + bytes > SPARE_ALL) give_spare(device, lane);
    lane->spare[bytes].push_back(p);
    lane->spare_bytes += bytes;
}

Memory::~Memory() {
    for (void *p : held) give_memory(device, p);
}
lipsc_status Memory::take(void **out, size_t count, lipsc_error *err) {
    char what[64];
    snprintf(what, sizeof what, "another %.3g GiB", (double)count / 1073741824.0);
    PASS(take_memory(device, count, out, what, err));
    held.push_back(*out);
    bytes += count;
    return LIPSC_OK;
}
void Memory::give(void *p) {
    for (size_t i = 0; i < held.size(); i++)
        if (held[i] == p) {
            held.erase(held.begin() + (long)i);
            give_memory(device, p);
            return;
        }
}

// ---- From and to the host
// ------------------------------------------------------------------------

lipsc_status send(lipsc_cuda_device *device, size_t bytes, const void *host, void *to,
                  lipsc_error *err) {
    Lane *lane = device->lane();
    if (device->begins) end_early(device);
    for (size_t at = 0; at < bytes;) {
        const size_t part = lane->ring_at / RING_PART, used = lane->ring_at % RING_PART;
        const size_t room = RING_PART - used, left = bytes - at;
        const size_t now = left < room ? left : room;
        if (!used) // what stood there is on the GPU
            TRY(cudaEventSynchronize(lane->ring_done[part]), "copying to the GPU");
        char *place = lane->ring + lane->ring_at;
        memcpy(place, (const char *)host + at, now);
        TRY(cudaMemcpyAsync((char *)to + at, place, now, cudaMemcpyHostToDevice,
                            lane->stream),
            "copying to the GPU");
        const size_t whole = (now + 15) / 16 * 16;
        lane->ring_at += whole < room ? whole : room;
        if (lane->ring_at % RING_PART == 0) {
            TRY(cudaEventRecord(lane->ring_done[part], lane->stream), "copying to the GPU");
            lane->ring_at %= (size_t)RING_PARTS * RING_PART;
        }
        at += now;
    }
    return LIPSC_OK;
}

static lipsc_status take_slot(Lane *lane, Slot *out, lipsc_error *err) {
    if (!lane->slots.empty()) {
        *out = lane->slots.back();
        lane->slots.pop_back();
        return LIPSC_OK;
    }
    Slot slot; // several threads of one lane wait
    slot.own = true;
    TRY(cudaHostAlloc((void **)&slot.host, 2 * SLOT_HALF, cudaHostAllocPortable),
        "copies to the host");
    for (cudaEvent_t &done : slot.done) {
        const cudaError_t e = cudaEventCreateWithFlags(&done, lane->waits);
        if (e == cudaSuccess) continue;
        if (slot.done[0]) cudaEventDestroy(slot.done[0]);
        cudaFreeHost(slot.host);
        return fail_cuda(err, e, "an event");
    }
    *out = slot;
    return LIPSC_OK;
}

// Others may queue more meanwhile.
static cudaError_t wait_for(Lane *lane, cudaEvent_t done) {
    lane->lock.unlock();
    const cudaError_t e = cudaEventSynchronize(done);
    lane->lock.lock();
    return e;
}

lipsc_status finish(lipsc_cuda_device *device, const char *what, lipsc_error *err) {
    Lane *lane = device->lane();
    Slot slot;
    PASS(take_slot(lane, &slot, err));
    cudaError_t e = cudaEventRecord(slot.done[0], lane->stream);
    if (e == cudaSuccess) e = wait_for(lane, slot.done[0]);
    lane->slots.push_back(slot);
    TRY(e, what);
    return LIPSC_OK;
}

// Part i goes to half i % 2, while the part before it is taken out of the other.
static cudaError_t queue_part(Lane *lane, const Slot &slot, size_t i, size_t bytes,
                              const void *from) {
    const size_t at = i * SLOT_HALF, now = std::min((size_t)SLOT_HALF, bytes - at);
    const cudaError_t e =
        cudaMemcpyAsync(slot.host + i % 2 * SLOT_HALF, (const char *)from + at, now,
                        cudaMemcpyDeviceToHost, lane->stream);
    return e == cudaSuccess ? cudaEventRecord(slot.done[i % 2], lane->stream) : e;
}

lipsc_status fetch(lipsc_cuda_device *device, size_t bytes, const void *from, void *host,
                   lipsc_error *err) {
    const size_t parts = (bytes + SLOT_HALF - 1) / SLOT_HALF;
    Lane *lane = device->lane();
    Slot slot;
    PASS(take_slot(lane, &slot, err));
    cudaError_t e = parts ? queue_part(lane, slot, 0, bytes, from) : cudaSuccess;
    for (size_t i = 0; i < parts && e == cudaSuccess; i++) {
        const size_t at = i * SLOT_HALF;
        if (i + 1 < parts) e = queue_part(lane, slot, i + 1, bytes, from);
        if (e == cudaSuccess) e = wait_for(lane, slot.done[i % 2]);
        if (e == cudaSuccess)
            memcpy((char *)host + at, slot.host + i % 2 * SLOT_HALF,
                   std::min((size_t)SLOT_HALF, bytes - at));
    }
    lane->slots.push_back(slot);
    TRY(e, "copying from the GPU");
    return LIPSC_OK;
}
