#!/bin/sh
# The public header compiles alone, as C11 and as C++11, without one warning.
set -eu
header=$1
echo "#include \"$header\"" | cc -x c -std=c11 -Wall -Wextra -pedantic -Werror -fsyntax-only -
echo "#include \"$header\"" | c++ -x c++ -std=c++11 -Wall -Wextra -pedantic -Werror -fsyntax-only -
