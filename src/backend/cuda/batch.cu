// batch.cu - what depends on the inputs alone: projections, ranges, row statistics, and the
// memory of the products.
#include "internal.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

static const double log2e = 1.4426950408889634074;
enum {
    PAD = STATISTICS_PAD,
    SLACK = 512
}; // rows of an input's statistics; behind the last of them

// ---- Ranges and tasks
// ------------------------------------------------------------------------

struct Ranges {
    std::vector<int> first, last;
};

// Keys that a query sees, and queries that see a key; neither end decreases.
static void ranges_of(const lipsc_rows &rows, size_t pad, Ranges *queries, Ranges *keys) {
    const size_t n = rows.n;
    for (size_t i = 0; i < n; i++) {
        queries->first[pad + i] = (int)rows.lo[i];
        queries->last[pad + i] = (int)rows.hi[i];
    }
    size_t from = 0, to = 0;
    for (size_t j = 0; j < n; j++) {
        while (from < n && rows.hi[from] <= j) from++;
        while (to < n && rows.lo[to] <= j) to++;
        keys->first[pad + j] = (int)from;
        keys->last[pad + j] = (int)std::max(from, to);
    }
}

// Blocks of rows, those with most columns first.
static std::vector<Task> tasks_of(const std::vector<int> &n, const std::vector<int> &pad,
                                  const Ranges &r, int rows) {
    struct Cost {
        Task task;
        int columns;
    };
    std::vector<Cost> all;
    for (size_t b = 0; b < n.size(); b++)
        for (int row = 0; row < n[b]; row += rows) {
            const int end = std::min(row + rows, n[b]);
            all.push_back(
                {{(int)b, row}, r.last[pad[b] + end - 1] - r.first[pad[b] + row]});
        }
    std::stable_sort(all.begin(), all.end(),
                     [](const Cost &a, const Cost &b) { return a.columns > b.columns; });
    std::vector<Task> tasks;
    for (const Cost &c : all) tasks.push_back(c.task);
    return tasks;
}

template <class S>
static lipsc_status place_tasks(Batch<S> *b, const std::vector<int> &pad,
                                const Ranges &queries, const Ranges &keys,
                                lipsc_error *err) {
    for (int mode = 0; mode < MODES; mode++) {
        const std::vector<Task> t = tasks_of(
            b->n_host, pad, keys_are_rows(mode) ? keys : queries, b->kernels->rows[mode]);
        b->ntasks[mode] = (int)t.size();
        PASS(b->memory.put(&b->tasks[mode], t, 0, err));
    }
    const std::vector<Task> t =
        tasks_of(b->n_host, pad, queries, b->kernels->statistics_rows);
    b->statistics_ntasks = (int)t.size();
    return b->memory.put(&b->statistics_tasks, t, 0, err);
}

template <class S>
static lipsc_status place_rows(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
    std::vector<int> pad;
    size_t ordered = 0;
    for (size_t i = 0; i < b->inputs; i++) {
        b->base_host.push_back((int)b->tokens);
        pad.push_back((int)b->padded);
        b->n_host.push_back((int)rows[i].n);
        b->tokens += rows[i].n;
        b->longest_n = std::max(b->longest_n, rows[i].n);
        b->padded += (rows[i].n + PAD - 1) / PAD * PAD;
        ordered += rows[i].order != NULL;
    }
    if (b->padded > 0x7ff00000)
        return fail(err, LIPSC_E_RANGE, "%zu tokens are too many for one batch", b->tokens);
    Ranges queries = {std::vector<int>(b->padded, 0), std::vector<int>(b->padded, 0)};
    Ranges keys = queries;
    std::vector<int> owner, prow, source;
    for (size_t i = 0; i < b->inputs; i++) {
        ranges_of(rows[i], (size_t)pad[i], &queries, &keys);
        for (size_t r = 0; r < rows[i].n; r++) {
            owner.push_back((int)i);
            prow.push_back(pad[i] + (int)r);
            source.push_back(b->base_host[i] + (int)(rows[i].order ? rows[i].order[r] : r));
        }
    }
    PASS(b->memory.put(&b->first, queries.first, SLACK, err));
    PASS(b->memory.put(&b->last, queries.last, SLACK, err));
    PASS(b->memory.put(&b->key_first, keys.first, SLACK, err));
    PASS(b->memory.put(&b->key_last, keys.last, SLACK, err));
    PASS(b->memory.put(&b->base, b->base_host, 0, err));
    PASS(b->memory.put(&b->pad, pad, 0, err));
    PASS(b->memory.put(&b->n, b->n_host, 0, err));
    PASS(b->memory.put(&b->owner, owner, 0, err));
    PASS(b->memory.put(&b->prow, prow, 0, err));
    if (ordered) PASS(b->memory.put(&b->source, source, 0, err));
    PASS(b->memory.get(&b->active_store, b->inputs, err));
    return place_tasks(b, pad, queries, keys, err);
}

