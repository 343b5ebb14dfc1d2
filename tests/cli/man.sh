# Manual pages: one for the program and one per command, with every option that --help has.
. "$(dirname "$0")/begin.sh"

mkdir man
run 0 help --man man
empty out
empty err
commands=$("$bin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 10 ] || fail "commands not found in --help"
for c in $commands; do
    page=man/lipscope-$c.1
    [ -s $page ] || fail "no $page"
    has man/lipscope.1 "lipscope\\-$c"
    for option in $("$bin" $c --help | sed -n 's/^  ..[, ] --\([a-z0-9-]*\).*/\1/p'); do
        grep -qF -e "\\-\\-$(echo $option | sed 's/-/\\-/g')\\fR" $page ||
            fail "$page lacks --$option"
    done
done
# groff judges the pages: with every warning switched on it has nothing to say
if command -v groff >/dev/null; then
    for page in man/*; do
        groff -man -ww -z -Tascii "$page" >said 2>&1 || fail "$page does not format"
        empty said
    done
fi

run 1 help --man no/such/folder
has err "no/such/folder"
finish
