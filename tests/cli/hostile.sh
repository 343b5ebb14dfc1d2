# Text that is not ours - names of files, tensors and architectures, tokens - holds escapes
# for the terminal, marks that turn a line around, markup, ten megabytes: none of it reaches
# the terminal or the page as it is.
. "$(dirname "$0")/begin.sh"

escape=$(printf '\033]0;owned\007')    # sets the title of a terminal
csi=$(printf '\302\2332J')             # U+009B: clears it
turned=$(printf '\342\200\256gpj.exe') # U+202E: right to left from here
isolate=$(printf '\342\201\247')       # U+2067
evil="a$escape$csi$turned$isolate<b>"

# harmless FILE: none of these in it; letters beyond ASCII may be
harmless() {
    LC_ALL=C grep -nq "$(printf '[\001-\010\013-\037\177]\|\302[\200-\237]\|\342\200[\216\217\250-\256]\|\342\201[\246-\251]')" "$1" &&
        fail "$1 holds a hostile character: $(head -c 300 "$1" | od -c | head -8)"
}
# shown CODE ARGS...: in every format
shown() {
    for format in table tsv json; do
        code_wanted=$1
        shift
        run "$code_wanted" "$@" --format $format
        harmless out
        harmless err
        set -- "$code_wanted" "$@"
    done
}

# a safetensors file whose tensors have such names
tensors() { # HEADER: below 65536 bytes
    length=$(printf '%s' "$1" | wc -c)
    printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\\0\\0\\0\\0\\0\\0%s" "$1"
}
json=$(printf 'a\\u001b]0;owned\\u0007\302\2332J\342\200\256gpj.exe\342\201\247<b>')
tensors "{\"$json\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"é\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}" >"$evil.safetensors"
shown 0 info "$evil.safetensors" --tensors
has out "é"
has out '\u009b2J\u202egpj.exe\u2067<b>'
shown 1 layer "$evil.safetensors"
has err '\xe2\x80\xae'
tensors "{\"$json\":{\"dtype\":\"F99\",\"shape\":[0],\"data_offsets\":[0,0]}}" >bad.safetensors
shown 1 layer bad.safetensors
shown 1 info "$evil-absent"
shown 2 "$evil"
shown 2 layer "--$evil"
shown 2 measure builtin:gpt2-nano "--map=$evil"

# a model and a text with such names, in a run file, a table, a comparison, a page
mkdir "$evil"
printf '{"model_type":"gpt2","n_layer":1,"n_head":2,"n_embd":16,"n_positions":64,"vocab_size":2048}' >"$evil/config.json"
i=0
while [ $i -lt 99 ]; do echo "the quick brown fox $i"; i=$((i + 1)); done >"$evil/$turned.txt"
shown 0 info "random:$evil"
for run in one two; do
    run 0 measure "random:$evil" --text "$evil/$turned.txt" --lengths 8:32:x2 --windows 2 --run "$evil/$run.db"
    harmless out
    harmless err
done
shown 0 compare "$evil/one.db" "$evil/two.db"
run 0 merge "$evil/one.db" "$evil/two.db" -o "$evil/both.db"
harmless err
if "$bin" report "$evil/one.db" -o "$evil/page.html" 2>err; then
    harmless err
    sed -n 's/.*id="data">//p' "$evil/page.html" >data
    harmless data
    has data '\\u202egpj.exe'
fi
shown 1 measure "random:$evil" --text "$evil/absent.txt"

# a token of ten megabytes: in the vocabulary, in the text, twice in a sentence about it
mkdir long
{
    printf '{"version":"1.0","model":{"type":"WordPiece","unk_token":"u","continuing_subword_prefix":"##","max_input_chars_per_word":100000000,"vocab":{"u":0,"'
    head -c 10000000 /dev/zero | tr '\0' x
    printf '":1,"\342\200\256":2}}}'
} >long/tokenizer.json
head -c 10000000 /dev/zero | tr '\0' x >long.txt
run 0 tokens long long.txt
is out 1
printf '1' >long.ids
run 0 tokens long long.ids --decode
cmp -s out long.txt || fail "ten megabytes are not decoded to themselves"
sed 's/":1,"/":1.5,"/' long/tokenizer.json >long/broken && mv long/broken long/tokenizer.json
run 1 tokens long long.txt
[ "$(wc -c <err)" -lt 1000 ] || fail "a sentence of $(wc -c <err) bytes"
finish
