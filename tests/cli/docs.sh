# Every command that README.md, docs/ and the examples of --help show runs as typed; every
# option that they name exists, is described in docs/cli.md, and is used by some test.
# Lines of ```sh blocks, and indented ones, that begin with "lipscope" are commands.
. "$(dirname "$0")/begin.sh"
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..

# What the examples call their files: the built-in model stands for gpt2, its layer 3 and
# clouds of its width for a user's own; a small BERT for all-MiniLM-L6-v2.
mkdir bin
ln -s "$bin" bin/lipscope
PATH=$PWD/bin:$PATH
for name in gpt2 before after; do ln -s "$root/data/gpt2-nano" $name; done
cp "$root/data/text/lighthouse.txt" alice.txt
cp alice.txt alice29.txt
ln -s "$here/../data/models/bert-nano" all-MiniLM-L6-v2
run 0 export gpt2 --layer 3 --text alice.txt --length 16 -o layer.safetensors
for cloud in mu nu; do
    awk -v seed=$cloud 'BEGIN { srand(seed == "mu" ? 1 : 2)
        for (i = 0; i < 6; i++) for (c = 0; c < 192; c++)
            printf "%.6f%s", 2 * rand() - 1, c < 191 ? "," : "\n" }' >$cloud.csv
done
run 0 push mu.csv --layer layer.safetensors -o mu.safetensors
cp layer.safetensors attack.safetensors
"$make" G1 narrow.safetensors || exit 1 # where a search takes no minute
run 0 measure gpt2 --text alice.txt --layer 3 --length 8 --windows 1 --map block \
    --save-direction block.safetensors
# a user's own file is bare: the keys that describe the layer, spelled so that none is known
for key in schema heads kv_heads mask scale map; do
    LC_ALL=C sed "s/\"$key\":/\"$(echo $key | tr a-z A-Z)\":/" layer.safetensors >bare
    mv bare layer.safetensors
done

commands() { # FILE...
    awk '/^```/ { inside = /^```sh/ }
         inside && /^lipscope / || /^    lipscope [a-z]/ { sub(/^ */, ""); sub(/ *#.*/, ""); print }' "$@"
}
for c in $("$bin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    "$bin" "$c" --help | sed -n '/^Example:/,$s/^  \$ \(lipscope .*\)/\1/p'
done >lines
commands "$root/README.md" "$root"/docs/*.md >>lines
awk '!seen[$0]++' lines >once
[ "$(wc -l <once)" -ge 20 ] || fail "only $(wc -l <once) commands found"

# What takes minutes is shortened here (the last of repeated options counts), or left out; with
# LONG in the environment it runs as typed, and nothing else does.
while read -r line; do
    more= long=1
    case $line in
    "lipscope demo"*) [ -n "${LONG-}" ] || continue ;; # cli.demo runs it, at 80 columns too
    "lipscope reproduce"*"--only "*) more=--quick ;;
    "lipscope reproduce"*) [ -n "${LONG-}" ] || continue ;;
    "lipscope attack"*) more="--restarts 1 --iterations 2" ;;
    "lipscope split --search"*) more="--search 1 --atoms 2 --layer narrow.safetensors" ;;
    "lipscope bench"*--lengths*) more="--lengths 8 --mask causal --repeats 1" ;;
    "lipscope measure"*"--lengths 16:512:x2"*) more="--lengths 16:64:x2 --windows 6 --layers 0,3" ;;
    "lipscope measure"*--length* | "lipscope measure builtin:"*) long= ;;
    "lipscope measure"*) more="--lengths 8:32:x2 --windows 6" ;; # as typed once, on what is built in
    "lipscope perturb"*"--text "*) more="--length 4 --layers 3 --tokens 1 --neighbours 1" ;;
    *) long= ;;
    esac
    if [ -n "${LONG-}" ]; then
        [ -n "$long" ] || continue
        case $line in "lipscope demo"* | "lipscope reproduce"*) more=--quick ;; *) more= ;; esac
    fi
    line="$line${more:+ $more}"
    sh -c "$line" >out 2>err </dev/null || {
        fail "exit $?: $line"
        sed 's/^/    /' err
    }
    # what is for people fits their screen; --rows, tsv, json and ids are for others
    case $line in *--rows* | *--format* | *"lipscope tokens"* | *"|"*) continue ;; esac
    tr -d '\200-\277' <out | awk 'length > 80 { exit 1 }' || fail "wider than 80 columns: $line"
done <once

[ -z "${LONG-}" ] || finish

# Options
cat "$root/README.md" "$root"/docs/*.md | grep -o -e '--[a-z][a-z0-9-]*' | sort -u >named
for c in $("$bin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    "$bin" "$c" --help | sed -n 's/^  ..[, ] \(--[a-z0-9-]*\).*/\1/p'
done | sort -u >exist
# other programs' options that the documents show
printf '%s\n' --cflags --libs --static --version --man --map-by --bind-to --nodes --ntasks-per-node \
    --gpus-per-node --signal --array >others
sort -u exist others >known
comm -23 named known | while read -r option; do fail "documents name $option"; done
[ -z "$(comm -23 named known)" ] || failures=$((failures + 1))
for option in $(cat exist); do
    grep -qF -e "$option" "$root/docs/cli.md" || fail "docs/cli.md lacks $option"
    grep -rqF -e "$option" "$root/tests" || fail "no test uses $option"
done
finish
