# reproduce on what is built in: the closing table, its files, kill -9, other settings, a
# broken promise, bad folders.
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
has out "Theorems: "
has out " hold, 0 do not."
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

# every section of the theory has its lines, and all theorems hold
awk -F'\t' 'NR > 1 && $3 == "theorem" && $7 != "yes" { print; bad = 1 } END { exit bad }' \
    paper/claims.tsv || fail "a theorem does not hold"
for section in 2 3 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 3.10 3.11 3.12 3.13 3.14 5.1 5.2 5.3 5.4 5.5 6 8; do
    cut -f1 paper/claims.tsv | grep -qx "$section" || fail "no line of section $section"
done
# encoder and decoder, trained and random, as defined and as released
for who in "decoder, layer 3: sigma" "decoder random, layer 3: |J^T f|" \
    "encoder random, layer 0: sigma" "encoder random with residual" "adversarial decoder"; do
    has first "$who"
done
has first "As defined, sigma ~ "
awk -F'\t' '$7 == "not tested" && $6 == "" { exit 1 }' paper/claims.tsv || fail "no reason given"
run 0 reproduce --quick --out paper --format json -q
has out '"command": "reproduce"'
has out '"fits": ['

# a promise that is broken on purpose is seen: bounds, lemmas, theorems, constructions
spoil() { # PART NAME...
    part=$1
    shift
    for name; do
        run 1 reproduce --quick --only "$part" --spoil "$name" --out "spoilt-$name" -q
        has err "lipscope reproduce: $name does not hold: "
        awk -F'\t' -v name="$name" 'NR > 1 && $3 == "theorem" && ($7 == "no") != ($2 == name) { exit 1 }
            $2 == name { seen = 1 } END { if (!seen) exit 1 }' \
            "spoilt-$name/claims.tsv" || fail "--spoil $name is not the one line that fails"
    done
}
spoil split splitting-theorem S2
spoil bounds data-columns paper-finite-n paper-mean-field finite-n masked-uniform max-token rotary
spoil lemmas row-lemma hardy-lemma norm-here
spoil worst one-outlier-reached two-outliers-below
spoil mean-field w1-sharp masked-below every-scale
spoil regimes large-radius
run 1 reproduce --quick --spoil nonsense --only split --out spoilt -q
has err "lipscope reproduce: --spoil nonsense: no line has this name"
run 1 reproduce --quick --only split --spoil S1 --out paper -q
has err 'paper/run.db: made with another setting: spoil is null there and "S1" here'

# another seed, text or model does not mix
run 1 reproduce --quick --out paper --seed 2 -q
has err "paper/run.db: made with another setting: seed is 1 there and 2 here"
run 1 reproduce --out paper -q
has err "paper/run.db: made with another setting: quick is true there and false here"
awk 'BEGIN { for (i = 0; i < 400; i++) print "the tide came in and the tide went out" i }' >tide.txt
run 1 reproduce --quick --out paper --text tide.txt -q
has err "paper/run.db: made with another setting: text_hashes is "

# two texts, and folders in place of what is built in
nano=$(cd "$(dirname "$bin")/data/gpt2-nano" && pwd)
run 0 reproduce --quick --only text --out two --text tide.txt --text tide.txt --gpt2 "$nano" -q
has out "decoder, text 2, layer 3: sigma, as defined"
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
