/* cuda_api.h - what the CUDA plugin offers: one table of C functions, no CUDA type.
 *
 * liblipscope_cuda.so shows one symbol, lipsc_cuda_plugin, and links nothing of lipscope:
 * the caller loads it with dlopen.  Every function returns a status and, where err is not
 * NULL, a sentence.  Work of a thread is queued in the order of its calls; only download,
 * wait, put, get, dots, weights_new, batch_new, projections, spread and linear_new
 * wait for it.  Any thread may call at any time, and the work of several runs side by side:
 * what one has queued another may use after such a call, which is so for weights, dense
 * layers and what was put.  What is made of one batch is one thread's.
 *
 * A batch is any number of inputs that share the weights of a layer; their lengths may
 * differ. A vector of a batch is the rows of its inputs one after the other, (tokens, d)
 * or, after J, (tokens, width); k vectors follow each other.  Elements are double in
 * LIPSC_CUDA_F64, else float.  Results do not depend on timing: the same call gives the
 * same bits. */
#ifndef LIPSC_CUDA_API_H
#define LIPSC_CUDA_API_H

#include "backend/backend.h"

#define LIPSC_CUDA_ABI    14
#define LIPSC_CUDA_PLUGIN "lipsc_cuda_plugin"

/* Precision of the products: relative error of J x and J^T y on ordinary layers about 1e-3,
 * 1e-5, 1e-14 and 1e-4.  The first two overflow beyond 65504: results are then not finite.
 */
typedef enum {
    LIPSC_CUDA_F16 = 0,
    LIPSC_CUDA_F16X3 = 1, /* f32 as two f16 numbers, three products */
    LIPSC_CUDA_F64 = 2,
    LIPSC_CUDA_BF16X3 = 3 /* as two bf16 numbers: the range of f32  */
} lipsc_cuda_precision;

/* Tokens from which on the products of an input may depend, in their last bits, on what
 * else is in its batch; in F16 those of shorter ones do, too. */
#define LIPSC_CUDA_SHORT 1024

typedef struct lipsc_cuda_device lipsc_cuda_device;
typedef struct lipsc_cuda_weights lipsc_cuda_weights;
typedef struct lipsc_cuda_batch lipsc_cuda_batch;
typedef struct lipsc_cuda_graph lipsc_cuda_graph;
typedef struct lipsc_cuda_linear lipsc_cuda_linear;

typedef struct {
    char name[128];
    size_t memory, free_memory; /* bytes                                           */
    int major, minor;           /* compute capability                              */
    int multiprocessors;
    int driver, runtime; /* CUDA versions, 1000 major + 10 minor                   */
    int usable;          /* this plugin has code for it                            */
} lipsc_cuda_about;

/* bytes to be copied from one place of the device to another */
typedef struct {
    size_t bytes;
    const void *from;
    void *to;
} lipsc_cuda_piece;

/* Sums and combinations that are made together, as linalg/space.h says, by addresses. */
typedef struct {
    size_t len, ka;
    const void *a;
    size_t kb;
    const void *b;
    double *c;
} lipsc_cuda_gram;
typedef struct {
    size_t len, ka;
    const void *a;
    size_t kb;
    const double *c;
    double beta;
    void *b;
} lipsc_cuda_combination;

