// internal.h - what the files of the plugin share: device, weights, batch.
#ifndef LIPSC_CUDA_INTERNAL_H
#define LIPSC_CUDA_INTERNAL_H

extern "C" {
#include "cuda_api.h"
}
#include "kernels.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

// Two halves of host memory that the GPU copies to by itself; done: when it has.  A call
// that takes such memory keeps all other threads' calls waiting for a millisecond and more,
// so that a lane has all that it mostly needs from the beginning.
struct Slot {
    char *host = nullptr;
    cudaEvent_t done[2] = {};
    bool own = false; // it is not the lane's first
};
enum { SLOT_HALF = 512 << 10 };

enum { RING_PARTS = 4, RING_PART = 512 << 10 }; // bytes on their way to the GPU

// How products of one kind with weights are summed, whatever the number of rows: gemm.cu.
struct Chosen {
    cudaDataType_t type, result;
    int trans;
    size_t out, in, ldw, ldx, ldy;
    cublasLtMatmulAlgo_t algorithm;
};

// Where one thread queues its work, in its own order; more threads than lanes share them.
struct Lane {
    std::mutex lock; // of all that follows: Hold
    bool made = false;
    cudaStream_t stream = nullptr;
    cudaStream_t side = nullptr; // beside the stream, for work that leaves the GPU idle
    cudaEvent_t forked = nullptr, joined = nullptr;
    cublasHandle_t blas = nullptr; // made when it is first needed: blas_of
    void *workspace = nullptr;
    std::vector<Chosen> chosen;
    void *scratch = nullptr; // of operations on vectors
    size_t scratch_bytes = 0;
    unsigned waits = cudaEventDisableTiming; // flags of events that somebody waits for
    std::vector<Slot> slots;                 // free ones
    // small memory that was given back, by its bytes: taken again in the stream's order
    std::unordered_map<size_t, std::vector<void *>> spare;
    size_t spare_bytes = 0;
    char *ring = nullptr; // of RING_PARTS, then the first slot
    size_t ring_at = 0;
    cudaEvent_t ring_done[RING_PARTS] = {};
};

enum { DEVICE_LANES = 32 };
unsigned lane_of_thread(); // its number

struct lipsc_cuda_device {
    int index;
    bool pooled; // memory is taken and given back in the order of a stream
    int multiprocessors;
    Room room_of_block = SMALL;    // shared memory
    bool hopper = false;           // it runs the kernels of sm_90a
    bool follows = false;          // a kernel may begin while the one before it ends
    void *constants;               // 0 and 1 as float, then as double, then as int
    cublasLtHandle_t light;        // of all lanes
    std::thread early[3];          // asks cublasLt for the first time, of each type
    std::atomic<int> questions{0}; // of theirs, and of weights: not answered yet
    std::mutex answered_lock;
    std::condition_variable answered;
    std::atomic<bool> begins{false}; // until the first were
    bool sleeps;                     // whoever waits leaves the core
    std::mutex sizes_lock;
    std::unordered_map<void *, size_t> sizes; // of memory that may become spare
    std::mutex chosen_lock;
    std::vector<Chosen> chosen; // what any lane was told
    cudaEvent_t marks[8];
    Lane lanes[DEVICE_LANES];
    Lane *lane() { return &lanes[lane_of_thread()]; }
    cudaStream_t stream() { return lane()->stream; }
};

struct lipsc_cuda_graph {
    lipsc_cuda_device *device;
    cudaGraphExec_t exec;
};

// A kernel that starts while the one before it in the stream ends: it must call follow()
// before it touches memory.  Saves a microsecond or so, which counts where inputs are
// short.
DEV void follow() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}
template <class... P, class... A>
cudaError_t launch_following(bool follows, void (*kernel)(P...), unsigned blocks,
                             unsigned threads, size_t shared, cudaStream_t stream,
                             A... args) {
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = follows ? 1 : 0; // older GPUs know no such launch
    return cudaLaunchKernelEx(&config, kernel, P(args)...);
}

// Fills err and returns the code.
lipsc_status fail(lipsc_error *err, lipsc_status code, const char *format, ...);
lipsc_status fail_cuda(lipsc_error *err, cudaError_t e, const char *what);
lipsc_status fail_blas(lipsc_error *err, cublasStatus_t e, const char *what);
#define TRY(call, what)                                             \
    do {                                                            \
        const cudaError_t try_ = (call);                            \
        if (try_ != cudaSuccess) return fail_cuda(err, try_, what); \
    } while (0)
