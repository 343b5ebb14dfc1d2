// plain.cuh - scores one by one and in double, on the stored operands of a batch.
#ifndef LIPSC_CUDA_PLAIN_CUH
#define LIPSC_CUDA_PLAIN_CUH

#include "block.cuh"
#include "internal.h"

template <class S> struct Plain {
    Args<S> a; // of JVP or GQ: rows are queries
    const int *key_first, *key_last, *owner, *prow;
    const typename S::T *qkv, *dqkv, *heads;
    typename S::T *out; // heads (JVP) or dqkv
    size_t tokens, C, HW;
    int W;
    double *max, *inverse, *sink; // (heads, tokens)
    int *top;
    double *shift, *mean; // (dirs, heads, tokens)
    double scale;
    const typename S::Acc *row_scale;
    const typename S::Acc *sinks;
};

template <class S>
DEV double dot(const Plain<S> &p, const typename S::T *a, size_t plane_a,
               const typename S::T *b, size_t plane_b) {
    double sum = 0;
    for (int c = 0; c < p.W; c++)
        sum += (double)S::get(a + c, plane_a) * (double)S::get(b + c, plane_b);
    return sum;
}
// part 0: queries of head h, 1: keys, 2: values of its group
template <class S>
DEV const typename S::T *part(const Plain<S> &p, const typename S::T *m, size_t row,
                              int which, int h) {
    const int g = h / (p.a.heads / p.a.kv);
    const int col = which == 0 ? h : which == 1 ? p.a.heads + g : p.a.heads + p.a.kv + g;
    return m + row * p.C * S::PL + (size_t)col * p.W;
}
template <class S>
DEV double score(const Plain<S> &p, int h, size_t base, int i, int j, double &slope) {
    double s =
        dot(p, part(p, p.qkv, base + i, 0, h), p.C, part(p, p.qkv, base + j, 1, h), p.C);
    slope = 1;
    if (p.a.cap > 0) {
        const double cap = (double)p.a.cap, x = s / cap;
        slope = 1 / (cosh(x) * cosh(x));
        s = cap * tanh(x);
    }
    if (p.a.key_bias) s += (double)p.a.key_bias[p.prow[base + j]];
    if (p.a.distance)
        s += (double)p.a.distance[(size_t)h * (2 * p.a.far - 1) + (p.a.far - 1 + j - i)];
    return s;
}

// What the scores need of a batch.
template <class S> static Plain<S> plain_of(Batch<S> *b) {
    const Dims &m = b->w->dims;
    Plain<S> p = {};
    p.a = b->args(JVP, 1);
    p.key_first = b->key_first;
    p.key_last = b->key_last;
    p.owner = b->owner;
    p.prow = b->prow;
    p.qkv = b->qkv;
    p.dqkv = b->dqkv;
    p.heads = b->heads;
    p.tokens = b->tokens;
    p.C = m.C;
    p.HW = m.heads * m.W;
    p.W = (int)m.W;
    p.row_scale = b->row_scale;
    p.sinks = b->w->sinks;
    return p;
}

#endif
