// mma.cuh - the instructions of the fused kernels and the three precisions built from them.
//
// A precision says how a number lies in memory (T, PL planes), how fragments of a tile in
// shared memory are loaded, and how they are multiplied.  W is the padded width of a head.
//
//   F16     one f16 plane, sums in f32           relative error of a product about 1e-3
//   F16x3   f32 as two f16 planes, three products                          about 1e-5
//   BF16x3  the same of bf16, which has the range of f32                   about 1e-4
//   F64     double                                                         about 1e-14
#ifndef LIPSC_CUDA_MMA_CUH
#define LIPSC_CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define DEV __device__ __forceinline__

// ---- Instructions ----------------------------------------------------------------------

DEV uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// 16 bytes to shared memory; zeros where there is nothing to read
DEV void copy16(uint32_t to, const void *from, bool there) {
    const int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                 "r"(bytes));
}
DEV void copy_commit() { asm volatile("cp.async.commit_group;\n"); }
template <int N> DEV void copy_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

DEV void load_matrix(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d, uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(at));
}
DEV void load_transposed(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d, uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(at));
}
DEV double load_double(uint32_t at) {
    double v;
    asm volatile("ld.shared.f64 %0,[%1];" : "=d"(v) : "r"(at));
    return v;
}
DEV void load_pair(float &a, float &b, uint32_t at) {
    asm volatile("ld.shared.v2.f32 {%0,%1},[%2];" : "=f"(a), "=f"(b) : "r"(at));
}
DEV void load_pair(double &a, double &b, uint32_t at) {
    asm volatile("ld.shared.v2.f64 {%0,%1},[%2];" : "=d"(a), "=d"(b) : "r"(at));
}
DEV void load_pair(int &a, int &b, uint32_t at) {
    asm volatile("ld.shared.v2.b32 {%0,%1},[%2];" : "=r"(a), "=r"(b) : "r"(at));
}

DEV void mma_f16(float *c, const uint32_t *a, const uint32_t *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEV void mma_bf16(float *c, const uint32_t *a, const uint32_t *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEV void mma_f64(double *c, const double *a, const double *b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else // the halves of rows and of the inner index, one m8n8k4 each
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
                         "{%0,%1},{%2},{%3},{%0,%1};\n"
                         : "+d"(c[2 * h]), "+d"(c[2 * h + 1])
                         : "d"(a[h + 2 * k]), "d"(b[k]));
#endif
}

// 2^x
DEV float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}
DEV double exp2_of(double x) { // x < 1000, a number; error about 2e-16, zero below 2^-1000
    const bool low =
        (unsigned)__double2hiint(x) > 0xc08f4000u; // below -1000; integer units
    if (low) x = 0;                                // are idle here
    const double big = 6755399441055744.0;
    const double t = x + big;
    const int k = __double2loint(t);
    const double r = x - (t - big);
    double p = 2.5678435993488205e-11 * r + 4.4455382718708116e-10;
    p = fma(p, r, 7.0549116208011232e-09);
    p = fma(p, r, 1.0178086009239699e-07);
    p = fma(p, r, 1.3215486790144309e-06);
    p = fma(p, r, 1.5252733804059841e-05);
    p = fma(p, r, 1.5403530393381610e-04);
    p = fma(p, r, 1.3333558146428443e-03);
    p = fma(p, r, 9.6181291076284772e-03);
    p = fma(p, r, 5.5504108664821580e-02);
    p = fma(p, r, 2.4022650695910072e-01);
    p = fma(p, r, 6.9314718055994531e-01);
    p = fma(p, r, 1.0);
    const double y = __hiloint2double(__double2hiint(p) + (k << 20), __double2loint(p));
    return low ? 0.0 : y;
}
DEV float tanh_tail(float x) { return expf(-2.0f * x); }
DEV double tanh_tail(double x) { return exp(-2.0 * x); }
// cap tanh(s / cap), and its derivative without the loss of 1 - tanh^2
template <class A> DEV A soft_cap(A s, A cap, A &slope) {
    const A x = s / cap, e = tanh_tail(x < 0 ? -x : x), d = (A)1 + e;
    slope = (A)4 * e / (d * d);
    const A th = ((A)1 - e) / d;
    return x < 0 ? -cap * th : cap * th;
}

DEV uint32_t pack_halves(float low, float high) {
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

// The two numbers of 16 bits, alone and in pairs.
struct Half {
    typedef __half T;
    static constexpr const char *NAME = "f16 x 3";
    static DEV T of(float v) { return __float2half_rn(v); }
    static DEV float get(T v) { return __half2float(v); }
    static DEV uint32_t pack(float low, float high) { return pack_halves(low, high); }
    static DEV float2 unpack(uint32_t v) { return __half22float2(*(__half2 *)&v); }
    static DEV void mma(float *c, const uint32_t *a, const uint32_t *b) {
        mma_f16(c, a, b);
    }
};
struct Brain {
    typedef __nv_bfloat16 T;
    static constexpr const char *NAME = "bf16 x 3";
    static DEV T of(float v) { return __float2bfloat16_rn(v); }
    static DEV float get(T v) { return __bfloat162float(v); }
    static DEV uint32_t pack(float low, float high) {
        uint32_t y;
        asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(y) : "f"(high), "f"(low));
        return y;
    }
    static DEV float2 unpack(uint32_t v) {
        return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
    }
    static DEV void mma(float *c, const uint32_t *a, const uint32_t *b) {
        mma_bf16(c, a, b);
    }
};

