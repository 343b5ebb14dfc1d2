/* aware.c - a stand-in for a CUDA-aware MPI, loaded before it: it says that it is one. */
__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void) { return 1; }