#define PASS(call)                           \
    do {                                     \
        const lipsc_status pass_ = (call);   \
        if (pass_ != LIPSC_OK) return pass_; \
    } while (0)

// The lane of this thread, which begins with its first call.  Whoever waits (finish, fetch)
// lets others of the same lane in.
struct Hold {
    Lane *lane;
    explicit Hold(lipsc_cuda_device *device);
    ~Hold() { lane->lock.unlock(); }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;
};

lipsc_status blas_of(Lane *lane, cublasHandle_t *out, lipsc_error *err);

// What these do is queued; the caller has the Hold.  send: host may change after it.
// fetch and finish wait.
lipsc_status take_memory(lipsc_cuda_device *device, size_t bytes, void **out,
                         const char *what, lipsc_error *err);
void give_memory(lipsc_cuda_device *device, void *p);
void give_spare(lipsc_cuda_device *device, Lane *lane); // back to the device
lipsc_status send(lipsc_cuda_device *device, size_t bytes, const void *host, void *to,
                  lipsc_error *err);
lipsc_status fetch(lipsc_cuda_device *device, size_t bytes, const void *from, void *host,
                   lipsc_error *err);
lipsc_status finish(lipsc_cuda_device *device, const char *what, lipsc_error *err);
lipsc_status widen(lipsc_cuda_device *device, size_t count, const float *from, double *to,
                   lipsc_error *err);

// Device memory that is given back together; bytes counts it.
struct Memory {
    lipsc_cuda_device *device = nullptr;
    std::vector<void *> held;
    size_t bytes = 0;
    ~Memory();
    lipsc_status take(void **out, size_t bytes, lipsc_error *err);
    template <class T> lipsc_status get(T **out, size_t count, lipsc_error *err) {
        return take((void **)out, (count ? count : 1) * sizeof(T), err);
    }
    template <class T>
    lipsc_status put(T **out, const std::vector<T> &host, size_t slack, lipsc_error *err);
    void give(void *p); // earlier than the rest
};

// Sizes of a layer as the device sees it.
struct Dims {
    size_t d, width;     // a token, an output token
    size_t dp, wp;       // the same, rounded up to 8 in the narrow precisions
    size_t heads, kv, W; // padded width of a head
    size_t key_dim, value_dim;
    size_t C;      // (heads + 2 kv) W: queries, keys, values of a token
    size_t turned; // (heads + kv) W: queries and keys
    size_t rotary_half;
    int norms, norm_whole; // norms: bit 0 queries, bit 1 keys
    double norm_eps, cap;
};

// One input whose rows several ranks share: what a batch of own rows has beside (part.cu).
struct Part {
    lipsc_share share;
    size_t rows = 0;                 // of arrays of own rows, with those behind
    size_t some = 0;                 // key heads that are worked on together
    bool keeps = false, has = false; // keys and values of all heads stay, and are here
    // (n, 2 some W), or of all heads: keys and values of all; directions or gradients
    void *all_kv = nullptr, *all_dkv = nullptr;
    void *sums = nullptr;          // the same in Acc
    void *packed = nullptr;        // own rows of them
    void *all_row_scale = nullptr; // (n) or NULL
    void *scale_room = nullptr;    // of scales: (n), own rows twice
    // what travels (travel.h)
    void *room_own = nullptr, *room_all = nullptr, *room_parts = nullptr;
    explicit Part(const lipsc_share &s) : share(s) {}
    ~Part();
};

