# info, tokens and export on models of several families.
. "$(dirname "$0")/nano.sh"
. "$(dirname "$0")/begin.sh"

# info
run 0 info "$nano" --format json
[ "$(field architecture) $(field layers) $(field d) $(field heads) $(field vocab)" = \
    '"gpt2" 6 192 6 2048' ] || fail "info: $(cat out)"
[ "$(field positions) $(field mask) $(field norm) $(field input)" = \
    '512 "causal" "pre" "text"' ] || fail "info: $(cat out)"
[ "$(field layers_stored)" = '"0:5"' ] || fail "layers_stored $(field layers_stored)"
run 0 info "$part" --format json
[ "$(field layers_stored) $(field input)" = '"0,2" "none"' ] || fail "gpt2-part"
run 0 info "$bert"
has out "post"
run 0 info "$nano" --tensors --format tsv
has out "wte.weight"
has out "(2048, 192)"
cp out tensors
run 0 info "$nano/model.safetensors" --format tsv
cut -f1-4 out >a
cut -f1-4 tensors | cmp -s - a || fail "the file alone lists other tensors"
run 0 info random:gpt2 --format json
[ "$(field d) $(field layers) $(field stored)" = '768 12 "random"' ] || fail "random:gpt2"
run 1 info nowhere
run 1 info random:gpt2 --tensors
run 1 info random:nothing
run 2 info

# tokens: the ids of the references, one line; nothing is one empty line; back to the text
for model in "$nano" "$bert"; do
    run 0 tokens "$model" "$text"
    [ "$(wc -l <out)" = 1 ] || fail "tokens: not one line"
    tr -d '\n ' <"$data/references/${model##*/}.json" |
        sed 's/.*"ids":\[\([0-9,]*\)\].*/\1,/' | tr ',' '\n' >want
    [ "$(wc -l <want)" -gt 100 ] || fail "$model: the reference was not read"
    tr ' ' '\n' <out | head -n "$(wc -l <want)" | cmp -s - want ||
        fail "$model: ids differ from the reference"
done
run 0 tokens "$nano" "$text"
cp out ids
run 0 tokens "$nano" --decode ids
cmp -s out "$text" || fail "decoding is not the text"
"$bin" tokens "$nano" - <"$text" | cmp -s - ids || fail "standard input"
: >nothing
run 0 tokens "$nano" nothing
[ "$(wc -c <out)" = 1 ] || fail "an empty file is not an empty line"
run 0 tokens "$nano" --decode nothing
empty out
printf 'hello world' >hello
hello='102 92 43 336 105' # by Hugging Face tokenizers
run 0 tokens "$bert" hello --special
[ "$(cat out)" = "2 $hello 3" ] || fail "special tokens: $(cat out)"
run 0 tokens "$bert" hello
[ "$(cat out)" = "$hello" ] || fail "no special tokens: $(cat out)"
run 1 tokens "$nano" absent
run 1 tokens absent hello
echo "1 x" >odd
run 1 tokens "$nano" --decode odd
has err "odd: 'x' at byte 2 is not an id"
echo "999999" >odd
run 1 tokens "$nano" --decode odd
run 2 tokens "$nano" --decode ids --special
"$bin" tokens "$nano" "$text" --part text | cmp -s - ids || fail "--part text"
run 2 tokens "$nano" "$text" --part vision
has err "'--part vision' reads images, which have no tokens"

# bounds and attack take the file of a model alone as measure does; a layer file beside it
# stays one
mkdir one
cp "$nano/config.json" "$nano/model.safetensors" "$nano/tokenizer.json" one/
few="--layer 2 --length 6"
run 0 bounds one/model.safetensors --text "$text" --layers 2 --length 6 --format tsv
cp out alone
run 0 bounds "$nano" --text "$text" --layers 2 --length 6 --format tsv
sed "s|^$nano|one/model.safetensors|" out | cmp -s - alone || fail "bounds of one file"
run 0 attack one/model.safetensors $few --radius 2 --restarts 1 --iterations 2 -o one/a.st --format tsv -q
found=$(column sigma)
run 0 attack "$nano" $few --radius 2 --restarts 1 --iterations 2 -o b.st --format tsv -q
[ "$(column sigma)" = "$found" ] || fail "attack of one file"
run 0 bounds one/a.st --format tsv

