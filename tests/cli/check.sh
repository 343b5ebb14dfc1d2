# `layer --save-direction` and `check`: a stored value is confirmed, a changed one is not.
. "$(dirname "$0")/begin.sh"
for kind in multi heads times G1 G13; do "$make" $kind $kind || exit 1; done

# saved NAME OPTIONS...: solve, store, confirm by the definition
saved() {
    run 0 layer "$@" --save-direction top --format json
    sigma=$(field sigma) map=$(field map) mask=$(field mask) n=$(field n)
    run 0 check top --format json
    near "$(field sigma)" "$sigma" 1e-9
    near "$(field stored)" "$sigma" 0
    [ "$(field agree)" = true ] || fail "$*: does not agree"
    [ "$(field map) $(field mask) $(field n)" = "$map $mask $n" ] || fail "$*: $(cat out)"
}
saved G1
saved G1 --causal --scale 0.7
saved G13
saved multi --num-heads 4 --kv-heads 2
saved multi --num-heads 4 --kv-heads 2 --sliding 5 --count 3
saved heads --num-heads 4 --kv-heads 2 --causal --dtype f32
saved times --num-heads 4 --kv-heads 2
got=$(sed -n 's/^ *"\([a-z_]*\)": .*/\1/p' out | tr '\n' ' ')
[ "$got" = "lipscope schema command rows file n map mask stored sigma residual agree " ] ||
    fail "fields are $got"
awk -v r="$(field residual)" 'BEGIN { exit !(r >= 0 && r < 1e-6) }' ||
    fail "residual $(field residual)"

# a direction file is a layer file as well
run 0 layer top --format json
near "$(field sigma)" "$sigma" 1e-9

"$make" tamper top changed || exit 1
run 1 check changed --format json
[ "$(field agree)" = false ] || fail "agree is $(field agree)"
has err "lipscope check: changed: the stored sigma"

# the first number of the data changed: another input, or another weight
data=$(($(od -An -tu4 -N4 top) + 8))
size=$(wc -c <top)
head -c $data top >flipped
printf '\001\002\003\004\005\006\007\100' >>flipped
tail -c $((size - data - 8)) top >>flipped
run 1 check flipped

# notes that lie about the model: each is named
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --map block --mask none --layer 1 --length 8 --windows 1 \
    --save-direction block -q
run 0 check block --model builtin:gpt2-nano
lies() { # EXIT SED-COMMAND SENTENCE: as many bytes as before
    LC_ALL=C sed "$2" block >lying
    [ "$(wc -c <lying)" = "$(wc -c <block)" ] && ! cmp -s lying block || fail "$2 changed nothing, or the size"
    run "$1" check lying --model builtin:gpt2-nano
    has err "lipscope check: lying: $3"
}
lies 1 's/"layer":"1"/"layer":"9"/' "metadata 'layer' names no layer of the model"
lies 1 's/"mask_override":"none"/"mask_override":"nine"/' "metadata 'mask_override' is neither none nor causal"
lies 5 "s/\"model_hash\":\"[0-9a-f]*\",/$(printf '%80s' '')/" "cannot be checked: it does not say of which model its map is"

# a place that cannot be written is named
run 1 layer G1 --save-direction no/such/folder
has err "no/such/folder"
finish
