# screen.sh - sourced after nano.sh and begin.sh by tests that look at screens: what commands print for people
# at 80 and 120 columns, as kept in tests/data/screens (UPDATE=1 writes them anew, those that begin
# with ONLY: look at them first).  No line is wider than the screen.
screens=$data/screens

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

# kept NAME COLUMNS FILE: what is masked by $mask, a sed script, is as it is kept, and fits
kept() {
    wide "$3" "$2" || fail "$1: wider than $2 columns"
    sed -E '/^seconds /d; '"${mask-}" "$3" >masked # no two runs take as long
    [ -z "${UPDATE-}" ] || cp masked "$screens/$1-$2.txt"
    alike "$screens/$1-$2.txt" masked || { fail "$1 at $2 columns:"; diff "$screens/$1-$2.txt" masked; }
}

# screen NAME CODE ARGS...: both widths; of commands that print nothing, what they say
screen() {
    case $1 in ${ONLY-}*) ;; *) return ;; esac
    name=$1 code=$2
    shift 2
    for columns in 80 120; do
        COLUMNS=$columns "$bin" "$@" >out 2>err
        got=$?
        [ $got = "$code" ] || { fail "$name: exit $got, not $code"; cat err; }
        [ -s out ] || cp err out
        kept "$name" $columns out
    done
}
