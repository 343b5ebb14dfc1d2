# reproduce on what is built in: the closing table, whose claim each line is, its files,
# kill -9, other settings, a broken promise, bad folders.
. "$(dirname "$0")/begin.sh"
command -v timeout >/dev/null || { echo "skipped: no timeout(1)"; exit 77; }

# killed again and again without warning, the same command comes to the end
tries=0 code=137
while [ $code = 137 ] && [ $tries -lt 20 ]; do
    timeout -s KILL $((1 + tries * tries / 4)) "$bin" reproduce --quick --out paper -q >out 2>err
    code=$?
    tries=$((tries + 1))
done
[ $code = 0 ] || fail "exit $code after $tries tries: $(cat err)"
[ $tries -gt 1 ] || echo "note: it was faster than the first kill"
empty err
has out "theorem of the paper     0 hold, 0 do not, "
has out "draws no conclusions"
for file in run.db report.html claims.tsv fits.tsv curves.tsv constructions.tsv; do
    [ -s "paper/$file" ] || fail "no $file"
done
cp out first

# the same again reads what is there; another thread count and format give the same lines
run 0 reproduce --quick --out paper -q
cmp -s out first || fail "a finished run prints something else"
run 0 reproduce --quick --out paper --threads 1 --format tsv -q
cmp -s out paper/claims.tsv || fail "claims.tsv is not the table"
run 0 reproduce --quick --out other --run other.db --seed 1 --progress never --format tsv
has err "adversarial inputs"
cut -f1-7 out >again
cut -f1-7 paper/claims.tsv >whole
cmp -s again whole || { fail "a run without a kill has other lines:"; diff again whole | head -5; }
[ -s other.db ] || fail "--run FILE was not written"

# every section of the theory has its lines, every line a source
for section in 1.4 1.7 2 3 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 3.10 3.11 3.12 3.13 3.14 5.1 5.2 5.3 5.4 5.5 6 8; do
    cut -f1 paper/claims.tsv | grep -qx "$section" || fail "no line of section $section"
done
cut -f3 paper/claims.tsv | sed 1d | grep -vxF -e "theorem of the paper" -e "figure of the paper" \
    -e "theorem proved here" -e "regression of our own" && fail "a line without a source"

# line NAME COLUMN: of claims.tsv in $table
table=paper/claims.tsv
line() {
    awk -F'\t' -v name="$1" -v column="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $2 == name { print $at[column]; exit }' $table
}
# says NAME COLUMN TEXT
says() { case $(line "$1" "$2") in *"$3"*) ;; *) fail "$1: $2 is '$(line "$1" "$2")', not '$3'" ;; esac; }
# the quick form draws no conclusions: a counterexample would be `no`, nothing is `yes`
cut -f7 paper/claims.tsv | sed 1d | grep -vx "not judged" && fail "a conclusion of the quick form"
# what was not seen of the paper is said; its figures are judged on its own models only
for name in paper-finite-n paper-mean-field paper-masked paper-lower large-radius-root; do
    says $name source "theorem of the paper"
    says $name origin "not seen"
done
says paper-masked unmet "its constant was not seen"
says "growth-defined: decoder, layer 3" unmet "not the paper's model"
says "adversarial-defined: adversarial encoder, layer 0" unmet "is above e^Delta"
# two windows are too few for an interval, and that is said; they start alike
says "growth-defined: decoder, layer 3" measured "[no interval]"
awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $1 == "decoder" && $at["start"] != 32 * $at["window"] { exit 1 }' paper/curves.tsv ||
    fail "windows of reproduce do not start every 32 tokens"
# our own numbers are regressions
for name in S1-gain S2 one-outlier-table finite-n-tight two-diracs-table few-diracs masked-table \
    outlier-last d2-hardy sphere regimes released-outlier "mask: decoder"; do
    says "$name" source "regression of our own"
done

# The theory in its full form: seconds.  All of it holds, and nothing is judged silently.
for part in split basics lemmas worst mean-field regimes released; do
    run 0 reproduce --only $part --out theory -q
    empty err
done
table=theory/claims.tsv
awk -F'\t' 'NR > 1 && $7 != "yes" { print $2 }' $table >open
is open prior-improved
says third-atom measured "44.46"
says third-atom measured "30.50"
near "$(line third-atom value)" 1.4578 1e-3
says few-diracs measured "3.0687 found with three atoms, 3.0687 with two"
near "$(line masked-passes value)" 5.71585 1e-5
awk -v v="$(line masked-limit value)" 'BEGIN { exit !(v > 1.01) }' || fail "masked-limit is passed"
says not-lipschitz measured "6.667e+05 at R = 1, 10, 100, 1000"
says duplication source "theorem of the paper"
says unequal-masses source "theorem of the paper"
says prior-elementary holds yes
says prior-improved unmet "were not seen"
says embedding measured "W_2 at most"
# how tight a bound is, where that says something: never the equality at a = 0 or n = 1
table=paper/claims.tsv
for name in data-columns data-rows elementary rows finite-n atoms mean-field-w2 max-token masked-finite-n; do
    says $name measured "where n >= 2 and a >= 0.5"
    case $(line $name measured) in *1.0000*) fail "$name: $(line $name measured)" ;; esac
done
# a window of text: with and without LayerNorm, every token twice
says layernorm measured "on the same tokens without one"
says layernorm-ball measured "R_LN = "
says duplicated-text measured "written twice and moved"
says bounds-encoder measured "this input mean_field"

