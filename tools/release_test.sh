#!/bin/sh
# A release is the same bytes twice, and its packages work in clean Debian roots: the program
# alone with its tour, the library alone with an outside program, the wheel in an empty
# environment.  Needs root and Debian's packages.
#     release_test.sh FOLDER
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
"$root/tools/deps.sh" release clean-root
for run in first second; do "$root/tools/release.sh" "$folder/$run"; done
diff "$folder/first/SHA256SUMS" "$folder/second/SHA256SUMS"
echo "the same bytes twice"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

# A root with some packages, made by the usual tool; then a command in it.
in_clean_root() { # name of the root, packages, command
    clean=$folder/root-$1
    rm -rf "$clean"
    mmdebstrap --variant=minbase --include="$2" "$suite" "$clean" >"$folder/log" 2>&1 ||
        { tail -n 20 "$folder/log" >&2; exit 1; }
    mkdir -p "$clean/release"
    cp "$folder"/first/*.deb "$clean/release"
    cp -r "$root/tests/outside" "$clean/release"
    chroot "$clean" sh -ec "$3"
    rm -rf "$clean"
}

in_clean_root program ca-certificates '
    apt-get -q -y install --no-install-recommends /release/lipscope_*.deb >/dev/null
    cd /tmp && lipscope demo | tail -n 5 && lipscope selftest | tail -n 1'
in_clean_root library build-essential,pkg-config '
    apt-get -q -y install --no-install-recommends /release/liblipscope0_*.deb /release/liblipscope-dev_*.deb >/dev/null
    cc -Wall -Werror /release/outside/main.c -o /tmp/outside $(pkg-config --cflags --libs lipscope) -lm
    /tmp/outside'
for wheel in "$folder"/first/*.whl; do
    [ -f "$wheel" ] || continue
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install -q "$wheel"
    "$folder/venv/bin/python" -c 'import lipscope; print(lipscope.__version__)'
done
echo "the packages work in clean roots"
