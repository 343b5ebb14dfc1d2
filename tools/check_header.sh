#!/bin/sh
# Each public header compiles alone, as C11 and as C++11, without one warning; the program on the
# front page compiles as it stands there, and so do the examples on top of the other headers.
#     check_header.sh INCLUDE_FOLDER
set -eu
include=$1
warn="-Wall -Wextra -pedantic -Werror -fsyntax-only"
for header in "$include"/lipscope.h "$include"/lipscope/*.h; do
    # shellcheck disable=SC2086 # warn is a list
    echo "#include \"$header\"" | cc -x c -std=c11 $warn -I"$include" -
    # shellcheck disable=SC2086
    echo "#include \"$header\"" | c++ -x c++ -std=c++11 $warn -I"$include" -
done

# The lines of the first comment that stand five columns in.
example() { awk '/\*\/$/ { last = 1 } /^ \*     / { sub(/^ \*     /, ""); sub(/ \*\/$/, ""); print } last { exit }' "$1"; }

# shellcheck disable=SC2086
example "$include/lipscope.h" | awk '{ print } /^}/ { exit }' | cc -x c -std=c11 $warn -I"$include" -

# What examples take for granted.
given="lipsc_error err; size_t n, start, count; uint32_t *ids; lipsc_model *model; double sigma; lipsc_svd_info info;"
for name in check claims construct layer_row model perturb place source study; do
    case $name in
    construct) more="lipsc_layer layer;" ;;
    layer_row) more="lipsc_layer_file file;" ;;
    model) more="lipsc_svd_settings set;" ;;
    place) more="lipsc_bounds_settings set; lipsc_bounds bounds;" ;;
    source) more="size_t layer; lipsc_acts *acts;" ;;
    *) more="" ;;
    esac
    lines=$(example "$include/lipscope/$name.h")
    [ -n "$lines" ] || { echo "lipscope/$name.h: its example is gone" && exit 1; }
    printf '#include <stdio.h>\n#include <lipscope.h>\nvoid example(void);\n%s %s\nvoid example(void) {\n%s\n}\n' \
        "$given" "$more" "$lines" |
        cc -x c -std=c11 -Wall -Wextra -Werror -Wno-unused-variable -fsyntax-only -I"$include" - ||
        { echo "lipscope/$name.h: its example does not compile" && exit 1; }
done