# encoder and decoder, trained and random, as defined and as released
for who in "decoder, layer 3: sigma" "decoder random, layer 3: |J^T f|" \
    "encoder random, layer 0: sigma" "encoder random with residual" "adversarial decoder"; do
    has first "$who"
done
has first "As defined, sigma ~ "
awk -F'\t' '$7 == "not judged" && $6 == "" { exit 1 }' paper/claims.tsv || fail "no reason given"
has paper/fits.tsv "lack_of_fit"
run 0 reproduce --quick --out paper --format json -q
has out '"command": "reproduce"'
has out '"fits": ['

# a promise that is broken on purpose is seen: theorems, bounds, lemmas, constructions,
# regressions; in the quick form too, where nothing else is judged
spoil() { # PART NAME...
    part=$1
    shift
    for name; do
        run 1 reproduce --quick --only "$part" --spoil "$name" --out "spoilt-$name" -q
        has err "lipscope reproduce: $name does not hold: "
        awk -F'\t' -v name="$name" 'NR > 1 && ($7 == "no") != ($2 == name) { exit 1 }
            $2 == name { seen = 1 } END { if (!seen) exit 1 }' \
            "spoilt-$name/claims.tsv" || fail "--spoil $name is not the one line that fails"
    done
}
spoil split splitting-theorem S2 duplication teleport-cover
spoil basics embedding embedding-masked not-lipschitz prior-lower prior-elementary
spoil bounds data-columns paper-finite-n paper-mean-field finite-n masked-uniform max-token rotary
spoil lemmas row-lemma hardy-lemma norm-here paper-global
spoil worst one-outlier-reached two-outliers-below paper-lower
spoil mean-field w1-sharp masked-below every-scale third-atom masked-limit masked-passes unequal-masses
spoil regimes large-radius regimes
spoil layers layernorm-ball duplicated-text
run 1 reproduce --quick --spoil nonsense --only split --out spoilt -q
has err "lipscope reproduce: spoil nonsense: no line has this name"
run 1 reproduce --quick --only split --spoil S1 --out paper -q
has err 'paper/run.db: made with another setting: spoil is null there and "S1" here'

# a file of the first edition has other windows under the same names
cp paper/run.db first.db
sqlite3 first.db "UPDATE run SET settings = json_remove(settings, '\$.tiled')"
run 1 reproduce --quick --out paper --run first.db -q
has err "first.db: made with another setting: tiled is true there and false here"

# another seed, text or model does not mix
run 1 reproduce --quick --out paper --seed 2 -q
has err "paper/run.db: made with another setting: seed is 1 there and 2 here"
run 1 reproduce --out paper -q
has err "paper/run.db: made with another setting: quick is true there and false here"
awk 'BEGIN { for (i = 0; i < 400; i++) print "the tide came in and the tide went out" i }' >tide.txt
run 1 reproduce --quick --out paper --text tide.txt -q
has err "paper/run.db: made with another setting: text_hashes is "

# how far the trials are that are no sweep, and what is left
for part in split bounds; do
    run 0 reproduce --quick --only $part --out told --progress always --threads 1
    has err " s left"
    ! grep -q "lipscope reproduce: about" err || fail "an estimate of short work: $(cat err)"
done
until_said "adversarial .*, n = [0-9]*  about [0-9]* s left" reproduce --threads 1 --progress always --only adversarial --out lengths
# one estimate of the whole before the first part, where it is long
until_said "splitting" reproduce --threads 1 --progress always --out entire --text tide.txt --text tide.txt --text tide.txt --text tide.txt
head -1 err | grep -q "^lipscope reproduce: about [0-9.]* \(s\|min\|h\)" || fail "no estimate first: $(cat err)"

# two texts, and folders in place of what is built in
nano=$(cd "$(dirname "$bin")/data/gpt2-nano" && pwd)
run 0 reproduce --quick --only text --out two --text tide.txt --text tide.txt --gpt2 "$nano" -q
has out "decoder, text 2, layer 3: sigma, as defined"
has out "exponents of sigma from "
run 1 reproduce --quick --out two --bert "$nano" -q
has err "a model of kind gpt2 cannot stand for BERT"

# what is not there
run 1 reproduce --quick --out none --bert nowhere
has err "nowhere"
[ ! -e none ] || fail "a folder was made before the models were looked at"
run 1 reproduce --quick --out none --text nowhere.txt
has err "nowhere.txt: cannot open"
run 1 reproduce --quick --out no/such/parent -q
has err "no/such/parent: cannot make this folder: No such file or directory"
echo hello >file
run 1 reproduce --quick --out file -q
has err "file: cannot make this folder: a file of that name is there"
echo tiny >tiny.txt
run 1 reproduce --quick --only text --text tiny.txt --out tiny -q
has err "tiny.txt: 4 tokens are shorter than one window of length 8"
run 2 reproduce --quick --text - --out none -q
has err "cannot come from standard input"
run 2 reproduce --quick operand
has err "extra operand 'operand'"
mkdir closed && chmod 555 closed
if [ "$(id -u)" != 0 ]; then
    run 1 reproduce --quick --out closed -q
    has err "closed/run.db: cannot write beside it: "
elif command -v setpriv >/dev/null && chmod 755 . &&
    setpriv --reuid=65534 --clear-groups test -r "$(dirname "$bin")/data/gpt2-nano/config.json" \
        2>/dev/null; then # a home that others may not enter
    setpriv --reuid=65534 --clear-groups "$bin" reproduce --quick --out "$PWD/closed" >out 2>err &&
        fail "a read-only folder was written"
    has err "Permission denied"
fi
chmod 755 closed
finish
