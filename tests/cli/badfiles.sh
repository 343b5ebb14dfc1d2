# Bad input: one sentence that names the file, the thing and the reason; exit 1, no crash.
. "$(dirname "$0")/begin.sh"
for kind in multi nan zero-weight bad-shape no-value no-input times G1 G13; do
    "$make" $kind $kind || exit 1
done

# bad TEXT ARGS...: nothing on standard output, one line that starts with the command and
# the file and holds the text
bad() {
    text=$1
    shift
    run 1 "$@"
    empty out
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line: lipscope $*"
    has err "lipscope $1: $2: "
    has err "$text"
}

bad "No such file" layer missing
bad "directory" layer .
: >nothing
bad "" layer nothing
printf 'this is not a safetensors file at all' >text
bad "" layer text
size=$(wc -c <multi)
for keep in 4 8 20 200 $((size / 2)) $((size - 1)); do
    head -c "$keep" multi >cut
    bad "" layer cut --num-heads 4 --kv-heads 2
done
printf '\377\377\377\377\377\377\377\177{}' >huge
bad "" layer huge
bad "tensor 'V' holds a NaN" layer nan --num-heads 4 --kv-heads 2
bad "tensor 'weights'" layer zero-weight --num-heads 4 --kv-heads 2
bad "tensor 'K' has shape (9, 10)" layer bad-shape --num-heads 4 --kv-heads 2
bad "tensor 'V' is missing" layer no-value --num-heads 4 --kv-heads 2
bad "tensor 'X' is missing" layer no-input --num-heads 4 --kv-heads 2
bad "3 heads" layer multi --num-heads 3
bad "key/value heads" layer multi --num-heads 4 --kv-heads 3
bad "one head" layer G1 --num-heads 2
bad "times" layer times --num-heads 4 --kv-heads 2 --causal

# scores that overflow are no value
bad "" layer G1 --scale 1e308

# check wants a file of --save-direction
run 5 check multi
has err "multi: cannot be checked: it holds no direction"
bad "No such file" check missing
bad "" check text
# the files of a tokenizer that are no objects
mkdir words
echo '"x"' >words/vocab.json
echo 'a b' >words/merges.txt
run 1 tokens words words/merges.txt
has err "words/vocab.json: is not a JSON object"
finish
