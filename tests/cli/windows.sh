# Windows of texts and of ids: special tokens around them, ids in every spelling, tokenizers
# that lie elsewhere or nowhere, bytes that are not UTF-8, models that are not read.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/begin.sh"

# row COLUMN [LINE]: of the TSV in ./out
row() {
    awk -F'\t' -v column="$1" -v line="${2:-1}" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR == line + 1 { print $at[column] }' out
}
tiny="--layer 0 --dtype f64 --format tsv"

# a tokenizer of whole words: [CLS] is 2, [SEP] is 3, the words w0 ... w29 are 4 ... 33
mkdir words
{
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n'
    awk 'BEGIN { for (i = 0; i < 30; i++) print "w" i }'
} >words/vocab.txt
awk 'BEGIN { for (i = 0; i < 60; i++) printf "w%d%s", i * 7 % 30, i % 10 == 9 ? "\n" : " " }' >words.txt
run 0 tokens words words.txt
tr ' ' '\n' <out >all.ids
[ "$(sed -n 2p all.ids) $(grep -c . all.ids)" = "11 60" ] || fail "ids of the words: $(cat out)"

# cut START N: ids of the text from START on, N of them
cut_ids() { sed -n "$(($1 + 1)),$(($1 + $2))p" all.ids; }
sigma_of() { # FILE: sigma of these ids, one window
    run 0 measure random:bert:nano --ids "$1" $tiny
    row sigma
}

# --special: n counts the special tokens; the window is [CLS], n - 2 tokens, [SEP], and starts
# at w times the stride in the text
from="random:bert:nano --text words.txt --tokenizer words"
for case in "0 8 --windows 0:0" "8 8 --windows 1:1" "20 8 --windows 1:1 --stride 20" "16 8 --windows 2:2 --tiled"; do
    set -- $case
    start=$1 n=$2
    shift 2
    { echo 2; cut_ids $start $((n - 2)); echo 3; } >hand.ids
    wanted=$(sigma_of hand.ids)
    [ "$(row special)" = false ] || fail "special without --special: $(row special)"
    run 0 measure $from --special --lengths $n "$@" $tiny
    empty err
    near "$(row sigma)" "$wanted" 1e-12
    [ "$(row n) $(row start) $(row special)" = "$n $start true" ] || fail "--special: $(cat out)"
done
run 0 measure $from --lengths 8 --windows 1 $tiny
[ "$(row special)" = false ] || fail "special: $(row special)"
{ echo 2; cut_ids 0 6; echo 3; } >hand.ids
wanted=$(sigma_of hand.ids)

# the same window in export, bounds and attack; the file says its ids
run 0 export $from --special --layer 0 --length 8 -o special.st
run 0 layer special.st --format tsv
near "$(row sigma)" "$wanted" 1e-9
run 0 measure $from --special --lengths 8 --windows 1 --layer 0 --map block --save-direction block.st -q
run 0 check block.st --model random:bert:nano
run 0 bounds $from --special --layer 0 --length 8 --format json
has out '"special": true'
near "$(field sigma | head -1)" "$wanted" 1e-6
run 0 attack $from --special --layer 0 --heads 0 --length 8 --domain around --radius 0 --restarts 1 \
    --iterations 1 --dtype f64 -o around.st -q --format tsv
found=$(row sigma)
run 0 measure random:bert:nano --ids hand.ids --heads 0 $tiny
near "$found" "$(row sigma)" 1e-9

# ids too, and the end of the text: 60 words have room for one window of 62, and no more
cut_ids 0 6 >six.ids
run 0 measure random:bert:nano --ids six.ids --tokenizer words --special $tiny
near "$(row sigma)" "$wanted" 1e-12
[ "$(row n)" = 8 ] || fail "ids with --special: n $(row n)"
run 0 measure $from --special --lengths 62 --windows 1 $tiny
run 1 measure $from --special --lengths 63 --windows 1 $tiny
has err "60 tokens are shorter than one window of length 63"
run 1 measure $from --special --lengths 2 $tiny
has err "length 2 leaves no token of the text beside the model's 2 special ones"
run 1 bounds $from --special --layer 0 --length 2
has err "length 2 leaves no token of the text"
run 1 export $from --special --layer 0 --length 8 --window 7 --stride 8 -o none.st
has err "window 7 of length 8 is beyond its 60 tokens"
run 0 export $from --special --layer 0 --length 6 --window 7 --stride 8 -o last.st -q # ids 56 ... 59

