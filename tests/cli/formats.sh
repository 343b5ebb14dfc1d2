# The three formats: fields and their order as the contract says, nulls, escapes.
. "$(dirname "$0")/begin.sh"
"$make" G1 g1 || exit 1
names="model architecture layer head map mask n window sigma lower upper upper_prob \
probability residual products converged dtype radius_rms radius_max seconds rounding"

run 0 layer g1 --format json --count 2 --as-released
empty err
want="lipscope schema command rows $names sigmas released"
got=$(sed -n 's/^ *"\([a-z_]*\)": .*/\1/p' out | tr '\n' ' ')
[ "$got" = "$want " ] || fail "fields are $got"
[ "$(head -n 2 out)" = '{
  "lipscope": "0.1.0",' ] || fail "first lines"
[ "$(field schema)" = 1 ] && [ "$(field command)" = '"layer"' ] || fail "head of the object"
[ "$(field model)" = '"g1"' ] && [ "$(field architecture)" = '"layer"' ] || fail "names"
for null in layer head window upper rounding; do
    [ "$(field $null)" = null ] || fail "$null is $(field $null)"
done
[ "$(field map)" = '"heads"' ] && [ "$(field mask)" = '"none"' ] || fail "map, mask"
[ "$(field n)" = 10 ] && [ "$(field converged)" = true ] || fail "n, converged"
[ "$(field dtype)" = '"f64"' ] && [ "$(field probability)" = 0.999 ] || fail "dtype"
near "$(field radius_rms)" 1 1e-15
near "$(field radius_max)" 1 1e-15
! grep -qiE '[^a-z](nan|inf)[^a-z]' out || fail "a NaN was printed"

run 0 layer g1 --format tsv
[ "$(head -n 1 out)" = "$(echo "$names" | sed 's/  */	/g')" ] || fail "TSV header"
[ "$(wc -l <out)" -eq 2 ] || fail "TSV lines"
awk -F'\t' 'NF != 21 { exit 1 } NR == 2 { exit !($3 == "" && $11 == "" && $16 == "true") }' \
    out || fail "TSV row"

run 0 layer g1
awk 'NR == 1 { first = $0 } $1 == "sigma" && $2 == "2.99372" { s = 1 } $2 == "-" { empty = 1 }
     END { exit !(s && !empty && first ~ /^sigma is 2.994: /) }' out || fail "table"

# a file name with a tab, a quote, a backslash and bytes that are not UTF-8
odd=$(printf 'a\t"\\\377')
cp g1 "$odd"
run 0 layer "$odd" --format json
[ "$(field model)" = "$(printf '"a\\t\\"\\\\\357\277\275"')" ] || fail "JSON $(field model)"
run 0 layer "$odd" --format tsv
awk -F'\t' 'NF != 21 { exit 1 }' out || fail "a tab in a name breaks the TSV"

# JSON numbers keep 17 digits: two runs give the same double
run 0 layer g1 --format json
sigma=$(field sigma)
run 0 layer g1 --format json --threads 1
[ "$(field sigma)" = "$sigma" ] || fail "sigma $(field sigma), before $sigma"
finish