// Own rows of an input that ranks share see ranges of all keys, and keys ranges of own
// rows; rows behind them see what the last one does (part.cu).
template <class S>
lipsc_status place_part_rows(Batch<S> *b, const lipsc_rows &rows, lipsc_error *err) {
    const Part &p = *b->part;
    const lipsc_share &s = p.share;
    const std::vector<int> zero = {0}, all = {(int)s.n};
    std::vector<size_t> lo, hi;
    const size_t *const own = s.block[s.rank];
    for (int block = 0; block < 4; block += 2)
        for (size_t i = own[block]; i < own[block + 1]; i++) {
            lo.push_back(rows.lo[i]);
            hi.push_back(rows.hi[i]);
        }
    if (s.n > 0x7ff00000)
        return fail(err, LIPSC_E_RANGE, "%zu tokens are too many for one batch", s.n);
    b->tokens = s.own;
    b->padded = p.rows;
    b->longest_n = s.n;
    b->base_host = zero;
    b->n_host = {(int)s.own};
    Ranges queries = {std::vector<int>(p.rows, 0), std::vector<int>(p.rows, 0)};
    Ranges keys = {std::vector<int>(s.n, 0), std::vector<int>(s.n, 0)};
    for (size_t i = 0; i < p.rows && s.own; i++) {
        queries.first[i] = (int)lo[std::min(i, s.own - 1)];
        queries.last[i] = (int)hi[std::min(i, s.own - 1)];
    }
    size_t from = 0, to = 0;
    for (size_t j = 0; j < s.n; j++) {
        while (from < s.own && hi[from] <= j) from++;
        while (to < s.own && lo[to] <= j) to++;
        keys.first[j] = (int)from;
        keys.last[j] = (int)std::max(from, to);
    }
    PASS(b->memory.put(&b->first, queries.first, SLACK, err));
    PASS(b->memory.put(&b->last, queries.last, SLACK, err));
    PASS(b->memory.put(&b->key_first, keys.first, SLACK, err));
    PASS(b->memory.put(&b->key_last, keys.last, SLACK, err));
    PASS(b->memory.put(&b->base, zero, 0, err));
    PASS(b->memory.put(&b->pad, zero, 0, err));
    PASS(b->memory.put(&b->n, all, 0, err));
    PASS(b->memory.put(&b->owner, std::vector<int>(p.rows, 0), 0, err));
    for (int mode = 0; mode < MODES; mode++) {
        const bool are_keys = keys_are_rows(mode);
        const std::vector<Task> t =
            tasks_of(are_keys ? all : b->n_host, zero, are_keys ? keys : queries,
                     b->kernels->rows[mode]);
        b->ntasks[mode] = (int)t.size();
        PASS(b->memory.put(&b->tasks[mode], t, 0, err));
    }
    const std::vector<Task> t =
        tasks_of(b->n_host, zero, queries, b->kernels->statistics_rows);
    b->statistics_ntasks = (int)t.size();
    return b->memory.put(&b->statistics_tasks, t, 0, err);
}

// ---- Weights of tokens, biases, angles
// ---------------------------------------------------------

template <class S>
static lipsc_status place_weights(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
    typedef typename S::Acc Acc;
    size_t weighted = 0;
    for (size_t i = 0; i < b->inputs; i++) weighted += rows[i].log_weight != NULL;
    if (!weighted) return LIPSC_OK;
    std::vector<Acc> bias(b->padded, 0), root, inverse;
    size_t pad = 0;
    for (size_t i = 0; i < b->inputs; i++) {
        for (size_t r = 0; r < rows[i].n; r++) {
            const double w = rows[i].root_weight ? rows[i].root_weight[r] : 1.0;
            if (rows[i].log_weight) bias[pad + r] = (Acc)(rows[i].log_weight[r] * log2e);
            root.push_back((Acc)w);
            inverse.push_back((Acc)(1 / w));
        }
        pad += (rows[i].n + PAD - 1) / PAD * PAD;
    }
    PASS(b->memory.put(&b->key_bias, bias, SLACK, err));
    PASS(b->memory.put(&b->root, root, 0, err));
    return b->memory.put(&b->inverse_root, inverse, 0, err);
}