// ---- Precisions ------------------------------------------------------------------------

constexpr int KIND_F16 = 0, KIND_F16X3 = 1, KIND_F64 = 2;

// Places of ldmatrix's eight-row pieces: one step of the inner index is 32 bytes of a row.
DEV uint32_t place_a(uint32_t tile, int row_bytes, int row, int step, int lane) {
    return tile + (row + (lane & 15)) * row_bytes + step * 32 + (lane >> 4) * 16;
}
DEV uint32_t place_b(uint32_t tile, int row_bytes, int key, int step, int lane) {
    return tile + (key + (lane & 7) + ((lane >> 4) << 3)) * row_bytes + step * 32 +
           ((lane >> 3) & 1) * 16;
}
DEV uint32_t place_v(uint32_t tile, int row_bytes, int key, int pair, int lane) {
    return tile + (key + (lane & 15)) * row_bytes + pair * 32 + (lane >> 4) * 16;
}

// How one number is stored; without a width, for the kernels around the core.
struct StoreF16 {
    typedef __half T;
    typedef float Acc; // sums, statistics and vectors
    static constexpr int KIND = KIND_F16, PL = 1;
    static constexpr const char *NAME = "f16";
    static DEV void put(T *p, size_t, float v) { *p = __float2half_rn(v); }
    static DEV float get(const T *p, size_t) { return __half2float(*p); }
};
template <class N> struct StoreX3 { // as two numbers N; its kernels have one KIND
    typedef typename N::T T;
    typedef float Acc;
    static constexpr int KIND = KIND_F16X3, PL = 2;
    static constexpr const char *NAME = N::NAME;
    static DEV void put(T *p, size_t plane, float v) {
        const T h = N::of(v);
        p[0] = h;
        p[plane] = N::of(v - N::get(h));
    }
    static DEV float get(const T *p, size_t plane) {
        return N::get(p[0]) + N::get(p[plane]);
    }
};
typedef StoreX3<Half> StoreF16x3;
typedef StoreX3<Brain> StoreBF16x3;
struct StoreF64 {
    typedef double T;
    typedef double Acc;
    static constexpr int KIND = KIND_F64, PL = 1;
    static constexpr const char *NAME = "f64";
    static DEV void put(T *p, size_t, double v) { *p = v; }
    static DEV double get(const T *p, size_t) { return *p; }
};

// EXACT: scores are compared with the row's maximum and the largest entry of a row is set
// apart (core.cuh), so that saturated rows keep their digits.  P is computed times 2^SHIFT.
template <int W_> struct F16 : StoreF16 {
    typedef StoreF16 Store;
    static constexpr int W = W_, STEP = 16, STEPS = W / 16, SHIFT = 8, EXACT = 0,
                         BYTES = W * 2;
    struct A {
        uint32_t r[4];
    };
    struct B {
        uint32_t r[2];
    };
    __host__ __device__ static constexpr int offset(int row) { return row * (W * 2 + 16); }
    static DEV void mma(float *c, const A &a, const B &b) { mma_f16(c, a.r, b.r); }
    static DEV void load_a(A &a, uint32_t tile, int row, int step, int lane) {
        load_matrix(a.r[0], a.r[1], a.r[2], a.r[3],
                    place_a(tile, offset(1), row, step, lane));
    }
    static DEV void load_b2(B *b, uint32_t tile, int key, int step, int lane) {
        load_matrix(b[0].r[0], b[0].r[1], b[1].r[0], b[1].r[1],
                    place_b(tile, offset(1), key, step, lane));
    }
    static DEV void from_scores(A &a, float (*c)[4], int k) {
        a.r[0] = pack_halves(c[2 * k][0], c[2 * k][1]);
        a.r[1] = pack_halves(c[2 * k][2], c[2 * k][3]);
        a.r[2] = pack_halves(c[2 * k + 1][0], c[2 * k + 1][1]);
        a.r[3] = pack_halves(c[2 * k + 1][2], c[2 * k + 1][3]);
    }
    // acc (16 MT x OC) += a (16 MT x STEP) tile (STEP x OC)
    template <int MT, int OC>
    static DEV void update(float (*acc)[OC / 8][4], const A *a, uint32_t tile, int key,
                           int lane) {
#pragma unroll
        for (int p = 0; p < OC / 16; p++) {
            B b0, b1;
            load_transposed(b0.r[0], b0.r[1], b1.r[0], b1.r[1],
                            place_v(tile, offset(1), key, p, lane));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                mma(acc[m][2 * p], a[m], b0);
                mma(acc[m][2 * p + 1], a[m], b1);
            }
        }
    }
};

