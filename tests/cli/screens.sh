# Screens of sigma: measure, layer, compare, distance.
. "$(dirname "$0")/nano.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/begin.sh"
. "$here/screen.sh"

on="builtin:gpt2-nano --text builtin:lighthouse"
screen measure 0 measure $on --windows 6
screen measure-short 0 measure $on --lengths 8:32:x2 --windows 2 --layers 0,3
screen measure-heads 0 measure $on --lengths 16,32 --windows 0:1 --layer 3 --heads each --upper
screen measure-details 0 measure $on --length 16 --windows 3 --layers 2,3 --details --sink --count 3 --as-released
screen measure-model 0 measure $on --length 16 --windows 2 --map model
screen measure-certify 0 measure $on --length 8 --windows 1 --layers 1,3 --certify 1e-6
"$make" multi multi || exit 1
screen layer 0 layer multi --num-heads 4 --kv-heads 2 --causal --upper
for which in causal none; do
    "$bin" measure $on --lengths 8,16 --windows 6 --layers 0,3 --mask $which --label "mask $which" --run $which.db -q >out ||
        fail "measure --run $which.db"
done
has out "mask none: builtin:gpt2-nano on builtin:lighthouse"
screen compare 0 compare causal.db none.db
screen compare-above 4 compare none.db causal.db --fail-above 1.2
finish