# it is part of what a run file holds; files of before have none
run 0 measure $from --special --lengths 8 --windows 1 --layer 0 --run special.db -q
run 1 measure $from --lengths 8 --windows 1 --layer 0 --run special.db
has err "special.db: made with another setting: special is true there and false here"
if command -v sqlite3 >/dev/null; then
    run 0 measure $from --lengths 8 --windows 1 --layer 0 --run old.db -q
    sqlite3 old.db "UPDATE run SET settings = json_remove(settings, '\$.special')"
    run 0 measure $from --lengths 8 --windows 1 --layer 0 --run old.db -q
    run 1 measure $from --special --lengths 8 --windows 1 --layer 0 --run old.db
    has err "special is false there and true here"
fi
# what has none says so; what has no text has no window
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --special --lengths 8 --windows 1 $tiny
has err "lipscope measure: builtin:gpt2-nano: the tokenizer has no special tokens to add"
run 2 measure random:vit --pixels x --special
has err "'--special' has no meaning without --text or --ids"
run 2 bounds layer.st --special
run 2 attack layer.st --special --radius 1

# ids: white space, commas, a JSON list, standard input: the same windows
paste -sd, all.ids >comma.ids
paste -sd' ' all.ids | sed 's/ /, /g; s/.*/[&]\n/' >json.ids
run 0 measure random:bert:nano --ids all.ids --lengths 8,16 --windows 3 $tiny
cut -f1-11 out >want.tsv
for file in comma.ids json.ids; do
    run 0 measure random:bert:nano --ids $file --lengths 8,16 --windows 3 $tiny
    cut -f1-11 out | cmp -s - want.tsv || fail "$file gives other rows"
done
"$bin" measure random:bert:nano --ids - --lengths 8,16 --windows 3 $tiny <json.ids >out 2>err || fail "ids from standard input"
cut -f1-11 out | cmp -s - want.tsv || fail "standard input gives other rows"
bad_ids() { # TEXT SENTENCE
    printf "$1" >bad.ids
    run 1 measure random:bert:nano --ids bad.ids
    has err "$2"
}
bad_ids '4 5 x6 7' "bad.ids: 'x6' at byte 4 is not an id"
bad_ids '4,,5' "bad.ids: byte 2: an id is missing before a comma"
bad_ids '4,5,' "bad.ids: byte 4: an id is missing behind a comma"
bad_ids ',4' "bad.ids: byte 0: an id is missing before a comma"
bad_ids '[4, 5' "bad.ids: byte 5: the list does not end"
bad_ids '[4 5]' "bad.ids: byte 3: a comma is missing"
bad_ids '[4, 5,]' "bad.ids: byte 6: an id is missing behind a comma"
bad_ids '[[4, 5], [6]]' "bad.ids: byte 1: a list in the list: ids stand in one list"
bad_ids '[4, 5] 6' "bad.ids: byte 7: something stands behind the list"
bad_ids '[4, 5.5]' "bad.ids: '5.5' at byte 4 is not an id"
bad_ids '[4, -5]' "bad.ids: '-5' at byte 4 is not an id"
bad_ids '4]' "bad.ids: '"
bad_ids '99999999999' "is not an id"
bad_ids '[]' "bad.ids: no tokens in it"
bad_ids '[4, 4000000000]' "bad.ids: id 4000000000 at place 1 is out of range"
if command -v timeout >/dev/null; then # a stray bracket does not stop it from ending
    printf ']' >bad.ids
    timeout 300 "$bin" measure random:bert:nano --ids bad.ids >out 2>err
    [ $? = 1 ] || fail "a lone bracket"
fi

