# `attack`: rows, the files it writes, runs that continue, Ctrl-C, wrong use.
. "$(dirname "$0")/nano.sh"
. "$(dirname "$0")/begin.sh"
for g in G1 G13; do "$make" $g $g || exit 1; done
"$make" multi multi && "$make" times times || exit 1

# row COLUMN [LINE]: of the TSV in ./out
row() {
    awk -F'\t' -v column="$1" -v line="${2:-1}" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR == line + 1 { print $at[column] }' out
}
# less A B
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a <= b) }' ||
    fail "$1 is not at most $2"; }

# A = -1, V = 1, n = 10, R = 1: at least the one outlier of docs/maths.md 5.1
run 0 attack G1 --radius 1 --format tsv
[ "$(head -1 out | tr '\t' ' ')" = "n radius domain start sigma lower residual best_construction upper evaluations input" ] ||
    fail "columns: $(head -1 out)"
[ "$(row n) $(row radius) $(row domain) $(row input)" = "10 1 ball attack.safetensors" ] || fail "$(cat out)"
less 2.9937162 "$(row sigma)"
less "$(row best_construction)" "$(row sigma)"
less "$(row sigma)" "$(row upper)"
less "$(row residual)" 1e-8
near "$(row lower)" "$(row sigma)" 1e-9
less "$(row lower)" "$(row sigma)"
has err "read it with: lipscope layer attack.safetensors"
sigma=$(row sigma)
# the file says the same to `layer` and to `check`
run 0 layer attack.safetensors --format tsv
near "$(row sigma)" "$sigma" 1e-12
run 0 check attack.safetensors
# the same seed, the same bytes
mv attack.safetensors first
run 0 attack G1 --radius 1 -q
cmp -s first attack.safetensors || fail "two runs of one seed differ"
empty err

# masks and heads: the file says them
run 0 attack multi --num-heads 4 --kv-heads 2 --causal --length 5 --radius 1 --restarts 4 \
    --iterations 10 -o m.st --format tsv
sigma=$(row sigma)
run 0 layer m.st --format tsv
near "$(row sigma)" "$sigma" 1e-12
run 0 check m.st
run 0 attack times --num-heads 4 --kv-heads 2 --radius 1 --restarts 2 --iterations 5 -o t.st -q
run 0 check t.st
run 0 attack G13 --radius 1 --restarts 2 --iterations 5 -o w.st -q # weights stay
run 0 check w.st
run 1 attack G13 --length 3 --radius 1
has err "weights"

# around the ten equal tokens of that file: one goes to the limit, the others all as far
run 0 attack G1 --domain around --radius 1 --restarts 2 --iterations 10 -o one.st -q
has out "Moved most at n = 10: token 0 by 1.00; token 1 by 0.0588; token 2 by 0.0588;"

# around the input of the file; on the sphere; a measure
run 0 layer multi --num-heads 4 --kv-heads 2 --format tsv
here=$(row sigma)
run 0 attack multi --num-heads 4 --kv-heads 2 --domain around --radius 0.1 --restarts 3 \
    --iterations 10 -o a.st -q --format tsv
less "$here" "$(row sigma)"
[ -z "$(row best_construction)" ] || fail "a construction around a given input"
run 0 attack multi --num-heads 4 --kv-heads 2 --domain around --radius 0.1 --restarts 1 --iterations 1 -o a2.st -q
near "$(awk '$1 == "n" { getline; print $2 }' out)" "$here" 5e-3
# --seconds ends it with the best so far, which is done and not interrupted
# (without it this would take hours)
began=$(date +%s)
run 0 attack multi --num-heads 4 --kv-heads 2 --length 40 --radius 30 --iterations 100000 --restarts 500 \
    --seconds 0.3 -o late.st --progress always --format tsv
[ $(($(date +%s) - began)) -lt 60 ] || fail "--seconds 0.3 ended after a minute"
less 1e-3 "$(row sigma)"
has err " left"
! grep -q "lipscope attack: .*about" err || fail "an estimate where the time is given: $(cat err)"
run 0 check late.st
# one estimate before the first climb, where the work is long; none of short work
until_said "climbing" attack multi --num-heads 4 --kv-heads 2 --length 40 --radius 30 --iterations 100000 --restarts 500 \
    -o long.st --progress always
tr '\r' '\n' <err | head -1 >first
grep -q "^lipscope attack: about [0-9.]* \(s\|min\|h\); --seconds S ends it before" first || fail "no estimate first: $(cat err)"
[ "$(grep -c "about" err)" = 1 ] || fail "not one estimate: $(cat err)"
run 0 attack G1 --radius 1 --restarts 2 --iterations 5 --progress always -o short.st
! grep -q "about" err || fail "an estimate of short work: $(cat err)"
run 2 attack G1 --seconds 0
run 0 attack G1 --domain sphere --length 4 -o s.st -q --format tsv
near "$(row radius)" 1 1e-12 # the longest token of the file
run 0 attack G1 --atoms 4 --radius 1 -o k.st -q --format json
less 3.06867 "$(field sigma)" # docs/maths.md 5.3
has out '"measure": true'
run 0 check k.st