// Biases by distance are the layer's: those of the longest input serve all.
template <class S>
static lipsc_status place_distances(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
    size_t longest = 0;
    for (size_t i = 1; i < b->inputs; i++)
        if (rows[i].n > rows[longest].n) longest = i;
    const lipsc_rows &r = rows[longest];
    if (!r.distance) return LIPSC_OK;
    const size_t count = b->w->dims.heads * (2 * r.n - 1);
    std::vector<typename S::Acc> host(count);
    for (size_t i = 0; i < count; i++) host[i] = (typename S::Acc)(r.distance[i] * log2e);
    b->far = (int)r.n;
    return b->memory.put(&b->distance, host, 0, err);
}

template <class S>
lipsc_status place_roots(Batch<S> *b, const double *root, lipsc_error *err) {
    typedef typename S::Acc Acc;
    std::vector<Acc> plain, inverse;
    if (!root) return LIPSC_OK;
    for (size_t r = 0; r < b->tokens; r++) {
        plain.push_back((Acc)root[r]);
        inverse.push_back((Acc)(1 / root[r]));
    }
    PASS(b->memory.put(&b->root, plain, 0, err));
    return b->memory.put(&b->inverse_root, inverse, 0, err);
}

template <class S>
lipsc_status place_angles(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
    const size_t half = b->w->dims.rotary_half;
    if (!half) return LIPSC_OK;
    std::vector<typename S::Acc> cosine, sine;
    for (size_t i = 0; i < b->inputs; i++)
        for (size_t r = 0; r < rows[i].n; r++)
            for (size_t l = 0; l < half; l++) {
                const double angle = rows[i].positions[r] * b->w->freq_host[l];
                cosine.push_back((typename S::Acc)std::cos(angle));
                sine.push_back((typename S::Acc)std::sin(angle));
            }
    PASS(b->memory.put(&b->cosine, cosine, 0, err));
    return b->memory.put(&b->sine, sine, 0, err);
}

// ---- Memory of the products
// ----------------------------------------------------------------------

// where results stand before they are ordered and scaled row by row
template <class S> lipsc_status place_gathered(Batch<S> *b, lipsc_error *err) {
    const size_t count = b->dirs * b->tokens * std::max(b->d, b->width);
    PASS(b->memory.get(&b->gathered, count, err));
    TRY(cudaMemsetAsync(b->gathered, 0, count * sizeof(typename S::Acc),
                        b->device->stream()),
        "zeros");
    return LIPSC_OK;
}

template <class S> lipsc_status place_work(Batch<S> *b, lipsc_error *err) {
    typedef typename S::Acc Acc;
    const Dims &m = b->w->dims;
    const size_t N = b->tokens, D = b->dirs * N, stats = m.heads * b->padded + SLACK;
    const size_t dir_stats = b->dirs * m.heads * b->padded + SLACK;
    Memory &mem = b->memory;
    PASS(mem.get(&b->qkv, N * m.C * S::PL, err));
    PASS(mem.get(&b->dqkv, D * m.C * S::PL, err));
    PASS(mem.get(&b->heads, D * m.heads * m.W * S::PL, err));
    PASS(mem.get(&b->xin, D * std::max(m.dp, m.wp) * S::PL, err));
    PASS(mem.get(&b->attended, N * m.heads * m.W, err));
    if (S::PL == 2 || b->turns())
        PASS(mem.get(&b->temp, D * std::max(m.C, m.heads * m.W), err));
    // cuBLAS writes these by the copy engine, which initcheck does not see
    const cudaStream_t stream = b->device->stream();
    const size_t HW = m.heads * m.W * S::PL, item = sizeof(typename S::T);
    TRY(cudaMemsetAsync(b->dqkv, 0, D * m.C * S::PL * item, stream), "zeros");
    TRY(cudaMemsetAsync(b->heads, 0, D * HW * item, stream), "zeros");
    if (b->temp)
        TRY(cudaMemsetAsync(b->temp, 0, D * std::max(m.C, m.heads * m.W) * sizeof(Acc),
                            stream),
            "zeros");
    if (b->staged()) PASS(place_gathered(b, err));
    if (S::KIND != KIND_F64) {
        PASS(mem.get(&b->longest, b->dirs * b->inputs, err));
        TRY(cudaMemsetAsync(b->longest, 0, b->dirs * b->inputs * sizeof(int),
                            b->device->stream()),
            "zeros");
        PASS(mem.get(&b->unscale, b->dirs * b->inputs, err));
    }
    Acc **const per_row[] = {&b->st.start, &b->st.inverse, b->w->sinks ? &b->st.sink : NULL,
                             m.cap > 0 ? &b->st.slope : NULL};
    for (Acc **p : per_row)
        if (p) {
            PASS(mem.get(p, stats, err));
            TRY(cudaMemsetAsync(*p, 0, stats * sizeof(Acc), b->device->stream()), "zeros");
        }
    PASS(mem.get(&b->st.top, stats, err));
    TRY(cudaMemsetAsync(b->st.top, 0, stats * sizeof(int), b->device->stream()), "zeros");
    PASS(mem.get(&b->st.shift, dir_stats, err));
    PASS(mem.get(&b->st.at_top, dir_stats, err));
    TRY(cudaMemsetAsync(b->st.shift, 0, dir_stats * sizeof(Acc), b->device->stream()),
        "zeros");
    TRY(cudaMemsetAsync(b->st.at_top, 0, dir_stats * sizeof(Acc), b->device->stream()),
        "zeros");
    if (m.norms) {
        PASS(mem.get(&b->unit, N * m.turned, err));
        PASS(mem.get(&b->over, N * (m.heads + m.kv), err));
    }
    return LIPSC_OK;
}

