/* backend.h - a device: what every kind of it offers in one table of operations.
 *
 * attn/ prepares the input (checks, order of tokens, visible ranges, log weights) and hands
 * it to a device; svd/ sees only the space and an operator.  Nothing is chosen behind the
 * caller's back: whoever computes is given the device, and NULL is the CPU with the threads
 * that OpenMP gives.
 *
 * Device memory is passed in buffers, which say whose it is, of which type and how long,
 * and are never looked into by the host: what is there comes and goes by upload and
 * download (linalg/space.h).  An operation refuses buffers that do not fit.  Every one
 * returns a status.  One that is only queued may fail late: the device then fails in every
 * call that follows. */
#ifndef LIPSC_BACKEND_BACKEND_H
#define LIPSC_BACKEND_BACKEND_H

#include "linalg/space.h"
#include "lipscope.h"

/* Input made ready for a device.  Tokens are already in the order in which row i
 * sees the keys lo[i] .. hi[i]-1; that range is never empty, and lo and hi do not
 * decrease.  Vectors x, y of the products are in the caller's order: row i here is
 * row order[i] there (NULL: the same order). */
/* Projections W x + b, before norm, scale and rotation, that were found elsewhere. */
typedef struct {
    const double *q, *key; /* (heads, n, key_dim), (kv_heads, n, key_dim)  */
    const double *z;       /* (kv_heads, n, value_dim)                     */
} lipsc_raw;

typedef struct {
    size_t n;
    lipsc_buffer X;            /* (n, d): doubles of the host or, where the device has
                                * tokens_there, its own memory in either precision   */
    const double *log_weight;  /* (n) or NULL: added to the score of key j            */
    const double *root_weight; /* (n) or NULL: J becomes D^{1/2} J D^{-1/2}, this is
                                * the diagonal of D^{1/2}                            */
    const double *positions;   /* (n), only with rotary positions                     */
    const double *distance;    /* (heads, 2 n - 1) or NULL: distance[h][n - 1 + j - i] is
                                * added to the score of row i and key j; only without
                                * an order                                           */
    const size_t *lo, *hi;     /* (n)                                                 */
    const size_t *order;       /* (n) or NULL                                         */
    const double *own_X;       /* what is here of X, where ranks share its rows; NULL: X  */
    lipsc_raw raw;             /* to be taken instead of W x + b; q NULL: none         */
} lipsc_rows;

typedef enum {
    LIPSC_ACT_GELU,       /* x Phi(x)                                              */
    LIPSC_ACT_GELU_TANH,  /* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2       */
    LIPSC_ACT_GELU_FAST,  /* the same with 0.7978845608 for sqrt(2/pi)             */
    LIPSC_ACT_GELU_BLOOM, /* the same with 0.79788456                              */
    LIPSC_ACT_GELU_QUICK, /* x s(1.702 x), s the logistic function                */
    LIPSC_ACT_RELU,
    LIPSC_ACT_SILU, /* x s(x)                                                     */
    LIPSC_ACT_TANH,
    LIPSC_ACT_SIGMOID
} lipsc_activation;

/* Maps that act on each token alone, in one precision;
 * directions are blocks of n rows, so row i of a direction belongs to token i mod n. */
typedef struct lipsc_rowwise {
    /* y (n, d) = gain * sqrt(d) z + bias (nowhere: none), z = (x - mean) / r with
     * r = sqrt(|x - mean|^2 + d eps); without centre the mean is left in.
     * z (n, d) and over (n) = sqrt(d) / r are what the derivative needs. */
    lipsc_status (*norm)(const lipsc_device *device, size_t n, size_t d, int centre,
                         double eps, lipsc_buffer gain, lipsc_buffer bias, lipsc_buffer x,
                         lipsc_buffer y, lipsc_buffer z, lipsc_buffer over);
    /* y = over gain * (Pi - z z^T) x, or with trans y = over (Pi - z z^T) (gain * x);
     * Pi removes the mean with centre.  x (rows, d) may be y. */
    lipsc_status (*norm_derivative)(const lipsc_device *device, size_t rows, size_t n,
                                    size_t d, int centre, lipsc_buffer gain, lipsc_buffer z,
                                    lipsc_buffer over, int trans, lipsc_buffer x,
                                    lipsc_buffer y);
    /* y = a(x) and slope = a'(x); y may be x */
    lipsc_status (*activation)(const lipsc_device *device, lipsc_activation kind,
                               size_t count, lipsc_buffer x, lipsc_buffer y,
                               lipsc_buffer slope);
    /* y[e] = (add ? y[e] : 0) + factor[e mod period] x[e]; x may be y */
    lipsc_status (*multiply)(const lipsc_device *device, size_t count, size_t period,
                             lipsc_buffer factor, lipsc_buffer x, int add, lipsc_buffer y);
    /* y += x */
    lipsc_status (*add)(const lipsc_device *device, size_t count, lipsc_buffer x,
                        lipsc_buffer y);
} lipsc_rowwise;

