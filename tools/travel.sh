#!/bin/sh
# The build away from home: without Vega, on the reference BLAS (downloaded and unpacked
# below BUILD, so that nothing of this system changes), and every file against the headers of
# musl, which has none of glibc's extensions.
#     travel.sh [BUILD]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-travel}
tools/deps.sh build test travel
mkdir -p "$build"
build=$(cd "$build" && pwd)

if [ ! -d "$build/root" ]; then
    (cd "$build" && apt-get -q download libblas3 libblas-dev liblapack3 liblapack-dev &&
        for package in *.deb; do dpkg-deb -x "$package" root.new; done && mv root.new root)
fi
libraries=$(echo "$build"/root/usr/lib/*/blas)
libraries=${libraries%/blas}
LD_LIBRARY_PATH=$libraries/blas:$libraries/lapack
export LD_LIBRARY_PATH
cmake --log-level=WARNING -S . -B "$build" -DLIPSCOPE_WERROR=ON -DLIPSCOPE_REPORT=OFF -DBLA_VENDOR=Generic \
    -DBLAS_LIBRARIES="$libraries/blas/libblas.so" -DLAPACK_LIBRARIES="$libraries/lapack/liblapack.so"
cmake --build "$build" -j "$(nproc)" --target lipscope_cli make_layer hurry test_dense test_sigma test_lanczos test_operator
"$build/lipscope" selftest | grep -q 'not OpenBLAS' || { echo "selftest runs on OpenBLAS"; exit 1; }
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" \
    -R '^(unit\.(dense|sigma|lanczos|operator)|cli\.(report_absent|selftest|layer))$'

# headers of the libraries alone: those of glibc must not be found
headers=$build/headers
mkdir -p "$headers"
include=/usr/include
for header in "$include"/jansson*.h "$include"/*/jansson*.h "$include"/sqlite3.h "$include"/pcre2.h "$include"/utf8proc.h \
    "$include"/lapack*.h "$include"/*/openblas-openmp/*.h "$(cc -print-file-name=include)/omp.h"; do
    [ ! -e "$header" ] || ln -sf "$header" "$headers/"
done
data='-DLIPSCOPE_DATA_BESIDE_BIN="." -DLIPSCOPE_DATA_BESIDE_LIB="." -DLIPSCOPE_DATA_INSTALLED="." -DLIPSC_ISA=generic -DLIPSC_ISA_generic'
bad=0
for file in $(find src cli -name '*.c' -not -path '*/cuda/*' -not -path '*/mpi/*'); do
    # shellcheck disable=SC2086 # lists of words
    musl-gcc -std=c11 -fsyntax-only -fopenmp -Werror=implicit-function-declaration -Iinclude -Isrc -Icli -I"$headers" $data "$file" || bad=1
done
[ $bad = 0 ] && echo "every file compiles with musl's headers"
exit $bad
