#!/bin/sh
# Every C file looks as .clang-format says (version 14: others break lines differently).
#     check_format.sh ROOT [--fix]
cd "${1:-.}" || exit 2
tool=clang-format-14
command -v $tool >/dev/null || tool=clang-format
if ! $tool --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "skipped: no clang-format 14"
    exit 77
fi
files=$(find include src cli tests bench examples -name '*.[ch]')
if [ "${2:-}" = --fix ]; then
    # shellcheck disable=SC2086 # a list of names without blanks
    exec $tool -i $files
fi
# a process for many files: most of the time of one is its start
log=$(printf '%s\n' $files | xargs -n 40 -P 2 $tool --dry-run -Werror 2>&1) && exit 0
bad=$(printf '%s\n' "$log" | sed -n "s/^\([^:]*\):[0-9]*:[0-9]*: error: .*/\1: run 'make format'/p" | sort -u)
printf '%s\n' "${bad:-$log}"
exit 1