# several lengths: a file for each, and a fit
run 0 attack G1 --lengths 8,12,16 --radius 1 --restarts 2 --iterations 5 -o many.st --run a.db -q --format json
has out '"exponent_low": null'
has out '"lengths": 3'
for n in 8 12 16; do [ -s many-$n.st ] || fail "no file of length $n"; done
cp out want
run 0 attack G1 --lengths 8,12,16 --radius 1 --restarts 2 --iterations 5 -o many.st --run a.db -q --format json
cmp -s out want || fail "a finished run was computed again"
run 0 attack ./G1 --lengths 8,12,16 --radius 1 --restarts 2 --iterations 5 -o many.st --run a.db -q --format json
cmp -s out want || fail "the same file by another name was computed again"
rm many-12.st # is made again
run 0 attack G1 --lengths 8,12,16 --radius 1 --restarts 2 --iterations 5 -o many.st --run a.db -q
[ -s many-12.st ] || fail "a lost file is not made again"
run 1 attack G1 --lengths 8 --radius 1 --restarts 3 --iterations 5 -o many.st --run a.db -q
has err restarts
# what was attacked is kept wherever it stands on the line, and runs that differ in its name merge
run 0 attack --lengths 8,12,16 --radius 1 --restarts 2 --iterations 5 -o many.st --run b.db -q ./G1
run 0 merge a.db b.db -o both.db -q
if command -v sqlite3 >/dev/null; then
    sqlite3 b.db "SELECT json_extract(settings, '\$.told.model') FROM run" >out
    has out "./G1"
fi

# Ctrl-C keeps the best so far
signalled INT 'grep -q "climbing .* best sigma [1-9]" err' attack multi --num-heads 4 --kv-heads 2 \
    --length 60 --radius 3 --restarts 1000 --iterations 100000 -o int.st --format tsv --progress always
[ $code = 1 ] || fail "exit $code after Ctrl-C: $(cat err)"
has err "interrupted; the best input so far is kept"
run 0 check int.st
# before the first value nothing is kept, and nothing else is said
hurried signalled INT 'grep -q "attack: about " err' attack builtin:gpt2-nano --layer 1 --heads 0 \
    --length 12000 --radius 3 -o early.st --progress always
[ $code = 1 ] || fail "exit $code after an early Ctrl-C: $(cat err)"
has err "interrupted; no input of length 12000 was found before, none is kept"
[ ! -e early.st ] || fail "an input that was not found is there"
empty out

# edges: right values, no NaN
run 0 attack G1 --length 1 --radius 2 -q --format tsv
near "$(row sigma)" 1 1e-12
run 0 attack G1 --length 5 --radius 0 -q --format tsv
near "$(row sigma)" 1 1e-12
run 1 attack G1 --length 5 --radius 1e80
has err "too large for double precision"

# a model: the image of its norm, the norm's radius, around a text
for domain in "--domain norm" "--radius layernorm" "--domain around --radius 0.1 --text $text"; do
    run 0 attack "$nano" --layer 1 $domain --length 6 --restarts 2 --iterations 5 -o nano.st \
        --format tsv
    sigma=$(row sigma)
    less "$sigma" "$(row upper)"
    run 0 layer nano.st --format tsv
    near "$(row sigma)" "$sigma" 1e-9
    run 0 check nano.st
done
run 1 attack "$nano" --layer 99 --length 6 --radius 1
run 2 attack "$nano" --domain norm --radius 3 --length 6

# --window, --stride, --tiled: at radius 0 around a window there is the window alone, and sigma
# is that of its ids, cut out of the text by awk
built="builtin:gpt2-nano"
run 0 tokens $built builtin:lighthouse
tr ' ' '\n' <out >all.ids
window() { # START N: sigma of these tokens
    sed -n "$(($1 + 1)),$(($1 + $2))p" all.ids >cut.ids
    run 0 measure $built --ids cut.ids --layer 1 --heads 0 --dtype f64 --format tsv
    row sigma
}
around() { # OPTIONS...: one line for each length
    run 0 attack $built --layer 1 --heads 0 --text builtin:lighthouse --domain around --radius 0 --restarts 1 \
        --iterations 1 --dtype f64 -o around.st -q --format tsv "$@"
}
for case in "0 8 --length 8" "16 8 --length 8 --window 2" "40 8 --length 8 --window 2 --stride 20" \
    "16 8 --length 8 --window 2 --tiled"; do
    set -- $case
    start=$1 n=$2
    shift 2
    around "$@"
    mine=$(row sigma)
    near "$mine" "$(window $start $n)" 1e-9
done
around --lengths 8,16 --window 1 # both start at 16, the longest length
first=$(row sigma) second=$(row sigma 2)
near "$first" "$(window 16 8)" 1e-9
near "$second" "$(window 16 16)" 1e-9
around --lengths 8,16 --window 1 --tiled # at 8 and at 16
first=$(row sigma) second=$(row sigma 2)
near "$first" "$(window 8 8)" 1e-9
near "$second" "$(window 16 16)" 1e-9
run 2 attack $built --text builtin:lighthouse --length 8 --window 1 --tiled --stride 9
has err "leave out one of tiled and stride"
run 2 attack $built --text builtin:lighthouse --length 8 --window 1 --stride 7
run 1 attack $built --text builtin:lighthouse --length 8 --window 100000
has err "window 100000 of length 8 is beyond its"

# what cannot be written
run 1 attack G1 --radius 1 -o absent/x.st
has err "absent: cannot write"
if [ -w /dev/full ]; then
    run 1 attack G1 --radius 1 --restarts 1 --iterations 1 -o /dev/full --format tsv
    has err "No space left"
    [ -n "$(row sigma)" ] || fail "the value is lost with the file"
fi

# wrong use
run 2 attack G1 --radius -1
run 2 attack G1 --radius 1 --domain box
has err "ball|sphere|norm|around"
run 2 attack G1 --domain norm
has err "a layer file has no norm"
run 2 attack G1 --radius layernorm
run 2 attack G1 --domain around
has err "needs --radius"
run 2 attack G1 --relative --radius 1
has err "--relative goes with --domain around"
run 1 attack G1 --domain around --radius 1 --length 11
has err "no input of length 11"
run 2 attack G1 --atoms 3 --length 3 --radius 1
run 2 attack
run 1 attack absent --length 3 --radius 1
finish
