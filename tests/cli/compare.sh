# compare: ratios that are known, with intervals that cover them; and what cannot be compared.
. "$(dirname "$0")/begin.sh"
nano=$(cd "$(dirname "$0")/../.." && pwd)/data/gpt2-nano

# the output projection of the last layer doubled: its sigma is twice as large, the others' not
cp -r "$nano" twice && chmod -R u+w twice
"$make" double "$nano/model.safetensors" twice/model.safetensors transformer.h.5.attn.c_proj.weight ||
    fail "cannot double a tensor"
measure() { # MODEL RUN ARGS...
    model=$1 run=$2
    shift 2
    run 0 measure "$model" --text builtin:lighthouse --layers 0,5 --lengths 8:32:x2 -q --run "$run" "$@"
}
measure "$nano" a.db --windows 8
measure twice b.db --windows 8
run 0 compare a.db b.db --format tsv
column() { awk -F'\t' -v name="$1" -v row="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i }
    NR == row + 1 { print $c }' out; }
near "$(column ratio 1)" 1 2e-6 # both solves to 1e-6
near "$(column ratio 2)" 2 2e-6
near "$(column after 2)" "$(awk -v x="$(column before 2)" 'BEGIN { print 2 * x }')" 1e-5
for row in 1 2; do
    awk -v low="$(column ratio_low $row)" -v high="$(column ratio_high $row)" -v r=$row \
        'BEGIN { exit !(low <= r && r <= high && high < r * 1.001) }' ||
        fail "[$(column ratio_low $row), $(column ratio_high $row)] does not hold $row closely"
    [ "$(column paired $row)" = true ] && [ "$(column starts $row)" = 8 ] && [ "$(column lengths $row)" = 3 ] ||
        fail "row $row: $(cat out)"
done
[ "$(column verdict 1)" = "no change shown" ] && [ "$(column verdict 2)" = larger ] || fail "verdicts: $(cat out)"
run 0 compare b.db a.db --format tsv
near "$(column ratio 2)" 0.5 2e-6
[ "$(column verdict 2)" = smaller ] || fail "verdict $(column verdict 2)"

# for people: a sentence, and nothing beyond 80 columns
run 0 compare a.db b.db
tr '\n' ' ' <out >line
has line "The runs differ in model. Sigma is larger in 1 and smaller in 0 of 2; most in layer 5: 2 times as large, 95 % interval [2, 2]."
awk 'length($0) > 80 { exit 1 }' out || fail "a line is longer than 80 columns: $(cat out)"
run 0 compare a.db a.db
has out "The runs differ in nothing that decides a value."

# for scripts: a limit has its own exit code
run 4 compare a.db b.db --fail-above 1.5
is err "lipscope compare: b.db: ratio 2 of layer 5 exceeds --fail-above 1.5 (1 in all do)"
run 0 compare a.db b.db --fail-above 2.001
run 0 compare b.db a.db --fail-above 1.5

# other windows of the same text: not pair by pair; few: no interval
measure "$nano" c.db --windows 6 --stride 40
run 0 compare a.db c.db --format tsv
[ "$(column paired 1)" = false ] && [ "$(column starts 1)" = 6 ] || fail "paired: $(cat out)"
[ -n "$(column ratio_low 1)" ] || fail "no interval: $(cat out)"
measure "$nano" d.db --windows 3
run 0 compare a.db d.db
tr '\n' ' ' <out >line
has line "3 starts, an interval needs 6."
has out "too few starts to say"
run 0 compare a.db b.db d.db --format json
[ "$(grep -c '"ratio":' out)" = 4 ] || fail "three runs do not give two comparisons"

# a page with both
run 0 compare a.db b.db -o both.html
is err "lipscope compare: wrote both.html"
has both.html '"file":"b.db"'

# long runs: every k-th window, the same of a shorter one; and it says so
if command -v sqlite3 >/dev/null; then
    more() { # FILE CELLS: f.db with copies of its window
        cp f.db "$1"
        sqlite3 "$1" "WITH RECURSIVE w(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM w WHERE i < $2)
            INSERT INTO cells SELECT replace(key, 'window=0', 'window=' || i), created, version,
            json_set(row, '\$.window', i, '\$.start', 8 * i) FROM cells, w"
    }
    run 0 measure "$nano" --text builtin:lighthouse --layers 1 --length 8 --windows 1 -q --run f.db
    more g.db 100000
    more h.db 20000
    run 0 compare g.db h.db --format json
    is err "lipscope compare: h.db: of runs this long one window in 3 was compared"
    [ "$(field starts) $(field paired)" = "6667 false" ] || fail "$(cat out)"
    near "$(field ratio)" 1 1e-9
    rm f.db g.db h.db
fi

# what cannot be
run 1 compare a.db missing.db
has err "missing.db"
run 0 measure "$nano" --text builtin:lighthouse --layers 0 --length 8 -q --run e.db --map block
run 1 compare a.db e.db
is err "lipscope compare: a.db is of the map attention, e.db of the map block: not the same"
run 0 measure "$nano" --text builtin:lighthouse --layers 1 --length 8 -q --run f.db
run 1 compare a.db f.db
is err "lipscope compare: a.db and f.db: no layer, map and length that both have a value of"
run 2 compare a.db
run 2 compare a.db b.db --fail-above x
finish
