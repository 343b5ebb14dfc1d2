// space.cu - vectors of any length: from and to the host, random ones, sums, combinations.
#include "internal.h"

#include <algorithm>
#include <cstring>

enum { THREADS = 256 };

static unsigned blocks(size_t count) {
    const size_t need = (count + THREADS - 1) / THREADS;
    return (unsigned)(need < 16384 ? (need ? need : 1) : 16384);
}
#define EACH(i, count)                                                       \
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < (count); \
         i += (size_t)gridDim.x * THREADS)

// Room for `bytes` that the next operation of this thread may overwrite: its work is on one
// stream.
static lipsc_status scratch(lipsc_cuda_device *device, size_t bytes, void **out,
                            lipsc_error *err) {
    Lane *lane = device->lane();
    if (bytes > lane->scratch_bytes) {
        give_memory(device, lane->scratch);
        lane->scratch = nullptr;
        lane->scratch_bytes = 0;
        PASS(take_memory(device, bytes, &lane->scratch, "room for work", err));
        lane->scratch_bytes = bytes;
    }
    *out = lane->scratch;
    return LIPSC_OK;
}

// ---- From and to the host ----

static __global__ void narrow(size_t count, const double *from, float *to) {
    EACH(i, count) to[i] = (float)from[i];
}
static __global__ void to_double(size_t count, const float *from, double *to) {
    EACH(i, count) to[i] = (double)from[i];
}

enum { STAGE = 1 << 22 }; // elements converted at a time: 16 MiB of scratch

lipsc_status Space::put(lipsc_cuda_device *device, int wide, size_t count,
                        const double *host, void *to, lipsc_error *err) {
    const Hold hold(device);
    PASS(put_held(device, wide, count, host, to, err));
    return finish(device, "copying to the GPU", err); // other threads may use it
}

lipsc_status put_held(lipsc_cuda_device *device, int wide, size_t count, const double *host,
                      void *to, lipsc_error *err) {
    if (wide) return send(device, count * sizeof *host, host, to, err);
    for (size_t at = 0; at < count; at += STAGE) {
        const size_t now = count - at < STAGE ? count - at : STAGE;
        void *room = nullptr;
        PASS(scratch(device, now * sizeof *host, &room, err));
        PASS(send(device, now * sizeof *host, host + at, room, err));
        narrow<<<blocks(now), THREADS, 0, device->stream()>>>(now, (const double *)room,
                                                              (float *)to + at);
        TRY(cudaGetLastError(), "copying to the GPU");
    }
    return LIPSC_OK;
}

lipsc_status Space::get(lipsc_cuda_device *device, int wide, size_t count, const void *from,
                        double *host, lipsc_error *err) {
    const Hold hold(device);
    if (wide) return fetch(device, count * sizeof *host, from, host, err);
    Memory temporary; // others of this lane may use the scratch while this waits
    temporary.device = device;
    double *room = nullptr;
    PASS(temporary.get(&room, count < STAGE ? count : STAGE, err));
    for (size_t at = 0; at < count; at += STAGE) {
        const size_t now = count - at < STAGE ? count - at : STAGE;
        to_double<<<blocks(now), THREADS, 0, device->stream()>>>(
            now, (const float *)from + at, room);
        TRY(cudaGetLastError(), "copying from the GPU");
        PASS(fetch(device, now * sizeof *host, room, host + at, err));
    }
    return LIPSC_OK;
}

lipsc_status Space::copy(lipsc_cuda_device *device, size_t bytes, const void *from,
                         void *to, lipsc_error *err) {
    const Hold hold(device);
    TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, device->stream()),
        "copying on the GPU");
    return LIPSC_OK;
}

lipsc_status widen(lipsc_cuda_device *device, size_t count, const float *from, double *to,
                   lipsc_error *err) {
    to_double<<<blocks(count), THREADS, 0, device->stream()>>>(count, from, to);
    TRY(cudaGetLastError(), "making doubles on the GPU");
    return LIPSC_OK;
}

lipsc_status Space::widen(lipsc_cuda_device *device, size_t count, const void *from,
                          void *to, lipsc_error *err) {
    const Hold hold(device);
    return ::widen(device, count, (const float *)from, (double *)to, err);
}