// ---- Projections and statistics
// --------------------------------------------------------------------

template <class S>
lipsc_status project(Batch<S> *b, const lipsc_rows *rows, int *bad, lipsc_error *err) {
    const Dims &m = b->w->dims;
    const size_t most = b->part ? 8192 : 65536;
    const size_t chunk = std::max((size_t)1, std::min(b->tokens, most));
    Memory temporary;
    temporary.device = b->device;
    double *x, *projected;
    PASS(temporary.get(&x, chunk * m.d, err));
    PASS(temporary.get(&projected, chunk * m.C, err));
    size_t filled = 0, first = 0; // rows in x; where they begin in the batch
    for (size_t i = 0; i < b->inputs; i++)
        for (size_t r = 0; r < rows[i].n;) {
            const size_t now = std::min(chunk - filled, rows[i].n - r);
            const double *X = static_cast<const double *>(rows[i].X.at);
            PASS(send(b->device, now * m.d * sizeof(double), X + r * m.d, x + filled * m.d,
                      err));
            filled += now;
            r += now;
            const bool end = i + 1 == b->inputs && r == rows[i].n;
            if (filled < chunk && !end) continue;
            PASS(gemm_full<StoreF64>(b->device, true, 0, filled, m.C, m.d, 1, nullptr, x,
                                     m.d, b->w->exact, m.d, projected, m.C, err));
            PASS(ready<S>(b, first, filled, projected, bad, err));
            first += filled;
            filled = 0;
        }
    return LIPSC_OK;
}

template <class S> Args<S> Batch<S>::args(Mode mode, size_t k) const {
    typedef typename S::T T;
    const Dims &m = w->dims;
    const size_t ld = m.C * S::PL, HW = m.heads * m.W, q = 0, key = m.heads * m.W,
                 v = m.turned;
    auto at = [&](const T *p, size_t col, size_t rows) {
        return Heads<const T>{p + col, ld, m.C, rows};
    };
    auto out = [&](size_t col) { return Heads<T>{dqkv + col, ld, m.C, tokens}; };
    const Heads<const T> g = {heads, HW * S::PL, HW, tokens};
    Args<S> a = {};
    if (keys_are_rows(mode)) {
        a.s1 = at(qkv, key, 0);
        a.s2 = at(qkv, v, 0);
        a.t1 = at(qkv, q, 0);
        a.t2 = g;
        a.o1 = out(mode == GK ? key : v);
        a.o2 = out(key);
    } else {
        a.s1 = at(qkv, q, 0);
        a.s2 = mode == JVP ? at(dqkv, q, tokens) : g;
        a.t1 = at(qkv, key, 0);
        a.t2 = mode == JVP ? at(dqkv, key, tokens) : at(qkv, v, 0);
        a.t3 = at(qkv, v, 0);
        a.t4 = at(dqkv, v, tokens);
        a.o1 = mode == JVP ? Heads<T>{heads, HW * S::PL, HW, tokens} : out(q);
    }
    a.v = at(qkv, v, 0);
    a.output = attended;
    a.st = st;
    a.first = keys_are_rows(mode) ? key_first : first;
    a.last = keys_are_rows(mode) ? key_last : last;
    a.base = base;
    a.pad = pad;
    a.n = n;
    a.active = active;
    a.tasks = tasks[mode];
    a.ntasks = ntasks[mode];
    a.heads = (int)m.heads;
    a.kv = (int)m.kv;
    a.dirs = (int)k;
    a.padded = padded;
    a.head_major = tokens / inputs > 16384;
    a.scale = std::ldexp(1.0f, lift[mode != JVP]);
    a.row_scale = row_scale;
    a.key_bias = key_bias;
    a.distance = distance;
    a.far = far;
    a.cap = (typename S::Acc)m.cap;
    return a;
}