// Work of all precisions behind one table of virtual functions.
struct lipsc_cuda_batch {
    lipsc_cuda_device *device;
    Memory memory;
    size_t inputs = 0, tokens = 0, padded = 0, dirs = 0;
    size_t longest_n = 0; // tokens of the longest input
    std::vector<int> base_host, n_host;
    int *base = nullptr, *pad = nullptr, *n = nullptr; // (inputs)
    int *owner = nullptr, *prow = nullptr;             // (tokens) input, padded row
    int *source = nullptr; // (tokens) row of the caller, or NULL: the same
    int *active = nullptr, *active_store = nullptr;
    double *partial = nullptr; // of gram
    size_t partial_count = 0;
    int room = 0;
    size_t d = 0, width = 0;
    bool wide = false;          // vectors of double
    std::unique_ptr<Part> part; // NULL: all rows are here
    // rows of queries, keys and values of the input that was asked for last
    typedef std::vector<double> Told;
    std::mutex told_lock;
    std::shared_ptr<const Told> told;
    size_t told_input = 0;
    virtual ~lipsc_cuda_batch() {}
    virtual lipsc_status product(int trans, size_t k, const void *x, void *y, int plain,
                                 lipsc_error *err) = 0;
    virtual lipsc_status core(int trans, size_t k, lipsc_error *err) = 0;
    virtual lipsc_status output(size_t input, int wide, void *y, lipsc_error *err) = 0;
    virtual lipsc_status projections(size_t input, size_t head, double *q, double *key,
                                     double *z, double *q_over, double *k_over,
                                     lipsc_error *err) = 0;
    virtual lipsc_status spread(size_t input, double *entropy, double *columns,
                                lipsc_error *err) = 0;
    virtual lipsc_status gradient(const void *u, const void *v, void *grad,
                                  void *grad_score, lipsc_error *err) = 0;
};
// an input's rows of statistics are a multiple of PAD; SLACK stand behind the last
enum { STATISTICS_PAD = 64, STATISTICS_SLACK = 512 };

struct lipsc_cuda_weights {
    lipsc_cuda_device *device;
    Memory memory;
    Dims dims;
    virtual ~lipsc_cuda_weights() {}
    virtual lipsc_status batch_new(size_t inputs, const lipsc_rows *rows, size_t dirs,
                                   const lipsc_share *share, lipsc_cuda_batch **out,
                                   lipsc_error *err) = 0;
};

template <class S> struct Weights : lipsc_cuda_weights {
    typedef typename S::T T;
    typedef typename S::Acc Acc;
    const Kernels<S> *kernels;
    double *exact;                 // (C, dp64 = d) projections in double
    double *bias;                  // (C) in double
    double *out_bias = nullptr;    // (width), or NULL
    T *qkv, *out;                  // (C, dp), (width, heads W), PL planes side by side
    double qkv_factor, out_factor; // powers of two: what they were multiplied by
    Acc *gain;                     // (turned) or NULL
    double *gain_exact;
    double *freq = nullptr;
    std::vector<double> freq_host;
    Acc *sinks; // (heads), base 2, or NULL
    lipsc_status batch_new(size_t inputs, const lipsc_rows *rows, size_t dirs,
                           const lipsc_share *share, lipsc_cuda_batch **out,
                           lipsc_error *err) override;
};

template <class S> struct Batch : lipsc_cuda_batch {
    typedef typename S::T T;
    typedef typename S::Acc Acc;
    const Weights<S> *w;
    T *qkv, *dqkv, *heads,
        *xin;                // (tokens, C), (dirs tokens, C), (.., heads W), (.., dp|wp)
    Acc *temp = nullptr;     // (dirs tokens, C): where a projection is not final
    Acc *gathered = nullptr; // (dirs tokens, max(d, width)): before the caller's order
    Acc *attended;           // (tokens, heads W): output of Args
    Stats<Acc> st;
    int *first, *last, *key_first, *key_last; // (padded)
    Acc *key_bias = nullptr, *distance = nullptr;
    int far = 0;
    Acc *root = nullptr, *inverse_root = nullptr; // (tokens)
    Acc *cosine = nullptr, *sine = nullptr;       // (tokens, rotary_half)
    Acc *unit = nullptr, *over = nullptr;         // (tokens, turned), (tokens, heads + kv)
    int *longest = nullptr; // (dirs, inputs) largest row norm, bits of a float
    Acc *unscale = nullptr; // (dirs, inputs) what undoes the scale
    Task *tasks[MODES], *statistics_tasks;
    int ntasks[MODES], statistics_ntasks;
    // The core writes 2^lift of its results, J and J^T, and the transposed one row_scale of
    // row i, so that f16 neither overflows nor loses digits: sums over many keys are small,
    // and a key that everybody looks at is large.
    int lift[2] = {0, 0};
    Acc *row_scale = nullptr, *row_unscale = nullptr; // (tokens) or NULL: all 1
    const Kernels<S> *kernels;
    double *plain_stats = nullptr, *plain_dirs = nullptr;

    lipsc_status product(int trans, size_t k, const void *x, void *y, int plain,
                         lipsc_error *err) override;
    lipsc_status core(int trans, size_t k, lipsc_error *err) override;
    lipsc_status output(size_t input, int wide, void *y, lipsc_error *err) override;
    lipsc_status projections(size_t input, size_t head, double *q, double *key, double *z,
                             double *q_over, double *k_over, lipsc_error *err) override;
    lipsc_status spread(size_t input, double *entropy, double *columns,
                        lipsc_error *err) override; // spread.cu
    lipsc_status gradient(const void *u, const void *v, void *grad, void *grad_score,
                          lipsc_error *err) override; // gradient.cu
    Args<S> args(Mode mode, size_t k) const;
    bool turns() const { return w->dims.norms || w->dims.rotary_half; }
    bool staged() const { return source || root || row_scale; }
    bool general() const { return key_bias || distance || w->dims.cap > 0; }
    // what is found for an input does not depend on the others: batches of short ones
    bool alone() const { return S::KIND != KIND_F16 && longest_n < LIPSC_CUDA_SHORT; }
    // results are brought back to scale by cuBLAS
    bool single(size_t k) const { return inputs == 1 && k == 1 && !alone(); }
};
template <>
lipsc_status Batch<StoreF64>::projections(size_t, size_t, double *, double *, double *,
                                          double *, double *, lipsc_error *);
