#!/bin/sh
# Fails when a file that docs/architecture.md names is not where it says, or when its picture
# names one twice.  In the picture a word such as study/ is the folder of the files behind it.
cd "${1:-.}" || exit 2
page=docs/architecture.md
exists() { # FOLDER FILE
    for at in "$1/$2" "src/$1/$2" "src/backend/$1/$2"; do
        [ -f "$at" ] && return 0
    done
    return 1
}
bad=0
named=$(awk '/^```/ { picture = !picture; next }
picture {
    line = substr($0, 2)
    if (match(line, /^[a-z]+\//)) home = substr(line, 1, RLENGTH - 1)
    folder = home
    gsub(/[^a-z0-9_.\/]+/, " ", line)
    count = split(line, word, " ")
    for (i = 1; i <= count; i++) {
        if (word[i] ~ /^[a-z]+\/$/ && word[i + 1] ~ /^[a-z0-9_]+\.[ch]$/) folder = substr(word[i], 1, length(word[i]) - 1)
        if (word[i] ~ /^[a-z0-9_]+\.[ch]$/) print home, folder, word[i]
    }
}' $page)
[ "$(echo "$named" | wc -l)" -gt 40 ] || { echo "$page: its picture was not read"; exit 1; }
while read -r home folder file; do
    exists "$folder" "$file" || exists "$home" "$file" ||
        { echo "$page: there is no $file in $folder"; bad=1; }
done <<END
$named
END
twice=$(echo "$named" | awk '{ print $2 "/" $3 }' | sort | uniq -d)
[ -z "$twice" ] || { echo "$page: stands twice in the picture: $twice"; bad=1; }
for path in $(awk '/^```/ { picture = !picture } !picture' $page | grep -oE '[a-z]+/[a-z0-9_]+\.(c|h|sh|txt)' | sort -u); do
    exists . "$path" || exists src "$path" || exists include "$path" || exists include/lipscope "${path#*/}" ||
        { echo "$page: there is no $path"; bad=1; }
done
exit $bad
