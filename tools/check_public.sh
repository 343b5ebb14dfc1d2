#!/bin/sh
# The program is written on the public headers: a source of cli/ includes its own headers,
# those of the language, of POSIX, and lipscope's.
#     check_public.sh ROOT
cd "$1" || exit 2
! grep -nE '^#[ ]*include ("[a-z_]+/|<(jansson|omp|sqlite3|utf8proc|pcre2|cblas|lapacke)\.h>)' cli/*.[ch] |
    grep -v '"lipscope/'