template <class S>
static lipsc_status row_statistics(Batch<S> *b, int *bad, lipsc_error *err) {
    Args<S> a = b->args(OUT, 1);
    a.tasks = b->statistics_tasks;
    a.ntasks = b->statistics_ntasks;
    const StatisticsArgs<typename S::Acc> more = {b->w->sinks, bad};
    TRY(b->kernels->statistics(a, more, b->device->stream()), "row statistics");
    TRY(b->kernels->launch(OUT, b->args(OUT, 1), b->device->stream()), "outputs of rows");
    int host = 0;
    PASS(fetch(b->device, sizeof host, bad, &host, err));
    static const char *const names[] = {"f16", "f16 x 3", "f64"};
    return host
               ? fail(
                     err, LIPSC_E_NONFIN,
                     "attention at this input: a projection or a score is not finite in %s",
                     names[S::KIND])
               : LIPSC_OK;
}

// A sum over m keys of signs at random is about m^(-1/2): that much the results are lifted,
// short inputs all alike, so that it does not matter what they are with.
template <class S> int narrow_lift(const Batch<S> *b) {
    const size_t longest = b->alone() ? LIPSC_CUDA_SHORT - 1 : b->longest_n;
    const int half = (int)std::floor(std::log2((double)longest) / 2);
    return S::KIND == KIND_F16 ? std::max(0, half - 2) : half + 2;
}

// Columns with more than a threshold of the rows' weight are brought down to it.
template <class S>
static lipsc_status place_scales(Batch<S> *b, int *flag, lipsc_error *err) {
    if (S::KIND == KIND_F64) return LIPSC_OK;
    const double threshold = narrow_threshold<S>();
    PASS(ones<S>(b, err));
    b->lift[1] = -8; // masses up to 2^24
    const Mode mode = b->kernels->split ? GV : GKV;
    TRY(b->kernels->launch(mode, b->args(mode, 1), b->device->stream()),
        "masses of columns");
    PASS(b->memory.get(&b->row_scale, b->tokens, err));
    PASS(b->memory.get(&b->row_unscale, b->tokens, err));
    PASS(masses<S>(b, std::ldexp(1.0, -8), threshold, flag, err));
    int needed = 0;
    PASS(fetch(b->device, sizeof needed, flag, &needed, err));
    if (!needed) {
        b->memory.give(b->row_scale);
        b->memory.give(b->row_unscale);
        b->row_scale = b->row_unscale = nullptr;
    } else if (!b->gathered) {
        PASS(place_gathered(b, err));
    }
    b->lift[0] = b->lift[1] = narrow_lift(b);
    return LIPSC_OK;
}

// Scores with biases or a soft cap have kernels of their own, in all widths.
static const Kernels<StoreF16> *kernels_of(const Batch<StoreF16> *b,
                                           const lipsc_rows *rows) {
    const Kernels<StoreF16> *fast = kernels_wgmma();
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, b->device->index);
    const char *wanted = getenv("LIPSCOPE_CUDA_KERNELS");
    const bool portable = wanted && !strcmp(wanted, "portable");
    bool plain = !(b->w->dims.cap > 0);
    for (size_t i = 0; i < b->inputs; i++)
        plain &= !rows[i].log_weight && !rows[i].distance;
    return fast && major == 9 && !portable && plain && b->w->dims.W == (size_t)fast->width
               ? fast
               : b->w->kernels;
}
template <class S>
static const Kernels<S> *kernels_of(const Batch<S> *b, const lipsc_rows *) {
    return b->w->kernels;
}

