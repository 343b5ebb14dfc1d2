/* parts.h - what stands around attention on the GPU: vectors, dense layers, norms,
 * activations, against plain loops in double. */
#ifndef LIPSC_TEST_CUDA_PARTS_H
#define LIPSC_TEST_CUDA_PARTS_H

#include "backend/cuda/cuda_api.h"

typedef void part_check(int ok, const char *name, const char *what, double value,
                        double limit);

void test_parts(const lipsc_cuda_api *api, lipsc_cuda_device *device, part_check *check);

#endif
