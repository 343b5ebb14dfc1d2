#!/bin/sh
# Each public header compiles alone, as C11 and as C++11, without one warning.
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