template <class N, int W_> struct X3 : StoreX3<N> {
    typedef StoreX3<N> Store;
    static constexpr int W = W_, STEP = 16, STEPS = W / 16, SHIFT = 8, EXACT = 1,
                         BYTES = W * 2;
    struct A {
        uint32_t r[4], l[4];
    };
    struct B {
        uint32_t r[2], l[2];
    };
    __host__ __device__ static constexpr int offset(int row) { return row * (W * 4 + 16); }
    static DEV void mma(float *c, const A &a, const B &b) {
        N::mma(c, a.l, b.r);
        N::mma(c, a.r, b.l);
        N::mma(c, a.r, b.r);
    }
    static DEV void load_a(A &a, uint32_t tile, int row, int step, int lane) {
        const uint32_t p = place_a(tile, offset(1), row, step, lane);
        load_matrix(a.r[0], a.r[1], a.r[2], a.r[3], p);
        load_matrix(a.l[0], a.l[1], a.l[2], a.l[3], p + BYTES);
    }
    static DEV void load_b2(B *b, uint32_t tile, int key, int step, int lane) {
        const uint32_t p = place_b(tile, offset(1), key, step, lane);
        load_matrix(b[0].r[0], b[0].r[1], b[1].r[0], b[1].r[1], p);
        load_matrix(b[0].l[0], b[0].l[1], b[1].l[0], b[1].l[1], p + BYTES);
    }
    static DEV void split(uint32_t &h, uint32_t &l, float x, float y) {
        h = N::pack(x, y);
        const float2 f = N::unpack(h);
        l = N::pack(x - f.x, y - f.y);
    }
    static DEV void from_scores(A &a, float (*c)[4], int k) {
        split(a.r[0], a.l[0], c[2 * k][0], c[2 * k][1]);
        split(a.r[1], a.l[1], c[2 * k][2], c[2 * k][3]);
        split(a.r[2], a.l[2], c[2 * k + 1][0], c[2 * k + 1][1]);
        split(a.r[3], a.l[3], c[2 * k + 1][2], c[2 * k + 1][3]);
    }
    template <int MT, int OC>
    static DEV void update(float (*acc)[OC / 8][4], const A *a, uint32_t tile, int key,
                           int lane) {
#pragma unroll
        for (int p = 0; p < OC / 16; p++) {
            B b0, b1;
            const uint32_t at = place_v(tile, offset(1), key, p, lane);
            load_transposed(b0.r[0], b0.r[1], b1.r[0], b1.r[1], at);
            load_transposed(b0.l[0], b0.l[1], b1.l[0], b1.l[1], at + BYTES);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                mma(acc[m][2 * p], a[m], b0);
                mma(acc[m][2 * p + 1], a[m], b1);
            }
        }
    }
};

template <int W> using F16x3 = X3<Half, W>;
template <int W> using BF16x3 = X3<Brain, W>;

template <int W_> struct F64 : StoreF64 {
    typedef StoreF64 Store;
    static constexpr int W = W_, STEP = 8, STEPS = W / 8, SHIFT = 0, EXACT = 1,
                         BYTES = W * 8;
    struct A {
        double r[4];
    };
    struct B {
        double r[2];
    };
    __host__ __device__ static constexpr int offset(int row) {
        return row * (W * 8 + 32) + (row >> 2) * 32;
    }
    static DEV void mma(double *c, const A &a, const B &b) { mma_f64(c, a.r, b.r); }
    static DEV void load_a(A &a, uint32_t tile, int row, int step, int lane) {
        const uint32_t p = tile + offset(row + (lane >> 2)) + step * 64 + (lane & 3) * 8;
        a.r[0] = load_double(p);
        a.r[1] = load_double(p + offset(8));
        a.r[2] = load_double(p + 32);
        a.r[3] = load_double(p + offset(8) + 32);
    }
    static DEV void load_b2(B *b, uint32_t tile, int key, int step, int lane) {
        const uint32_t p = tile + offset(key + (lane >> 2)) + step * 64 + (lane & 3) * 8;
        b[0].r[0] = load_double(p);
        b[0].r[1] = load_double(p + 32);
        b[1].r[0] = load_double(p + offset(8));
        b[1].r[1] = load_double(p + offset(8) + 32);
    }
    static DEV void from_scores(A &a, double (*c)[4],
                                int k) { // inner index t: key 2t, t+4: 2t+1
        a.r[0] = c[k][0];
        a.r[1] = c[k][2];
        a.r[2] = c[k][1];
        a.r[3] = c[k][3];
    }
    template <int MT, int OC>
    static DEV void update(double (*acc)[OC / 8][4], const A *a, uint32_t tile, int key,
                           int lane) {
        const uint32_t p = tile + offset(key + 2 * (lane & 3)) + (lane >> 2) * 8;
#pragma unroll
        for (int j = 0; j < OC / 8; j++) {
            B b;
            b.r[0] = load_double(p + j * 64);
            b.r[1] = load_double(p + j * 64 + offset(1)); // in the same group of four rows
#pragma unroll
            for (int m = 0; m < MT; m++) mma(acc[m][j], a[m], b);
        }
    }
};

#endif