/* Products that are good to about 1e-3, of vectors in f32: a precision among devices only.
 */
#define LIPSC_F16 ((lipsc_dtype)2)

/* One of several gradients that are made together, as `gradient` says: of is an input. */
typedef struct {
    void *of;
    size_t k;
    lipsc_buffer u, v;
    lipsc_buffer grad, grad_score; /* grad_score: of all, or LIPSC_NOWHERE for all */
} lipsc_gradient_product;

/* An input whose rows several ranks share, as the device of one of them is told.  The calls
 * wait for each other: every rank makes them, in the same order.  Memory is the host's, or
 * with `direct` also a GPU's. */
typedef struct {
    size_t n, own, ranks, rank; /* all rows, those that are here; this one's number     */
    const size_t (*block)[4];   /* of each rank: rows block[0] .. block[1]-1, then block[2]
                                 * .. block[3]-1                                        */
    void *ctx;
    /* all (n): own rows of everybody, of so many bytes each, one rank after the other */
    lipsc_status (*gather)(void *ctx, size_t row, const void *own, void *all);
    /* all (n), in that order, to whose they are; parts (ranks, own): what came from each */
    lipsc_status (*exchange)(void *ctx, size_t row, const void *all, void *parts);
    double (*largest)(void *ctx, double own);
    /* what failed on any rank has failed on all */
    lipsc_status (*agree)(void *ctx, lipsc_status own, lipsc_error *err);
    int direct; /* gather and exchange take addresses of a GPU's memory */
} lipsc_share;

/* What a device does with the rows of one rank: input_new, product, ... of such an input,
 * whose vectors are its own rows; ranks own it together, and make the same calls. */
typedef struct {
    lipsc_status (*make)(const lipsc_device *device, const void *weights,
                         const lipsc_rows *rows, const lipsc_share *share, void **part,
                         lipsc_error *err); /* fails on all ranks or on none */
    void (*free)(const lipsc_device *device, void *part);
    lipsc_status (*product)(const lipsc_device *device, void *part, int trans, size_t k,
                            lipsc_buffer x, lipsc_buffer y);
    size_t (*bytes)(const lipsc_device *device, const void *part);
    /* of own rows */
    lipsc_status (*projections)(const lipsc_device *device, const void *part, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over);
} lipsc_part_ops;

/* What talk between ranks costs: seconds of the shortest message and of one byte of a long
 * one; bytes of heads that go together in one message, about. */
typedef struct {
    double latency, byte;
    size_t message;
} lipsc_link;

