#!/bin/sh
# Every "docs/NAME.md" that a file speaks of exists, and every section it names
# ("docs/maths.md 3.3") is a heading there.
cd "${1:-.}" || exit 2
bad=0
for ref in $(grep -rhoE 'docs/[a-z_-]+\.md,?( section)? [0-9]+(\.[0-9]+)?' \
        include src cli tests bench examples README.md CONTRIBUTING.md |
        sed 's/,\{0,1\}\( section\)\{0,1\} /:/' | sort -u); do
    file=${ref%:*} section=${ref#*:}
    if ! grep -qE "^#+ ${section}[. ]" "$file"; then
        echo "$file has no section $section"; bad=1
    fi
done
for file in $(grep -rhoE '(docs|examples|bench|tools|src|tests)/[a-z0-9_/-]+\.(md|c|h|sh|txt|py)' \
        include src README.md CONTRIBUTING.md docs | sort -u); do
    case $file in src/model/*) continue ;; esac # announced in CONTRIBUTING.md
    if ! [ -e "$file" ]; then echo "$file is spoken of and does not exist"; bad=1; fi
done
exit $bad
