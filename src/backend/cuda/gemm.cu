// gemm.cu - products with weights by cuBLAS, row-major; two planes take three products.
//
// cuBLAS chooses how it sums by the shape, so a row's last bits may depend on how many rows
// there are.  Where they must not (`alone`), one algorithm without split sums is taken for
// every number of rows: the best for ALONE_ROWS of them.
#include "internal.h"

#include <system_error>

enum { ALONE_ROWS = 1024, CANDIDATES = 16 };

// ---- By shape
// ------------------------------------------------------------------------------

static const void *constant(lipsc_cuda_device *dev, int which, bool wide) {
    const char *p = (const char *)dev->constants;
    return wide ? p + 2 * sizeof(float) + (size_t)which * sizeof(double)
                : p + (size_t)which * sizeof(float);
}

static cublasComputeType_t compute_of(const Gemm &g) {
    return g.type == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
}

static lipsc_status by_shape(lipsc_cuda_device *dev, const Gemm &g, lipsc_error *err) {
    const bool wide = g.type == CUDA_R_64F;
    const float alpha32 = (float)g.alpha, beta32 = (float)g.add;
    const double beta64 = g.add;
    const void *a = g.device_alpha ? g.device_alpha
                    : wide         ? (const void *)&g.alpha
                                   : &alpha32;
    const void *b = g.device_alpha ? constant(dev, g.add, wide)
                    : wide         ? (const void *)&beta64
                                   : &beta32;
    cublasHandle_t blas;
    PASS(blas_of(dev->lane(), &blas, err));
    cublasSetPointerMode(blas, g.device_alpha ? CUBLAS_POINTER_MODE_DEVICE
                                              : CUBLAS_POINTER_MODE_HOST);
    const cublasStatus_t e = cublasGemmEx(
        blas, g.trans ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, (int)g.out, (int)g.rows,
        (int)g.in, a, g.w, g.type, (int)g.ldw, g.x, g.type, (int)g.ldx, b, g.y, g.result,
        (int)g.ldy, compute_of(g), CUBLAS_GEMM_DEFAULT);
    return e == CUBLAS_STATUS_SUCCESS ? LIPSC_OK
                                      : fail_blas(err, e, "a product with weights");
}

// ---- Rows alone
// ----------------------------------------------------------------------------

#define BLAS(call)                                        \
    do {                                                  \
        const cublasStatus_t blas_ = (call);              \
        if (blas_ != CUBLAS_STATUS_SUCCESS) return blas_; \
    } while (0)

// The product of so many rows, as cublasLt wants to have it told: column-major.
struct Told {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};
static cublasStatus_t tell(const Gemm &g, size_t rows, Told *t) {
    const cublasOperation_t op = g.trans ? CUBLAS_OP_N : CUBLAS_OP_T;
    BLAS(cublasLtMatmulDescInit(&t->product, compute_of(g),
                                g.type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F));
    BLAS(cublasLtMatmulDescSetAttribute(&t->product, CUBLASLT_MATMUL_DESC_TRANSA, &op,
                                        sizeof op));
    BLAS(cublasLtMatrixLayoutInit(&t->w, g.type, g.trans ? g.out : g.in,
                                  g.trans ? g.in : g.out, (int64_t)g.ldw));
    BLAS(cublasLtMatrixLayoutInit(&t->x, g.type, g.in, rows, (int64_t)g.ldx));
    return cublasLtMatrixLayoutInit(&t->y, g.result, g.out, rows, (int64_t)g.ldy);
}

// What the place of any row is a multiple of, up to 16 bytes.
static uint32_t alignment(size_t ld, cudaDataType_t type) {
    const size_t item = type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
    uint32_t bytes = 16;
    while (ld * item % bytes) bytes /= 2;
    return bytes;
}

