# --certify: a proved upper bound as close as asked for, by layer, check and measure; what
# cannot be proved, or costs too much, is said and ends with 3.
. "$(dirname "$0")/begin.sh"
for g in G1 G4 G11 G13; do "$make" $g $g || exit 1; done
"$make" multi multi || exit 1

# proved EPS: the row in ./out has lower <= upper <= (1 + EPS) lower and says how
proved() {
    [ "$(field certified)" = true ] || fail "not certified: $(cat out)"
    awk -v l="$(field lower)" -v u="$(field upper)" -v e="$1" \
        'BEGIN { exit !(l > 0 && u >= l && u <= (1 + e) * l * (1 + 1e-15)) }' ||
        fail "upper $(field upper) is not within $1 of lower $(field lower)"
    [ "$(field certificate)" = '"cholesky"' ] || fail "by $(field certificate)"
    [ "$(field certify_products)" -gt 0 ] || fail "products $(field certify_products)"
}
# between SIGMA: digits that are known lie in [lower, upper]
between() {
    awk -v l="$(field lower)" -v u="$(field upper)" -v s="$1" \
        'BEGIN { exit !(l <= s + 1e-12 && s - 1e-12 <= u) }' ||
        fail "$1 is not in [$(field lower), $(field upper)]"
}
certified() {
    file=$1 digits=$2
    shift 2
    for dtype in f64 f32; do
        run 0 layer "$file" --format json --dtype $dtype --certify "$@"
        proved 1e-3
        between "$digits"
    done
    run 0 layer "$file" --format json --certify 1e-9 "$@"
    proved 1e-9
    between "$digits"
}
certified G1 2.993716248639
certified G1 3.441372507848 --causal
certified G4 8.625871066143
certified G11 1.747921853181
certified G13 1.794099288290

# EPS is the next word only if that is a number
run 0 layer --certify G4 --format json
proved 1e-3
run 0 layer G4 --certify 0.5 --format json
proved 0.5
run 0 layer G4 --certify=1e-6 --format json
proved 1e-6
run 2 layer G4 --certify 0
has err "invalid value '0' for '--certify': expected a positive number"
run 2 layer G4 --certify=wide
has err "invalid value 'wide' for '--certify'"

# what rounding forbids is not certified; the value is there all the same
run 3 layer G4 --certify 1e-17 --format json
[ "$(field certified) $(field certificate)" = 'false null' ] || fail "$(cat out)"
has err "G4: no certificate: sigma could not be shown to be below"
between 8.625871066143

# beyond the limit
run 3 layer G4 --certify --certify-memory 0 --format json
[ "$(field certified)" = false ] || fail "$(cat out)"
has err "beyond the limit of 300 s and 0.00 GiB; --certify-seconds and --certify-memory set"

# a stored direction
run 0 layer multi --num-heads 4 --kv-heads 2 --causal --save-direction top --format json
sigma=$(field sigma)
run 0 check top --certify --format json
proved 1e-3
between "$sigma"
run 3 check top --certify 1e-17 --format json
[ "$(field certified) $(field agree)" = 'false true' ] || fail "$(cat out)"

# models: every map; cells whose certificate was refused are not stored
model="builtin:gpt2-nano --text builtin:lighthouse --layers 3 --length 2 --windows 1"
for map in heads attention norm-attention residual block; do
    run 0 measure $model --map $map --certify --format json
    proved 1e-3
    between "$(field sigma)"
done
run 3 measure $model --certify --certify-seconds 1e-9 --run run.db
has err "beyond the limit of 0 s and 2.00 GiB"
has err "1 of 1 cells have no certificate"
run 0 measure $model --certify --run run.db --format json
proved 1e-3
products=$(field certify_products)
run 0 measure $model --certify --run run.db --format json --certify-memory 0
[ "$(field certify_products)" = "$products" ] || fail "not taken from the run"
run 1 measure $model --certify 1e-4 --run run.db
has err "certify"
run 1 measure $model --run run.db
has err "certify"
finish
