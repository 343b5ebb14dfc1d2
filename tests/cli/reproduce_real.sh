# reproduce on real weights: the adversarial GPT-2 figure against values by PyTorch in
# float64, and the encoder curves of all-MiniLM-L6-v2 against transformers.
. "$(dirname "$0")/shared.sh"
. "$(dirname "$0")/begin.sh"
gpt2=$shared/models/gpt2-attention bert=$shared/models/all-MiniLM-L6-v2
for need in "$gpt2" "$bert" "$shared/references"; do
    [ -d "$need" ] || { echo "skipped: no $need"; exit 77; }
done
run 0 reproduce --quick --only text --bert "$bert" --gpt2 "$gpt2" --text "$text" --out paper -q
empty err
run 0 reproduce --quick --only adversarial --bert "$bert" --gpt2 "$gpt2" --text "$text" --out paper -q
empty err

# known CASE N FIELD: a number of gpt2-adversarial.json, one member per line there
known() {
    awk -v want="\"$1\"," -v n="$2," -v field="\"$3\":" '$1 == "\"name\":" { inside = $2 == want }
        $1 == "\"n\":" { here = inside && $2 == n }
        here && $1 == field { sub(/,/, "", $2); print $2; exit }' \
        "$shared/references/gpt2-adversarial.json"
}
# told EXPERIMENT N COLUMN
told() {
    awk -F'\t' -v who="$1" -v n="$2" -v name="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["experiment"] == who && $at["n"] == n { print $at[name]; exit }' paper/curves.tsv
}
# The sign of an eigenvector is LAPACK's choice: the stored u is one of ours.  1e-7 as in
# real.adversarial.
for pair in "released:released slice" "head0:head 0"; do
    case=${pair%%:*} name="adversarial decoder, ${pair#*:}"
    sign=
    for s in u -u; do
        awk -v a="$(told "$name, $s" 17 sigma)" -v b="$(known "$case" 17 sigma)" \
            'BEGIN { exit !(a != "" && (a - b) ^ 2 < (1e-7 * b) ^ 2) }' && sign=$s
    done
    [ -n "$sign" ] || fail "$name: sigma $(told "$name, u" 17 sigma) or $(told "$name, -u" 17 sigma), not $(known "$case" 17 sigma)"
    for n in 2 17 32; do
        near "$(told "$name, $sign" $n sigma)" "$(known "$case" $n sigma)" 1e-7
        near "$(told "$name, $sign" $n released)" "$(known "$case" $n released)" 1e-7
    done
done

# The encoder: layers 0 and 3; an f32 solve is good to 1e-6, the weights are stored in half
# precision by both.  The stored windows follow one another, ours start every 32 tokens, the
# longest length: window 1 of length 8 is not among the stored ones.
cell() { # FIELD LAYER N WINDOW
    awk -v l="$2," -v n="$3," -v w="$4," -v field="\"$1\":" '
        $1 == "\"n\":" { right = $2 == n } $1 == "\"window\":" { right = right && $2 == w }
        $1 == "\"layer\":" { right = right && $2 == l }
        right && $1 == field { sub(/,/, "", $2); print $2; exit }' \
        "$shared/references/all-MiniLM-L6-v2.json"
}
for layer in 0 3; do
    for place in "8 0" "32 0" "32 1"; do
        set -- $place
        mine=$(awk -F'\t' -v l=$layer -v n=$1 -v w=$2 '$1 == "encoder" && $3 == l && $6 == n && $7 == w { print $8 }' paper/curves.tsv)
        near "$mine" "$(cell sigma $layer $1 $2)" 1e-5
        mine=$(awk -F'\t' -v l=$layer -v n=$1 -v w=$2 '$1 == "encoder" && $3 == l && $6 == n && $7 == w { print $9 }' paper/curves.tsv)
        near "$mine" "$(cell released_estimate $layer $1 $2)" 1e-5
    done
done
[ "$(told encoder 8 start) $(awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
    $1 == "encoder" && $6 == 8 && $7 == 1 { print $at["start"]; exit }' paper/curves.tsv)" = "0 32" ] ||
    fail "windows of length 8 do not start every 32 tokens"
# the map of the released script has its own curves; words that were wrapped are joined
tr -s ' \n' ' ' <out >joined && mv joined out
has out "encoder with residual and norm, layer 3: |J^T f|^(1/2), as released"
has out "46.9 sqrt(n) drawn (GPT-2)"
finish
