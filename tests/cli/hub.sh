# Models by their hub name, found in the local cache and nowhere else.
. "$(dirname "$0")/begin.sh"
unset HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE XDG_CACHE_HOME
export HOME="$PWD/home"
nano=$("$bin" info builtin:gpt2-nano --tensors --format tsv | awk -F '\t' 'NR == 2 { print $5 }')
nano=$(dirname "$nano")
[ -f "$nano/config.json" ] || fail "the built-in model is not a folder: $nano"

# cache CACHE REPO COMMIT: a snapshot that links to the built-in model
cache() {
    mkdir -p "$1/$2/snapshots"
    ln -s "$nano" "$1/$2/snapshots/$3"
}

run 1 info our/nano
has err "our/nano: no such file or folder"
has err "$HOME/.cache/huggingface/hub"
has err "'hf download our/nano' fetches it"
cache home/.cache/huggingface/hub models--our--nano 0a1b
run 0 info our/nano --format json
[ "$(field layers) $(field d)" = "6 192" ] || fail "info: $(cat out)"
printf 'one two' | "$bin" tokens our/nano - >ids || fail "tokens by hub name"
[ -s ids ] || fail "no ids"

# two snapshots: refs/main decides, and without it neither is taken
cache home/.cache/huggingface/hub models--our--nano 0a1c
run 1 info our/nano
mkdir home/.cache/huggingface/hub/models--our--nano/refs
echo 0a1c >home/.cache/huggingface/hub/models--our--nano/refs/main
run 0 info our/nano
echo ../../../.. >home/.cache/huggingface/hub/models--our--nano/refs/main
run 1 info our/nano

# other places, the nearest first; a name without an organisation; a folder goes before
cache elsewhere models--plain c0ffee
run 1 info plain
export HF_HUB_CACHE="$PWD/elsewhere"
run 0 info plain
export HF_HUB_CACHE= HF_HOME="$PWD/hf"
run 1 info plain
cache hf/hub models--plain c0ffee
run 0 info plain
mkdir plain
run 1 info plain
has err "plain/config.json"
finish
