# perturb: ratios under their bounds, small steps as predicted, words, refusals.
. "$(dirname "$0")/begin.sh"
nano="builtin:gpt2-nano --text builtin:lighthouse"

# shellcheck disable=SC2086 # a list of words
run 0 perturb $nano --length 12 --layers 0,3 --tokens 2 --neighbours 1 --format tsv -q
# columns: change layer token from to step ratio first_order sigma upper others logits
awk -F'\t' '
NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{ count[$at["change"]]++ }
$at["ratio"] != "" && $at["upper"] != "" && $at["ratio"] + 0 > $at["upper"] + 0 { print "above its bound: " $0; bad = 1 }
$at["first_order"] != "" && $at["first_order"] > $at["sigma"] * (1 + 1e-6) { print "above sigma: " $0; bad = 1 }
$at["change"] == "noise" && $at["step"] < 0.002 {
    off = $at["ratio"] / $at["first_order"] - 1
    if (off > 0.05 || off < -0.05) { print "not as predicted: " $0; bad = 1 }
    small++
}
$at["layer"] != "" && $at["upper"] == "" { print "no bound: " $0; bad = 1 }
END {
    if (count["swap"] != 6 || count["noise"] != 6 || count["drop"] != 2 || count["duplicate"] != 2 || small != 2) {
        print "rows:", count["swap"], count["noise"], count["drop"], count["duplicate"], small; bad = 1
    }
    exit bad
}' out >why || fail "$(cat why)"

# for people: a line for each layer, words, nothing wider than a terminal
# shellcheck disable=SC2086
run 0 perturb $nano --length 12 --layers 0,3 --tokens 2 --no-bounds --noise 0.01 -q
has out "predicted  bound   step"
has out "o noise, * swap, | sigma, ] bound"
has out "is left out"
has out "is written twice"
[ "$(awk 'length > 80' out | wc -l)" = 0 ] || fail "wider than 80 columns: $(awk 'length > 80' out)"
# shellcheck disable=SC2086
run 0 perturb $nano --length 8 --layers 1 --tokens 1 --rows --no-bounds --seed 3 -q
has out "swap"

# a page beside the table, with the same numbers; where it cannot be written that is said
# shellcheck disable=SC2086
if "$bin" perturb $nano --length 8 --layers 1 --tokens 1 --no-bounds -o changes.html >out 2>err; then
    has err "wrote changes.html"
    has changes.html '"command":"perturb"'
    has changes.html '"text_hash"'
    # shellcheck disable=SC2086
    run 1 perturb $nano --length 8 --layers 1 --tokens 1 --no-bounds --out no/such/folder/a.html -q
    has err "no/such/folder/a.html"
    has out "is left out"
else
    has err "this build writes no pages"
fi

# ids without a tokenizer are told by their numbers, and windows are cut as everywhere
echo "[5, 6, 7, 8, 9, 10, 11, 12]" >some.ids
run 0 perturb builtin:gpt2-nano --ids some.ids --length 4 --window 1 --stride 4 --layers 0 --tokens 1 --no-bounds --format json -q
has out '"change": "drop"'

# what cannot be
# shellcheck disable=SC2086
run 1 perturb $nano --layers 99 -q
has err "there is no layer 99"
run 2 perturb builtin:gpt2-nano
has err "give one of --text and --ids"
run 2 perturb builtin:gpt2-nano --pixels x.safetensors
has err "has no tokens to change"
run 1 perturb builtin:gpt2-nano --text builtin:lighthouse --length 100000 -q
# Ctrl-C is said, and the shell sees the signal
signalled INT 'grep -q " changes " err' perturb builtin:gpt2-nano --text builtin:lighthouse --length 500 --progress always
[ $code = 130 ] || fail "exit $code, not 130, after Ctrl-C"
empty out
has err "lipscope perturb: interrupted"
finish
