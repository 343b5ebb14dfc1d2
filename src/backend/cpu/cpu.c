/* cpu.c - the CPU back end's table. */
#include "backend/cpu/cpu.h"

static size_t bytes(const void *input) { return ((const lipsc_cpu_input *)input)->bytes; }

static const lipsc_backend table = {.name = "cpu",
                                    .space = lipsc_space_host,
                                    .weights_new = lipsc_cpu_weights_new,
                                    .weights_free = lipsc_cpu_weights_free,
                                    .input_new = lipsc_cpu_input_new,
                                    .input_free = lipsc_cpu_input_free,
                                    .product = lipsc_cpu_product,
                                    .gradient = lipsc_cpu_gradient,
                                    .projections = lipsc_cpu_projections,
                                    .output = lipsc_cpu_output,
                                    .bytes = bytes,
                                    .linear_new = lipsc_cpu_linear_new,
                                    .linear_free = lipsc_cpu_linear_free,
                                    .linear_apply = lipsc_cpu_linear_apply,
                                    .rowwise = lipsc_rowwise_best};

const lipsc_backend *lipsc_backend_cpu(void) { return &table; }
