// places.cu - where the rows of a batch stand and what they see: ranges of keys and of
// queries, blocks of rows, weights of tokens, biases, angles.
#include "internal.h"

#include <algorithm>
#include <cmath>

static const double log2e = 1.4426950408889634074;
enum { PAD = STATISTICS_PAD, SLACK = STATISTICS_SLACK };

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
lipsc_status place_rows(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
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
lipsc_status place_weights(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
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
lipsc_status place_distances(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
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

#define INSTANCE(S)                                                                        \
    template lipsc_status place_rows<S>(Batch<S> *, const lipsc_rows *, lipsc_error *);    \
    template lipsc_status place_part_rows<S>(Batch<S> *, const lipsc_rows &,               \
                                             lipsc_error *);                               \
    template lipsc_status place_weights<S>(Batch<S> *, const lipsc_rows *, lipsc_error *); \
    template lipsc_status place_distances<S>(Batch<S> *, const lipsc_rows *,               \
                                             lipsc_error *);                               \
    template lipsc_status place_roots<S>(Batch<S> *, const double *, lipsc_error *);       \
    template lipsc_status place_angles<S>(Batch<S> *, const lipsc_rows *, lipsc_error *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreBF16x3) INSTANCE(StoreF64)
