// part.cu - one input whose rows several ranks share: own rows of queries meet the keys and
// values of all, some key heads at a time.
//
// A batch of one input whose tokens are the own rows; the kernels' keys are arrays of their
// own here.  Own rows follow each other and see ranges of keys that do not decrease, so the
// kernels need not know.  They take the number of keys for that of rows: the last block of
// rows goes beyond them, into rows that stand behind and are zero.
//
// What travels (travel.h) is keys and values, their directions, and, in Acc, what own rows
// add to all gradients of keys and values.
#include "part.cuh"

#include <cmath>
#include <cstring>

enum { BEHIND = 256, OCTET = 8 };

Part::~Part() {
    for (void *room : {room_own, room_all, room_parts})
        share.direct ? cudaFree(room) : cudaFreeHost(room);
}

// ---- The kernels' view
// ----------------------------------------------------------------------------

// Keys and values of all, of these heads.
template <class S> static void *keys_at(const Batch<S> *b, const Some &s) {
    const Part &p = *b->part;
    const size_t before = p.keeps ? p.share.n * 2 * s.g * b->w->dims.W * S::PL : 0;
    return (typename S::T *)p.all_kv + before;
}

template <class S> static Args<S> part_args(const Batch<S> *b, Mode mode, const Some &s) {
    typedef typename S::T T;
    const Dims &m = b->w->dims;
    const Part &p = *b->part;
    const bool keys = keys_are_rows(mode);
    const size_t share = m.heads / m.kv, first = s.g * share, W = m.W, L = 2 * s.each;
    const size_t HW = m.heads * W, stat = first * b->padded;
    T *const dkv = (T *)p.all_dkv, *const kv = (T *)keys_at(b, s);
    const Heads<const T> q = {b->qkv + first * W, m.C * S::PL, m.C, 0},
                         dq = {b->dqkv + first * W, m.C * S::PL, m.C, 0},
                         g = {b->heads + first * W, HW * S::PL, HW, 0},
                         key = {kv, L * S::PL, L, 0}, v = {kv + s.each, L * S::PL, L, 0},
                         dk = {dkv, L * S::PL, L, 0}, dv = {dkv + s.each, L * S::PL, L, 0};
    const Heads<T> out_q = {b->dqkv + first * W, m.C * S::PL, m.C, 0},
                   out_o = {b->heads + first * W, HW * S::PL, HW, 0},
                   out_k = {dkv, L * S::PL, L, 0}, out_v = {dkv + s.each, L * S::PL, L, 0};
    Args<S> a = {};
    a.s1 = keys ? key : q;
    a.s2 = keys ? v : mode == JVP ? dq : g;
    a.t1 = keys ? q : key;
    a.t2 = keys ? g : mode == JVP ? dk : v;
    a.t3 = v;
    a.t4 = dv;
    a.o1 = keys ? (mode == GK ? out_k : out_v) : mode == JVP ? out_o : out_q;
    a.o2 = out_k;
    a.v = v;
    a.output = b->attended + first * W * p.rows;
    a.st = b->st;
    a.st.start += stat;
    a.st.inverse += stat;
    a.st.top += stat;
    a.st.shift += stat;
    a.st.at_top += stat;
    if (a.st.sink) a.st.sink += stat;
    if (a.st.slope) a.st.slope += stat;
    a.first = keys ? b->key_first : b->first;
    a.last = keys ? b->key_last : b->last;
    a.base = b->base;
    a.pad = b->pad;
    a.n = b->n;
    a.tasks = b->tasks[mode];
    a.ntasks = b->ntasks[mode];
    a.heads = (int)(s.count * share);
    a.kv = (int)s.count;
    a.dirs = 1;
    a.padded = b->padded;
    a.head_major = p.share.n > 16384;
    a.scale = std::ldexp(1.0f, b->lift[mode != JVP]);
    a.row_scale = keys ? (const typename S::Acc *)p.all_row_scale
                       : (const typename S::Acc *)b->row_scale;
    a.key_bias = b->key_bias;
    a.cap = (typename S::Acc)m.cap;
    return a;
}

// ---- One number per row and head: as in stages.cu, with keys that lie elsewhere
// ---------------------

template <class A> DEV A octet_sum(A v) {
    v += __shfl_xor_sync(~0u, v, 1);
    v += __shfl_xor_sync(~0u, v, 2);
    return v + __shfl_xor_sync(~0u, v, 4);
}
template <class T>
DEV const T *head_of(const Heads<const T> &m, size_t row, int head, int W) {
    return m.p + row * m.ld + (size_t)head * W;
}

