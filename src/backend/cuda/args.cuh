// args.cuh - the products of core.cuh by name, and what they are given.
#ifndef LIPSC_CUDA_ARGS_CUH
#define LIPSC_CUDA_ARGS_CUH

#include "mma.cuh"

enum Mode { JVP = 0, GQ, GKV, GV, GK, OUT, MODES };

// A matrix of heads side by side: head h of row r begins at p + r ld + h W.  Directions are
// `rows` apart; 0: shared by all of them.
template <class T> struct Heads {
    T *p;
    size_t ld, plane, rows;
};

// A row whose largest entry has more than half of it keeps O - v_top, the others O: in the
// first O is close to v_top, in the second it may be small beside it.  Neither can be had
// from the other without losing digits.
template <class Acc> DEV bool leads(Acc inverse) { return inverse > (Acc)0.5; }

struct Task {
    int input, row; // first row of the block
};

template <class Acc> struct Stats { // (heads, padded rows) unless said otherwise
    Acc *start;   // not EXACT: SHIFT - log2 of the row's sum; EXACT: the row's maximum
    Acc *inverse; // 1 / sum of 2^(score - maximum)
    Acc *sink;    // part of the sink, or NULL
    Acc *slope;   // derivative of the soft cap at top, or NULL
    int *top;     // key of the largest entry
    Acc *shift;   // (dirs, heads, padded rows) -c, or -D in the transpose
    Acc *at_top;  // (dirs, heads, padded rows) the transpose at top
};

template <class S> struct Args { // S: how numbers are stored
    typedef typename S::T T;
    typedef typename S::Acc Acc;
    Heads<const T> s1, s2;         // stationary: rows of the block
    Heads<const T> t1, t2, t3, t4; // streamed
    Heads<T> o1, o2;               // GKV: gV, gK
    Heads<const T> v;              // JVP, OUT: values, for the row of top
    Acc *output;                   // (rows, heads W) O, or O - v_top (leads); by OUT
    Stats<Acc> st;
    const int *first, *last; // (padded rows) visible columns of each row of this direction
    const int *base, *pad, *n; // (inputs) first row, first padded row, tokens
    const int *active;         // (inputs) or NULL: inputs to work on
    const Task *tasks;
    int ntasks, heads, kv, dirs; // query heads, key heads
    size_t padded;               // rows of a statistic
    int head_major;
    float scale;          // of what is written: keeps narrow numbers away from their ends
    const Acc *row_scale; // (tokens) or NULL: the same of single rows, transposed modes
    // score biases and soft cap, all NULL or 0 where absent
    const Acc *key_bias; // (padded rows)
    const Acc *distance; // (heads, 2 far - 1): at far - 1 + key - query
    int far;
    Acc cap;
};

#endif
