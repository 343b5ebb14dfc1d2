# lipscope split and push: printed tables, the finite perturbations, Gaussians, the search,
# and bad input.
. "$(dirname "$0")/begin.sh"

"$make" G1 layer # d = 1, A = -1, V = 1; its ten tokens do not matter here
# Table S1 of docs/maths.md 2: splitting beats moving by a factor of about R
while read -r R weight move split; do
    printf 'x,weight\n%s,%s\n0,%s\n' "$R" "$weight" "$(awk "BEGIN { printf \"%.17g\", 1 - $weight }")" >mu
    run 0 split mu --layer layer -o parts --format json
    near "$(field move)" "$move" 5e-5
    near "$(field split)" "$split" 1e-12
    near "$(field move_measured)" "$(field move)" 5e-3
    near "$(field split_measured)" "$(field split)" 5e-3
    near "$(field teleport_measured)" "$(field teleport)" 5e-3
    [ "$(field split_atom)" = 1 ] || fail "split_atom is $(field split_atom)"
    [ "$(field teleport_kind)" = '"lower"' ] || fail "teleport is not labelled"
    [ "$(field converged)" = true ] || fail "not converged"
    promised=$(field split)
    # the written measure shows it by itself
    run 0 distance mu parts --layer layer --format json
    near "$(field ratio)" "$promised" 5e-3
    near "$(field distance)" 1e-4 0.2
done <<END
2 0.25 0.59103 0.75
4 0.0625 0.25820 0.9375
8 0.015625 0.12599 0.984375
16 0.00390625 0.06262 0.99609375
END

# S2, and the causal sequence with every token twice, which is another system
printf '5.5981184\n0.46767033\n' >pair
run 0 split pair --layer layer --format json
near "$(field move)" 1.352654726003 1e-12
near "$(field split)" 2.008219648160 1e-12
[ "$(field duplicate)" = null ] || fail "duplicate without a mask"
run 0 split pair --layer layer --causal --format json
near "$(field split)" 2.00822 1e-5
near "$(field duplicate)" 2.371 5e-4
[ "$(field distance)" = '"d2"' ] || fail "the distance is $(field distance)"
printf 'x,time\n5.5981184,0.5\n0.46767033,1\n' >timed # the same with times
run 0 split timed --layer layer --format json
near "$(field split)" 2.00822 1e-5

# every other option
run 0 split pair --layer layer --tol 1e-6 --radius 5 --measured 1 --seed 2 --threads 1 --format json
[ "$(field move_measured)" = null ] || fail "measured beyond --measured"
near "$(field split)" 2.008219648160 1e-10
run 0 split --search 1 --atoms 2 --layer layer
run 0 push pair --layer layer --scale 2 --num-heads 1 --kv-heads 1 -o image

# equal tokens merge
awk 'BEGIN { for (i = 0; i < 20000; i++) print i % 1000 ? 1 : -1 }' >many
run 0 split many --layer layer --format json
[ "$(field atoms)" = 2 ] && [ "$(field n)" = 20000 ] || fail "atoms $(field atoms) of $(field n)"
run 0 push many --layer layer --merge -o image --format json
[ "$(field atoms)" = 2 ] || fail "the image has $(field atoms) atoms"

# images: of one atom it is V x; masked with distinct times the first is V x as well
printf 'x,time\n3,0.25\n1,1\n' >mu
run 0 push mu --layer layer -o image --format json
[ "$(field mask)" = '"times"' ] || fail "mask $(field mask)"
printf 'x,time\n3,0.25\n%.17g,1\n' "$(awk 'BEGIN { e = exp(-2); print (3 * e + 1) / (e + 1) }')" >known
run 0 distance image known --conditional --format json
awk "BEGIN { exit !($(field distance) < 1e-5) }" || fail "the image is $(field distance) away"

