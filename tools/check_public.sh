#!/bin/sh
# The program is written on the public headers: a source of cli/ includes its own headers,
# those of the language, of POSIX, and lipscope's.  What still looks inside is named in
# public.txt; a file that no longer does must leave that list.
#     check_public.sh ROOT
set -eu
cd "$1"
inside=$(grep -lE '^#[ ]*include ("[a-z_]+/|<(jansson|omp|sqlite3|utf8proc|pcre2|cblas|lapacke)\.h>)' cli/*.[ch] cli/reproduce/*.[ch] |
    while read -r file; do
        grep -hE '^#[ ]*include ("[a-z_]+/|<(jansson|omp|sqlite3|utf8proc|pcre2|cblas|lapacke)\.h>)' "$file" |
            grep -qvE '"(lipscope|reproduce)/' && echo "$file"
    done | sort)
known=$(grep -v '^#' tools/public.txt | sort)
[ "$inside" = "$known" ] && exit 0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo "$known" >"$tmp/known"
echo "$inside" >"$tmp/inside"
diff "$tmp/known" "$tmp/inside" | sed -n 's/^> \(.*\)/\1: includes what is not public/p
    s/^< \(.*\)/\1: includes public headers only: take it off tools\/public.txt/p'
exit 1