// A block of threads for each part of a piece; pieces of floats and doubles: words of 4.
static __global__ void copy_pieces(const lipsc_cuda_piece *piece) {
    const lipsc_cuda_piece p = piece[blockIdx.y];
    const uint32_t *from = (const uint32_t *)p.from;
    uint32_t *to = (uint32_t *)p.to;
    EACH(i, p.bytes / sizeof *to) to[i] = from[i];
}

lipsc_status Space::copies(lipsc_cuda_device *device, size_t count,
                           const lipsc_cuda_piece *piece, lipsc_error *err) {
    const Hold hold(device);
    void *table = nullptr;
    size_t most = 0;
    for (size_t i = 0; i < count; i++) most = piece[i].bytes > most ? piece[i].bytes : most;
    if (!most) return LIPSC_OK;
    PASS(scratch(device, count * sizeof *piece, &table, err));
    PASS(send(device, count * sizeof *piece, piece, table, err));
    const size_t wanted = (most / sizeof(uint32_t) + THREADS - 1) / THREADS;
    for (size_t first = 0; first < count; first += 65535) { // blocks of a column
        const dim3 grid((unsigned)(wanted < 256 ? wanted : 256),
                        (unsigned)(count - first < 65535 ? count - first : 65535));
        copy_pieces<<<grid, THREADS, 0, device->stream()>>>(
            (const lipsc_cuda_piece *)table + first);
    }
    TRY(cudaGetLastError(), "copying on the GPU");
    return LIPSC_OK;
}

template <class V> static __global__ void multiply_all(size_t count, double factor, V *x) {
    EACH(i, count) x[i] = (V)(factor * (double)x[i]);
}

lipsc_status Space::times(lipsc_cuda_device *device, int wide, size_t count, double factor,
                          void *x, lipsc_error *err) {
    const Hold hold(device);
    BY_WIDTH(wide, (multiply_all<V><<<blocks(count), THREADS, 0, device->stream()>>>(
                       count, factor, (V *)x)));
    TRY(cudaGetLastError(), "scaling vectors");
    return LIPSC_OK;
}

// ---- Random numbers: those of core/rng.c, to the last digits of log and cos ----

DEV uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
DEV double uniform(uint64_t seed, uint64_t i) {
    const uint64_t golden = 0x9e3779b97f4a7c15ull;
    const uint64_t bits = mixed(mixed(seed + golden) + golden * (i + 1));
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}
DEV double normal(uint64_t seed, uint64_t i) {
    const uint64_t j = i / 2;
    const double r = sqrt(-2.0 * log(uniform(seed, 2 * j)));
    double sine, cosine;
    sincos(2.0 * 3.14159265358979323846 * uniform(seed, 2 * j + 1), &sine, &cosine);
    return r * (i % 2 ? sine : cosine);
}
template <class V>
static __global__ void draw(uint64_t seed, uint64_t first, size_t count, V *to) {
    EACH(i, count) to[i] = (V)normal(seed, first + i);
}

lipsc_status Space::random(lipsc_cuda_device *device, int wide, uint64_t seed,
                           uint64_t first, size_t count, void *to, lipsc_error *err) {
    const Hold hold(device);
    BY_WIDTH(wide, (draw<V><<<blocks(count), THREADS, 0, device->stream()>>>(
                       seed, first, count, (V *)to)));
    TRY(cudaGetLastError(), "random numbers");
    return LIPSC_OK;
}

// ---- Sums and combinations ----

lipsc_status Space::dots(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                         const void *a, size_t kb, const void *b, double *c,
                         lipsc_error *err) {
    const Hold hold(device);
    if (!ka || !kb) return LIPSC_OK;
    if (!len) {
        for (size_t i = 0; i < ka * kb; i++) c[i] = 0;
        return LIPSC_OK;
    }
    void *room = nullptr;
    const size_t pieces = dots_scratch(len, ka, kb);
    PASS(scratch(device, (pieces + ka * kb) * sizeof(double), &room, err));
    double *partial = (double *)room, *total = partial + pieces;
    PASS(dots_queued(device, wide, len, ka, a, kb, b, partial, total, err));
    return fetch(device, ka * kb * sizeof *c, total, c, err);
}