#define PLACE                                                                        \
    typedef typename S::Acc A;                                                       \
    const size_t id = ((size_t)blockIdx.x * THREADS + threadIdx.x) / OCTET;          \
    const int l = threadIdx.x % OCTET;                                               \
    const bool there = id < count;                                                   \
    const size_t r = there ? id / a.heads : 0;                                       \
    const int head = there ? (int)(id % a.heads) : 0, key = head / (a.heads / a.kv); \
    const size_t at = (size_t)head * a.padded + r, top = a.st.top[at];

template <class S>
static __global__ void shift_part(const __grid_constant__ Args<S> a, int W, size_t count) {
    PLACE
    const typename S::T *q = head_of(a.s1, r, head, W), *dq = head_of(a.s2, r, head, W);
    const typename S::T *k = head_of(a.t1, top, key, W), *dk = head_of(a.t2, top, key, W);
    A sum = 0;
    for (int c = l; c < W; c += OCTET)
        sum += S::get(dq + c, a.s2.plane) * S::get(k + c, a.t1.plane) +
               S::get(q + c, a.s1.plane) * S::get(dk + c, a.t2.plane);
    sum = octet_sum(sum);
    if (there && l == 0) a.st.shift[at] = a.st.slope ? -sum * a.st.slope[at] : -sum;
}

template <class S>
static __global__ void mean_part(const __grid_constant__ Args<S> a, int W, size_t count) {
    PLACE
    const typename S::T *g = head_of(a.s2, r, head, W), *v = head_of(a.t2, top, key, W);
    const A *kept = a.output + r * (size_t)(a.heads * W) + (size_t)head * W;
    A along = 0, rest = 0;
    for (int c = l; c < W; c += OCTET) {
        const A x = S::get(g + c, a.s2.plane);
        along += x * S::get(v + c, a.t2.plane);
        rest += x * kept[c];
    }
    along = octet_sum(along);
    rest = octet_sum(rest);
    if (there && l == 0) {
        const bool lead = leads(a.st.inverse[at]); // rest: g.(o - v_top), else g.o
        a.st.at_top[at] = lead ? -rest : along - rest;
        a.st.shift[at] = lead ? -(along + rest) : -rest;
    }
}

// ---- The core
// --------------------------------------------------------------------------------------

// What stands behind own rows may have been written to.
template <class S>
static lipsc_status clear_behind(Batch<S> *b, typename S::T *p, size_t ld,
                                 lipsc_error *err) {
    const size_t row = ld * S::PL * sizeof(typename S::T);
    TRY(cudaMemsetAsync((char *)p + b->tokens * row, 0, (b->part->rows - b->tokens) * row,
                        b->device->stream()),
        "zeros");
    return LIPSC_OK;
}

template <class S>
static lipsc_status fetch_keys(Batch<S> *b, const Some &s, lipsc_error *err) {
    return b->part->has ? LIPSC_OK : gather_heads(b, s, b->qkv, keys_at(b, s), err);
}

template <class S>
static lipsc_status forward(Batch<S> *b, const Some &s, lipsc_error *err) {
    const cudaStream_t stream = b->device->stream();
    PASS(fetch_keys(b, s, err));
    PASS(gather_heads(b, s, b->dqkv, b->part->all_dkv, err));
    const Args<S> a = part_args(b, JVP, s);
    const size_t count = b->tokens * a.heads;
    if (count)
        shift_part<S><<<blocks_for(count * OCTET, THREADS), THREADS, 0, stream>>>(
            a, (int)b->w->dims.W, count);
    LAUNCHED("shifts of rows");
    TRY(b->kernels->launch(JVP, a, stream), "the core of J");
    return LIPSC_OK;
}

// Keys and values are fetched.
template <class S>
static lipsc_status keys_of(Batch<S> *b, const Some &s, lipsc_error *err) {
    const cudaStream_t stream = b->device->stream();
    if (b->kernels->split) {
        TRY(b->kernels->launch(GV, part_args(b, GV, s), stream), "the core of J^T");
        TRY(b->kernels->launch(GK, part_args(b, GK, s), stream), "the core of J^T");
    } else {
        TRY(b->kernels->launch(GKV, part_args(b, GKV, s), stream), "the core of J^T");
    }
    return reduce_heads(b, s, err);
}

template <class S>
static lipsc_status adjoint(Batch<S> *b, const Some &s, lipsc_error *err) {
    const cudaStream_t stream = b->device->stream();
    PASS(fetch_keys(b, s, err));
    const Args<S> a = part_args(b, GQ, s);
    const size_t count = b->tokens * a.heads;
    if (count)
        mean_part<S><<<blocks_for(count * OCTET, THREADS), THREADS, 0, stream>>>(
            a, (int)b->w->dims.W, count);
    LAUNCHED("means of rows");
    TRY(b->kernels->launch(GQ, a, stream), "the core of J^T");
    return keys_of(b, s, err);
}