template <class S>
static lipsc_status fill_batch(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
    int *bad;
    b->kernels = b->part ? b->w->kernels : kernels_of(b, rows);
    if (b->part) return fill_part(b, *rows, err);
    PASS(b->memory.get(&bad, 1, err));
    TRY(cudaMemsetAsync(bad, 0, sizeof *bad, b->device->stream()), "zeros");
    PASS(place_rows(b, rows, err));
    PASS(place_weights(b, rows, err));
    PASS(place_distances(b, rows, err));
    PASS(place_angles(b, rows, err));
    PASS(place_work(b, err));
    PASS(project(b, rows, bad, err));
    PASS(row_statistics(b, bad, err));
    return place_scales(b, bad, err);
}

template <class S>
lipsc_status Weights<S>::batch_new(size_t inputs, const lipsc_rows *rows, size_t dirs,
                                   const lipsc_share *share, lipsc_cuda_batch **out,
                                   lipsc_error *err) {
    Batch<S> *b = new (std::nothrow) Batch<S>();
    if (b && share) b->part.reset(new (std::nothrow) Part(*share));
    const bool made = b && (!share || b->part);
    if (!made) delete b;
    if (!made) return fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    b->device = b->memory.device = device;
    b->w = this;
    b->inputs = inputs;
    b->dirs = dirs;
    b->d = dims.d;
    b->width = dims.width;
    b->wide = S::KIND == KIND_F64;
    lipsc_status status;
    try {
        status = fill_batch(b, rows, err);
    } catch (const std::bad_alloc &) {
        status = fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    }
    if (status) {
        delete b;
        return status;
    }
    *out = b;
    return LIPSC_OK;
}

// ---- Products
// --------------------------------------------------------------------------------------

// dqkv = the projections of xin, then norms and rotations
template <class S>
static lipsc_status project_directions(Batch<S> *b, size_t k, lipsc_error *err) {
    const Weights<S> *w = b->w;
    const Dims &m = w->dims;
    const size_t rows = k * b->tokens, ldx = m.dp * S::PL;
    const double alpha = 1 / w->qkv_factor;
    if (!b->temp)
        return gemm_stored<S>(b->device, b->alone(), 0, rows, m.C, m.dp, alpha, b->xin, ldx,
                              w->qkv, ldx, b->dqkv, m.C, err);
    PASS(gemm_full<S>(b->device, b->alone(), 0, rows, m.C, m.dp, alpha, nullptr, b->xin,
                      ldx, w->qkv, ldx, b->temp, m.C, err));
    if (b->turns()) return turn<S>(b, k, b->temp, err);
    return store<S>(b->device->stream(), rows, m.C, b->temp, S::KIND == KIND_F64, m.C, 1.0,
                    b->dqkv, m.C, err);
}

// heads = the output projection, transposed, of xin
template <class S>
static lipsc_status split_heads(Batch<S> *b, size_t k, lipsc_error *err) {
    const Weights<S> *w = b->w;
    const Dims &m = w->dims;
    const size_t rows = k * b->tokens, HW = m.heads * m.W, ldx = m.wp * S::PL;
    const double alpha = 1 / w->out_factor;
    if (S::PL == 1)
        return gemm_stored<S>(b->device, b->alone(), 1, rows, HW, m.width, alpha, b->xin,
                              ldx, w->out, HW, b->heads, HW, err);
    const lipsc_status status =
        gemm_full<S>(b->device, b->alone(), 1, rows, HW, m.width, alpha, nullptr, b->xin,
                     ldx, w->out, HW * S::PL, b->temp, HW, err);
    return status ? status
                  : store<S>(b->device->stream(), rows, HW, b->temp, 0, HW, 1.0, b->heads,
                             HW, err);
}

template <class S>
static lipsc_status core_of(Batch<S> *b, int trans, size_t k, lipsc_error *err) {
    if (b->part) return part_core(b, trans, err);
    const cudaStream_t stream = b->device->stream();
    const Kernels<S> *kernels = b->kernels;
    if (!trans) {
        PASS(shift_of_rows<S>(b, k, err));
        TRY(kernels->launch(JVP, b->args(JVP, k), stream), "the core of J");
        return LIPSC_OK;
    }
    PASS(means_of_rows<S>(b, k, err));
    // few blocks leave multiprocessors idle: the two halves then run side by side
    const Lane *lane = b->device->lane();
    const size_t blocks = (size_t)b->ntasks[GQ] * b->w->dims.heads * k;
    const bool beside = blocks < 4 * (size_t)b->device->multiprocessors;
    if (beside) {
        TRY(cudaEventRecord(lane->forked, stream), "the core of J^T");
        TRY(cudaStreamWaitEvent(lane->side, lane->forked, 0), "the core of J^T");
    }
    if (kernels->split) {
        TRY(kernels->launch(GV, b->args(GV, k), stream), "the core of J^T");
        TRY(kernels->launch(GK, b->args(GK, k), stream), "the core of J^T");
    } else {
        TRY(kernels->launch(GKV, b->args(GKV, k), stream), "the core of J^T");
    }
    TRY(kernels->launch(GQ, b->args(GQ, k), beside ? lane->side : stream),
        "the core of J^T");
    if (beside) {
        TRY(cudaEventRecord(lane->joined, lane->side), "the core of J^T");
        TRY(cudaStreamWaitEvent(stream, lane->joined, 0), "the core of J^T");
    }
    return LIPSC_OK;
}

