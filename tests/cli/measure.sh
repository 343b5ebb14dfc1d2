# `measure` on gpt2-nano and lighthouse.txt: reference values, formats, fields, order, fits.
. "$(dirname "$0")/nano.sh"
. "$(dirname "$0")/begin.sh"

# column NAME of the TSV in ./out, one value per line
column() {
    awk -F'\t' -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
                             { print $at }' "${2-out}"
}

values() { awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { print $at["layer"], $at["n"], $at["window"], $at["sigma"] }' "$1"; }

# every row of the reference: 1e-3 with the f32 default, 1e-7 in f64; lines are
# "layer n window sigma"
tr -d '\n ' <"$data/references/gpt2-nano.json" | sed 's/.*"rows"://; s/}/\n/g' |
    awk -F'[,{]' '/"sigma"/ { for (i = 1; i <= NF; i++) { split($i, pair, ":")
        value[pair[1]] = pair[2] }
        print value["\"layer\""], value["\"n\""], value["\"window\""], value["\"sigma\""] }' |
    sort -k1,1n -k2,2n -k3,3n >want
[ "$(wc -l <want)" -ge 30 ] || fail "the reference was not read"
for dtype in f32 f64; do
    tolerance=1e-3
    [ $dtype = f64 ] && tolerance=1e-7
    cut -d' ' -f2,3 want | sort -u | while read -r n w; do
        "$bin" measure "$nano" --text "$text" --length "$n" --windows "$w:$w" \
            --dtype $dtype --format tsv >rows || echo "exit $? at n $n window $w"
        values rows
    done | sort -k1,1n -k2,2n -k3,3n >got
    cut -d' ' -f1-3 want >places
    cut -d' ' -f1-3 got | cmp -s - places || fail "$dtype: not the cells of the reference"
    paste -d' ' want got | while read -r l n w sigma _ _ _ found; do
        near "$found" "$sigma" $tolerance >>bad
    done
    [ ! -s bad ] || fail "$dtype: $(head -n 3 bad)"
done

# fields of a row and of a fit, in JSON; rows by layer, head, length, window
run 0 measure "$nano" --text "$text" --lengths 8:32:x2 --windows 2 --layers 1,0 --format json
for name in model architecture layer head map mask n window sigma lower upper upper_prob \
    probability residual products converged dtype radius_rms radius_max seconds version \
    model_hash text_hash seed tol start; do
    [ "$(field $name | wc -l)" -ge 12 ] || fail "field $name"
done
for name in against exponent exponent_low exponent_high coefficient lengths starts texts law \
    lack_of_fit slopes refused; do
    [ "$(field $name | wc -l)" = 4 ] || fail "fit field $name: $(field $name | wc -l)"
done
[ "$(field against | tr '\n' ' ')" = '"n" "radius" "n" "radius" ' ] ||
    fail "fits against $(field against)"
[ "$(field lengths | sort -u)" = 3 ] || fail "lengths of the fits"
[ "$(field text_hash | sort -u)" = "\"$(sha256sum "$text" | cut -d' ' -f1)\"" ] ||
    fail "text_hash"
run 0 measure "$nano" --text "$text" --lengths 8:32:x2 --windows 2 --layers 1,0 --format tsv
[ "$(column layer | tr '\n' ' ')" = "0 0 0 0 0 0 1 1 1 1 1 1 " ] || fail "order of layers"
[ "$(column n | head -6 | tr '\n' ' ')" = "8 8 16 16 32 32 " ] || fail "order of lengths"
[ "$(column window | head -2 | tr '\n' ' ')" = "0 1 " ] || fail "order of windows"
run 0 measure "$nano" --text "$text" --lengths 8:32:x2 --windows 2 --layers 0 --rows
has out "exponent: the slope of ln(median sigma) against ln x over these lengths"
has out "no intervals and no test of straightness: 2 starts have every length, they need 6"
has out "the radius varies only by a factor 1.0"
empty err

# standard input; ids; the same window three ways
run 0 measure "$nano" --text "$text" --length 16 --windows 1 --layer 2 --format tsv
sigma=$(column sigma)
"$bin" measure "$nano" --text - --length 16 --windows 1 --layer 2 --format tsv <"$text" >out
[ "$(column sigma)" = "$sigma" ] || fail "standard input gives $(column sigma), not $sigma"
"$bin" tokens "$nano" "$text" | cut -d' ' -f1-16 >ids
run 0 measure "$nano" --ids ids --layer 2 --format tsv
[ "$(column sigma)" = "$sigma" ] || fail "ids give $(column sigma), not $sigma"
run 0 measure "$nano" --text "$text" --length 16 --windows 0:0 --layers 2:2 --format tsv
[ "$(column sigma)" = "$sigma" ] || fail "other spellings give $(column sigma), not $sigma"

