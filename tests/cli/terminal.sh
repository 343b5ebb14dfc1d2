# On a terminal: as wide as it is, coloured unless told not to be, remarks broken between words, and long
# work says how long it takes; in a pipe the same words without any of that.
. "$(dirname "$0")/begin.sh"
command -v script >/dev/null && script --version 2>/dev/null | grep -q util-linux || { echo "skipped: no script(1) of util-linux"; exit 77; }
unset NO_COLOR COLUMNS
escape=$(printf '\033')

# terminal COLUMNS ARGS...: both streams, in ./out
terminal() {
    columns=$1
    shift
    echo "'$bin' $*" >line
    TERM=xterm script -qec "stty cols $columns; $(cat line)" /dev/null </dev/null | tr -d '\r' >out
}
on="builtin:gpt2-nano --text builtin:lighthouse"

# widths
for columns in 50 80 100; do
    terminal $columns measure $on --lengths 8,16 --layers 3 --windows 2 --progress never
    sed "s/$escape\[[0-9;]*m//g" out >bare
    awk -v most=$columns 'length > most { bad = 1 } END { exit bad }' bare || fail "wider than $columns: $(cat bare)"
    cp bare bare-$columns
done
cmp -s bare-50 bare-100 && fail "the width of the terminal changes nothing"

# colour, and the same words without
terminal 80 bounds $on --layers 3 --length 8 --progress never
grep -q "$escape" out || fail "no colour on a terminal"
sed "s/$escape\[[0-9;]*m//g" out >words
NO_COLOR=1
export NO_COLOR
terminal 80 bounds $on --layers 3 --length 8 --progress never
unset NO_COLOR
! grep -q "$escape" out || fail "colour with NO_COLOR"
cmp -s out words || fail "colour says something: $(diff out words)"
"$bin" bounds $on --layers 3 --length 8 >out 2>err
! grep -q "$escape" out || fail "colour in a pipe"
cmp -s out words || fail "a pipe gets other words: $(diff out words)"
empty err

# remarks and errors
cp "$0" script && terminal 50 check script # a path is not broken, however long
awk 'length > 50 { bad = 1 } END { exit bad || NR < 2 }' out || fail "an error is not broken: $(cat out)"
terminal 40 tokens builtin:gpt2-nano builtin:lighthouse
awk 'length > 40 { bad = 1 } END { exit bad || NR < 100 }' out || fail "ids are not broken"

# long work: how far it is and the time left, inside one cell too.  The clock goes on by itself,
# so that nothing is over before a line is due (ten a second), however fast the machine.
long() { # COLUMNS ARGS...: with that clock
    columns=$1
    shift
    echo "exec env LD_PRELOAD='$HURRY_CLOCK' ASAN_OPTIONS=verify_asan_link_order=0 '$bin' $*" >line
    TERM=xterm script -qec "stty cols $columns; $(cat line)" /dev/null </dev/null | tr -d '\r' >out
}
long 80 measure $on --lengths 16,32 --layers 0:5 --windows 6
grep -aqE '[0-9]+ of 72 cells .* left' out || fail "measure says no time left: $(cat out)"
long 100 measure $on --length 64 --layers 3 --windows 1 --dtype f64 --tol 1e-11
grep -aqE '[0-9]+ products  sigma [0-9.]+  residual [0-9.e-]+  about [0-9.]+ (s|min) left' out ||
    fail "measure says no time left inside a cell: $(cat out)"
long 80 perturb $on --length 12 --layers 0,3 --tokens 2 --no-bounds
grep -aqE '[0-9]+ of [0-9]+ changes  [0-9.]+ (s|min) left' out || fail "perturb says no time left: $(cat out)"
long 80 attack builtin:gpt2-nano --layer 3 --heads 0 --length 8 --radius 3 --seconds 100 -o found.st
grep -aqE 'inputs  best sigma .* at most [0-9]+ s left' out || fail "attack says no time left: $(cat out)"
for more in "" "--around 0.001 --relative" "--below 12"; do
    long 80 bounds $on --layers 3 --length 12 $more
    grep -aqE '[0-9]+ of [0-9]+ steps of the bounds  [0-9.]+ (s|min) left' out ||
        fail "bounds $more says no time left: $(cat out)"
done
certify="--certify 1e-6 --certify-seconds 1e9"
long 80 measure $on --lengths 8 --layers 3 --heads 0 --windows 1 $certify
grep -aqE 'certificate \([a-z0-9-]+\)  [0-9]+ %  [0-9]+ s left' out || fail "measure --certify says no time left: $(cat out)"
"$bin" export $on --layer 3 --length 4 -o layer.st -q || fail "export"
long 80 layer layer.st $certify
grep -aqE 'certificate \([a-z0-9-]+\)  [0-9]+ %  [0-9]+ s left' out || fail "layer --certify says no time left: $(cat out)"
long 80 reproduce --quick --only text --out quick
grep -aqE '[0-9]+ of [0-9]+ cells .* left' out || fail "reproduce says no time left: $(cat out)"
# nothing of it where it is not wanted
for quiet in -q "--progress never"; do
    long 80 perturb $on --length 8 --layers 0 --tokens 1 --no-bounds $quiet
    ! grep -aq "changes .* left" out || fail "progress with $quiet"
done
"$bin" perturb $on --length 8 --layers 0 --tokens 1 --no-bounds >out 2>err || fail "perturb"
empty err
finish
