#!/bin/sh
# Everything of a release, from the last commit: the source, Debian packages, a wheel, what is
# inside (SPDX), checksums, and their signature where a key is given.
# Two runs of one commit give the same bytes.
#     release.sh FOLDER [deb|wheel|all]      KEY=id of a gpg key
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
out=$1 what=${2:-all}
version=$(sed -n 's/^#define LIPSC_VERSION_STRING "\(.*\)"/\1/p' "$root/include/lipscope/status.h")
test -n "$version" || { echo "release: include/lipscope/status.h has no version" >&2; exit 1; }
packaged=$(sed -n '1s/.*(\(.*\)-[0-9]*).*/\1/p' "$root/debian/changelog")
if [ "$packaged" != "$version" ]; then
    echo "release: debian/changelog is of $packaged, the library of $version" >&2
    exit 1
fi
if ! git -C "$root" diff --quiet HEAD --; then
    echo "release: changes that are not committed would be left out" >&2
    exit 1
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The source: what is committed, in the order and with the date of the commit.
name=lipscope-$version
git -C "$root" archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz"

# The packages and the wheel are made from that source alone, each somewhere else.
unpack() { tar -C "$work" -xzf "$out/$name.tar.gz"; }

debs() {
    "$root/tools/deps.sh" build release
    cp "$out/$name.tar.gz" "$work/lipscope_$version.orig.tar.gz"
    unpack
    (cd "$work/$name" && DEB_BUILD_OPTIONS="nocheck parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}" \
        dpkg-buildpackage -us -uc -b) >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
    lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs,bogus-mail-host \
        "$work"/*.changes
    cp "$work"/*.deb "$out"
    abi
}

# What a program was linked with before must still be there, and mean the same: in the library as
# it is packaged.  tools/abi.sh take keeps what a release promises.
abi() {
    mkdir "$work/abi"
    for deb in "$out"/liblipscope0_*.deb "$out"/liblipscope0-dbgsym_*.deb; do dpkg-deb -x "$deb" "$work/abi"; done
    "$root/tools/abi.sh" check "$(ls "$work"/abi/usr/lib/*/liblipscope.so.0)" "$work/abi/usr/lib/debug"
}

wheel() {
    "$root/tools/deps.sh" build wheel
    rm -rf "${work:?}/$name" "$root/build-wheel/build"
    unpack
    "$work/$name/tools/wheel.sh" "$root/build-wheel" wheel
    cp "$root"/build-wheel/dist/*.whl "$out"
}

case $what in
deb) debs ;;
wheel) wheel ;;
all)
    debs # a line each: before && a failure inside would be passed over
    wheel ;;
*) echo "release.sh FOLDER [deb|wheel|all]" >&2; exit 2 ;;
esac
python3 "$root/tools/sbom.py" "$out" "$version" >"$out/$name.spdx.json"
(cd "$out" && rm -f SHA256SUMS* && find . -type f ! -name 'SHA256SUMS*' | sort | xargs sha256sum >SHA256SUMS)
if [ -n "${KEY:-}" ]; then gpg --batch --yes --local-user "$KEY" --armor --detach-sign "$out/SHA256SUMS"
else echo "not signed: no KEY was given"; fi
echo "released into $out:"
(cd "$out" && ls -l | awk 'NR > 1 { print $5, $NF }')