# windows start alike at all lengths, every longest length or --stride; --tiled does not
starts() { run 0 measure "$nano" --text "$text" --layer 0 --format tsv "$@"; column start | tr '\n' ' '; }
[ "$(starts --lengths 8,16,32 --windows 2)" = "0 32 0 32 0 32 " ] || fail "starts of prefixes"
[ "$(starts --lengths 8,16 --windows 2 --stride 40)" = "0 40 0 40 " ] || fail "starts with --stride"
[ "$(starts --lengths 8,16 --windows 2:2 --tiled)" = "16 32 " ] || fail "starts with --tiled"
[ "$(starts --length 16 --windows 3)" = "0 16 32 " ] || fail "starts of one length"
[ "$(starts --length 8 | wc -w)" = 10 ] || fail "ten windows by default"
run 0 measure "$nano" --text "$text" --layer 2 --length 8 --windows 2:2 --stride 20 --format tsv
moved=$(column sigma)
"$bin" tokens "$nano" "$text" | cut -d' ' -f41-48 >eight
run 0 measure "$nano" --ids eight --layer 2 --format tsv
[ "$(column sigma)" = "$moved" ] || fail "window 2 of stride 20 is not ids 40 to 47"
run 0 bounds "$nano" --text "$text" --layer 2 --length 8 --window 2 --stride 20 --format json
near "$(field sigma | head -n 1)" "$moved" 1e-6
run 0 export "$nano" --text "$text" --layer 2 --length 8 --window 2 --stride 20 -o moved.st -q
run 0 layer moved.st --num-heads 6 --causal --format json
near "$(field sigma | head -n 1)" "$moved" 1e-6
# ids with lengths are cut as a text is
"$bin" tokens "$nano" "$text" >all
run 0 measure "$nano" --ids all --layer 2 --lengths 8,20 --windows 2:2 --format tsv
[ "$(column sigma | head -n 1)" = "$moved" ] || fail "ids with lengths: $(column start)"

# in a causal model a prefix is a block of the longer window's Jacobian: sigma cannot fall
for map in attention block model; do
    layer="--layer 3"
    [ $map = model ] && layer=
    run 0 measure "$nano" --text "$text" --lengths 8:64:x2 --windows 3 $layer --map $map \
        --dtype f64 --format tsv
    values out | sort -k3,3n -k2,2n | awk -v map=$map 'NF == 3 { $0 = "- " $0 }
        { if ($3 == last && $4 < before * (1 - 1e-9)) print map ": sigma falls at n", $2, "window", $3
          last = $3; before = $4 }' >falls
    [ ! -s falls ] || fail "$(cat falls)"
done

# six starts have intervals, and what bends is no law
run 0 measure "$nano" --text "$text" --lengths 16:128:x2 --windows 6 --layers 0,3 --format json
[ "$(field exponent_low | grep -c '[0-9]')" = 2 ] || fail "intervals: $(field exponent_low)"
[ "$(field law | tr '\n' ' ')" = "true null false null " ] || fail "laws: $(field law)"
run 0 measure "$nano" --text "$text" --lengths 16:128:x2 --windows 6 --layers 3
has out "no power law"
# tiled windows share no starts: no interval, however many there are
run 0 measure "$nano" --text "$text" --lengths 8:32:x2 --windows 30 --tiled --layer 0 --format json
[ "$(field exponent | grep -c '[0-9]') $(field exponent_low | grep -c '[0-9]')" = "1 0" ] ||
    fail "tiled windows: $(field exponent_low)"

# one head alone, each head, maps and masks; what is asked for is told
run 0 measure "$nano" --text "$text" --length 16 --windows 1 --layer 2 --heads each --format tsv
[ "$(column head | tr '\n' ' ')" = "0 1 2 3 4 5 " ] || fail "heads $(column head)"
third=$(column sigma | sed -n 3p)
run 0 measure "$nano" --text "$text" --length 16 --windows 1 --layer 2 --heads 2 --format tsv
[ "$(column sigma)" = "$third" ] || fail "head 2 alone"
for map in heads attention norm-attention residual block model; do
    layer="--layer 2"
    [ $map = model ] && layer=
    run 0 measure "$nano" --text "$text" --length 16 --windows 1 $layer --map $map --format tsv
    [ "$(column map)" = $map ] || fail "map $(column map)"
