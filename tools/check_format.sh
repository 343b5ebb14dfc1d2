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
bad=0
for file in $files; do
    $tool --dry-run -Werror "$file" 2>/dev/null || { echo "$file: run 'make format'"; bad=1; }
done
exit $bad