static cublasStatus_t limit(const Gemm &g, cublasLtMatmulPreferenceOpaque_t *p) {
    const size_t workspace = 0;
    const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE, w = alignment(g.ldw, g.type),
                   x = alignment(g.ldx, g.type), y = alignment(g.ldy, g.result);
    const struct {
        cublasLtMatmulPreferenceAttributes_t which;
        const void *value;
        size_t size;
    } all[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
               {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none, sizeof none},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &w, sizeof w},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &x, sizeof x},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &y, sizeof y},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &y, sizeof y}};
    BLAS(cublasLtMatmulPreferenceInit(p));
    for (const auto &a : all)
        BLAS(cublasLtMatmulPreferenceSetAttribute(p, a.which, a.value, a.size));
    return CUBLAS_STATUS_SUCCESS;
}

static bool sums_in_one(const cublasLtMatmulHeuristicResult_t &r) {
    int32_t split = 0;
    size_t written = 0;
    return r.state == CUBLAS_STATUS_SUCCESS && !r.workspaceSize &&
           cublasLtMatmulAlgoConfigGetAttribute(&r.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                &split, sizeof split,
                                                &written) == CUBLAS_STATUS_SUCCESS &&
           split <= 1;
}

static cublasStatus_t choose(cublasLtHandle_t blas, const Gemm &g,
                             cublasLtMatmulAlgo_t *out) {
    Told t;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int count = 0;
    BLAS(tell(g, ALONE_ROWS, &t));
    BLAS(limit(g, &preference));
    BLAS(cublasLtMatmulAlgoGetHeuristic(blas, &t.product, &t.w, &t.x, &t.y, &t.y,
                                        &preference, CANDIDATES, found, &count));
    for (int i = 0; i < count; i++)
        if (sums_in_one(found[i])) {
            *out = found[i].algo;
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static const Chosen *among(const std::vector<Chosen> &all, const Gemm &g) {
    for (const Chosen &c : all)
        if (c.type == g.type && c.result == g.result && c.trans == g.trans &&
            c.out == g.out && c.in == g.in && c.ldw == g.ldw && c.ldx == g.ldx &&
            c.ldy == g.ldy)
            return &c;
    return nullptr;
}

// The first lane asks, the others are given the same.  Each question takes 2 to 4 ms, in
// which nobody else who has one goes on: weights ask what will be asked of them (foresee)
// while other threads still make theirs.
static cublasStatus_t chosen(lipsc_cuda_device *dev, Lane *lane, const Gemm &g,
                             cublasLtMatmulAlgo_t *out) {
    const Chosen *known = among(lane->chosen, g);
    if (!known) {
        const std::lock_guard<std::mutex> held(dev->chosen_lock);
        if (!among(dev->chosen, g)) {
            Chosen c = {g.type, g.result, g.trans, g.out, g.in, g.ldw, g.ldx, g.ldy, {}};
            BLAS(choose(dev->light, g, &c.algorithm));
            dev->chosen.push_back(c);
        }
        lane->chosen.push_back(*among(dev->chosen, g));
        known = &lane->chosen.back();
    }
    *out = known->algorithm;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t by_rows(lipsc_cuda_device *dev, const Gemm &g) {
    Lane *lane = dev->lane();
    const bool wide = g.type == CUDA_R_64F;
    const float alpha32 = (float)g.alpha, beta32 = (float)g.add;
    const double beta64 = g.add;
    cublasLtMatmulAlgo_t algorithm;
    Told t;
    BLAS(chosen(dev, lane, g, &algorithm));
    BLAS(tell(g, g.rows, &t));
    return cublasLtMatmul(dev->light, &t.product, wide ? (const void *)&g.alpha : &alpha32,
                          g.w, &t.w, g.x, &t.x, wide ? (const void *)&beta64 : &beta32, g.y,
                          &t.y, g.y, &t.y, &algorithm, nullptr, 0, lane->stream);
}

// Loads the kernels of a product, each of which takes 2 to 4 ms in which no thread gets
// anything from the driver: one algorithm has others for many rows, and for sums that are
// added to.  The products are recorded, and never run.
static void load(lipsc_cuda_device *dev, Lane *lane, const Gemm &g) {
    static const size_t rows[] = {256, ALONE_ROWS, 1536, 3072, 6144};
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    if (cudaStreamBeginCapture(lane->stream, cudaStreamCaptureModeRelaxed) == cudaSuccess) {
        Gemm any = g;
        any.x = any.w = any.y = dev->constants; // nothing is read there
        for (size_t some : rows)
            for (any.rows = some, any.add = 0; any.add < 2; any.add++) by_rows(dev, any);
        if (cudaStreamEndCapture(lane->stream, &graph) == cudaSuccess && graph &&
            cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess)
            cudaGraphExecDestroy(exec);
        if (graph) cudaGraphDestroy(graph);
    }
    cudaGetLastError(); // who runs the product meets what went wrong
}

Question::Question(lipsc_cuda_device *device) : dev(device) { dev->questions++; }

void Question::end() {
    if (!dev) return;
    const std::lock_guard<std::mutex> held(dev->answered_lock);
    if (!--dev->questions) dev->answered.notify_all();
    dev = nullptr;
}

int ready(lipsc_cuda_device *dev) { return !dev->begins || !dev->questions; }

void foresee(lipsc_cuda_device *dev, const Gemm &g) {
    Lane *lane = dev->lane();
    cublasLtMatmulAlgo_t unused;
    {
        const std::lock_guard<std::mutex> held(dev->chosen_lock);
        if (among(dev->chosen, g)) return;
    }
    const Question open(dev);
    if (chosen(dev, lane, g, &unused) == CUBLAS_STATUS_SUCCESS) load(dev, lane, g);
}

// Devices whose questions may be under way; a program that ends without closing them waits.
static struct Asking {
    std::mutex lock;
    std::vector<lipsc_cuda_device *> devices;
    void forget(lipsc_cuda_device *dev) {
        for (size_t i = 0; i < devices.size(); i++)
            if (devices[i] == dev) devices.erase(devices.begin() + (long)i--);
        for (std::thread &t : dev->early)
            if (t.joinable()) t.join();
    }
    ~Asking() {
        while (!devices.empty()) forget(devices.back());
    }
} asking;

void end_early(lipsc_cuda_device *dev) {
    const std::lock_guard<std::mutex> held(asking.lock);
    asking.forget(dev);
    std::unique_lock<std::mutex> answers(dev->answered_lock);
    dev->answered.wait(answers, [dev] { return !dev->questions; });
    dev->begins = false;
}

// The first question of each type takes cublasLt 50 to 80 ms: it is asked before anybody
// waits for the answer, which is not kept.  Who makes weights waits for the end, and for
// the questions of other weights, so that the GPU begins when it can go on.
void ask_early(lipsc_cuda_device *dev) {
    static const struct {
        cudaDataType_t type, result;
    } kind[3] = {
        {CUDA_R_64F, CUDA_R_64F}, {CUDA_R_16F, CUDA_R_32F}, {CUDA_R_32F, CUDA_R_32F}};
    const std::lock_guard<std::mutex> held(asking.lock);
    asking.devices.push_back(dev);
    dev->begins = true;
    for (int i = 0; i < 3; i++) {
        const size_t size = 512;
        const Gemm g = {kind[i].type, kind[i].result, 0,    size,    size,
                        size,         nullptr,        size, nullptr, size,
                        nullptr,      size,           0,    1,       nullptr};
        const auto open = std::make_shared<Question>(dev);
        try {
            dev->early[i] = std::thread([dev, g, open] {
                cublasLtMatmulAlgo_t unused;
                if (cudaSetDevice(dev->index) == cudaSuccess)
                    choose(dev->light, g, &unused);
                open->end();
            });
        } catch (const std::system_error &) { // then the first who needs it asks
        }
    }
}

lipsc_status gemm(lipsc_cuda_device *dev, const Gemm &g, bool alone, lipsc_error *err) {
    if (!alone || g.device_alpha) return by_shape(dev, g, err);
    const cublasStatus_t e = by_rows(dev, g);
    if (e == CUBLAS_STATUS_NOT_SUPPORTED) return by_shape(dev, g, err); // there is none
    return e == CUBLAS_STATUS_SUCCESS
               ? LIPSC_OK
               : fail_blas(err, e, "a product with weights, by rows");
}

// ---- In planes
// -----------------------------------------------------------------------------

template <class T> static cudaDataType_t type_of();
template <> cudaDataType_t type_of<double>() { return CUDA_R_64F; }
template <> cudaDataType_t type_of<float>() { return CUDA_R_32F; }
template <> cudaDataType_t type_of<__half>() { return CUDA_R_16F; }
template <> cudaDataType_t type_of<__nv_bfloat16>() { return CUDA_R_16BF; }

template <class S>
lipsc_status gemm_stored(lipsc_cuda_device *dev, bool alone, int trans, size_t m, size_t n,
                         size_t k, double alpha, const typename S::T *x, size_t ldx,
                         const typename S::T *w, size_t ldw, typename S::T *y, size_t ldy,
                         lipsc_error *err) {
    const cudaDataType_t type = type_of<typename S::T>();
    const Gemm g = {type, type, trans, m, n, k, x, ldx, w, ldw, y, ldy, 0, alpha, nullptr};
    return gemm(dev, g, alone, err);
}

// The second plane of x and W lies half a leading dimension behind the first.
template <class S>
lipsc_status gemm_full(lipsc_cuda_device *dev, bool alone, int trans, size_t m, size_t n,
                       size_t k, double alpha, const typename S::Acc *device_alpha,
                       const typename S::T *x, size_t ldx, const typename S::T *w,
                       size_t ldw, typename S::Acc *y, size_t ldy, lipsc_error *err) {
    Gemm g = {type_of<typename S::T>(),
              type_of<typename S::Acc>(),
              trans,
              m,
              n,
              k,
              x,
              ldx,
              w,
              ldw,
              y,
              ldy,
              0,
              alpha,
              device_alpha};
    if (S::PL == 2) {
        g.x = x + ldx / 2;
        PASS(gemm(dev, g, alone, err));
        g.x = x;
        g.w = w + ldw / 2;
        g.add = 1;
        PASS(gemm(dev, g, alone, err));
        g.w = w;
    }
    return gemm(dev, g, alone, err);
}

// The shapes of project, output and product; of F16 only the first two have rows alone.
template <class S> void foresee_layer(lipsc_cuda_device *dev, const Dims &m) {
    const cudaDataType_t type = type_of<typename S::T>(), wide = type_of<typename S::Acc>();
    const size_t HW = m.heads * m.W, dp = m.dp * S::PL, hw = HW * S::PL;
    const struct {
        cudaDataType_t type, result;
        int trans;
        size_t out, in, ldx, ldw;
    } all[] = {{CUDA_R_64F, CUDA_R_64F, 0, m.C, m.d, m.d, m.d},
               {type, wide, 0, m.width, HW, hw, hw},
               {type, wide, 0, m.C, m.dp, dp, dp},
               {type, wide, 1, HW, m.width, m.wp * S::PL, hw},
               {type, wide, 1, m.d, m.C, m.C * S::PL, dp}};
    const int count = S::KIND == KIND_F16 ? 2 : (int)(sizeof all / sizeof *all);
    for (int i = 0; i < count; i++)
        foresee(dev, {all[i].type, all[i].result, all[i].trans, 0, all[i].out, all[i].in,
                      nullptr, all[i].ldx, nullptr, all[i].ldw, nullptr, all[i].out, 0, 1,
                      nullptr});
}

#define INSTANCE(S)                                                                     \
    template void foresee_layer<S>(lipsc_cuda_device *, const Dims &);                  \
    template lipsc_status gemm_full<S>(                                                 \
        lipsc_cuda_device *, bool, int, size_t, size_t, size_t, double, const S::Acc *, \
        const S::T *, size_t, const S::T *, size_t, S::Acc *, size_t, lipsc_error *);   \
    template lipsc_status gemm_stored<S>(                                               \
        lipsc_cuda_device *, bool, int, size_t, size_t, size_t, double, const S::T *,   \
        size_t, const S::T *, size_t, S::T *, size_t, lipsc_error *);
INSTANCE(StoreF16)
INSTANCE(StoreF16x3)
INSTANCE(StoreBF16x3)
INSTANCE(StoreF64)