# a layer of a model
awk 'BEGIN { for (i = 0; i < 4; i++) { for (c = 0; c < 768; c++) printf "%s%.3f", c ? "," : "", sin(i + c * c); print "" } }' >wide
run 0 split wide --model random:gpt2 --layers 1 --heads 3 --mask none --restarts 1 --format json
near "$(field split_measured)" "$(field split)" 5e-3
[ "$(field map)" = '"attention"' ] || fail "map $(field map)"

# Gaussians: |V S A| = 0.8, and the image N(V (m + S A m), V S A S (V S A)^T)
"$make" gauss gauss
run 0 split gauss --layer layer --format json
near "$(field split)" 0.8 1e-14
[ "$(field move)" = null ] || fail "moving a Gaussian has no finite constant"
run 0 push gauss --layer layer -o image --format json
awk "BEGIN { exit !($(field exponent) < -0.3 && $(field exponent) > -0.8) }" || fail "exponent $(field exponent)"
run 0 distance gauss image --format json
# means 0.3 and 0.06, deviations sqrt(0.8) and 0.8 sqrt(0.8)
near "$(field cost)" "$(awk 'BEGIN { printf "%.17g", 0.24 ^ 2 + 0.04 * 0.8 }')" 1e-12
[ "$(field method)" = '"gaussian"' ] || fail "method $(field method)"
run 0 distance gauss image --layer layer --format json
# m + S A m and S sqrt(S): 0.06 and 0.8 sqrt(0.8); 0.06 - 0.512 0.06 and 0.512 sqrt(0.512)
near "$(field image_distance)" "$(awk 'BEGIN { printf "%.17g",
    sqrt((0.512 * 0.06) ^ 2 + (0.8 * sqrt(0.8) - 0.512 * sqrt(0.512)) ^ 2) }')" 1e-12
"$make" mixture mixture
run 0 push mixture --layer layer --samples 300 -o image --format json
[ "$(field n)" = 300 ] || fail "n $(field n)"
run 0 split mixture --layer layer --samples 50 --format json
run 1 push mixture --layer layer -o image
has err "--samples"
"$make" skew skew
run 1 split skew --layer layer
has err "skew: cov of part 0 is not symmetric"

# the search: the known worst case for a = 1, and faster than exponential growth
run 0 split --search 1,1.5,2 --layer layer --format tsv
awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { if ($at["best"] > $at["upper"]) bad = 1
      if (NR == 2 && ($at["best"] < 3.0685 || $at["best"] > 3.07)) bad = 1
      if (NR == 4 && !($at["growth"] > last)) bad = 1
      last = $at["growth"] }
    END { exit bad || NR != 4 }' out || { fail "search"; cat out; }

bad() {
    text=$1
    shift
    run 1 "$@"
    empty out
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line: lipscope $*"
    has err "$text"
}
printf '1,2\n3,4\n' >plane
bad "plane: the points of the measure have width 2, the layer takes 1" split plane --layer layer
bad "plane: the points of the measure have width 2" push plane --layer layer -o image
printf '1\nnan\n' >nan
bad "nan: line 2: holds a NaN" split nan --layer layer
printf 'x,weight\n0,1.5\n1,-0.5\n' >negative
bad "negative: weight 1 is -0.5" push negative --layer layer -o image
printf 'x,weight\n0,1e300\n1,1e300\n' >heavy
bad "heavy: the weights sum to" split heavy --layer layer
run 0 split heavy --layer layer --normalise
: >empty
bad "empty: holds no points" split empty --layer layer
printf 'x,time\n0,0.5\n1,1.5\n' >late
bad "late: time 1 is 1.5" push late --layer layer -o image
bad "sliding window" split pair --layer layer --sliding 1
bad "the measure has times" split timed --layer layer --causal
bad "No such file" split pair --layer missing
run 2 split pair
run 2 split
run 2 split pair --layer layer --model random:gpt2
run 2 push pair --layer layer
run 2 split pair --layer layer --step 0 -o parts
run 2 split --search 1,x --layer layer
run 2 split pair --search 1 --layer layer
run 2 distance gauss gauss --p 1
finish
