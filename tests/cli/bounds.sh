# `bounds`: rows and their order, refusals with reasons, the regime, wrong use.
. "$(dirname "$0")/begin.sh"
for g in G1 G4 G11 G13; do "$make" $g $g || exit 1; done
"$make" multi multi && "$make" times times || exit 1

# cell NAME COLUMN: of the TSV in ./out
cell() {
    awk -F'\t' -v name="$1" -v column="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        $1 == name { print $at[column] }' out
}
# every upper bound in the norm of sigma has ratio >= 1, upwards; refused rows come last
in_order() {
    awk -F'\t' '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["refused"] != "" { refused = 1; if ($at["value"] != "") bad = 1; next }
        refused { bad = 1 }
        $at["kind"] == "upper" && $at["ratio"] != "" {
            if ($at["ratio"] < 1 - 1e-12 || $at["ratio"] < last) bad = 1
            last = $at["ratio"] }
        $at["kind"] == "lower" && $at["domain"] == "input" && $at["ratio"] > 1 + 1e-12 { bad = 1 }
        END { exit bad }' out || fail "rows of '$1' are out of order or wrong"
}

# A = -1, V = 1, R = 1, n = 10 (docs/maths.md 5.1): a = 1
run 0 bounds G1 --format tsv
in_order G1
near "$(cell finite-n sigma)" 2.993716248639 1e-10
near "$(cell finite-n value)" 4.003 2e-4
near "$(cell paper-finite-n value)" 12.369 1e-4
near "$(cell mean-field-w2 value)" 4.8442 1e-4
near "$(cell paper-mean-field value)" 29.556 1e-4
near "$(cell max-token value)" 3 1e-10
[ -z "$(cell max-token ratio)" ] || fail "a ratio in another norm"
near "$(cell one-outlier value)" 2.9937 1e-4
near "$(cell eigenvector value)" 2.9937 1e-4
[ -n "$(cell masked-uniform refused)" ] || fail "masked-uniform without a mask"

run 0 bounds G1 --causal --format tsv
in_order "G1 --causal"
near "$(cell masked-finite-n value)" 4.639 2e-4
near "$(cell masked-uniform value)" 22.166 1e-4
near "$(cell one-outlier value)" 3.4414 1e-4
[ -n "$(cell mean-field-w2 refused)" ] || fail "mean-field-w2 with a mask"

for options in "G4" "G11" "G13" "times --num-heads 4 --kv-heads 2" \
    "multi --num-heads 4 --kv-heads 2 --causal" "multi --num-heads 4 --kv-heads 2 --sliding 3"; do
    run 0 bounds $options --format tsv
    in_order "$options"
done
run 0 bounds G13 --format tsv
[ "$(cell data-columns norm)" = W2 ] || fail "norm of a weighted input"
[ -n "$(cell paper-finite-n refused)" ] || fail "paper-finite-n with weights"

# the regime, and a bound that only has a logarithm
run 0 bounds G1 --format json
has out '"name": "mean_field"'
near "$(field log_crossover)" 2 1e-10
near "$(field delta)" 2 1e-9
run 0 bounds G1 --radius 40 --format tsv
[ -z "$(cell mean-field-w2 value)" ] || fail "e^1600 as a double"
near "$(cell mean-field-w2 log_value)" 1607.378 1e-6
run 0 bounds G1 --radius 40 --format json
has out '"crossover": null'
# the ball of radius 40 is far from the mean field, the same ten tokens are in it: their
# scores are +-1, so that a row cannot prefer a token by more than e^2 < 10
has out '"name": "sqrt_n"'
has out '"input": "mean_field"'
near "$(field spread)" 2 1e-12
run 0 bounds G1
has out "regime mean_field"
tr '\n' ' ' <out >line
has line "which differ by at most 2.00 in a row of that head, this input is mean_field"

# a neighbourhood: between the input and the ball, and it holds at what an attack finds there
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal --around 0.001 --relative --format tsv
in_order "multi --around"
[ "$(cell around domain)" = around ] || fail "domain of around"
small=$(cell around value) point=$(cell data-columns value) radius=$(cell around radius)
awk -v a="$small" -v b="$point" 'BEGIN { exit !(a > 0 && a <= 1.2 * b) }' ||
    fail "around $small is not close to $point"
awk -v a="$small" -v b="$(cell masked-finite-n value)" 'BEGIN { exit !(10 * a < b) }' ||
    fail "around $small is not far below the ball"
run 0 attack multi --num-heads 4 --kv-heads 2 --causal --domain around --radius 0.001 --relative \
    --restarts 2 --iterations 20 --format json
