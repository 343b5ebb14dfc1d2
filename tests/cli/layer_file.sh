# Layer files know their layer: what export, attack and --save-direction write reads back
# through every command, without options, to the same sigma, for every family.  Variants and
# maps of a family take turns from one to the next; with LONG each family has all of them.
. "$(dirname "$0")/begin.sh"
"$make" multi multi && "$make" pixels32 pixels32 && "$make" pixels24 pixels24 || exit 1
configs=$(dirname "$0")/../fuzz/corpus/config
echo "3 14 15 9 26 5 31 8 9 7 2" >ids

# column NAME [LINE]: of the TSV in ./out
column() {
    awk -F'\t' -v column="$1" -v line="${2:-1}" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR == line + 1 { print $at[column] }' out
}
# reads FILE SIGMA: every reader, with no options at all, finds this value
reads() {
    run 0 layer "$1" --format tsv
    near "$(column sigma)" "$2" 1e-12
    run 0 check "$1" --format tsv
    near "$(column sigma)" "$2" 1e-12
    run 0 bounds "$1" --format tsv
    near "$(column sigma)" "$2" 1e-12
}
# attacked FILE SIGMA: and so does an attack that may go nowhere
attacked() {
    run 0 attack "$1" --domain around --radius 0 --restarts 1 --iterations 0 -o again -q \
        --format tsv
    near "$(column sigma)" "$2" 1e-12
}

# ---- The built-in model: the case that gave another number without a word --------------
run 0 attack builtin:gpt2-nano --layer 3 --length 6 --radius layernorm --restarts 1 \
    --iterations 1 -o g.st --format tsv
sigma=$(column sigma)
has err "read it with: lipscope layer g.st"
reads g.st "$sigma"
run 0 layer g.st --save-direction top # and what `layer` writes of it
reads top "$sigma"
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --layer 2 --length 9 --windows 1 \
    --dtype f64 --format tsv --save-direction m.st
reads m.st "$(column sigma)"

# ---- Every family, random weights large enough for positions and norms to matter -------
families=0
# confirmed FILE MAP: `check` reaches $sigma with $model
confirmed() {
    run 0 check $1 --model $model --format tsv
    near "$(column sigma)" "$sigma" 1e-12
    [ "$(column map) $(column agree)" = "$2 true" ] || fail "$family $2: $(cat out)"
}
# has_turn NUMBER: one of four
has_turn() { [ -n "${LONG-}" ] || [ $1 = $((families % 4)) ]; }
for config in "$configs"/*.json; do
    family=$(basename "$config" .json)
    mkdir "$family"
    sed 's/"initializer_range":0.02/"initializer_range":0.3/' "$config" >"$family/config.json"
    "$bin" info "random:./$family" --format tsv >out 2>err || continue # a hostile one
    families=$((families + 1))
    model=random:./$family input="--ids ids"
    [ "$(column input)" != pixels ] ||
        input="--pixels pixels$(sed -n 's/.*"image_size": *\([0-9]*\).*/\1/p' "$config" | head -1)"
    echo "$family"
    run 0 measure $model $input --layer 1 --dtype f64 --save-direction top --format tsv
    sigma=$(column sigma)
    reads top "$sigma"
    attacked top "$sigma"
    run 0 export $model $input --layer 1 -o exported -q
    run 0 layer exported --format tsv
    near "$(column sigma)" "$sigma" 1e-12
    run 5 check exported
    has err "cannot be checked: it holds no direction"
    turn=0
    for more in "--map heads" "--heads 1" "--mask none" "--mask causal"; do
        turn=$((turn + 1))
        has_turn $((turn - 1)) || continue
        run 0 measure $model $input --layer 1 --dtype f64 $more --save-direction more \
            --format tsv
        sigma=$(column sigma)
        run 0 layer more --format tsv
        near "$(column sigma)" "$sigma" 1e-12
        run 0 check more --format tsv
        near "$(column sigma)" "$sigma" 1e-12
    done
    run 0 check top --model $model --format tsv # its hash, and X from the ids
    awk -v e="$(column input_error)" 'BEGIN { exit !(e != "" && e < 1e-12) }' ||
        fail "$family: X is off by $(column input_error)"
    turn=0
    for map in norm-attention residual block model; do
        layer="--layer 1"
        turn=$((turn + 1))
        has_turn $((turn - 1)) || continue
        [ $map != model ] || layer=
        "$bin" measure $model $input $layer --dtype f64 --map $map --save-direction $map.st \
            --format tsv >out 2>err || {
            has err "norm-attention" # of post-norm models
            continue
        }
        sigma=$(column sigma)
        run 5 check $map.st
        has err "$map.st: cannot be checked: the map $map is that of a model"
        confirmed $map.st $map
        run 1 layer $map.st
        has err "is of the map $map"
    done
    run 0 measure $model $input --layer 1 --dtype f64 --map block --mask none \
        --save-direction none.st --format tsv
    sigma=$(column sigma)
    confirmed none.st block
    run 0 attack $model --layer 1 --length 5 --radius 2 --restarts 1 --iterations 2 \
        -o a.st --format tsv -q
    reads a.st "$(column sigma)"