template <class S> lipsc_status part_core(Batch<S> *b, int trans, lipsc_error *err) {
    const Dims &m = b->w->dims;
    if (b->longest)
        TRY(cudaMemsetAsync(b->longest, 0, sizeof(int), b->device->stream()), "zeros");
    PASS(clear_behind(b, b->dqkv, m.C, err));
    PASS(clear_behind(b, b->heads, m.heads * m.W, err));
    for (size_t g = 0; g < m.kv; g += b->part->some)
        PASS(trans ? adjoint(b, some_at(b, g), err) : forward(b, some_at(b, g), err));
    return LIPSC_OK;
}

// ---- What depends on the input alone
// --------------------------------------------------------------

template <class S>
static lipsc_status part_statistics(Batch<S> *b, int *bad, lipsc_error *err) {
    const Dims &m = b->w->dims;
    const lipsc_share &share = b->part->share;
    const cudaStream_t stream = b->device->stream();
    for (size_t g = 0; g < m.kv; g += b->part->some) {
        const Some s = some_at(b, g);
        PASS(fetch_keys(b, s, err));
        const Args<S> out = part_args(b, OUT, s);
        Args<S> a = out;
        a.tasks = b->statistics_tasks;
        a.ntasks = b->statistics_ntasks;
        const StatisticsArgs<typename S::Acc> more = {
            b->w->sinks ? b->w->sinks + g * (m.heads / m.kv) : nullptr, bad};
        if (a.ntasks) TRY(b->kernels->statistics(a, more, stream), "row statistics");
        TRY(b->kernels->launch(OUT, out, stream), "outputs of rows");
    }
    b->part->has = b->part->keeps;
    int host = 0;
    lipsc_status status = fetch(b->device, sizeof host, bad, &host, err);
    if (!status && host)
        status =
            fail(err, LIPSC_E_NONFIN,
                 "attention at this input: a projection or a score is not finite in %s",
                 S::NAME);
    return share.agree(share.ctx, status, err);
}

// As place_scales in batch.cu.
template <class S>
static lipsc_status part_scales(Batch<S> *b, int *flag, lipsc_error *err) {
    typedef typename S::Acc Acc;
    if (S::KIND == KIND_F64) return LIPSC_OK;
    Part &p = *b->part;
    const lipsc_share &share = p.share;
    const Dims &m = b->w->dims;
    PASS(clear_behind(b, b->heads, m.heads * m.W, err));
    if (b->tokens) PASS(ones<S>(b, err));
    b->lift[1] = -8; // masses up to 2^24
    for (size_t g = 0; g < m.kv; g += p.some) {
        const Some s = some_at(b, g);
        PASS(fetch_keys(b, s, err));
        PASS(keys_of(b, s, err));
    }
    Acc *const all = (Acc *)p.scale_room;
    b->row_scale = all + share.n;
    b->row_unscale = b->row_scale + p.rows;
    if (b->tokens)
        PASS(masses<S>(b, std::ldexp(1.0, -8), narrow_threshold<S>(), flag, err));
    int needed = 0;
    PASS(share.agree(share.ctx, fetch(b->device, sizeof needed, flag, &needed, err), err));
    if (share.largest(share.ctx, needed) > 0) {
        PASS(gather(b, sizeof(Acc), b->row_scale, all, err));
        p.all_row_scale = all;
    } else {
        b->row_scale = b->row_unscale = nullptr;
    }
    b->lift[0] = b->lift[1] = narrow_lift(b);
    return LIPSC_OK;
}

static std::vector<double> own_of(const lipsc_share &s, size_t width, const double *all) {
    std::vector<double> own;
    const size_t *const at = s.block[s.rank];
    for (int block = 0; block < 4; block += 2)
        own.insert(own.end(), all + at[block] * width, all + at[block + 1] * width);
    return own;
}

static lipsc_status take_room(const Part &p, void **room, size_t bytes, lipsc_error *err) {
    TRY(p.share.direct ? cudaMalloc(room, bytes) : cudaMallocHost(room, bytes),
        "room for rows that travel");
    return LIPSC_OK;
}

