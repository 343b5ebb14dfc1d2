# lower <= sigma <= upper on layers that were answered falsely, or not at all: scores so far
# apart that probabilities are subnormal, and keys that cancel.  The digits are from 80-digit
# arithmetic.
. "$(dirname "$0")/begin.sh"
data=$(dirname "$0")/../data/hard

# encloses FILE DIGITS OPTIONS: by both precisions
encloses() {
    file=$1 digits=$2
    shift 2
    for dtype in f64 f32; do
        run 0 layer "$data/$file.safetensors" --upper --dtype $dtype --format json "$@"
        awk -v l="$(field lower)" -v s="$digits" -v u="$(field upper)" \
            'BEGIN { exit !(l != "null" && u != "null" && l > 0.999 * s && l <= s && s <= u) }' ||
            fail "$file, $dtype: $digits is not in [$(field lower), $(field upper)]"
        [ "$(field rounding)" = null ] || fail "$file: $(field rounding)"
    done
}
encloses saturated-a 8.206670524492315967 --num-heads 2 --causal
encloses saturated-b 36.974242647065157730 --num-heads 2
encloses saturated-c 8.573239417306134029 --causal

# keys that cancel: in plain double their scores are known to 44 only; the projections are
# taken in twice the precision, and what was found is confirmed by the definition
encloses cancellation 1.3557442268862374 --scale 1
awk -v l="$(field lower)" -v u="$(field upper)" 'BEGIN { exit !(u <= 1.001 * l) }' ||
    fail "cancellation: [$(field lower), $(field upper)] is wide"
run 0 layer "$data/cancellation.safetensors" --scale 1 --save-direction top.safetensors
run 0 check top.safetensors --certify --format json
[ "$(field agree)" = true ] || fail "the direction of keys that cancel is not confirmed"

# no precision that we have tells these scores apart: no false digit, and the reason
run 0 layer "$data/tied.safetensors" --scale 1 --upper --format json
[ "$(field lower)" = 0.0 ] || fail "lower $(field lower)"
[ "$(field upper)" = null ] || fail "upper $(field upper)"
[ "$(field upper_prob)" = null ] || fail "upper_prob $(field upper_prob)"
has out 'double precision cannot tell the scores of token'
finish