done
[ $families -ge 9 ] || fail "only $families families"

# another model is refused by its hash, another input and another value are noticed
run 0 measure random:./llama --ids ids --layer 1 --dtype f64 --map block --save-direction b.st
run 1 check b.st --model random:./llama --seed 2
has err "b.st: is of another model: random:./llama has the hash"
run 1 check b.st --model random:./qwen3
"$make" tamper b.st changed || exit 1
run 1 check changed --model random:./llama
has err "the stored sigma"
"$make" shift b.st moved || exit 1 # X a little elsewhere
run 1 check moved --model random:./llama
has err "X is not what the model gives at the stored tokens"
"$make" swap b.st swapped || exit 1 # two ids exchanged
run 1 check swapped --model random:./llama
has err "its ids are not those of metadata 'ids_hash'"
# f32: the value is |J v| in double all the same
run 0 measure random:./llama --ids ids --layer 1 --map block --save-direction f32.st \
    --format tsv
sigma=$(column sigma)
run 0 check f32.st --model random:./llama --format tsv
near "$(column sigma)" "$sigma" 1e-9

# ---- An option that contradicts the file is refused with both values ------------------------
run 0 layer multi --num-heads 4 --kv-heads 2 --sliding 5 --scale 0.7 --save-direction s.st \
    --format tsv
sigma=$(column sigma)
reads s.st "$sigma"
run 0 layer s.st --num-heads 4 --kv-heads 2 --sliding 5 --scale 0.7 --format tsv # says the same
near "$(column sigma)" "$sigma" 1e-12
for command in layer bounds "attack -o no"; do
    run 1 $command s.st --num-heads 2
    has err "s.st: its metadata says heads 4, but heads 2 was asked for: leave that out"
    run 1 $command s.st --kv-heads 4
    has err "its metadata says kv_heads 2, but kv_heads 4 was asked for"
    run 1 $command s.st --causal
    has err "its metadata says mask sliding, but mask causal was asked for"
    run 1 $command s.st --sliding 6
    has err "its metadata says window 5, but window 6 was asked for"
    run 1 $command s.st --scale 0.5
    has err "but scale 0.5 was asked for"
done
printf '0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1\n1,0,0,0,0,0,0,0,0,2\n' >points
run 1 push points --layer s.st --num-heads 2 -o no
has err "but heads 2 was asked for"
run 1 split points --layer s.st --scale 0.5
run 1 distance points points --layer s.st --causal
[ ! -e no ] || fail "a refused file was written"

# ---- Measures: the file alone says what the options said -------------------------------
run 0 layer multi --num-heads 4 --kv-heads 2 --causal --save-direction c.st
run 0 push points --layer multi --num-heads 4 --kv-heads 2 --causal -o one -q
run 0 push points --layer c.st -o two -q
cmp -s one two || fail "push: another image by the file alone"
run 0 split points --layer multi --num-heads 4 --kv-heads 2 --causal --format tsv
told=$(column split)
run 0 split points --layer c.st --format tsv
near "$(column split)" "$told" 1e-12
printf '1,0,0,0,0,0,0,0,0,1\n0,1,0,0,0,0,0,0,0,2\n' >other
run 0 distance points other --layer multi --num-heads 4 --kv-heads 2 --causal --format tsv
told=$(column ratio)
run 0 distance points other --layer c.st --format tsv
near "$(column ratio)" "$told" 1e-12
finish