// Own rows, which are those of a batch, and the keys of all.
template <class S>
static lipsc_status place_keys(Batch<S> *b, const lipsc_rows &rows, lipsc_error *err) {
    typedef typename S::Acc Acc;
    typedef typename S::T T;
    const Dims &m = b->w->dims;
    Part &p = *b->part;
    const size_t n = rows.n, L = 2 * p.some * m.W;
    const size_t item = std::max(S::PL * sizeof(T), sizeof(Acc));
    Memory &mem = b->memory;
    if (rows.log_weight) {
        std::vector<Acc> bias(n);
        for (size_t j = 0; j < n; j++)
            bias[j] = (Acc)(rows.log_weight[j] * 1.4426950408889634074);
        PASS(mem.put(&b->key_bias, bias, 2 * BEHIND, err));
    }
    PASS(mem.take(&p.packed, p.rows * L * item, err));
    PASS(mem.take(&p.all_kv, n * (p.keeps ? 2 * m.kv * m.W : L) * S::PL * sizeof(T), err));
    PASS(mem.take(&p.all_dkv, n * L * S::PL * sizeof(T), err));
    p.sums = p.all_dkv;
    if (S::KIND != KIND_F64) {
        PASS(mem.take(&p.sums, n * L * sizeof(Acc), err));
        PASS(mem.take(&p.scale_room, (n + 2 * p.rows) * sizeof(Acc), err));
    }
    PASS(take_room(p, &p.room_all, n * L * item, err));
    PASS(take_room(p, &p.room_parts, p.share.ranks * p.rows * L * sizeof(Acc), err));
    return p.share.direct ? LIPSC_OK : take_room(p, &p.room_own, p.rows * L * item, err);
}

// As many key heads as there are for each rank, and as go into one message.
static size_t heads_at_once(const lipsc_share &s, const Dims &m, size_t item) {
    const size_t most = 0x7fffffff / ((s.n + s.ranks) * 2 * m.W * item);
    return std::max((size_t)1, std::min((m.kv + s.ranks - 1) / s.ranks, most));
}

template <class S>
static lipsc_status place_part(Batch<S> *b, const lipsc_rows &rows, int **bad,
                               lipsc_error *err) {
    typedef typename S::Acc Acc;
    const Dims &m = b->w->dims;
    Part &p = *b->part;
    const lipsc_share &s = p.share;
    if (rows.distance)
        return fail(err, LIPSC_E_BACKEND,
                    "scores with biases by distance are not shared on GPUs");
    p.some = heads_at_once(s, m, std::max(S::PL * sizeof(typename S::T), sizeof(Acc)));
    lipsc_rows own = rows;
    own.n = s.own;
    own.order = nullptr;
    own.log_weight = nullptr;
    std::vector<double> X, positions, root;
    if (!rows.own_X) X = own_of(s, m.d, static_cast<const double *>(rows.X.at));
    own.X.at = const_cast<double *>(rows.own_X ? rows.own_X : X.data());
    if (rows.positions) positions = own_of(s, 1, rows.positions);
    own.positions = positions.data();
    if (rows.log_weight) {
        root = own_of(s, 1, rows.root_weight);
        own.root_weight = root.data();
    }
    PASS(b->memory.get(bad, 1, err));
    TRY(cudaMemsetAsync(*bad, 0, sizeof **bad, b->device->stream()), "zeros");
    PASS(place_part_rows(b, rows, err));
    PASS(place_roots(b, rows.log_weight ? root.data() : nullptr, err));
    PASS(place_angles(b, &own, err));
    b->tokens = p.rows; // of arrays
    lipsc_status status = place_work(b, err);
    if (!status && S::KIND != KIND_F64 && !b->gathered) status = place_gathered(b, err);
    b->tokens = s.own;
    PASS(status);
    TRY(cudaMemsetAsync(b->qkv, 0, p.rows * m.C * S::PL * sizeof(typename S::T),
                        b->device->stream()),
        "zeros");
    PASS(place_keys(b, rows, err));
    return s.own ? project(b, &own, *bad, err) : LIPSC_OK;
}

// Keys and values of all stay where they are little beside the memory of every rank.
template <class S> static bool may_keep(const Batch<S> *b) {
    const Dims &m = b->w->dims;
    const lipsc_share &s = b->part->share;
    const size_t bytes = s.n * 2 * m.kv * m.W * S::PL * sizeof(typename S::T);
    size_t free_bytes = 0, all = 0;
    const bool known = cudaMemGetInfo(&free_bytes, &all) == cudaSuccess;
    return !(s.largest(s.ctx, !known || bytes > free_bytes / 16) > 0);
}

template <class S>
lipsc_status fill_part(Batch<S> *b, const lipsc_rows &rows, lipsc_error *err) {
    Part &p = *b->part;
    const lipsc_share &s = p.share;
    p.keeps = may_keep(b);
    int *bad = nullptr;
    lipsc_status status;
    p.rows = (s.own + BEHIND - 1) / BEHIND * BEHIND;
    try {
        status = place_part(b, rows, &bad, err);
    } catch (const std::bad_alloc &) {
        status = fail(err, LIPSC_E_NOMEM, "out of memory for an input");
    }
    PASS(s.agree(s.ctx, status, err));
    PASS(part_statistics(b, bad, err));
    return part_scales(b, bad, err);
}

#define INSTANCE(S)                                                     \
    template lipsc_status part_core<S>(Batch<S> *, int, lipsc_error *); \
    template lipsc_status fill_part<S>(Batch<S> *, const lipsc_rows &, lipsc_error *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreBF16x3) INSTANCE(StoreF64)
