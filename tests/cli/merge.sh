# measure --shard and merge: parts make the whole, and what does not belong together is refused.
. "$(dirname "$0")/begin.sh"
sweep() { # ARGS...
    run 0 measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8:32:x2 --windows 3 --layers 0,2 -q "$@"
}
rows() { # FILE: TSV without the seconds
    awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "seconds") c = i } { $c = ""; print }' "$1"
}
sweep --run undivided.db --format tsv
rows out >want
for i in 1 2 3; do
    sweep --shard $i/3 --run part$i.db --format tsv
    rows out >rows$i
    [ "$(wc -l <rows$i)" -gt 1 ] || fail "part $i has nothing to do"
done
# each cell in one part, and in no other
[ "$(cat rows1 rows2 rows3 | grep -vc ^model)" = 18 ] || fail "the parts have not 18 cells"
[ "$(cat rows1 rows2 rows3 | grep -v ^model | sort -u | wc -l)" = 18 ] || fail "a cell is in two parts"

run 0 merge part1.db part2.db part3.db -o whole.db
is err "lipscope merge: whole.db: 18 cells added, 0 were there already"
empty out
sweep --run whole.db --format tsv --timing
rows out >got
cmp -s got want || fail "the merged run is not the undivided one: $(diff got want | head -5)"
! grep -q "cells in" err || fail "a merged cell was computed again: $(cat err)"

# again, into a file that is there; and the undivided run, whose cells are the same
run 0 merge part1.db undivided.db -o whole.db
has err "0 cells added"
run 0 merge part2.db -o two.db -q
empty err
run 0 merge part1.db -o two.db
has err "cells added, 0 were there already"
sweep --run two.db --format tsv # computes what is missing
rows out >got
cmp -s got want || fail "a partly merged run is not completed"

# one part of many, and more parts than windows
sweep --shard 1/1 --format tsv
rows out >got
cmp -s got want || fail "1/1 is not all"
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --length 8 --windows 1 --layer 0 --shard 2/2 --format tsv -q

# what does not belong together
refused() { # SENTENCE FILE...
    sentence=$1
    shift
    run 1 merge "$@" -o new.db
    has err "$sentence"
    [ ! -e new.db ] && [ ! -e new.db-wal ] || fail "a refused merge left new.db"
}
sweep --run seed.db --seed 2
refused "seed.db: made with another setting of seed than part1.db" part1.db seed.db
sweep --run block.db --map block
refused "block.db: made with another setting of map than part1.db" part1.db block.db
refused "missing.db" part1.db missing.db
echo "no database" >text.db
refused "text.db: not a run file" part1.db text.db
head -c 5000 part1.db >cut.db
refused "cut.db" part2.db cut.db
cp whole.db before.db
run 1 merge part1.db seed.db -o whole.db
cmp -s whole.db before.db || fail "a refused merge changed its result"
run 1 merge part1.db -o part1.db
is err "lipscope merge: part1.db: is both read and written"
cp part1.db other.db
sqlite3 other.db "UPDATE cells SET row = json_set(row, '$.sigma', 7) WHERE key = (SELECT min(key) FROM cells)"
refused "other.db: has another value of the cell 'map=attention layer=0" part1.db other.db
cp part1.db newer.db
sqlite3 newer.db "PRAGMA user_version = 99"
refused "newer.db: written by a newer lipscope" part1.db newer.db
cp part1.db broken.db
sqlite3 broken.db "UPDATE cells SET row = '{' WHERE key = (SELECT max(key) FROM cells)"
refused "broken.db: cell 'map=attention layer=" part2.db broken.db
run 2 merge part1.db
for bad in 0/2 3/2 1 1/ /2 a/b 1/2/3 -1/2 "1/2 "; do
    run 2 measure builtin:gpt2-nano --text builtin:lighthouse --length 8 --shard "$bad"
    has err "invalid value '$bad' for '--shard': expected I/K with 1 <= I <= K"
done
finish