near "$(field radius)" "$radius" 1e-12
near "$(field upper)" "$small" 1e-9
awk -v a="$(field sigma)" -v b="$small" 'BEGIN { exit !(a <= b) }' || fail "attack above around"
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal --around "$radius" --format tsv
near "$(cell around value)" "$small" 1e-9
# the largest radius below a limit gives that limit back, and a larger one does not
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal --below 80 --format tsv
radius=$(cell around radius)
near "$(cell around value)" 80 5e-3
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal --around "$radius" --format tsv
awk -v a="$(cell around value)" 'BEGIN { exit !(a <= 80) }' || fail "not below 80 at $radius"
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal \
    --around "$(awk -v r="$radius" 'BEGIN { print 1.01 * r }')" --format tsv
awk -v a="$(cell around value)" 'BEGIN { exit !(a > 80) }' || fail "below 80 beyond $radius"
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal --below 80
has out "sigma is at most 80 wherever no token moves by more than"
# one sentence on top; refused bounds are counted, and told with --rows
has out "The tightest bound at this"
has out "do not apply here; --rows says why"
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal --rows
has out "refused"
has out "holds without a mask"
run 0 bounds multi --num-heads 4 --kv-heads 2 --causal --below 80 --format json
near "$(field below)" 80 0
# a trained layer: close to the bound at the input, above an attack, far below the ball
trained="builtin:gpt2-nano --text builtin:lighthouse --layers 3 --length 8 --heads 5"
run 0 bounds $trained --around 0.001 --relative --format json
bound=$(field value | awk 'END { print }')
awk -v a="$bound" -v b="$(field point)" 'BEGIN { exit !(a > 0 && a <= 1.2 * b) }' ||
    fail "around $bound is not close to the bound at the point"
awk -v a="$bound" -v b="$(field ball)" 'BEGIN { exit !(50 * a < b) }' || fail "not far below the ball"
run 0 attack $trained --domain around --radius 0.001 --relative --restarts 2 --iterations 9 --format json
awk -v a="$(field sigma)" -v b="$bound" 'BEGIN { exit !(a > 0 && a <= b) }' ||
    fail "attack on a trained layer above its bound"
run 1 bounds G1 --below 1
has err "the bound at the input itself"
run 0 bounds G1 --format json
has out '"around": null'
run 2 bounds G1 --around -1
run 2 bounds G1 --around 1 --below 9
has err "leave out --around"
run 2 bounds G1 --around 1 --radius 3
has err "leave out --radius"
run 2 bounds G1 --relative
has err "--relative goes with"

# wrong use
run 1 bounds G1 --radius 0.5
has err "outside the ball"
run 2 bounds G1 --radius -1
has err "--radius"
run 2 bounds G1 --radius layernorm
has err "needs a model"
run 2 bounds G1 --p 0.5
run 2 bounds
run 1 bounds absent
has err "absent: no such file or folder, and no model of that name in the Hugging Face cache"
run 1 bounds absent.safetensors
has err "absent.safetensors: cannot open"

# saturated rows have their bounds from the data; where scores cannot be told apart each of
# them is there, refused with the reason
data=$(dirname "$0")/../data/hard
run 0 bounds "$data/saturated-b.safetensors" --num-heads 2 --format tsv
for name in data-columns data-rows data-joint; do
    [ -n "$(cell $name value)" ] || fail "$name of saturated rows"
done
run 0 bounds "$data/cancellation.safetensors" --scale 1 --format tsv
for name in data-columns data-rows data-joint; do
    near "$(cell $name value)" 1.3557442268862374 0.03
done
run 0 bounds "$data/tied.safetensors" --scale 1 --format tsv
for name in data-columns data-rows data-joint; do
    [ -z "$(cell $name value)" ] || fail "$name where scores cannot be told apart"
    case $(cell $name refused) in
    *"cannot tell the scores"*) ;;
    *) fail "$name is refused without its reason" ;;
    esac
done

# one estimate before the work, where it is long
until_said "lipscope bounds: about" bounds random:gpt2 --layer 0 --text builtin:lighthouse --length 1000 --threads 1 --progress always
! grep -q "steps of the bounds" err || fail "the estimate comes after the first steps"
run 0 bounds builtin:gpt2-nano --layer 0 --text builtin:lighthouse --length 16 --progress always
! grep -q "about .* in all\|lipscope bounds: about" err || fail "an estimate of short work"
hurried run 0 bounds builtin:gpt2-nano --layer 0 --text builtin:lighthouse --length 16 --progress always
has err "steps of the bounds"
has err "left"
finish