done
[ -z "$(column layer)" ] || fail "map model has a layer"
for mask in none causal; do
    run 0 measure "$nano" --text "$text" --length 16 --windows 1 --layer 2 --mask $mask --format tsv
    [ "$(column mask)" = $mask ] || fail "mask $(column mask)"
done
[ "$(column sigma)" = "$sigma" ] || fail "causal is not the model's own mask"
run 0 measure "$nano" --text "$text" --length 16 --windows 1 --layer 2 --upper --count 3 \
    --as-released --details --format tsv
awk -v s="$(column sigma)" -v u="$(column upper)" 'BEGIN { exit !(s <= u) }' || fail "upper"
column sigmas | awk -F, '{ exit !(NF == 3 && $1 >= $2 && $2 >= $3) }' || fail "sigmas"
for name in released entropy sink token_norm pair_norm; do
    [ -n "$(column $name)" ] || fail "$name is empty"
done
awk -v s="$(column sigma)" -v t="$(column token_norm)" -v p="$(column pair_norm)" \
    'BEGIN { exit !(p <= t * 1.000001 && t <= s * 1.000001) }' ||
    fail "a block is larger than its column, or a column than the whole"
near "$(column sigma)" "$sigma" 1e-6

# the sink alone and all others: neither does more than both together
run 0 measure "$nano" --text "$text" --length 16 --windows 1 --layer 2 --sink --format tsv
for name in entropy sink sink_token sink_norm rest_norm; do
    [ -n "$(column $name)" ] || fail "$name is empty"
done
awk -v s="$(column sigma)" -v a="$(column sink_norm)" -v b="$(column rest_norm)" 'BEGIN {
    exit !(a <= s * 1.000001 && b <= s * 1.000001 && s * s <= (a * a + b * b) * 1.0001) }' ||
    fail "the sink and the others do not make up the whole"

# a direction that `check` confirms
run 0 measure "$nano" --text "$text" --length 12 --windows 1 --layer 1 --save-direction one.st
run 0 check one.st
run 0 measure "$nano" --text "$text" --length 12 --windows 2 --layers 0:1 --save-direction many
for layer in 0 1; do
    for window in 0 1; do run 0 check many/layer$layer-n12-window$window.safetensors; done
done

# results do not depend on threads, nor on the company of a cell
run 0 measure "$nano" --text "$text" --lengths 8,40 --windows 2 --threads 1 --format tsv
column sigma >one
run 0 measure "$nano" --text "$text" --lengths 8,40 --windows 2 --threads 2 --format tsv
column sigma | cmp -s - one || fail "2 threads give other digits than 1"
run 0 measure "$nano" --text "$text" --lengths 40 --windows 1:1 --layer 5 --format tsv
[ "$(column sigma)" = "$(tail -n 1 one)" ] || fail "a cell alone gives other digits"

# a random model takes the built-in tokenizer, which is gpt2-nano's, or a given one
run 0 measure random:gpt2 --text "$text" --length 8 --windows 1 --layer 0 --format tsv
built_in=$(column sigma)
run 0 measure random:gpt2 --tokenizer "$nano" --text "$text" --length 8 --windows 1 --layer 0 \
    --format tsv
[ "$(column sigma)" = "$built_in" ] || fail "the built-in tokenizer is another one"
run 0 measure random:gpt2 --ids ids --layer 0 --seed 2 --format tsv

# verdicts
run 4 measure "$nano" --text "$text" --length 16 --windows 1 --max-sigma 1
has err "exceeds --max-sigma 1"
has out sigma
run 0 measure "$nano" --text "$text" --length 16 --windows 1 --max-sigma 100
run 3 measure "$nano" --text "$text" --length 16 --windows 1 --max-products 2 --tol 1e-9
has err "did not converge"
has out "6 of 6 values did not converge: they are lower bounds"

# progress only when asked for or on a terminal
run 0 measure "$nano" --text "$text" --length 16 --windows 1
empty err
run 0 measure "$nano" --text "$text" --length 16 --windows 1 --progress always
has err "of 6 cells"
has err "left"
run 0 measure "$nano" --text "$text" --layers 0 --length 8 --windows 1 --timing --format tsv
has err "cells/s"
finish