template <> lipsc_status Batch<StoreF64>::spread(size_t, double *, double *, lipsc_error *);
template <>
lipsc_status Batch<StoreF64>::gradient(const void *, const void *, void *, void *,
                                       lipsc_error *);

// ---- busy.cu: as cuda_api.h says
// ----------------------------------------------------------------
lipsc_status busy(lipsc_cuda_device *device, double seconds, double *part,
                  lipsc_error *err);

// ---- gemm.cu: row-major products with weights
// ----------------------------------------------
// y (rows, out) = alpha x (rows, in) op(W) + (add ? y : 0), W (out, in), or with trans
// (in, out).  device_alpha, where not NULL, is taken for alpha.
struct Gemm {
    cudaDataType_t type, result; // of x and W, of y
    int trans;
    size_t rows, out, in;
    const void *x;
    size_t ldx;
    const void *w;
    size_t ldw;
    void *y;
    size_t ldy;
    int add;
    double alpha;
    const void *device_alpha;
};
// alone: the bits of a row depend on that row alone, not on how many there are; rows then
// lie at multiples of their leading dimensions, and alpha is the host's.
lipsc_status gemm(lipsc_cuda_device *dev, const Gemm &g, bool alone, lipsc_error *err);
// That such products, of any number of rows, will be wanted alone: who makes the weights
// says so, and nobody waits for cublasLt later.  No answer is no error here.
void foresee(lipsc_cuda_device *dev, const Gemm &g);
template <class S> void foresee_layer(lipsc_cuda_device *dev, const Dims &dims);
// While one is open, a device that begins is not ready.
class Question {
    lipsc_cuda_device *dev;

  public:
    explicit Question(lipsc_cuda_device *device);
    ~Question() { end(); }
    Question(const Question &) = delete;
    Question &operator=(const Question &) = delete;
    void end();
};
// The first questions: asked in threads of their own, waited for, and whether all were
// answered.
void ask_early(lipsc_cuda_device *dev);
void end_early(lipsc_cuda_device *dev);
int ready(lipsc_cuda_device *dev);
// y (m, n) = alpha x (m, k) W^T, W (n, k), or with trans y = alpha x (m, n_in) W; planes of
// S.
template <class S>
lipsc_status gemm_stored(lipsc_cuda_device *dev, bool alone, int trans, size_t m, size_t n,
                         size_t k, double alpha, const typename S::T *x, size_t ldx,
                         const typename S::T *w, size_t ldw, typename S::T *y, size_t ldy,
                         lipsc_error *err); // one plane only
template <class S>
lipsc_status gemm_full(lipsc_cuda_device *dev, bool alone, int trans, size_t m, size_t n,
                       size_t k, double alpha, const typename S::Acc *device_alpha,
                       const typename S::T *x, size_t ldx, const typename S::T *w,
                       size_t ldw, typename S::Acc *y, size_t ldy, lipsc_error *err);

// ---- stages.cu, turning.cu, row_numbers.cu: row by row around the core
// ---------------------------------------------------
template <class S>
lipsc_status enter(const Batch<S> *b, int trans, size_t k, const typename S::Acc *x,
                   double out_factor, lipsc_error *err);