lipsc_status Space::mix(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                        const void *a, size_t kb, const double *c, double beta, void *b,
                        lipsc_error *err) {
    const Hold hold(device);
    if (beta != 0 && beta != 1)
        return fail(err, LIPSC_E_ARG, "beta = %g is neither 0 nor 1", beta);
    if (!kb || !len) return LIPSC_OK;
    void *room = nullptr;
    PASS(scratch(device, (ka ? ka : 1) * kb * sizeof(double), &room, err));
    PASS(send(device, ka * kb * sizeof *c, c, room, err));
    return mix_queued(device, wide, len, ka, a, kb, (const double *)room, beta == 1, b,
                      err);
}

// ---- Several at once: their table, and what goes with it, in one piece ----

enum { TOGETHER = 65535 }; // rows of a grid

lipsc_status Space::dots_of(lipsc_cuda_device *device, int wide, size_t count,
                            const lipsc_cuda_gram *gram, lipsc_error *err) {
    if (count > TOGETHER) {
        PASS(dots_of(device, wide, TOGETHER, gram, err));
        return dots_of(device, wide, count - TOGETHER, gram + TOGETHER, err);
    }
    const Hold hold(device);
    std::vector<Sum> table;
    size_t partial = 0, out = 0, pieces = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        const lipsc_cuda_gram &g = gram[i];
        const size_t sums = g.ka * g.kb;
        if (!sums || !g.len) { // nothing is summed
            for (size_t s = 0; s < sums; s++) g.c[s] = 0;
            continue;
        }
        table.push_back({g.a, g.b, g.len, partial, out, (int)g.ka, (int)g.kb});
        partial += pieces_of(g.len) * sums;
        out += sums;
        pieces = std::max(pieces, pieces_of(g.len));
        most = std::max(most, sums);
    }
    if (table.empty()) return LIPSC_OK;
    void *room = nullptr;
    const size_t bytes = table.size() * sizeof(Sum);
    PASS(scratch(device, bytes + (partial + out) * sizeof(double), &room, err));
    double *parts = (double *)((char *)room + bytes), *totals = parts + partial;
    PASS(send(device, bytes, table.data(), room, err));
    PASS(sums_queued(device, wide, table.size(), pieces, most, (const Sum *)room, parts,
                     totals, err));
    std::vector<double> host(out);
    PASS(fetch(device, out * sizeof(double), totals, host.data(), err));
    for (size_t i = 0, next = 0; i < count; i++) {
        const size_t sums = gram[i].len ? gram[i].ka * gram[i].kb : 0;
        if (sums) memcpy(gram[i].c, host.data() + next, sums * sizeof(double));
        next += sums;
    }
    return LIPSC_OK;
}

lipsc_status Space::mix_of(lipsc_cuda_device *device, int wide, size_t count,
                           const lipsc_cuda_combination *combination, lipsc_error *err) {
    if (count > TOGETHER) {
        PASS(mix_of(device, wide, TOGETHER, combination, err));
        return mix_of(device, wide, count - TOGETHER, combination + TOGETHER, err);
    }
    const Hold hold(device);
    std::vector<Mixture> table;
    size_t out = 0, pieces = 0;
    for (size_t i = 0; i < count; i++) {
        const lipsc_cuda_combination &m = combination[i];
        if (m.beta != 0 && m.beta != 1)
            return fail(err, LIPSC_E_ARG, "beta = %g is neither 0 nor 1", m.beta);
        if (!m.kb || !m.len) continue;
        table.push_back({m.a, m.b, m.len, out, (int)m.ka, (int)m.kb, m.beta == 1});
        out += m.ka * m.kb;
        pieces = std::max(pieces, pieces_of(m.len));
    }
    if (table.empty()) return LIPSC_OK;
    const size_t bytes = table.size() * sizeof(Mixture);
    std::vector<char> all(bytes + out * sizeof(double));
    memcpy(all.data(), table.data(), bytes);
    size_t next = bytes;
    for (size_t i = 0; i < count; i++) {
        const lipsc_cuda_combination &m = combination[i];
        if (!m.kb || !m.len || !m.ka) continue;
        memcpy(all.data() + next, m.c, m.ka * m.kb * sizeof(double));
        next += m.ka * m.kb * sizeof(double);
    }
    void *room = nullptr;
    PASS(scratch(device, all.size(), &room, err));
    PASS(send(device, all.size(), all.data(), room, err));
    return mixtures_queued(device, wide, table.size(), pieces, (const Mixture *)room,
                           (const double *)((const char *)room + bytes), err);
}
