# A run survives: kill -9, Ctrl-C, two processes, other settings, a full and a read-only disk.
. "$(dirname "$0")/nano.sh"
. "$(dirname "$0")/begin.sh"

sweep() { # ARGS...: a sweep of 210 cells
    "$bin" measure "$nano" --text "$text" --lengths 8:128:x2 --windows 7 --format tsv "$@"
}
values() { awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { print $at["layer"], $at["n"], $at["window"], $at["sigma"] }' "$1"; }

sweep >whole 2>err || fail "exit $?: $(cat err)"
values whole >want
[ "$(wc -l <want)" = 210 ] || fail "$(wc -l <want) cells, not 210"

# killed again and again without warning, each time at least 30 cells further, the same command
# comes to the same end
beyond() { tr '\r' '\n' <err | awk -v least=$1 '/^[0-9]+ of 210 cells/ && $1 >= least { found = 1 } END { exit !found }'; }
tries=0 code=137
while [ $code = 137 ] && [ $tries -lt 8 ]; do
    tries=$((tries + 1))
    hurried signalled KILL "beyond $((30 * tries))" measure "$nano" --text "$text" --lengths 8:128:x2 --windows 7 \
        --format tsv --run kill.db --progress always
done
[ $code = 0 ] || fail "exit $code after $tries tries: $(cat err)"
[ $tries -gt 1 ] || fail "the sweep was over before the first kill"
values out | cmp -s - want || fail "a killed and resumed run has other values"
[ ! -e kill.db-wal ] && [ ! -e kill.db-lock ] || fail "files are left beside the run"

# a finished run is only read: the same bytes, seconds included
sweep --run kill.db >again 2>err || fail "exit $?: $(cat err)"
cmp -s out again || fail "a finished run was computed again"
# part of it, and more than it
run 0 measure "$nano" --text "$text" --lengths 8 --windows 1 --layer 3 --run kill.db --format tsv
near "$(awk -F'\t' 'NR == 2 { print $9 }' out)" "$(awk '$1 == 3 && $2 == 8 && $3 == 0 { print $4 }' want)" 0
run 0 measure "$nano" --text "$text" --lengths 8:128:x2 --windows 8 --layers 0 --run kill.db --format tsv
[ "$(wc -l <out)" = 41 ] || fail "an extended run has $(wc -l <out) lines"

# the stride is that of the first call: lengths up to it can be added, longer ones cannot
run 0 measure "$nano" --text "$text" --lengths 8 --stride 32 --windows 3 --layer 0 --run stride.db
run 0 measure "$nano" --text "$text" --lengths 8,16 --windows 3 --layer 0 --run stride.db --format tsv
[ "$(awk -F'\t' 'NR > 1 { print $21 }' out | tr '\n' ' ')" = "0 32 64 0 32 64 " ] ||
    fail "starts in a run that goes on: $(cut -f21 out)"
run 1 measure "$nano" --text "$text" --lengths 8,64 --windows 3 --layer 0 --run stride.db
has err "stride.db: its windows start every 32 tokens: length 64 needs another run file"
run 1 measure "$nano" --text "$text" --lengths 8 --windows 3 --layer 0 --stride 16 --run stride.db
has err "stride is 32 there and 16 here"
run 1 measure "$nano" --text "$text" --lengths 8 --windows 3 --layer 0 --tiled --run stride.db
has err "tiled is false there and true here"
# a file of the first edition says nothing of strides: its windows are tiled
run 0 measure "$nano" --text "$text" --lengths 8,16 --tiled --windows 2 --layer 0 --run first.db
sqlite3 first.db "UPDATE run SET settings = json_remove(settings, '\$.stride', '\$.tiled');
    UPDATE cells SET row = json_remove(row, '\$.start')" || fail "sqlite3"
run 1 measure "$nano" --text "$text" --lengths 8,16 --windows 2 --layer 0 --run first.db
has err "first.db: its windows are tiled, window w of length n starts at token w n: only tiled ones continue it"
run 0 measure "$nano" --text "$text" --lengths 8,16,32 --tiled --windows 2 --layer 0 --run first.db --format tsv
[ "$(awk -F'\t' 'NR > 1 { print $21 }' out | tr '\n' ' ')" = "0 8 0 16 0 32 " ] ||
    fail "starts of an old run: $(cut -f21 out)"

# Ctrl-C: what is there is printed, the rest comes later
hurried signalled INT 'grep -q "[1-9][0-9]* of [0-9]* cells" err' measure "$nano" --text "$text" --lengths 8:512:x2 \
    --windows 300 --format tsv --run int.db --progress always
[ $code = 1 ] || fail "exit $code after Ctrl-C: $(cat err)"
has err "interrupted; "
has err "cells stored in int.db; the same command continues"
[ "$(sed -n 's/.*interrupted; \([0-9]*\) of.*/\1/p' err)" = "$(($(wc -l <out) - 1))" ] ||
    fail "rows printed and stored differ: $(cat err) $(wc -l <out)"
sed -n 2p out >first # whichever cell was done first
set -- $(awk -F'\t' '{ print $3, $7, $8 }' first)
run 0 measure "$nano" --text "$text" --lengths "$2" --windows "$(($3 + 1))" --layers "$1" --run int.db --format tsv
grep -qxF "$(cat first)" out || fail "an interrupted cell was not kept: $(cat first)"

# two processes on one file
"$bin" measure "$nano" --text "$text" --lengths 8:512:x2 --windows 300 --format tsv \
    --run two.db >/dev/null 2>&1 &
other=$!
trap 'kill -s KILL $other 2>/dev/null' EXIT
tries=0
while [ ! -e two.db ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done # locked from before it is there
run 1 measure "$nano" --text "$text" --length 8 --windows 1 --run two.db
has err "two.db: in use by another process"
empty out
kill -s KILL $other
wait $other 2>/dev/null

# another model, text or setting
refused() { # REASON ARGS...
    reason=$1
    shift
    run 1 measure "$@" --length 8 --windows 1 --run kill.db
    has err "kill.db: made with another setting: $reason"
    empty out
}
refused "text_hash is " "$nano" --text "$data/../../LICENSE"
refused "model_hash is " "$bert" --text "$text"
refused 'dtype is "f32" there and "f64" here' "$nano" --text "$text" --dtype f64
refused 'map is "attention" there and "heads" here' "$nano" --text "$text" --map heads
refused 'mask is "model" there and "none" here' "$nano" --text "$text" --mask none
refused 'seed is 1 there and 2 here' "$nano" --text "$text" --seed 2
refused 'tol is 0.01' "$nano" --text "$text" --tol 1e-4
refused 'heads is "all" there and "each" here' "$nano" --text "$text" --heads each
refused 'upper is false there and true here' "$nano" --text "$text" --upper

# files that are no run files stay as they are
echo "dear diary" >diary
cp diary diary.copy
run 1 measure "$nano" --text "$text" --length 8 --run diary
has err "diary: not a run file"
cmp -s diary diary.copy || fail "a foreign file was changed"
run 1 measure "$nano" --text "$text" --length 8 --run nowhere/run.db
has err "nowhere/run.db"

# a full disk: what was finished is printed and kept, exit 1
(trap '' XFSZ
    ulimit -f 200 # blocks of 512 bytes
    exec "$bin" measure "$nano" --text "$text" --lengths 8:64:x2 --windows 30 --run full.db \
        --threads 1 --format tsv) 2>err | cat >out
has err "full.db: cannot store a cell: "
has err "cells finished"
[ "$(wc -l <out)" -gt 5 ] || fail "finished cells were not printed"
cp out first
run 0 measure "$nano" --text "$text" --length 8 --windows 1 --layers 0 --run full.db --format tsv
[ "$(sed -n 2p out)" = "$(sed -n 2p first)" ] || fail "a full disk cost a finished cell"

# a read-only folder; to root nothing is
mkdir closed && chmod 555 closed
if [ "$(id -u)" != 0 ]; then
    run 1 measure "$nano" --text "$text" --length 8 --run closed/run.db
    has err "closed/run.db: cannot write beside it: "
elif command -v setpriv >/dev/null && chmod 755 . &&
    setpriv --reuid=65534 --clear-groups "$bin" info "$nano" >/dev/null 2>&1; then
    setpriv --reuid=65534 --clear-groups "$bin" measure "$nano" --text "$text" --length 8 \
        --run "$PWD/closed/run.db" >out 2>err && fail "a read-only folder was written"
    has err "closed/run.db: "
    has err "Permission denied"
fi
chmod 755 closed
finish