lipsc_status directions_in(Batch<StoreF64> *b, const void *u, const void *v, double *direct,
                           lipsc_error *err) {
    const Dims &m = b->w->dims;
    PASS(enter<StoreF64>(b, 0, 1, (const double *)v, 1, err));
    PASS(project_directions(b, 1, err));
    if (direct)
        TRY(cudaMemcpyAsync(direct, b->temp, b->tokens * m.C * sizeof *direct,
                            cudaMemcpyDeviceToDevice, b->device->stream()),
            "a gradient");
    PASS(enter<StoreF64>(b, 1, 1, (const double *)u, 1, err));
    return split_heads(b, 1, err);
}

template <class S>
lipsc_status Batch<S>::product(int trans, size_t k, const void *x, void *y, int plain,
                               lipsc_error *err) {
    typedef typename S::Acc Acc;
    const Dims &m = w->dims;
    const size_t rows = k * tokens, HW = m.heads * m.W;
    const double out_factor =
        std::ldexp(1.0, -lift[trans != 0]) / (trans ? w->qkv_factor : w->out_factor);
    if (!tokens) { // of a part: for the other ranks
        if (longest) PASS(longest_of_ranks(this, longest, err));
        return part_core(this, trans, err);
    }
    PASS(enter<S>(this, trans, k, (const Acc *)x, out_factor, err));
    PASS(trans ? split_heads(this, k, err) : project_directions(this, k, err));
    PASS(plain ? plain_core(this, trans, k, err) : core_of(this, trans, k, err));
    if (trans && turns()) PASS(turn_back<S>(this, k, err));
    Acc *to = staged() ? gathered : (Acc *)y;
    const Acc *alpha = unscale && single(k) ? unscale : nullptr;
    if (trans)
        PASS(gemm_full<S>(device, alone(), 1, rows, m.d, m.C, 1, alpha, dqkv, m.C * S::PL,
                          w->qkv, m.dp * S::PL, to, m.d, err));
    else
        PASS(gemm_full<S>(device, alone(), 0, rows, m.width, HW, 1, alpha, heads,
                          HW * S::PL, w->out, HW * S::PL, to, m.width, err));
    return leave<S>(this, trans, k, to, (Acc *)y, err);
}

template <class S> lipsc_status Batch<S>::output(double *y, lipsc_error *err) {
    typedef typename S::Acc Acc;
    const Dims &m = w->dims;
    const size_t HW = m.heads * m.W, count = tokens * m.width;
    Memory temporary;
    temporary.device = device;
    Acc *to;
    PASS(temporary.get(&to, count, err));
    TRY(cudaMemsetAsync(to, 0, count * sizeof(Acc), device->stream()),
        "zeros"); // initcheck
    PASS(head_output<S>(this, err));
    PASS(gemm_full<S>(device, true, 0, tokens, m.width, HW, 1 / w->out_factor, nullptr,
                      heads, HW * S::PL, w->out, HW * S::PL, to, m.width, err));
    std::vector<Acc> host(count);
    std::vector<int> order(tokens);
    PASS(fetch(device, count * sizeof(Acc), to, host.data(), err));
    if (source) PASS(fetch(device, tokens * sizeof(int), source, order.data(), err));
    for (size_t r = 0; r < tokens; r++)
        for (size_t c = 0; c < m.width; c++)
            y[(source ? (size_t)order[r] : r) * m.width + c] =
                (double)host[r * m.width + c];
    return LIPSC_OK;
}

// n rows of `width` numbers that begin at p and lie ld apart, times factor
static lipsc_status fetch_columns(lipsc_cuda_device *device, size_t n, size_t width,
                                  size_t ld, const double *p, double factor, double *host,
                                  lipsc_error *err) {
    Memory temporary;
    temporary.device = device;
    double *dense;
    PASS(temporary.get(&dense, n * width, err));
    TRY(cudaMemcpy2DAsync(dense, width * sizeof *p, p, ld * sizeof *p, width * sizeof *p, n,
                          cudaMemcpyDeviceToDevice, device->stream()),
        "projections");
    PASS(fetch(device, n * width * sizeof *p, dense, host, err));
    for (size_t i = 0; i < n * width; i++) host[i] *= factor;
    return LIPSC_OK;
}

