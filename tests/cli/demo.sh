# The tour: from any directory, installed or not, with its page; refusals come at once.
. "$(dirname "$0")/nano.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/begin.sh"
. "$here/screen.sh"
build=$(dirname "$bin")
unset LIPSCOPE_DATA
mkdir here tmp
TMPDIR=$PWD/tmp
export TMPDIR

# Built, from a directory that knows nothing of it.
cd here || exit 1
bin=lipscope PATH=$build:$PATH
run 0 demo --quick
empty err
[ -s lipscope-demo.html ] || fail "no page"
[ "$(ls)" = "err
lipscope-demo.html
out" ] || fail "more than the page was left here: $(ls)"
[ -z "$(ls ../tmp)" ] || fail "scratch files stay: $(ls ../tmp)"
mask='s/values in [0-9.]+ (seconds|minutes)/values in T seconds/' kept demo 80 out
for words in "builtin:gpt2-nano, a small GPT-2, trained" "random:gpt2:nano, the same" \
    "random:bert:nano, a BERT" "output projection" "What this means" "lipscope-demo.html"; do
    has out "$words"
done
grep -qiE '(^|[^a-z])(nan|inf)([^a-z]|$)' out && fail "a number that is none"
grep -qi 'http-equiv="refresh"' lipscope-demo.html && fail "the page goes elsewhere"
has lipscope-demo.html "lipscope measure builtin:gpt2-nano --text builtin:lighthouse"

# A line of a layer: layer, sigma for three lengths, e, (low, high), proved.  The bound is
# above, and the trained model far above the others: 0.48 in its flattest layer, 0.20 at
# most in theirs (their weights are drawn with deviation 0.02, so |V| |O| is small).
awk '/^builtin:/ { kind = "trained" } /^random:/ { kind = "random" }
     /^ +[0-9]+ / && kind && NF == 8 {
         lines[kind]++
         if (!($4 > 0 && $8 > $4)) bad = 1
         if (kind == "trained" ? $4 < 0.4 : $4 > 0.25) bad = 1
     }
     END { exit bad || lines["trained"] != 6 || lines["random"] != 6 }' out ||
    { fail "the tables are not as they should be:"; cat out; }

# what is said of growth has its interval, and stars say where there is no power law
grep -qE "^ +3 .* [0-9.]+[* ] \([-0-9.]+, [-0-9.]+\)" out ||
    fail "layer 3 has no interval"
has out "95 % between"
has out "Without training every"
has out "with a * no straight line fits, so it is no power law"
! grep -qE "grows like|hardly" out || fail "a sentence without its interval"

# sigma of the table is what `measure` says with the words in the page (median of six)
"$bin" measure builtin:gpt2-nano --text builtin:lighthouse --layer 3 --length 32 \
    --windows 6 --format tsv >rows 2>err || fail "measure on what is built in"
median=$(awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "sigma") at = i }
                     NR > 1 { print $at }' rows | sort -g |
    awk 'NR == 3 || NR == 4 { sum += $1 } END { printf "%.3f", sum / 2 }')
[ "$median" = "$(awk '/^builtin:/ { on = 1 } on && $1 == 3 { print $4; exit }' out)" ] ||
    fail "layer 3 is not $median in the table"

# The commands it proposes work as typed.  Under a sanitizer they would take minutes.
if [ -z "${LSAN_OPTIONS-}" ]; then
    sed -e :a -e '/\\$/N; s/\\\n *//; ta' out | grep -E "^lipscope (measure|bounds|report) " >commands
    [ "$(wc -l <commands)" -eq 4 ] || fail "not four commands to go on with"
    while read -r line; do
        case $line in *random:gpt2*) line="$line --lengths 8,16 --windows 2" ;; esac # of GPT-2's width
        sh -c "$line" >/dev/null 2>next.err </dev/null || fail "$line: $(cat next.err)"
    done <commands
    [ -s a.html ] || fail "no second page"
fi
cd ..

# Installed: the data come along, and are those that are used.
DESTDIR=$PWD/stage cmake --install "$build" >log 2>&1 || { fail "install"; cat log; }
[ -n "$(find stage -path '*/doc/*' -name cli.md)" ] && [ -n "$(find stage -path '*/doc/*' -name README.md)" ] ||
    fail "the documentation is not installed"
installed=$(find stage -path '*/bin/lipscope')
text=$(find stage -name lighthouse.txt)
case $text in */share/lipscope/text/lighthouse.txt) ;; *) fail "the text is at '$text'" ;; esac
built=$build/lipscope
bin=$PWD/$installed
COLUMNS=120 PATH=$(dirname "$bin"):$PATH
export COLUMNS
bin=lipscope
run 0 demo --quick -o page.html --device guard
unset COLUMNS
mask='s/values in [0-9.]+ (seconds|minutes)/values in T seconds/' kept demo 120 out
[ -s page.html ] || fail "no page from the installed program"
[ ! -e lipscope-demo.html ] || fail "-o writes another page as well"
echo "Only these words." >"$text"
run 0 tokens builtin:gpt2-nano builtin:lighthouse
cp out by_name
"$built" tokens "$(dirname "$(dirname "$text")")/gpt2-nano" "$text" >by_path
cmp -s by_name by_path || fail "not the installed text"
bin=$built

# builtin: where a model is expected
run 0 info builtin:gpt2-nano --format json
[ "$(field d) $(field layers)" = "192 6" ] || fail "info builtin:gpt2-nano"
run 0 info builtin:gpt2-nano --tensors
run 0 tokens builtin:gpt2-nano builtin:lighthouse
[ "$(wc -w <out)" -ge 2560 ] || fail "fewer than ten windows of 256 in the built-in text"
run 0 export builtin:gpt2-nano --layer 0 --text builtin:lighthouse --length 8 -o layer -q
run 1 info builtin:nothing
is err "lipscope info: builtin:nothing is not known: there are builtin:gpt2-nano and builtin:lighthouse"

# What is missing is said before anything is computed.
(
    LIPSCOPE_DATA=$PWD/empty
    export LIPSCOPE_DATA
    failures=0
    run 1 demo --quick
    [ $failures = 0 ]
) || fail "demo without its data"
empty out
is err "lipscope demo: builtin:gpt2-nano is not there (LIPSCOPE_DATA can name its folder); looked in $PWD/empty"
run 1 demo --quick -o absent/page.html
empty out
is err "lipscope demo: absent/page.html: cannot write the page: No such file or directory; -o FILE puts it elsewhere"
if [ "$(id -u)" != 0 ]; then # nothing is read-only for root
    mkdir closed && chmod 555 closed
    (cd closed && "$bin" demo --quick >../out 2>../err) && fail "a closed directory"
    empty out
    has err "lipscope demo: lipscope-demo.html: cannot write the page: Permission denied"
fi
run 2 demo more

# Ctrl-C in the middle, when scratch files are there: no page, none of them stays, and it dies
# by the signal (130 here).
signalled INT '[ -n "$(ls tmp)" ]' demo -o never.html
[ ! -e never.html ] || fail "a page after Ctrl-C"
[ -z "$(ls tmp)" ] || fail "scratch files after Ctrl-C: $(ls tmp)"
[ $code = 130 ] || fail "exit $code after Ctrl-C"
finish
