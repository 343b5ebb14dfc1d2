/* registry.c - which back ends are compiled in, best first. */
#include "backend/backend.h"

const lipsc_backend *lipsc_backend_best(void) {
    const lipsc_backend *cuda = lipsc_backend_cuda();
    return cuda ? cuda : lipsc_backend_cpu();
}

const char *lipsc_backends(void) { return lipsc_backend_cuda() ? "cuda,cpu" : "cpu"; }
