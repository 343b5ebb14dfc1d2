#!/bin/sh
# The program is written on the public headers: a source of cli/ includes its own headers,
# those of the language, of POSIX, and lipscope's.  A command parses, calls and prints: beside
# its table of options and its description cmd_NAME.c has about a hundred lines.
#     check_public.sh ROOT
cd "$1" || exit 2
bad=0
grep -nE '^#[ ]*include ("[a-z_]+/|<(jansson|omp|sqlite3|utf8proc|pcre2|cblas|lapacke)\.h>)' cli/*.[ch] |
    grep -v '"lipscope/' && bad=1
awk -v most=110 '
FNR == 1 { table = 0 }
/^static const cli_option options\[\]/ || /^const cli_command cli_cmd_/ { table = 1 }
!table { lines[FILENAME]++ }
/};$/ { table = 0 }
END {
    for (file in lines)
        if (lines[file] > most) {
            printf "%s: %d lines beside its tables, at most %d: what computes belongs into src/, what prints into a file of its own\n", file, lines[file], most
            bad = 1
        }
    exit bad
}' cli/cmd_*.c || bad=1
exit $bad