# export: `layer` on the file gives the value that `measure` gives
value() { # of `measure`, f64
    "$bin" measure "$1" --text "$text" --length 20 --windows 2:2 --layer "$2" --dtype f64 \
        --format json >out && field sigma
}
for model in "$nano" "$bert"; do
    sigma=$(value "$model" 3)
    run 0 export "$model" --layer 3 --text "$text" --length 20 --window 2 -o l3
    has err "read it with: lipscope layer l3"
    run 0 layer l3 --format json
    near "$(field sigma)" "$sigma" 1e-9 # an f64 solve, twice
done
"$bin" tokens "$nano" "$text" | cut -d' ' -f1-20 >some
run 0 export "$nano" --layer 0 --ids some -o byids -q
empty err
run 0 export "$nano" --layer 0 --text "$text" --length 20 --map heads -o heads -q
run 0 layer heads --format json
[ "$(field map)" = '"heads"' ] || fail "map $(field map)"
echo "6 40 31 9" >story
"$bin" measure "$data/fixtures/llama-1" --layer 0 --ids story --dtype f64 --format json >out
sigma=$(field sigma)
run 0 export "$data/fixtures/llama-1" --layer 0 --ids story -o rotary
run 0 layer rotary --format json
near "$(field sigma)" "$sigma" 1e-12

# --part: a checkpoint with a text and a vision model, against transformers' answer for each
pair=$data/fixtures/clip_text-1
answer() { # attention, layer 1, the second input
    python3 -c "import json,sys
d = json.load(open(sys.argv[1] + '/reference.json'))['inputs'][1]
print(*d['input_ids'], file=open('story', 'w')) if sys.argv[2] == 'ids' else 0
print(d['layers'][1]['attention_singular_values'][0])" "$1" "$2"
}
if command -v python3 >/dev/null; then
    sigma=$(answer "$pair" ids)
    run 0 measure "$pair" --part text --layer 1 --ids story --dtype f64 --format json
    near "$(field sigma)" "$sigma" 1e-9
    run 0 export "$pair" --part text --layer 1 --ids story -o text
    run 0 layer text --format json
    near "$(field sigma)" "$sigma" 1e-9
fi
run 0 info "$pair" --part text --format json
[ "$(field architecture) $(field input)" = '"clip_text_model" "text"' ] || fail "$(cat out)"
hash=$(field model_hash)
run 0 info "$pair" --part vision --format json
[ "$(field architecture) $(field input)" = '"clip_vision_model" "pixels"' ] || fail "$(cat out)"
[ "$(field model_hash)" != "$hash" ] || fail "two parts with one hash"
run 0 bounds "$pair" --part text --layer 1 --ids story
run 0 attack "$pair" --part text --layer 1 --length 6 --radius 1 --iterations 3 --restarts 2 -o at
for command in info "measure --ids story" "bounds --ids story"; do
    run 1 $command "$pair"
    has err "a clip has a text and a vision part: one of them must be chosen (part text or vision)"
done
run 1 info "$nano" --part vision
has err "is no model of several parts"
run 2 info "$pair" --part left
run 1 export "$nano" --layer 6 --text "$text" --length 20 -o no
has err "the model has layers 0 to 5"
run 1 export "$nano" --layer 0 --text "$text" --length 600 -o no
run 1 export "$nano" --layer 0 --text "$text" --length 20 -o nowhere/no
run 2 export "$nano" --layer 0 --text "$text" -o no
run 2 export "$nano" --layer 0 --text "$text" --length 20
finish
