// memory.cu - errors, memory of the device, and copies from and to the host.
#include "internal.h"

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

lipsc_status take_memory(lipsc_cuda_device *device, size_t bytes, void **out,
                         const char *what, lipsc_error *err) {
    void *p = nullptr;
    if (!bytes) bytes = 1;
    TRY(device->pooled ? cudaMallocAsync(&p, bytes, device->stream())
                       : cudaMalloc(&p, bytes),
        what);
    *out = p;
    return LIPSC_OK;
}
void give_memory(lipsc_cuda_device *device, void *p) {
    if (p) device->pooled ? cudaFreeAsync(p, device->stream()) : cudaFree(p);
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

static lipsc_status take_slot(Lane *lane, size_t bytes, Slot *out, lipsc_error *err) {
    Slot slot;
    for (size_t i = 0; i < lane->slots.size(); i++)
        if (lane->slots[i].bytes >= bytes) {
            *out = lane->slots[i];
            lane->slots.erase(lane->slots.begin() + (long)i);
            return LIPSC_OK;
        }
    slot.bytes = 4096;
    while (slot.bytes < bytes) slot.bytes *= 4;
    TRY(cudaHostAlloc(&slot.host, slot.bytes, cudaHostAllocPortable), "copies to the host");
    const cudaError_t e = cudaEventCreateWithFlags(&slot.done, lane->waits);
    if (e != cudaSuccess) {
        cudaFreeHost(slot.host);
        return fail_cuda(err, e, "an event");
    }
    *out = slot;
    return LIPSC_OK;
}

// Waits for what is queued so far; others may queue more.
static cudaError_t pass(Lane *lane, cudaEvent_t done) {
    cudaError_t e = cudaEventRecord(done, lane->stream);
    if (e != cudaSuccess) return e;
    lane->lock.unlock();
    e = cudaEventSynchronize(done);
    lane->lock.lock();
    return e;
}

lipsc_status finish(lipsc_cuda_device *device, const char *what, lipsc_error *err) {
    Lane *lane = device->lane();
    Slot slot;
    PASS(take_slot(lane, 0, &slot, err));
    const cudaError_t e = pass(lane, slot.done);
    lane->slots.push_back(slot);
    TRY(e, what);
    return LIPSC_OK;
}

lipsc_status fetch(lipsc_cuda_device *device, size_t bytes, const void *from, void *host,
                   lipsc_error *err) {
    const size_t most = 16u << 20;
    Lane *lane = device->lane();
    Slot slot;
    PASS(take_slot(lane, bytes < most ? bytes : most, &slot, err));
    cudaError_t e = cudaSuccess;
    for (size_t at = 0; at < bytes && e == cudaSuccess; at += most) {
        const size_t now = bytes - at < most ? bytes - at : most;
        e = cudaMemcpyAsync(slot.host, (const char *)from + at, now, cudaMemcpyDeviceToHost,
                            lane->stream);
        if (e == cudaSuccess) e = pass(lane, slot.done);
        if (e == cudaSuccess) memcpy((char *)host + at, slot.host, now);
    }
    lane->slots.push_back(slot);
    TRY(e, "copying from the GPU");
    return LIPSC_OK;
}