typedef struct {
    int abi;     /* LIPSC_CUDA_ABI  */
    size_t size; /* of this table   */

    /* ---- devices ---- */
    lipsc_status (*count)(int *devices, lipsc_error *err);
    lipsc_status (*about)(int index, lipsc_cuda_about *out, lipsc_error *err);
    /* sleeps: a thread that waits leaves its core to others, and wakes some microseconds
     * later */
    lipsc_status (*open)(int index, int sleeps, lipsc_cuda_device **out, lipsc_error *err);
    void (*close)(lipsc_cuda_device *device);
    lipsc_status (*wait)(lipsc_cuda_device *device, lipsc_error *err);
    /* 0: while it begins, what it is given waits */
    int (*ready)(lipsc_cuda_device *device);
    /* milliseconds between two marks (0 to 7) that the stream has passed */
    lipsc_status (*mark)(lipsc_cuda_device *device, int which, lipsc_error *err);
    lipsc_status (*between)(lipsc_cuda_device *device, int from, int to, double *ms,
                            lipsc_error *err);

    /* The part of the last `seconds` in which a kernel of any process ran, by the samples
     * of the driver; LIPSC_E_REFUSED: it tells none. */
    lipsc_status (*busy)(lipsc_cuda_device *device, double seconds, double *part,
                         lipsc_error *err);

    /* ---- memory ---- */
    lipsc_status (*alloc)(lipsc_cuda_device *device, size_t bytes, void **out,
                          lipsc_error *err);
    void (*release)(lipsc_cuda_device *device, void *p);
    lipsc_status (*upload)(lipsc_cuda_device *device, size_t bytes, const void *host,
                           void *to, lipsc_error *err);
    lipsc_status (*download)(lipsc_cuda_device *device, size_t bytes, const void *from,
                             void *host, lipsc_error *err);
    lipsc_status (*fill)(lipsc_cuda_device *device, size_t bytes, int byte, void *to,
                         lipsc_error *err);

    /* Calls between record and recorded are kept instead of run; replay runs them all. */
    lipsc_status (*record)(lipsc_cuda_device *device, lipsc_error *err);
    lipsc_status (*recorded)(lipsc_cuda_device *device, lipsc_cuda_graph **out,
                             lipsc_error *err);
    lipsc_status (*replay)(lipsc_cuda_graph *graph, lipsc_error *err);
    void (*graph_free)(lipsc_cuda_graph *graph);

    /* ---- attention ---- */
    /* layer: checked, defaults resolved; nothing of it is kept.  LIPSC_E_RANGE: heads wider
     * than 256. */
    lipsc_status (*weights_new)(lipsc_cuda_device *device, const lipsc_layer *layer,
                                lipsc_cuda_precision precision, lipsc_cuda_weights **out,
                                lipsc_error *err);
    void (*weights_free)(lipsc_cuda_weights *weights);

    /* Projections, row statistics and work memory for up to `dirs` directions at once.
     * Tokens (rows.X) are doubles of the host where X.home is NULL, else the device's in
     * either type.  weights must outlive the batch.  LIPSC_E_NONFIN: a score overflows. */
    lipsc_status (*batch_new)(lipsc_cuda_weights *weights, size_t inputs,
                              const lipsc_rows *rows, size_t dirs, lipsc_cuda_batch **out,
                              lipsc_error *err);
    /* The same of one input whose rows several ranks share, for one direction at a time:
     * vectors and projections are those of own rows, and all ranks make the same calls.
     * Fails on all of them or on none.  Without a plain twin, output, spread, gradient. */
    lipsc_status (*part_new)(lipsc_cuda_weights *weights, const lipsc_rows *rows,
                             const lipsc_share *share, lipsc_cuda_batch **out,
                             lipsc_error *err);
    void (*batch_free)(lipsc_cuda_batch *batch);
    size_t (*batch_bytes)(const lipsc_cuda_batch *batch); /* of device memory */
    size_t (*batch_tokens)(const lipsc_cuda_batch *batch);

    /* y = J x, or with trans J^T x, k <= dirs vectors.  plain: by the naive kernels in
     * double that the tests compare with; O(n^2) work in a few threads. */
    lipsc_status (*product)(lipsc_cuda_batch *batch, int trans, size_t k, const void *x,
                            void *y, int plain, lipsc_error *err);
    /* What stands between the projections of such a product alone, at whatever the last
     * product left there: for timing. */
    lipsc_status (*core)(lipsc_cuda_batch *batch, int trans, size_t k, lipsc_error *err);
    /* Inputs with active[i] 0 are left out of the products' core until the next call; NULL:
     * all are worked on.  Their part of y is then without meaning. */
    lipsc_status (*activate)(lipsc_cuda_batch *batch, const int *active, lipsc_error *err);
    /* Directions are scaled down by 2^bits inside F16 and F16X3: where a product is not
     * finite although the input is, more room at the top may help. */
    void (*headroom)(lipsc_cuda_batch *batch, int bits);
    /* f(X) of an input, with biases, in the caller's order: (n, width) of device memory,
     * doubles where wide, else floats */
    lipsc_status (*output)(lipsc_cuda_batch *batch, size_t input, int wide, void *y,
                           lipsc_error *err);

    /* What the products of query head `head` of an input work with, as in backend.h, host
     * memory; F64 only, LIPSC_E_REFUSED in the others. */
    lipsc_status (*projections)(lipsc_cuda_batch *batch, size_t input, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over, lipsc_error *err);

    /* Entropy of each row and sum of each column of the attention of an input, as in
     * backend.h, host memory; F64 only, LIPSC_E_REFUSED in the others. */
    lipsc_status (*spread)(lipsc_cuda_batch *batch, size_t input, double *entropy,
                           double *columns, lipsc_error *err);

    /* Gradients of <u, J(X) v>, one pair of vectors of the batch held fixed, in the tokens,
     * grad, and in the log weight of each token, grad_score (tokens) or NULL; F64 only,
     * LIPSC_E_REFUSED in the others. */
    lipsc_status (*gradient)(lipsc_cuda_batch *batch, const void *u, const void *v,
                             void *grad, void *grad_score, lipsc_error *err);

    /* ---- vectors of a batch; side 0: rows of d, 1: rows of width ---- */
    /* c (inputs, kb, ka) = A^T B of each input, device memory; sums in double */
    lipsc_status (*gram)(lipsc_cuda_batch *batch, int side, size_t ka, const void *a,
                         size_t kb, const void *b, double *c, lipsc_error *err);
    /* B = beta B + A C with each input's own C (inputs, kb, ka), device memory */
    lipsc_status (*combine)(lipsc_cuda_batch *batch, int side, size_t ka, const void *a,
                            size_t kb, const double *c, double beta, void *b,
                            lipsc_error *err);
    /* x of input i times factor[i] (inputs), or with invert divided by its square root
     * where that is positive: normalises by a gram with itself */
    lipsc_status (*scale)(lipsc_cuda_batch *batch, int side, const double *factor,
                          int invert, void *x, lipsc_error *err);

    /* ---- vectors of any length; wide: double, else float.  put, get and dots wait ---- */
    lipsc_status (*put)(lipsc_cuda_device *device, int wide, size_t count,
                        const double *host, void *to, lipsc_error *err);
    lipsc_status (*get)(lipsc_cuda_device *device, int wide, size_t count, const void *from,
                        double *host, lipsc_error *err);
    lipsc_status (*copy)(lipsc_cuda_device *device, size_t bytes, const void *from,
                         void *to, lipsc_error *err);
    /* doubles of floats */
    lipsc_status (*widen)(lipsc_cuda_device *device, size_t count, const void *from,
                          void *to, lipsc_error *err);
    /* count pieces, none of which overlaps another one's place */
    lipsc_status (*copies)(lipsc_cuda_device *device, size_t count,
                           const lipsc_cuda_piece *piece, lipsc_error *err);
    lipsc_status (*times)(lipsc_cuda_device *device, int wide, size_t count, double factor,
                          void *x, lipsc_error *err);
    /* normal numbers first .. first + count - 1 of stream seed: core/rng.h */
    lipsc_status (*random)(lipsc_cuda_device *device, int wide, uint64_t seed,
                           uint64_t first, size_t count, void *to, lipsc_error *err);
    /* c (ka x kb, column-major, host) = A^T B of ka and kb vectors of length len */
    lipsc_status (*dots)(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                         const void *a, size_t kb, const void *b, double *c,
                         lipsc_error *err);
    /* B = beta B + A C with C as above, host memory; beta 0 or 1 */
    lipsc_status (*mix)(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                        const void *a, size_t kb, const double *c, double beta, void *b,
                        lipsc_error *err);
    /* several of them at once, with the bits of each alone; dots_of waits */
    lipsc_status (*dots_of)(lipsc_cuda_device *device, int wide, size_t count,
                            const lipsc_cuda_gram *gram, lipsc_error *err);
    lipsc_status (*mix_of)(lipsc_cuda_device *device, int wide, size_t count,
                           const lipsc_cuda_combination *combination, lipsc_error *err);

    /* ---- what stands around attention in a model, as in backend.h ---- */
    lipsc_status (*linear_new)(lipsc_cuda_device *device, int wide, size_t in, size_t out,
                               const double *w, int transposed, const double *bias,
                               lipsc_cuda_linear **linear, lipsc_error *err);
    void (*linear_free)(lipsc_cuda_linear *linear);
    lipsc_status (*linear_apply)(lipsc_cuda_linear *linear, size_t rows, const void *x,
                                 int bias, int add, void *y, lipsc_error *err);
    lipsc_status (*norm)(lipsc_cuda_device *device, int wide, size_t n, size_t d,
                         int centre, double eps, const void *gain, const void *bias,
                         const void *x, void *y, void *z, void *over, lipsc_error *err);
    lipsc_status (*norm_derivative)(lipsc_cuda_device *device, int wide, size_t rows,
                                    size_t n, size_t d, int centre, const void *gain,
                                    const void *z, const void *over, int trans,
                                    const void *x, void *y, lipsc_error *err);
    lipsc_status (*activation)(lipsc_cuda_device *device, int wide, lipsc_activation kind,
                               size_t count, const void *x, void *y, void *slope,
                               lipsc_error *err);
    lipsc_status (*multiply)(lipsc_cuda_device *device, int wide, size_t count,
                             size_t period, const void *factor, const void *x, int add,
                             void *y, lipsc_error *err);
    lipsc_status (*add)(lipsc_cuda_device *device, int wide, size_t count, const void *x,
                        void *y, lipsc_error *err);
} lipsc_cuda_api;

#ifdef __cplusplus
extern "C"
#endif
    const lipsc_cuda_api *
    lipsc_cuda_plugin(void);

#endif
