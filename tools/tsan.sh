#!/bin/sh
# The library under ThreadSanitizer: many handles in many threads, then inside an OpenMP region.
# clang's libomp with its tool Archer tells the sanitizer of the barriers of OpenMP; SQLite,
# BLAS and libomp itself are used as they are installed.
#     tsan.sh BUILD [CMAKE OPTION...]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-tsan}
[ $# = 0 ] || shift
tools/deps.sh build test ci
archer=$(ls /usr/lib/llvm-*/lib/libarcher.so 2>/dev/null | tail -n 1)
[ -n "$archer" ] || { echo "no libarcher.so: libomp-dev has it" >&2; exit 1; }
cmake -S . -B "$build" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_SHARED_LIBS=OFF \
    -DLIPSCOPE_REPORT=OFF -DLIPSCOPE_SANITIZE=thread "$@" >/dev/null
cmake --build "$build" -j "$(nproc)" --target test_threads
# OpenBLAS would start threads that nobody sees; the suppressions name what is not ours
OMP_TOOL_LIBRARIES=$archer OPENBLAS_NUM_THREADS=1 ARCHER_OPTIONS=verbose=1 \
    TSAN_OPTIONS="ignore_noninstrumented_modules=1 suppressions=$PWD/tools/tsan.supp halt_on_error=0 exitcode=66" \
    "$build/tests/unit/test_threads"
echo "ThreadSanitizer has nothing to say"
