#!/bin/sh
# Installs a build into a temporary prefix, then builds and runs an outside program, in C
# and in C++, once by pkg-config and once by find_package(lipscope); then study.c and clouds.c,
# which do with models, layer files and measures what the commands do.
#     run.sh BUILD_DIR CMAKE CC [static]
set -eu
build=$1 cmake=$2 cc=$3 kind=${4:-shared}
here=$(cd "$(dirname "$0")" && pwd)
case $(basename "$cc") in *clang*) cxx=${cc}++ ;; *) cxx=c++ ;; esac
if ! command -v "$cxx" >/dev/null; then echo "skipped: no $cxx"; exit 77; fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

prefix=$tmp/prefix
"$cmake" --install "$build" --prefix "$prefix" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
libdir=$(dirname "$(find "$prefix" -name 'liblipscope.*' | head -n 1)")
test -x "$prefix/bin/lipscope"
"$prefix/bin/lipscope" --version

export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
flags=$(pkg-config --cflags lipscope)
if [ "$kind" = static ]; then libs=$(pkg-config --static --libs lipscope)
else
    libs=$(pkg-config --libs lipscope)
    # a shared library asks nobody for the packages that it was made with
    test -z "$(pkg-config --print-requires-private lipscope)"
fi
for language in c c++; do
    if [ $language = c ]; then compiler=$cc source=main.c; else compiler=$cxx source=main.cpp; fi
    # shellcheck disable=SC2086 # flags and libs are lists
    "$compiler" -Wall -Wextra -Werror $flags "$here/$source" -o "$tmp/by_pkgconfig" $libs -lm
    echo "pkg-config, $language: $("$tmp/by_pkgconfig")"
done

if [ "$kind" = static ]; then LIPSCOPE_DATA=$prefix/share/lipscope; export LIPSCOPE_DATA; fi
for program in study clouds; do
    # shellcheck disable=SC2086
    "$cc" -Wall -Wextra -Werror $flags "$here/$program.c" -o "$tmp/$program" $libs -lm
    "$tmp/$program" "$tmp" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
    echo "$program: $(wc -l <"$here/$program.c") lines; $(tail -n 1 "$tmp/log")"
done
test "$(wc -l <"$here/study.c")" -lt 120

unset LD_LIBRARY_PATH PKG_CONFIG_PATH
"$cmake" -S "$here" -B "$tmp/by_cmake" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >"$tmp/log" 2>&1 &&
    "$cmake" --build "$tmp/by_cmake" >>"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
for language in c cpp; do
    echo "find_package, $language: $("$tmp/by_cmake/outside_$language")"
done
