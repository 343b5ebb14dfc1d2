#!/bin/sh
# The ABI of the library against that of the last release, which tools/abi keeps: what a program
# was linked with before must still be there and mean the same, or the number in the library's
# name (SOVERSION) has changed.  What is new may be added.
#     abi.sh check LIBRARY [DEBUG]      DEBUG: folder of separate debug information
#     abi.sh take LIBRARY [DEBUG]       LIBRARY is a release: from now on it is the last one
#     abi.sh compare OLD NEW            two libraries, or what abidw wrote of them
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
kept=$root/tools/abi/liblipscope.abi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Types of the public headers alone, without places in files, which change with every line.
describe() { # LIBRARY [DEBUG]
    abidw --headers-dir "$root/include" --drop-private-types --drop-undefined-syms --no-show-locs --no-comp-dir-path \
        --no-corpus-path --no-parameter-names --type-id-style hash ${2:+--debug-info-dir "$2"} "$1"
}

name_of() { sed -n "s/.*soname='\([^']*\)'.*/\1/p" "$1" | head -n 1; } # FILE of abidw

compare() { # OLD NEW, of abidw
    if [ "$(name_of "$1")" != "$(name_of "$2")" ]; then
        echo "another library: $(name_of "$1") became $(name_of "$2")"
    elif abidiff --no-added-syms "$1" "$2"; then
        echo "the ABI of the last release is kept"
    else
        echo "the ABI of $(name_of "$1") has changed: its SOVERSION must, too" >&2
        return 1
    fi
}

case ${1-} in
check)
    # before the first release there is nothing to keep
    [ -f "$kept" ] || { echo "ABI not compared: no release has been kept (ABI=take)"; exit 0; }
    describe "$2" "${3-}" >"$scratch/new"
    grep -q '<function-decl' "$scratch/new" || { echo "$2: no debug information, nothing to compare" >&2; exit 1; }
    compare "$kept" "$scratch/new" ;;
take)
    mkdir -p "$(dirname "$kept")"
    describe "$2" "${3-}" >"$kept"
    echo "$kept: $(grep -c '<function-decl' "$kept") declarations of $(name_of "$kept")" ;;
compare)
    for side in 2 3; do
        eval "file=\$$side"
        case $file in *.abi) cp "$file" "$scratch/$side" ;; *) abidw "$file" >"$scratch/$side" ;; esac
    done
    compare "$scratch/2" "$scratch/3" ;;
*) echo "abi.sh check|take LIBRARY [DEBUG], abi.sh compare OLD NEW" >&2; exit 2 ;;
esac