# no tokenizer: the sentence says what helps; a tokenizer.json, a folder, one safetensors file
nano=$(dirname "$("$bin" info builtin:gpt2-nano --tensors --format tsv | awk -F '\t' 'NR == 2 { print $5 }')")
mkdir bare
ln -s "$nano/config.json" "$nano/model.safetensors" bare/
run 1 measure bare --text builtin:lighthouse --lengths 8
has err "bare: no tokenizer.json, no vocab.json with merges.txt and no vocab.txt there"
has err "one that lies elsewhere can be named as the tokenizer, or ids given in place of a text"
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8 --windows 1 $tiny
wanted=$(row sigma)
for path in "$nano" "$nano/tokenizer.json"; do
    run 0 measure bare --text builtin:lighthouse --tokenizer "$path" --lengths 8 --windows 1 $tiny
    near "$(row sigma)" "$wanted" 1e-12
done
run 0 measure "$nano/model.safetensors" --text builtin:lighthouse --lengths 8 --windows 1 $tiny
near "$(row sigma)" "$wanted" 1e-12
run 2 measure bare --ids all.ids --tokenizer words
has err "'--tokenizer' has no meaning without --text"

# bytes that are not UTF-8: one remark with their share, and none when it shall be quiet
printf 'a caf\351 and a na\357ve text, 1 2 3 4 5 6 7 8 9 10\n' >latin.txt
run 0 measure builtin:gpt2-nano --text latin.txt --lengths 8 --windows 1 $tiny
[ "$(grep -c . err)" = 1 ] || fail "remarks: $(cat err)"
has err "lipscope measure: latin.txt: not all of it is UTF-8: 2 of 46 bytes (4.3 %) are read as U+FFFD"
run 0 measure builtin:gpt2-nano --text latin.txt --lengths 8 --windows 1 $tiny -q
empty err
run 0 tokens builtin:gpt2-nano latin.txt
has err "2 of 46 bytes (4.3 %)"
run 0 export builtin:gpt2-nano --text latin.txt --layer 0 --length 8 -o latin.st
has err "2 of 46 bytes (4.3 %)"

# models that are not read, and what helps
mkdir other pickle
echo '{"model_type": "rwkv"}' >other/config.json
run 1 info other
has err "field 'model_type' is \"rwkv\", which is not supported; from Python, lipscope.jacobian(model, \"path.to.attention\", ids) measures any model of PyTorch; supported are: gpt2, "
has err "supported are: gpt2, "
run 0 help layer
has out "save_file("
ln -s "$nano/config.json" pickle/
: >pickle/pytorch_model.bin
for name in pickle pickle/pytorch_model.bin; do
    run 1 info $name
    has err "a pickle, which is not read; AutoModel.from_pretrained(DIR).save_pretrained(NEW) of transformers"
done
export HF_HUB_CACHE="$PWD/cache"
for command in "info" "bounds --text words.txt" "attack --radius 1 --length 4" "measure --text words.txt"; do
    run 1 $command our/model
    has err "'hf download our/model' fetches it"
done

# a GGUF file is a model to bounds and attack as well, not a layer file
gguf=$here/../data/gguf/gpt2-0.gguf
echo 3 1 4 1 5 9 2 6 >pi.ids
run 0 measure "$gguf" --ids pi.ids --heads 0 $tiny
found=$(row sigma)
run 0 bounds "$gguf" --ids pi.ids --layer 0 --heads 0 --format json
near "$(field sigma | head -1)" "$found" 1e-6
run 0 attack "$gguf" --ids pi.ids --layer 0 --heads 0 --domain around --radius 0 --restarts 1 --iterations 1 \
    --dtype f64 -o gguf.st -q --format tsv
near "$(row sigma)" "$found" 1e-9

# Real special tokens: sigma of all-MiniLM-L6-v2 at windows made by its own tokenizer with
# add_special_tokens=True, from transformers 5 and autograd in float64 (300 power steps).
mini=$here/../../../shared
if [ -f "$mini/models/all-MiniLM-L6-v2/model.safetensors" ]; then
    head -c 3000 "$mini/texts/alice29.txt" >alice.txt
    for case in "0 8 0 3.532122676566364" "3 8 1 10.911568621431359" "3 16 1 12.560400633430897"; do
        set -- $case
        run 0 measure "$mini/models/all-MiniLM-L6-v2" --text alice.txt --special --stride 16 --lengths $2 \
            --windows $3:$3 --layer $1 --dtype f64 --format tsv
        near "$(row sigma)" $4 1e-9
    done
fi
finish
