#!/bin/sh
# A release is the same bytes twice, signed where a key is given, and works in clean Debian
# roots: the program alone with its tour, the library alone with an outside program, the wheel
# in an empty environment, the source with its own tests.  Needs root and Debian's packages.
#     release_test.sh FOLDER [STAGE...]      stages: release program library wheel source (all)
# Each stage prints its seconds, and FOLDER/first keeps the release for the others.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- release program library wheel source
"$root/tools/deps.sh" release clean-root
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

# A root with some packages, made by the usual tool; then commands in it, one on each line: what
# stands before && or | may fail unseen.
in_clean_root() { # name of the root, packages, command
    clean=$folder/root-$1
    rm -rf "$clean"
    mmdebstrap --variant=minbase --include="$2" "$suite" "$clean" >"$folder/log" 2>&1 ||
        { tail -n 20 "$folder/log" >&2; exit 1; }
    mkdir -p "$clean/release"
    cp "$folder"/first/* "$clean/release"
    cp -r "$root/tests/outside" "$root/python/tests/bare.py" "$clean/release"
    [ ! -d "$folder/wheels" ] || cp -r "$folder/wheels" "$clean/release"
    # mmdebstrap leaves no lists behind, which apt needs for what a package depends on;
    # /proc is mounted for these commands alone, and gone with them
    unshare --mount sh -ec 'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"' "$clean" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh -ec "apt-get -q update >/dev/null; $3"
    rm -rf "$clean"
}

# Twice, from nothing; and a key of its own signs, where gpg then says whose the sums are.
release() {
    rm -rf "$folder/first" "$folder/second" "$folder/gpg"
    GNUPGHOME=$(mktemp -d)
    export GNUPGHOME
    gpg --batch --quiet --passphrase '' --quick-generate-key 'release test <test@example.org>' default default never
    KEY=test@example.org "$root/tools/release.sh" "$folder/first"
    gpg --batch --verify "$folder/first/SHA256SUMS.asc" "$folder/first/SHA256SUMS"
    gpgconf --kill all || true
    rm -rf "$GNUPGHOME"
    unset GNUPGHOME
    "$root/tools/release.sh" "$folder/second"
    diff "$folder/first/SHA256SUMS" "$folder/second/SHA256SUMS"
    (cd "$folder/first" && sha256sum --quiet -c SHA256SUMS)
    echo "the same bytes twice, signed"
}

program() {
    in_clean_root program ca-certificates '
        apt-get -q -y install --no-install-recommends /release/lipscope_*.deb >/dev/null
        cd /tmp
        lipscope demo >demo
        tail -n 5 demo
        lipscope selftest >selftest
        tail -n 1 selftest'
}

library() {
    in_clean_root library build-essential,pkg-config '
        apt-get -q -y install --no-install-recommends /release/liblipscope0_*.deb /release/liblipscope-dev_*.deb /release/lipscope-doc_*.deb >/dev/null
        cc -Wall -Werror /release/outside/main.c -o /tmp/outside $(pkg-config --cflags --libs lipscope) -lm
        /tmp/outside'
}

# What it needs comes from outside the root: there is no network in it.
wheel() {
    rm -rf "$folder/wheels"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" download -q -d "$folder/wheels" "$folder"/first/*.whl
    in_clean_root wheel python3-venv '
        python3 -m venv /tmp/venv
        /tmp/venv/bin/pip install -q --no-index --find-links /release/wheels /release/*.whl
        cd /tmp
        env -i PATH=/tmp/venv/bin /tmp/venv/bin/python -X dev -W error /release/bare.py
        env -i /tmp/venv/bin/lipscope selftest >selftest
        tail -n 1 selftest'
}

# The source alone, with what debian/control names and the libraries of the tests.
source() {
    in_clean_root source build-essential,cmake,pkg-config,python3,sqlite3,libopenblas-openmp-dev,liblapacke-dev,libpcre2-dev,libutf8proc-dev,libsqlite3-dev,libjansson-dev,libjs-vega,libcmocka-dev,libarpack2-dev,libmpfr-dev '
        mkdir /src
        tar -C /src --strip-components=1 -xzf /release/lipscope-*.tar.gz
        cd /src
        cmake -S . -B build -DLIPSCOPE_WERROR=ON >/dev/null
        cmake --build build -j $(nproc) >/dev/null
        build/lipscope demo --quick >/tmp/demo
        tail -n 5 /tmp/demo
        ctest --test-dir build -j $(nproc) --output-on-failure -R "^(unit|model|fault|examples|cli.(layer|measure|demo|report))[.]|^cli.(layer|report|merge|compare)$" >/tmp/tests || { cat /tmp/tests; exit 1; }
        tail -n 5 /tmp/tests'
}

for stage in "$@"; do
    case $stage in
    release | program | library | wheel | source) ;;
    *) echo "release_test.sh: no stage '$stage'" >&2; exit 2 ;;
    esac
    start=$(date +%s)
    $stage
    echo "== $stage: $(($(date +%s) - start)) s"
done