template <class S>
lipsc_status Batch<S>::projections(size_t, size_t, double *, double *, double *, double *,
                                   double *, lipsc_error *err) {
    return fail(err, LIPSC_E_REFUSED, "projections are told in f64 only");
}

enum { MOST_TOLD = 1 << 25 }; // numbers that the host keeps of an input

// The rows of an input in host memory, fetched once for all heads; without those of others.
static lipsc_status tell(Batch<StoreF64> *b, size_t input,
                         std::shared_ptr<const lipsc_cuda_batch::Told> *out,
                         lipsc_error *err) {
    const size_t C = b->w->dims.C, count = (size_t)b->n_host[input] * C;
    {
        const std::lock_guard<std::mutex> held(b->told_lock);
        if (b->told && b->told_input == input) {
            *out = b->told;
            return LIPSC_OK;
        }
    }
    const auto rows = std::make_shared<lipsc_cuda_batch::Told>(count);
    PASS(fetch(b->device, count * sizeof(double), b->qkv + (size_t)b->base_host[input] * C,
               rows->data(), err));
    const std::lock_guard<std::mutex> held(b->told_lock);
    b->told = *out = rows;
    b->told_input = input;
    return LIPSC_OK;
}

// `width` columns from `at` on, times factor
static void take_columns(const lipsc_cuda_batch::Told &rows, size_t n, size_t C, size_t at,
                         size_t width, double factor, double *host) {
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            host[i * width + c] = rows[i * C + at + c] * factor;
}

// Queries carry log2(e) and values ln 2 (core.cuh).
template <>
lipsc_status Batch<StoreF64>::projections(size_t input, size_t head, double *q, double *key,
                                          double *z, double *q_over, double *k_over,
                                          lipsc_error *err) {
    const Dims &m = w->dims;
    const size_t rows = (size_t)n_host[input], group = head / (m.heads / m.kv);
    const size_t first = (size_t)base_host[input], all = m.heads + m.kv;
    const size_t at[3] = {head * m.W, (m.heads + group) * m.W, m.turned + group * m.W},
                 width[3] = {m.key_dim, m.key_dim, m.value_dim};
    const double factor[3] = {1 / log2e, 1, log2e};
    double *const to[3] = {q, key, z};
    if (rows * m.C <= MOST_TOLD) {
        std::shared_ptr<const Told> host;
        PASS(tell(this, input, &host, err));
        for (int i = 0; i < 3; i++)
            take_columns(*host, rows, m.C, at[i], width[i], factor[i], to[i]);
    } else {
        for (int i = 0; i < 3; i++)
            PASS(fetch_columns(device, rows, width[i], m.C, qkv + first * m.C + at[i],
                               factor[i], to[i], err));
    }
    for (size_t i = 0; i < rows; i++) q_over[i] = k_over[i] = 1;
    if (m.norms & 1)
        PASS(
            fetch_columns(device, rows, 1, all, over + first * all + head, 1, q_over, err));
    if (m.norms & 2)
        PASS(fetch_columns(device, rows, 1, all, over + first * all + m.heads + group, 1,
                           k_over, err));
    return LIPSC_OK;
}

#define INSTANCE(S)                                                                       \
    template lipsc_status place_part_rows<S>(Batch<S> *, const lipsc_rows &,              \
                                             lipsc_error *);                              \
    template lipsc_status place_roots<S>(Batch<S> *, const double *, lipsc_error *);      \
    template lipsc_status place_angles<S>(Batch<S> *, const lipsc_rows *, lipsc_error *); \
    template lipsc_status place_work<S>(Batch<S> *, lipsc_error *);                       \
    template lipsc_status place_gathered<S>(Batch<S> *, lipsc_error *);                   \
    template lipsc_status project<S>(Batch<S> *, const lipsc_rows *, int *, lipsc_error *); \
    template int narrow_lift<S>(const Batch<S> *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreF64)
template struct Weights<StoreF16>;
template struct Weights<StoreF16x3>;
template struct Weights<StoreF64>;
template struct Batch<StoreF16>;
template struct Batch<StoreF16x3>;
template struct Batch<StoreF64>;
