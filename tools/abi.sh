#!/bin/sh
# The ABI of the library against that of the last release, which tools/abi keeps: what a program
# was linked with before must still be there and mean the same, or the number in the library's
# name (SOVERSION) has changed.  What is new may be added.
#     abi.sh check [HEADERS]            what the public headers promise (default include/): a
#                                       library of empty functions is compiled from them
#     abi.sh check LIBRARY [DEBUG]      a built one; DEBUG: folder of separate debug information
#     abi.sh take                       what the headers promise is kept from now on: of a release,
#                                       or after a change that was meant
#     abi.sh compare OLD NEW            two libraries, or what abidw wrote of them
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
kept=$root/tools/abi/liblipscope.abi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Types of the public headers alone, without places in files, which change with every line.
describe() { # LIBRARY HEADERS [DEBUG]
    abidw --headers-dir "$2" --drop-private-types --drop-undefined-syms --no-show-locs --no-comp-dir-path \
        --no-corpus-path --no-parameter-names --type-id-style hash ${3:+--debug-info-dir "$3"} "$1"
}

# Every function that is marked LIPSC_API gets a body, and the library its name.
promise() { # HEADERS
    for header in "$1"/lipscope.h "$1"/lipscope/*.h; do echo "#include \"${header#"$1"/}\""; done >"$scratch/all.c"
    "${CC:-cc}" -E -I"$1" "$scratch/all.c" >"$scratch/all.i"
    awk '/__attribute__\(\(visibility\("default"\)\)\)/ { open = 1 }
        open && sub(/;/, " { __builtin_trap(); }") { open = 0 }
        { print }' "$scratch/all.i" >"$scratch/promise.c"
    number=$(sed -n 's/.*SOVERSION \([0-9]*\).*/\1/p' "$root/CMakeLists.txt")
    "${CC:-cc}" -g -w -shared -fPIC -Wl,-soname,liblipscope.so."$number" "$scratch/promise.c" -o "$scratch/promise.so"
    describe "$scratch/promise.so" "$1"
}

name_of() { sed -n "s/.*soname='\([^']*\)'.*/\1/p" "$1" | head -n 1; } # FILE of abidw

compare() { # OLD NEW, of abidw
    if [ "$(name_of "$1")" != "$(name_of "$2")" ]; then
        echo "another library: $(name_of "$1") became $(name_of "$2")"
    elif abidiff --no-architecture --no-added-syms "$1" "$2"; then
        echo "the ABI of the last release is kept"
    else
        echo "the ABI of $(name_of "$1") has changed: its SOVERSION must, too (where no release has it yet: tools/abi.sh take)" >&2
        return 1
    fi
}

case ${1-} in
check)
    if [ -d "${2-$root/include}" ]; then promise "${2-$root/include}" >"$scratch/new"
    else describe "$2" "$root/include" "${3-}" >"$scratch/new"; fi
    grep -q '<function-decl' "$scratch/new" || { echo "$2: no debug information, nothing to compare" >&2; exit 1; }
    compare "$kept" "$scratch/new" ;;
take)
    mkdir -p "$(dirname "$kept")"
    promise "$root/include" >"$kept"
    echo "$kept: $(grep -c '<function-decl' "$kept") declarations of $(name_of "$kept")" ;;
compare)
    for side in 2 3; do
        eval "file=\$$side"
        case $file in *.abi) cp "$file" "$scratch/$side" ;; *) abidw "$file" >"$scratch/$side" ;; esac
    done
    compare "$scratch/2" "$scratch/3" ;;
*) echo "abi.sh check [HEADERS | LIBRARY [DEBUG]], abi.sh take, abi.sh compare OLD NEW" >&2; exit 2 ;;
esac