template <class S>
lipsc_status leave(const Batch<S> *b, int trans, size_t k, const typename S::Acc *from,
                   typename S::Acc *y, lipsc_error *err);
template <class S>
lipsc_status store(cudaStream_t stream, size_t rows, size_t cols, const void *from,
                   int from_double, size_t ldf, double factor, typename S::T *to,
                   size_t ldt, lipsc_error *err);
template <class S>
lipsc_status turn(const Batch<S> *b, size_t k, const typename S::Acc *from,
                  lipsc_error *err);
template <class S> lipsc_status turn_back(const Batch<S> *b, size_t k, lipsc_error *err);
// What norms add to gradients in dqkv (tokens, C), behind turn_back: e is a direction's
// projections before norms, t the gradients in its norms' results, which are used up.
lipsc_status norm_second(const Batch<StoreF64> *b, const double *e, double *t,
                         lipsc_error *err);
template <class S>
lipsc_status ready(const Batch<S> *b, size_t first, size_t rows, double *projected,
                   int *bad, lipsc_error *err);
template <class S>
lipsc_status shift_of_rows(const Batch<S> *b, size_t k, lipsc_error *err);
template <class S>
lipsc_status means_of_rows(const Batch<S> *b, size_t k, lipsc_error *err);
template <class S> lipsc_status head_output(const Batch<S> *b, lipsc_error *err);
// heads = 1, for the masses of columns; then the scales of rows from what J^T makes of it
template <class S> lipsc_status ones(const Batch<S> *b, lipsc_error *err);
template <class S>
lipsc_status masses(const Batch<S> *b, double factor, double threshold, int *needed,
                    lipsc_error *err);

// ---- places.cu
// --------------------------------------------------------------------------------
template <class S>
lipsc_status place_rows(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err);
template <class S>
lipsc_status place_weights(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err);
template <class S>
lipsc_status place_distances(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err);
template <class S>
lipsc_status place_part_rows(Batch<S> *b, const lipsc_rows &rows, lipsc_error *err);
template <class S>
lipsc_status place_roots(Batch<S> *b, const double *root, lipsc_error *err);
template <class S>
lipsc_status place_angles(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err);
// ---- batch.cu, for part.cu: what own rows have, how narrow numbers are scaled
// ---------------------------
template <class S> lipsc_status place_work(Batch<S> *b, lipsc_error *err);
template <class S> lipsc_status place_gathered(Batch<S> *b, lipsc_error *err);
template <class S>
lipsc_status project(Batch<S> *b, const lipsc_rows *rows, int *bad, lipsc_error *err);
template <class S> constexpr double narrow_threshold() {
    return S::KIND == KIND_F16 ? 64 : 16;
}
template <class S> int narrow_lift(const Batch<S> *b);

// ---- part.cu
// ----------------------------------------------------------------------------------
template <class S>
lipsc_status fill_part(Batch<S> *b, const lipsc_rows &rows, lipsc_error *err);
template <class S> lipsc_status part_core(Batch<S> *b, int trans, lipsc_error *err);
lipsc_status longest_of_ranks(lipsc_cuda_batch *b, int *longest, lipsc_error *err);

// ---- plain.cu
// ---------------------------------------------------------------------------------
template <class S> lipsc_status plain_statistics(Batch<S> *b, lipsc_error *err);
template <class S>
lipsc_status plain_core(Batch<S> *b, int trans, size_t k, lipsc_error *err);

// product.cu: dqkv = projections of v, before norms also in direct where that is not NULL;
// heads = those of u
lipsc_status directions_in(Batch<StoreF64> *b, const void *u, const void *v, double *direct,
                           lipsc_error *err);

// ---- weights.cu, batch.cu
// -----------------------------------------------------------------------
lipsc_status weights_new(lipsc_cuda_device *device, const lipsc_layer *layer,
                         lipsc_cuda_precision precision, lipsc_cuda_weights **out,
                         lipsc_error *err);

// A host function for each precision: f(double) or f(float).
#define BY_WIDTH(wide, call)  \
    do {                      \
        if (wide) {           \
            typedef double V; \
            call;             \
        } else {              \
            typedef float V;  \
            call;             \
        }                     \
    } while (0)

#include "vectors.h"

#endif
