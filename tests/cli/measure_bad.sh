# Bad input of `measure`: one sentence that names the thing and the reason, exit 1 or 2,
# nothing on standard output.
. "$(dirname "$0")/nano.sh"
. "$(dirname "$0")/begin.sh"

# bad CODE TEXT ARGS...
bad() {
    code=$1 text_wanted=$2
    shift 2
    run "$code" "$@"
    has err "$text_wanted"
    empty out
    case $code in
    1) [ "$(wc -l <err)" = 1 ] || { fail "not one line: lipscope $*"; cat err; } ;;
    esac
}

# wrong use
bad 2 "missing operand: MODEL" measure
bad 2 "give a text with --text FILE" measure "$nano"
bad 2 "give only one of --text, --ids and --pixels" measure "$nano" --text a --ids b
bad 2 "invalid value '8:4' for '--lengths'" measure "$nano" --text "$text" --lengths 8:4
bad 2 "invalid value 'x' for '--layers'" measure "$nano" --text "$text" --layers x
bad 2 "invalid value '3:' for '--windows'" measure "$nano" --text "$text" --windows 3:
bad 2 "'--heads each' needs --map heads or attention" measure "$nano" --text "$text" \
    --map block --heads each
bad 2 "'--upper' is known for the maps heads and attention only" measure "$nano" \
    --text "$text" --map block --upper
bad 2 "'--layers' has no meaning with --map model" measure "$nano" --text "$text" \
    --map model --layer 1
bad 2 "unknown option '--lenght'; did you mean '--length" measure "$nano" --lenght 3
bad 2 "leave out one of tiled and stride" measure "$nano" --text "$text" --tiled --stride 64
bad 2 "length 64 is longer than the stride 32: its windows would overlap" measure "$nano" \
    --text "$text" --lengths 8,64 --stride 32
bad 2 "length 64 is longer than the stride 32" bounds "$nano" --text "$text" --length 64 --stride 32
bad 2 "length 64 is longer than the stride 32" export "$nano" --text "$text" --length 64 \
    --stride 32 -o never
bad 2 "layers: 1 is named twice" measure "$nano" --text "$text" --layers 1,1

# the model
bad 1 "nowhere" measure nowhere --text "$text"
bad 1 "the model has layers 0 to 5" measure "$nano" --text "$text" --layers 6
bad 1 "the model has heads 0 to 5" measure "$nano" --text "$text" --heads 0:6
bad 1 "it can read no text" measure "$part" --text "$text"
bad 1 "reads tokens, not images" measure "$nano" --pixels "$nano/model.safetensors"

# a copy of the model whose named files can be damaged
damage() {
    rm -rf broken && mkdir broken
    cp "$nano/config.json" "$nano/tokenizer.json" "$nano/model.safetensors" broken
    chmod u+w broken/*
}
damage
head -c 100000 "$nano/model.safetensors" >broken/model.safetensors
bad 1 "model.safetensors" measure broken --text "$text" --length 8
damage
head -c 4 "$nano/model.safetensors" >broken/model.safetensors
bad 1 "model.safetensors" measure broken --text "$text" --length 8
damage
rm broken/model.safetensors
bad 1 "broken" measure broken --text "$text" --length 8

# offsets, shapes: the header is edited without changing its length
header() { # FROM TO: a basic regular expression and its replacement
    damage
    LC_ALL=C sed "s/$1/$2/" "$nano/model.safetensors" >broken/model.safetensors
    [ "$(wc -c <broken/model.safetensors)" = "$(wc -c <"$nano/model.safetensors")" ] ||
        fail "the edit '$1' changed the length"
    cmp -s broken/model.safetensors "$nano/model.safetensors" && fail "'$1' is not there"
}
last=$(LC_ALL=C sed -n '1s/.*"data_offsets":\[\([0-9]*\),\([0-9]*\)\]}}.*/\1,\2/p' "$nano/model.safetensors" | head -n 1)
begin=${last%,*} end=${last#*,}
if [ -n "$begin" ] && [ "$begin" != "$last" ]; then
    header "$begin,$end\\]" "$begin,$(echo "$end" | tr 0-8 1-9)\\]" # beyond the file
    bad 1 "model.safetensors" measure broken --text "$text" --length 8
    header "$begin,$end\\]" "$(echo "$begin" | tr 1-9 0-8),$end\\]" # into its neighbour
    bad 1 "model.safetensors" measure broken --text "$text" --length 8
fi
header '"shape":\[2048,192\]' '"shape":\[2049,192\]'
bad 1 "model.safetensors" measure broken --text "$text" --length 8
header '"shape":\[2048,192\]' '"shape":\[192,2048\]'
bad 1 "wte" measure broken --text "$text" --length 8
header '"dtype":"F16"' '"dtype":"I16"'
bad 1 "I16" measure broken --text "$text" --length 8

# the configuration
for field in n_embd n_head n_layer; do
    damage
    sed "/\"$field\"/d" "$nano/config.json" >broken/config.json
    bad 1 "$field" measure broken --text "$text" --length 8
done
damage
sed 's/"model_type": *"gpt2"/"model_type": "mamba"/' "$nano/config.json" >broken/config.json
bad 1 "mamba" measure broken --text "$text" --length 8
damage
echo '{"model_type": "gpt2",' >broken/config.json
bad 1 "config.json" measure broken --text "$text" --length 8
damage
rm broken/config.json
bad 1 "config.json" measure broken --text "$text" --length 8

# the tokenizer
damage
rm broken/tokenizer.json
bad 1 "broken" measure broken --text "$text" --length 8
bad 1 "the tokenizer makes ids up to 2047, the model's embedding has" \
    measure "$bert" --tokenizer "$nano" --text "$text" --length 8
bad 2 "'--tokenizer' has no meaning without --text" measure "$nano" --ids x --tokenizer y

# texts and ids
: >empty.txt
bad 1 "empty.txt: no tokens in it" measure "$nano" --text empty.txt
printf 'a few words only' >short.txt
bad 1 "short.txt: " measure "$nano" --text short.txt --length 64
has err "tokens are shorter than one window of length 64"
bad 1 "tokens are shorter than one window of length 16" measure "$nano" --text short.txt
bad 1 "length 513 is beyond the model's 512 positions" measure "$nano" --text "$text" --length 513
bad 1 "window 1000000 of length 8 is beyond its" measure "$nano" --text "$text" --length 8 \
    --windows 1000000:1000000
bad 1 "nothing.txt: cannot open: No such file or directory" measure "$nano" --text nothing.txt
bad 1 "standard input: no tokens in it" measure "$nano" --text - </dev/null
echo "1 2 2048 3" >ids
bad 1 "ids: id 2048 at place 2 is out of range: the model's embedding has 2048 rows" \
    measure "$nano" --ids ids
echo "1 2 -3" >ids
bad 1 "ids: '-3' at byte 4 is not an id" measure "$nano" --ids ids
echo "1 99999999999999999999999999 3" >ids
bad 1 "is not an id" measure "$nano" --ids ids
echo "1 2 3" >ids
bad 1 "ids: 3 tokens are shorter than one window of length 4" measure "$nano" --ids ids --length 4
bad 1 "ids: one window, number 0, not 2 windows" measure "$nano" --ids ids --windows 2
: >ids
bad 1 "ids: no tokens in it" measure "$nano" --ids ids

# fewer windows than asked for: said, not refused
head -c 4000 "$text" >some.txt
run 0 measure "$nano" --text some.txt --lengths 16,512 --windows 40 --layers 0 --format tsv
has err "do not fit and are left out"
finish
