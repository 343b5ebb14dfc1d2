// vectors.h - operations on vectors of a batch, on vectors of any length and on what stands
// around attention: vectors.cu, space.cu, linear.cu, rowwise.cu.
#ifndef LIPSC_CUDA_VECTORS_H
#define LIPSC_CUDA_VECTORS_H

#include "internal.h"

// ---- vectors.cu
// ----------------------------------------------------------------------------------
lipsc_status gram(lipsc_cuda_batch *b, int side, size_t ka, const void *a, size_t kb,
                  const void *x, double *c, lipsc_error *err);
lipsc_status combine(lipsc_cuda_batch *b, int side, size_t ka, const void *a, size_t kb,
                     const double *c, double beta, void *x, lipsc_error *err);
lipsc_status scale(lipsc_cuda_batch *b, int side, const double *factor, int invert, void *x,
                   lipsc_error *err);
// the same for vectors of any length; c in device memory, partial: scratch of dots
size_t dots_scratch(size_t len, size_t ka, size_t kb); // doubles
lipsc_status dots_queued(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                         const void *a, size_t kb, const void *b, double *partial,
                         double *c, lipsc_error *err);
lipsc_status mix_queued(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                        const void *a, size_t kb, const double *c, int add, void *b,
                        lipsc_error *err);
// the same for several at once: their table in device memory; partial and c as they say
struct Sum {
    const void *a, *b;
    size_t len, partial, out; // where its pieces and its sums begin
    int ka, kb;
};
struct Mixture {
    const void *a;
    void *b;
    size_t len, c; // where its coefficients begin
    int ka, kb, add;
};
size_t pieces_of(size_t len);
lipsc_status sums_queued(lipsc_cuda_device *device, int wide, size_t count, size_t pieces,
                         size_t most, const Sum *sum, double *partial, double *c,
                         lipsc_error *err);
lipsc_status mixtures_queued(lipsc_cuda_device *device, int wide, size_t count,
                             size_t pieces, const Mixture *mixture, const double *c,
                             lipsc_error *err);

// ---- space.cu, linear.cu, rowwise.cu: as cuda_api.h says
// -----------------------------------------
struct Space {
    static lipsc_status put(lipsc_cuda_device *, int, size_t, const double *, void *,
                            lipsc_error *);
    static lipsc_status get(lipsc_cuda_device *, int, size_t, const void *, double *,
                            lipsc_error *);
    static lipsc_status copy(lipsc_cuda_device *, size_t, const void *, void *,
                             lipsc_error *);
    static lipsc_status widen(lipsc_cuda_device *, size_t, const void *, void *,
                              lipsc_error *);
    static lipsc_status copies(lipsc_cuda_device *, size_t, const lipsc_cuda_piece *,
                               lipsc_error *);
    static lipsc_status times(lipsc_cuda_device *, int, size_t, double, void *,
                              lipsc_error *);
    static lipsc_status random(lipsc_cuda_device *, int, uint64_t, uint64_t, size_t, void *,
                               lipsc_error *);
    static lipsc_status dots(lipsc_cuda_device *, int, size_t, size_t, const void *, size_t,
                             const void *, double *, lipsc_error *);
    static lipsc_status mix(lipsc_cuda_device *, int, size_t, size_t, const void *, size_t,
                            const double *, double, void *, lipsc_error *);
    static lipsc_status dots_of(lipsc_cuda_device *, int, size_t, const lipsc_cuda_gram *,
                                lipsc_error *);
    static lipsc_status mix_of(lipsc_cuda_device *, int, size_t,
                               const lipsc_cuda_combination *, lipsc_error *);
};
lipsc_status put_held(lipsc_cuda_device *, int, size_t, const double *, void *,
                      lipsc_error *); // put; the caller has the Hold
struct Linear {
    static lipsc_status make(lipsc_cuda_device *, int, size_t, size_t, const double *, int,
                             const double *, lipsc_cuda_linear **, lipsc_error *);
    static void free(lipsc_cuda_linear *);
    static lipsc_status apply(lipsc_cuda_linear *, size_t, const void *, int, int, void *,
                              lipsc_error *);
};
struct Rowwise {
    static lipsc_status norm(lipsc_cuda_device *, int, size_t, size_t, int, double,
                             const void *, const void *, const void *, void *, void *,
                             void *, lipsc_error *);
    static lipsc_status norm_derivative(lipsc_cuda_device *, int, size_t, size_t, size_t,
                                        int, const void *, const void *, const void *, int,
                                        const void *, void *, lipsc_error *);
    static lipsc_status activation(lipsc_cuda_device *, int, lipsc_activation, size_t,
                                   const void *, void *, void *, lipsc_error *);
    static lipsc_status multiply(lipsc_cuda_device *, int, size_t, size_t, const void *,
                                 const void *, int, void *, lipsc_error *);
    static lipsc_status add(lipsc_cuda_device *, int, size_t, const void *, void *,
                            lipsc_error *);
};

#endif
