/* absent.c - stands in where the CUDA back end is not built. */
#include "backend/backend.h"

const lipsc_backend *lipsc_backend_cuda(void) { return NULL; }
