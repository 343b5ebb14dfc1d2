#!/bin/sh
# Cross-compiles for aarch64 and runs the tests of products, solvers, models and files under
# qemu-user.  What it builds on is Debian's: compiler and emulator are installed (deps.sh),
# the arm64 libraries are only downloaded and unpacked, below BUILD.
#     aarch64.sh [BUILD] [CMAKE OPTION...]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-aarch64}
[ $# = 0 ] || shift
tools/deps.sh aarch64
mkdir -p "$build"
build=$(cd "$build" && pwd)
sysroot=$build/sysroot
packages="libc6-dev libgomp1 libopenblas-openmp-dev liblapacke-dev libpcre2-dev libutf8proc-dev
    libsqlite3-dev libjansson-dev libcmocka-dev"

unpack() {
    apt=$build/apt
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status" # nothing is installed there
    set -- -q -y -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User="$(id -un)"
    apt-get "$@" update >"$apt/log" 2>&1 &&
        apt-get "$@" install --download-only --no-install-recommends $packages >>"$apt/log" 2>&1 || {
        cat "$apt/log"
        return 1
    }
    for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$sysroot.new"; done
    # libm.so and others name the root that they were made for; the linker would take the archive
    # in their place, which lacks what libc.so does not show
    find "$sysroot.new" -type l -lname '/*' | while read -r link; do
        [ ! -e "$sysroot.new$(readlink "$link")" ] || ln -sfr "$sysroot.new$(readlink "$link")" "$link"
    done
    mv "$sysroot.new" "$sysroot"
}
[ -d "$sysroot" ] || unpack

# Nothing in an emulator is fast: the tests that take minutes there (transport, sweeps of
# random layers) hold nothing that depends on the processor.
tests="safetensors half gguf gguf_models layer_file mask ref sigma dense space lanczos svd_ends power
    operator gradient golden checkpoint config tokens fixtures maps layer_files"
cmake -S . -B "$build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DLIPSCOPE_SYSROOT="$sysroot" \
    -DLIPSCOPE_WERROR=ON -DBUILD_SHARED_LIBS=OFF -DLIPSCOPE_REPORT=OFF "$@" >/dev/null
# Families are data: a few of them reach every path that depends on the processor.
rm -rf "$build/fixtures"
mkdir "$build/fixtures"
for name in bert bloom gemma3_text gpt2 gpt_oss_mxfp4 llama mixtral modernbert t5 vit; do
    ln -s "$PWD/tests/data/fixtures/$name-1" "$build/fixtures/$name-1"
done
LIPSCOPE_FIXTURES=$build/fixtures
export LIPSCOPE_FIXTURES
programs= names=
for name in $tests; do programs="$programs test_$name" names="$names|$name"; done
# shellcheck disable=SC2086 # a list of words
cmake --build "$build" -j "$(nproc)" --target $programs
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -R "^(unit|model)\.(${names#|})\$"
