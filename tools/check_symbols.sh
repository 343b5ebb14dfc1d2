#!/bin/sh
# The shared library exports exactly the functions that the public headers mark LIPSC_API.
#     check_symbols.sh LIBRARY INCLUDE_FOLDER
set -eu
library=$1 include=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//; /^\./d' | sort -u >"$tmp/exported" # .NAME: OpenMP's named locks
sed -n 's/^LIPSC_API.*[ *]\(lipsc_[a-z0-9_]*\)(.*/\1/p' "$include"/lipscope.h "$include"/lipscope/*.h | sort -u >"$tmp/declared"
if ! [ -s "$tmp/declared" ]; then echo "$include: no LIPSC_API function found"; exit 1; fi
if ! diff "$tmp/declared" "$tmp/exported" >"$tmp/diff"; then
    sed -n 's/^< /declared, not in the library: /p
            s/^> /exported, not declared: /p' "$tmp/diff"
    exit 1
fi
echo "$(wc -l <"$tmp/declared") functions"
