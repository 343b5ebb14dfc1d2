#!/bin/sh
# What the tests reach of src/: lines, and branches taken at least once.  Below 92 % of the lines or
# 80 % of the branches, or with an error that is not reached nor in tools/unreached.txt, it ends with 1.
#     coverage.sh BUILD [CTEST OPTION...]       default: the tests of make test, and 300 faults of
#                                               each kind and command (make faults has all)
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-coverage}
[ $# = 0 ] || shift
faults=
[ $# != 0 ] || { faults=300; set -- -LE 'real|long' -E '^(repo|browser)\.'; }
unset CCACHE_BASEDIR # names of files would be relative then
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG= -DLIPSCOPE_COVERAGE=ON >/dev/null
cmake --build "$build" -j "$(nproc)" >/dev/null
find "$build" -name '*.gcda' -delete
ctest --test-dir "$build" -j "$(nproc)" "$@" || echo "some tests failed: what they reached counts"
[ -z "$faults" ] || python3 -B tests/fault/sweep.py "$build/lipscope_faults" "$build/faults" "$faults" ||
    echo "some faults were not told well: what they reached counts"
exec python3 -B tools/coverage.py "$build"
