# Values of `layer` against known digits, whatever the order of options, the precision and
# the number of threads.
. "$(dirname "$0")/begin.sh"
for g in G1 G4 G11 G13; do "$make" $g $g || exit 1; done
"$make" multi multi && "$make" heads heads && "$make" times times || exit 1

# golden FILE DIGITS OPTIONS: 1e-10 in f64, where the digits end; 1e-5 of an f32 solve
golden() {
    file=$1 digits=$2
    shift 2
    run 0 layer "$file" --format json "$@"
    near "$(field sigma)" "$digits" 1e-10
    near "$(field lower)" "$(field sigma)" 1e-12
    awk -v l="$(field lower)" -v s="$(field sigma)" 'BEGIN { exit !(l < s) }' ||
        fail "lower $(field lower) is not below sigma $(field sigma)"
    run 0 layer "$file" --format json --dtype f32 "$@"
    near "$(field sigma)" "$digits" 1e-5
}
golden G1 2.993716248639
golden G1 3.441372507848 --causal
golden G4 8.625871066143
golden G4 8.839040401892 --causal
golden G11 1.747921853181
golden G11 2.314757266577 --causal
golden G13 1.794099288290

# a window as long as the sequence is the causal mask; of one token it is the value map
golden G1 3.441372507848 --sliding 10
run 0 layer G1 --sliding 1 --format json
near "$(field sigma)" 1 1e-12
[ "$(field mask)" = '"sliding"' ] || fail "mask $(field mask)"

# options before and after the operand, solvers, more values than one
run 0 layer --causal --format json G11
near "$(field sigma)" 2.314757266577 1e-10
for solver in power dense lanczos; do
    run 0 layer G11 --solver $solver --max-products 20000 --format json
    near "$(field sigma)" 1.747921853181 1e-10
done
run 0 layer G11 --count 3 --format tsv
sigmas=$(awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
                     NR == 2 { print $at["sigmas"] }' out)
echo "$sigmas" | awk -F, '{ exit !(NF == 3 && $1 >= $2 && $2 >= $3 && $3 > 0) }' ||
    fail "sigmas $sigmas"
near "${sigmas%%,*}" 1.747921853181 1e-10

# every head grouping, map and mask gives a value between its bounds
for options in "multi" "multi --causal" "heads" "times"; do
    run 0 layer $options --num-heads 4 --kv-heads 2 --upper --format json
    awk -v s="$(field sigma)" -v u="$(field upper)" -v p="$(field upper_prob)" \
        'BEGIN { exit !(s > 0 && s <= u && (p == "null" || s <= p)) }' ||
        fail "$options: sigma $(field sigma) upper $(field upper) $(field upper_prob)"
    exact=$(field sigma)
    run 0 layer $options --num-heads 4 --kv-heads 2 --solver dense --format json
    near "$(field sigma)" "$exact" 1e-9
done
[ "$(field mask)" = '"times"' ] || fail "mask $(field mask)"
run 0 layer heads --num-heads 4 --kv-heads 2 --format json
[ "$(field map)" = '"heads"' ] || fail "map $(field map)"

# what the paper's scripts return; it has no meaning with weights
run 0 layer G1 --as-released --format json
near "$(field released)" "$(field released)" 0
run 1 layer G13 --as-released
is err "lipscope layer: G13: --as-released has no meaning with tensor 'weights'"

# the same seed gives the same printed value with 1 and 2 threads, in every digit
for dtype in f64 f32; do
    run 0 layer multi --num-heads 4 --kv-heads 2 --dtype $dtype --threads 1 --format json
    one=$(field sigma)
    run 0 layer multi --num-heads 4 --kv-heads 2 --dtype $dtype --threads 2 --format json
    [ "$one" = "$(field sigma)" ] || fail "$dtype: 1 thread $one, 2 threads $(field sigma)"
done

# --max-sigma, for use in CI
run 0 layer G1 --max-sigma 3
run 4 layer G1 --max-sigma 2.5
has err "sigma 2.99371624863"
has err "exceeds --max-sigma 2.5"
run 4 layer G1 --max-sigma 0.1 # as it was typed
has err "exceeds --max-sigma 0.1"
! grep -q "0.1000" err || fail "digits that nobody typed: $(cat err)"
has out "sigma" # the row is printed all the same

# one estimate before the solve, where it is long; none of a short one
"$make" vast vast && "$make" multi multi || exit 1
until_said "lipscope layer: about" layer vast --num-heads 4 --kv-heads 2 --threads 1 --progress always
tr '\r' '\n' <err | head -1 >first
grep -q "^lipscope layer: about [0-9.]* \(s\|min\|h\)" first || fail "no estimate first: $(cat err)"
rm vast
run 0 layer multi --num-heads 4 --kv-heads 2 --progress always
! grep -q "lipscope layer: about" err || fail "an estimate of a short solve"

# what is left of a solve, as its residual falls
run 0 export builtin:gpt2-nano --layer 3 --text builtin:lighthouse --length 64 -o long.safetensors -q
hurried run 0 layer long.safetensors --progress always
has err "residual"
has err " left"
run 0 export builtin:gpt2-nano --layer 3 --text builtin:lighthouse --length 12 -o short.safetensors -q
hurried run 0 layer short.safetensors --certify --certify-seconds 1e9 --progress always
has err "certificate ("
has err " s left"
finish