/* What a kind of device can do.  device is never NULL but for the CPU. */
typedef struct {
    const char *name;
    int concurrent; /* several threads may use it at once                                */
    int proved;     /* products in double are those whose rounding docs/maths.md bounds:
                     * values are evaluated on it.  0: on its CPU                        */
    double folds;   /* where proved: roundings of a factor beyond those of the definition */
    double least;   /* where proved: probabilities below are zero; 0: not before the least
                     * normal number                                                     */
    int coarse_f32; /* f32 has larger errors than IEEE's: what it knows in that precision
                     * proves nothing, and projections are told in f64 only              */
    size_t half;    /* tokens from which on LIPSC_F16 pays, which weights_new then takes; 0:
                     * it does not                                                       */
    double speed; /* operations a second in f32, roughly, of a sweep on it; 0: as its CPU */
    size_t room;  /* of the vectors of one solve: lipsc_space                           */
    int raw;      /* inputs may bring their projections (lipsc_rows.raw)               */
    int tokens_there; /* inputs may be in its memory already (lipsc_rows.X)             */
    int leaves_zeros; /* products leave out what of V and O is zero: attn/turned.h      */
    int rows_alone;   /* a row of what stands in a model (output, linear_apply, rowwise) has
                       * bits that only the rows it sees decide, however many follow        */
    size_t batch_tokens; /* that keep it busy in one batch.  Work is then queued, each
                          * thread's in its own order: a vector stays with a thread.  0: as
                          * many as suit a CPU, whose threads hand vectors to each other  */

    /* ---- required ---------------------------------------------------------------- */

    /* Weights made ready for the products; layer has been checked and has its defaults
     * resolved (kv_heads, scale, out_dim).  layer and its arrays must outlive the
     * weights, which any number of inputs may share. */
    lipsc_status (*weights_new)(const lipsc_device *device, const lipsc_layer *layer,
                                lipsc_dtype dtype, void **weights, lipsc_error *err);
    void (*weights_free)(const lipsc_device *device, void *weights);

    /* Projections and row statistics at one input.  weights must outlive it.
     * LIPSC_E_NONFIN when a score overflows. */
    lipsc_status (*input_new)(const lipsc_device *device, const void *weights,
                              const lipsc_rows *rows, void **input, lipsc_error *err);
    void (*input_free)(const lipsc_device *device, void *input);

    /* y = J x (trans 0) or J^T x (trans 1), k vectors */
    lipsc_status (*product)(const lipsc_device *device, void *input, int trans, size_t k,
                            lipsc_buffer x, lipsc_buffer y);

    /* bytes that products need beyond weights, input and vectors */
    size_t (*bytes)(const lipsc_device *device, const void *input);

    /* ---- optional: NULL where the device cannot; the caller does it on its CPU ---- */

    void (*close)(lipsc_device *device); /* NULL: nothing to do */

    /* The largest of what the ranks that share it say: whoever decides by a clock must
     * decide as the others do.  NULL: nobody shares it. */
    double (*largest)(const lipsc_device *device, double own);
    /* The sum of what they say, added in one order; NaN: they are out of reach.  NULL:
     * nobody shares it. */
    double (*total)(const lipsc_device *device, double own);

    /* What one of these ranks does on all cores of its machine while the others sleep.
     * NULL: nobody shares it. */
    lipsc_status (*alone)(const lipsc_device *device, lipsc_status (*work)(void *ctx),
                          void *ctx);
    /* What talking costs these ranks. */
    lipsc_status (*link)(const lipsc_device *device, lipsc_link *out);

    /* The device of this one of the ranks that share it; NULL: nobody does. */
    const lipsc_device *(*own)(const lipsc_device *device);

    /* What it does where ranks share an input; NULL: it cannot. */
    const lipsc_part_ops *part;

    /* 0: it still begins, and whoever gives it anything waits.  NULL: it does not. */
    int (*ready)(const lipsc_device *device);

    /* The part of the last `seconds` in which it computed anything, for whomever. */
    lipsc_status (*busy)(const lipsc_device *device, double seconds, double *part);

    /* Why an operation failed that had no place for a sentence; NULL: none has. */
    const char *(*failure)(const lipsc_device *device);

    /* input_new and product for several inputs at once, whose lengths may differ: both or
     * none.  Each input is freed on its own, but they share work memory: one thread at a
     * time may use any of them.  What is found for an input does not depend on the others,
     * to the last bit (in LIPSC_F16 only from `half` tokens on).  products: each with
     * another input of one batch. */
    lipsc_status (*batch_new)(const lipsc_device *device, const void *weights, size_t count,
                              const lipsc_rows *rows, void **inputs, lipsc_error *err);
    lipsc_status (*products)(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product);

    /* Gradients of <u, J(X) v> for k pairs held fixed, in the caller's order like the
     * vectors of product: in X, grad (n, d), and in the log weight that the scores of key j
     * share, grad_score (n) or nowhere.  In f64 only where f32 is coarse. */
    lipsc_status (*gradient)(const lipsc_device *device, void *input, size_t k,
                             lipsc_buffer u, lipsc_buffer v, lipsc_buffer grad,
                             lipsc_buffer grad_score);
    /* The same for several inputs of one batch, each of them once; what is found for one
     * does not depend on the others, to the last bit.  NULL: one after the other. */
    lipsc_status (*gradients)(const lipsc_device *device, size_t count,
                              const lipsc_gradient_product *of);

    /* What the products of query head h work with, in host memory and the device's order:
     * q with its scale and key (n, key_dim), z (n, value_dim), and sqrt(key_dim) / r of the
     * norms of queries and keys, (n) each, 1 where there is no norm. */
    lipsc_status (*projections)(const lipsc_device *device, const void *input, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over);

    /* The entropy of each row of the attention, in nats and with a sink as one more key,
     * and the sum of each column, (heads, n) each, in host memory and the device's order.
     * In f64 only where f32 is coarse. */
    lipsc_status (*spread)(const lipsc_device *device, void *input, double *entropy,
                           double *columns);

    /* f(X) with biases, (n, width), in the device's memory in either precision, or, for
     * who asks for them, doubles of the host (lipsc_host_view) */
    lipsc_status (*output)(const lipsc_device *device, void *input, lipsc_buffer y);

    /* What stands around attention in a model: all four or none.
     *
     * One direction of a dense layer, y = x W^T + bias, packed: W (out, in), or given as
     * its transpose (in, out); bias (out) or NULL.  Nothing is kept of the arrays. */
    lipsc_status (*linear_new)(const lipsc_device *device, size_t in, size_t out,
                               const double *w, int transposed, const double *bias,
                               lipsc_dtype dtype, void **linear, lipsc_error *err);
    void (*linear_free)(const lipsc_device *device, void *linear); /* NULL is fine */
    /* y (rows, out) = x (rows, in) W^T, or y += with add; bias nonzero adds the bias */
    lipsc_status (*linear_apply)(const lipsc_device *device, const void *linear,
                                 size_t rows, lipsc_buffer x, int bias, int add,
                                 lipsc_buffer y);
    const lipsc_rowwise *(*rowwise)(lipsc_dtype dtype);
} lipsc_device_ops;

