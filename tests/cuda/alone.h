/* alone.h - what is found for an input does not depend on what it is with. */
#ifndef LIPSC_TEST_CUDA_ALONE_H
#define LIPSC_TEST_CUDA_ALONE_H

#include "parts.h"

void test_alone(const lipsc_cuda_api *api, lipsc_cuda_device *device, part_check *check,
                int short_form);

#endif
