#!/bin/sh
# The shared library exports exactly the functions that the header marks LIPSC_API.
#     check_symbols.sh LIBRARY HEADER
set -eu
library=$1 header=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//; /^\./d' | sort -u >"$tmp/exported" # .NAME: OpenMP's named locks
sed -n 's/^LIPSC_API.*[ *]\(lipsc_[a-z0-9_]*\)(.*/\1/p' "$header" | sort -u >"$tmp/declared"
if ! [ -s "$tmp/declared" ]; then echo "$header: no LIPSC_API function found"; exit 1; fi
if ! diff "$tmp/declared" "$tmp/exported" >"$tmp/diff"; then
    sed -n 's/^< /declared in the header, not in the library: /p
            s/^> /exported, not in the header: /p' "$tmp/diff"
    exit 1
fi
echo "$(wc -l <"$tmp/declared") functions"