struct lipsc_device {
    const lipsc_device_ops *ops;
    lipsc_space space[2];     /* by lipsc_dtype                                         */
    int threads;              /* of the CPU; 0: as many as OpenMP gives                 */
    const lipsc_device *home; /* whose memory it is: itself, or who lent it; NULL: the
                               * CPU's, which all share                                 */
    const lipsc_device *cpu;  /* the CPU with the same threads, for what the device cannot
                               * do; NULL: as many as OpenMP gives                      */
    void *state;              /* of the kind of device                                  */
    int chooses;              /* `auto`, and still to be decided: a CPU until then      */
    int chosen;               /* by `auto`, not by its name                             */
    char name[32];            /* "cpu", "cuda:1"                                        */
};

/* For the kinds: what a device with memory of its own has, its CPU among it. */
void lipsc_device_fill(lipsc_device *device, const lipsc_device_ops *ops,
                       const lipsc_space_ops *space, void *state, int threads);

/* `auto` becomes a GPU where one is usable and the work, in floating-point operations, is
 * worth its start; else it stays the CPU that it is.  Decided once, before anything is made
 * on it; a device that was opened by its name stays what it is. */
void lipsc_device_choose(lipsc_device *device, double operations);
/* What another rank has decided, on the GPU of this number; of a device that still chooses.
 */
lipsc_status lipsc_device_take(lipsc_device *device, const char *kind, size_t number,
                               lipsc_error *err);

/* ---- Any device, NULL included ------------------------------------------------------ */

const lipsc_device_ops *lipsc_device_table(const lipsc_device *device);
const lipsc_space *lipsc_device_space(const lipsc_device *device, lipsc_dtype dtype);

/* Whether `auto` took it; why it failed, or NULL. */
int lipsc_device_was_chosen(const lipsc_device *device);
const char *lipsc_device_failure(const lipsc_device *device);

/* Devices with the same home share their memory, and whatever was made on one of them. */
const lipsc_device *lipsc_device_home(const lipsc_device *device);

/* The same device with another number of threads, for parts of a work that run side by
 * side; valid as long as device and out. */
void lipsc_device_lend(const lipsc_device *device, int threads, lipsc_device *out);

/* Where dense layers and maps of single tokens are worked on, values in double among them,
 * and where values of attention are evaluated: the device itself, or its CPU. */
const lipsc_device *lipsc_device_dense(const lipsc_device *device);
const lipsc_device *lipsc_device_proved(const lipsc_device *device);
/* The same for inputs that bring their projections. */
const lipsc_device *lipsc_device_raw(const lipsc_device *device);
/* How many works the device can do side by side: its threads, or one. */
int lipsc_device_side_by_side(const lipsc_device *device);
/* own, or the largest of those of all ranks that share the device. */
double lipsc_device_largest(const lipsc_device *device, double own);
double lipsc_device_total(const lipsc_device *device, double own);
/* work, by the first of these ranks with all cores of its machine while the others sleep;
 * every rank has its status. */
lipsc_status lipsc_device_alone(const lipsc_device *device, lipsc_status (*work)(void *ctx),
                                void *ctx);
/* The device's CPU. */
const lipsc_device *lipsc_device_cpu(const lipsc_device *device);

/* A CPU with that many threads (0: as many as OpenMP gives), for callers that have a number
 * and no device. */
const lipsc_device *lipsc_cpu_of(int threads);

/* One thread where a pair of products takes at most about 0.1 ms: starting a second one
 * costs more than it brings, and very much more on a machine that is busy.  No result
 * depends on the number of threads. */
int lipsc_device_useful_threads(const lipsc_device *device, const lipsc_layer *layer,
                                size_t n);

LIPSC_CHECKED lipsc_status lipsc_linear_apply(const lipsc_device *device,
                                              const void *linear, size_t rows,
                                              lipsc_buffer x, int bias, int add,
                                              lipsc_buffer y) {
    return lipsc_device_table(device)->linear_apply(device, linear, rows, x, bias, add, y);
}

/* ---- Kinds of devices --------------------------------------------------------------- */

extern const lipsc_device_ops lipsc_cpu_ops;
extern const lipsc_part_ops lipsc_cpu_parts; /* ranks/part.c */

#endif
