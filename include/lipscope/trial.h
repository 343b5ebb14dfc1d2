/* trial.h - this build on this machine: does it compute correctly, and how fast?  What
 * `lipscope selftest` and `lipscope bench` do. */
#ifndef LIPSCOPE_TRIAL_H
#define LIPSCOPE_TRIAL_H

#include "lipscope/layer.h"
#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Correct? ---------------------------------------------------------------------- */

/* One comparison with an answer that the fast paths had no part in: known digits, the
 * definition in plain loops, the adjoint identity, central differences, LAPACK. */
typedef struct {
    const char *name;
    double error, limit; /* error NaN: it could not be computed */
    int passed;          /* error <= limit                      */
} lipsc_trial;

/* Products, solver and file reader, without any file, in a few seconds.  told, which may be
 * NULL, is handed each trial when it is finished; *trials, where not NULL, is their number.
 * Returns how many failed. */
LIPSC_API size_t lipsc_selftest(void (*told)(void *ctx, const lipsc_trial *trial),
                                void *ctx, size_t *trials);

/* ---- Fast? ------------------------------------------------------------------------- */

/* A pair is J x followed by J^T y, on vectors that stay on the device, of a random layer of
 * GPT-2's size (d 768, 12 heads).  Useful work of a pair, for each direction of the block:
 *
 *     16 n d^2 + 16 n^2 d  floating-point operations, the second term halved when causal
 *
 * Recomputed scores do not count. */
typedef struct {
    size_t n;             /* tokens.  Default 256                                        */
    lipsc_mask mask;      /* none or causal                                              */
    lipsc_dtype dtype;    /* default LIPSC_F32                                           */
    size_t block;         /* directions per product.  Default 1                          */
    size_t batch;         /* windows at once.  Default 1                                 */
    size_t repeats;       /* samples, of which the median counts.  Default 7             */
    lipsc_bias_rule bias; /* of the scores, by distance                                  */
    double soft_cap;      /* of the scores; 0: none                                      */
    lipsc_device *device; /* NULL: the CPU                                               */
    lipsc_ranks *ranks;   /* who share the device: one process is timed in turn.  NULL   */
    int (*stop)(void *ctx); /* nonzero: LIPSC_E_STOPPED; may be NULL                     */
    void *ctx;
} lipsc_bench_settings;

LIPSC_API void lipsc_bench_defaults(lipsc_bench_settings *set);

enum {
    LIPSC_BENCH_FEATURES = 1, /* with a bias or a cap          */
    LIPSC_BENCH_RANKS = 2     /* beside one process            */
};

/* X(member, kind, part, shown, unit, what it says) */
#define LIPSC_BENCH_LIST(X)                                                              \
    X(n, COUNT, 0, 1, "tokens", "of a window")                                           \
    X(mask, TEXT, 0, 1, "", "who sees whom")                                             \
    X(dtype, TEXT, 0, 1, "", "precision of the products")                                \
    X(threads, WHOLE, 0, 1, "", "that the products use")                                 \
    X(block, COUNT, 0, 1, "", "directions per product")                                  \
    X(batch, COUNT, 0, 1, "", "windows at once")                                         \
    X(ms_per_pair, REAL, 0, 1, "ms", "of all of the block and of the batch")             \
    X(gflops, REAL, 0, 1, "GFLOP/s", "useful work")                                      \
    X(sgemm_gflops, REAL, 0, 1, "GFLOP/s", "of a 2048^3 sgemm with the same threads")    \
    X(fraction, REAL, 0, 1, "", "of sgemm")                                              \
    X(peak_bytes, COUNT, 0, 1, "bytes", "beyond weights, input and vectors")             \
    X(of_plain, REAL, LIPSC_BENCH_FEATURES, 1, "",                                       \
      "time of the layer without bias and cap over that of this one, timed in turn")     \
    X(ranks, COUNT, LIPSC_BENCH_RANKS, 1, "", "that share the rows, or the cells")       \
    X(work, TEXT, LIPSC_BENCH_RANKS, 1, "", "input: a pair of products; sweep: a study") \
    X(cells, COUNT, LIPSC_BENCH_RANKS, 1, "", "of a sweep")                              \
    X(ranks_ms, REAL, LIPSC_BENCH_RANKS, 1, "ms", "of the work, by the ranks")           \
    X(threads_ms, REAL, LIPSC_BENCH_RANKS, 1, "ms",                                      \
      "by one process with the threads of all ranks of its machine, in turn")            \
    X(one_ms, REAL, LIPSC_BENCH_RANKS, 1, "ms",                                          \
      "of a sweep, by each rank for itself, all at once")                                \
    X(efficiency, REAL, LIPSC_BENCH_RANKS, 1, "",                                        \
      "time of one process with the threads of all over that of the ranks")              \
    X(token_us, REAL, LIPSC_BENCH_RANKS, 0, "us",                                        \
      "of a token, when a rank is alone (docs/scaling.md)")                              \
    X(meeting_ns, REAL, LIPSC_BENCH_RANKS, 0, "ns", "of a token with a token")           \
    X(latency_us, REAL, LIPSC_BENCH_RANKS, 0, "us", "of a gather of eight bytes")        \
    X(link_gbytes, REAL, LIPSC_BENCH_RANKS, 0, "GB/s",                                   \
      "that come to a rank, to their place")                                             \
    X(predicted_ms, REAL, LIPSC_BENCH_RANKS, 1, "ms",                                    \
      "of the work, by these four, or of a sweep by one_ms")                             \
    X(of_predicted, REAL, LIPSC_BENCH_RANKS, 1, "", "ranks_ms over predicted_ms")

typedef struct {
    LIPSC_BENCH_LIST(LIPSC_FIELD_MEMBER)
} lipsc_bench_row;

LIPSC_API lipsc_fields lipsc_bench_fields(void);

/* Samples of sgemm and of pairs alternate, so that a noisy moment of the machine meets
 * both; medians are compared. */
LIPSC_API lipsc_status lipsc_bench(const lipsc_bench_settings *set, lipsc_bench_row *out,
                                   lipsc_error *err);

/* A small study of a built-in model by set->ranks, by one process with the threads of all
 * and by one with those of one rank, in turn; reading the model is part of each.  All ranks
 * call it, with what they share as set->device.  LIPSC_E_ARG: there is one rank. */
LIPSC_API lipsc_status lipsc_bench_sweep(const lipsc_bench_settings *set,
                                         lipsc_bench_row *out, lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
