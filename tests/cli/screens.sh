# Screens: what commands print for people at 80 and 120 columns, as kept in tests/data/screens
# (UPDATE=1 writes them anew, those that begin with ONLY: look at them first).  No line is wider than the screen.
. "$(dirname "$0")/nano.sh"
screens=$data/screens
. "$(dirname "$0")/begin.sh"

# wide FILE COLUMNS: no line takes more; bytes that go on in a character take none
wide() {
    tr -d '\200-\277' <"$1" | awk -v most="$2" 'length($0) > most { print; bad = 1 } END { exit bad }'
}

# alike KEPT GOT: the same text; numbers with a point may differ by a unit of their last digit or
# so, as they do from one processor to the next
alike() {
    [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] || return 1
    awk -v other="$2" 'function number(s) { return match(s, /[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?/) }
        function same(a, b,    x, y, d) {
            while (number(a)) {
                x = substr(a, 1, RSTART - 1) ; d = substr(a, RSTART, RLENGTH); a = substr(a, RSTART + RLENGTH)
                if (!number(b) || substr(b, 1, RSTART - 1) != x) return 0
                x = d; y = substr(b, RSTART, RLENGTH); b = substr(b, RSTART + RLENGTH); d = x - y
                if (x != y && (x y !~ /\..*\./ || d > 0.011 + 0.01 * x || -d > 0.011 + 0.01 * x)) return 0
            }
            return a == b
        }
        { getline line <other; if (!same($0, line)) bad = 1 } END { exit bad }' "$1"
}

# screen NAME CODE ARGS...: both widths
screen() {
    case $1 in ${ONLY-}*) ;; *) return ;; esac
    name=$1 code=$2
    shift 2
    for columns in 80 120; do
        COLUMNS=$columns "$bin" "$@" >all 2>err
        got=$?
        sed '/^seconds /d' all >out # no two runs take as long
        [ $got = "$code" ] || { fail "$name: exit $got, not $code"; cat err; }
        kept=$screens/$name-$columns.txt
        [ -z "${UPDATE-}" ] || cp out "$kept"
        alike "$kept" out || { fail "$name at $columns columns:"; diff "$kept" out; }
        wide out $columns || fail "$name: wider than $columns columns"
    done
}

on="builtin:gpt2-nano --text builtin:lighthouse"
screen measure 0 measure $on --windows 6
screen measure-short 0 measure $on --lengths 8:32:x2 --windows 2 --layers 0,3
screen measure-heads 0 measure $on --lengths 16,32 --windows 0:1 --layer 3 --heads each --upper
screen measure-details 0 measure $on --length 16 --windows 3 --layers 2,3 --details --sink --count 3 --as-released
screen measure-model 0 measure $on --length 16 --windows 2 --map model
screen bounds 0 bounds $on --layers 3 --length 16
screen bounds-around 0 bounds $on --layers 3 --length 8 --around 0.01 --relative
screen attack 0 attack builtin:gpt2-nano --layer 3 --length 8 --radius layernorm --dtype f64 --restarts 1 --iterations 2
screen attack-around 0 attack $on --layer 3 --lengths 4,8,16 --domain around --radius 0.01 --relative \
    --dtype f64 --restarts 1 --iterations 2 -o found.safetensors
screen perturb 0 perturb $on --length 8 --layers 0,3 --tokens 2 --neighbours 1
"$make" multi multi || exit 1
screen layer 0 layer multi --num-heads 4 --kv-heads 2 --causal --upper
for which in causal none; do
    "$bin" measure $on --lengths 8,16 --windows 6 --layers 0,3 --mask $which --label "mask $which" --run $which.db -q >out ||
        fail "measure --run $which.db"
done
has out "mask none: builtin:gpt2-nano on builtin:lighthouse"
screen compare 0 compare causal.db none.db
printf '0,0\n1,0\n0,1\n' >a.csv
printf '0,0\n2,0\n0,3\n' >b.csv
screen distance 0 distance a.csv b.csv
finish
