# mpirun -n K lipscope measure: the same rows for any K, one input shared by all, and what is
# wrong said once.
. "$(dirname "$0")/begin.sh"
command -v mpirun >/dev/null && [ -e "$(dirname "$bin")/liblipscope_mpi.so" ] ||
    { echo "skipped: no MPI"; exit 77; }
. "$(dirname "$0")/mpirun.sh"

small="measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8:32:x2 --windows 3 --format tsv"

run 0 $small
rows out >want
for k in 1 2 4; do
    ranks 0 $k $small --run ranks$k.db
    rows out >got
    cmp -s got want || fail "$k ranks have other rows: $(diff got want | head -4)"
done
cp out first
ranks 0 2 $small --run ranks4.db # as it stands, seconds included
cmp -s out first || fail "a finished run was computed again"
run 0 $small --run ranks2.db # alone, as well
rows out | cmp -s - want || fail "one process does not continue what two began"
# a window over several ranks, the stride of the file, parts and directions
ranks 0 2 measure builtin:gpt2-nano --text builtin:lighthouse --length 32 --windows 1 --heads each --format tsv \
    --save-direction there
rows out >got
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --length 32 --windows 1 --heads each --format tsv \
    --save-direction here
rows out | cmp -s - got || fail "one window has other rows on two ranks"
diff -r here there >/dev/null || fail "directions differ"
ranks 0 2 measure builtin:gpt2-nano --text builtin:lighthouse --length 8 --windows 1 --layer 0 --run ranks2.db --format tsv
[ "$(wc -l <out)" = 2 ] || fail "a part of a run has $(wc -l <out) lines"
for i in 1 2; do ranks 0 2 $small --shard $i/2 --run part$i.db -q; done
run 0 merge part1.db part2.db -o parts.db -q
run 0 $small --run parts.db
rows out | cmp -s - want || fail "parts of two ranks each are not the whole"
# a certificate that is refused is told and not stored
ranks 3 2 measure builtin:gpt2-nano --text builtin:lighthouse --length 16 --windows 2 --layers 0,1 --certify 1e-9 \
    --certify-memory 0.000001 --format tsv --run refused.db
[ "$(grep -c 'set the limit' err)" = 4 ] || fail "refused certificates: $(cat err)"
[ "$(sqlite3 refused.db 'SELECT count(*) FROM cells')" = 0 ] || fail "a refused certificate was stored"

# one input, whose rows are shared: sigma of one process, with its direction
run 0 export builtin:gpt2-nano --layer 3 --text builtin:lighthouse --length 51 -o layer.safetensors -q
run 0 layer layer.safetensors --dtype f64 --format json
want_sigma=$(field sigma)
ranks 0 2 layer layer.safetensors --dtype f64 --format json --save-direction direction.safetensors
near "$(field sigma)" "$want_sigma" 1e-12
run 0 check direction.safetensors
ranks 0 2 layer layer.safetensors --dtype f64 --format json --device guard # memory of their own
near "$(field sigma)" "$want_sigma" 1e-12
ranks 1 2 layer layer.safetensors --device nonsense
[ "$(grep -c nonsense err)" = 1 ] || fail "not said once: $(cat err)"
grep -q MPI_ABORT err && fail "a silent rank ended rank 0 before it spoke: $(cat err)"
ranks 0 3 layer layer.safetensors --format tsv
[ "$(wc -l <out)" = 2 ] || fail "not one row: $(cat out)"
# the memory of a rank falls like 1 / K, but for what docs/scaling.md names
cat >peak.sh <<END
"$bin" layer \$1 --num-heads 4 --kv-heads 2 --sliding 8 --threads 1 --tol 1e-3 -q >/dev/null &
while kill -0 \$! 2>/dev/null; do awk '/VmHWM/ { print \$2 }' /proc/\$!/status 2>/dev/null; sleep 0.02; done
END
peak() { mpirun -n "$1" sh peak.sh "$2" </dev/null 2>/dev/null | sort -n | tail -1; } # K FILE
"$make" multi short.safetensors && "$make" long long.safetensors
program=$(peak 2 short.safetensors) alone=$(peak 1 short.safetensors) one=$(peak 1 long.safetensors)
for k in 2 4; do
    peaked=$(peak $k long.safetensors)
    echo "$k ranks: $peaked kB at most each, one process $one kB, the program $program kB"
    awk -v k=$k -v p="$peaked" -v o="$one" -v b="$program" -v a="$alone" 'BEGIN { exit !(p - b <= (1 / k + 0.09) * (o - a)) }' ||
        fail "$k ranks have $peaked kB each, one process $one kB, the program alone $program kB"
done
run 0 export builtin:gpt2-nano --layer 3 --text builtin:lighthouse --length 11 -o few.safetensors -q
run 0 layer few.safetensors --dtype f64 --format json
want_sigma=$(field sigma)
ranks 0 2 layer few.safetensors --dtype f64 --certify 1e-6 --format json # by one of them
[ "$(field certified)" = true ] || fail "not certified: $(cat out)"
near "$(field upper)" "$want_sigma" 2e-6
# the sweep that `bench` times, on one layer of the model
mkdir -p one/gpt2-nano && cp -r "$(dirname "$0")/../../data/text" one/ || exit 1
cp "$(dirname "$0")"/../../data/gpt2-nano/* one/gpt2-nano/
sed -i 's/"n_layer": 6/"n_layer": 1/' one/gpt2-nano/config.json
LIPSCOPE_DATA=$PWD/one ranks 0 2 bench --mpi --lengths 48 --mask causal --repeats 1 --format tsv
awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["ranks"] != 2 || !($at["efficiency"] > 0) || !($at["predicted_ms"] > 0) { exit 1 }
    { seen = seen $at["work"] " " ; r = $at["of_predicted"] * $at["predicted_ms"] / $at["ranks_ms"] - 1; if (r * r > 1e-12) exit 1 }
    END { exit seen != "input sweep " }' out || fail "bench --mpi: $(cat out)"
run 2 bench --mpi
has err "start it by mpirun"

# what is wrong is said once
ranks 1 2 measure nowhere --text builtin:lighthouse
[ "$(grep -c 'no such file' err)" = 1 ] || fail "not said once: $(cat err)"
ranks 2 2 measure
[ "$(grep -c 'missing operand' err)" = 1 ] || fail "not said once: $(cat err)"
ranks 4 2 $small --max-sigma 0.001
[ "$(grep -c 'max-sigma\|above' err)" -le 1 ] || fail "not said once: $(cat err)"
ranks 1 2 $small --run ranks2.db --seed 2
[ "$(grep -c 'made with another setting' err)" = 1 ] || fail "not said once: $(cat err)"
# a rank that cannot read what the others read, or reads something else
for bad in none other; do
    cat >odd.sh <<END
cd "\$(dirname "\$0")"
[ \$OMPI_COMM_WORLD_RANK = 1 ] && cd $bad
exec "$bin" measure builtin:gpt2-nano --text text --length 8 --windows 1
END
    mkdir -p $bad
done
head -c 4000 "$(dirname "$0")/../../data/text/lighthouse.txt" >text
tail -c 4000 "$(dirname "$0")/../../data/text/lighthouse.txt" >other/text
sed 's/cd other/cd none/' odd.sh >odd1.sh
mpirun -n 2 sh odd1.sh >out 2>err && fail "a rank without its text"
has err "lipscope measure: rank 1: text: "
mpirun -n 2 sh odd.sh >out 2>err && fail "a rank with another text"
has err "lipscope measure: rank 1 has another text than rank 0"
# ranks that were given different things: what they found together would be that of neither
apart() { # SENTENCE COMMAND OF-RANK-0 OF-RANK-1
    timeout 60 mpirun -n 1 "$bin" $2 $3 : -n 1 "$bin" $2 $4 >out 2>err </dev/null
    code=$?
    [ $code = 1 ] && has err "$1" || fail "exit $code: '$2' with '$3' and '$4': $(cat out err)"
    empty out
}
run 0 export builtin:gpt2-nano --layer 3 --text builtin:lighthouse --length 11 --window 1 -o moved.safetensors -q
run 0 export builtin:gpt2-nano --layer 2 --text builtin:lighthouse --length 11 -o below.safetensors -q
apart "not all ranks have the same input" layer few.safetensors moved.safetensors
apart "not all ranks have the same input" layer few.safetensors layer.safetensors
apart "not all ranks have the same layer" layer few.safetensors below.safetensors
apart "not all ranks have the same settings of the solve" "layer few.safetensors" "" "--tol 1e-3"
text="builtin:gpt2-nano --text builtin:lighthouse"
apart "rank 1 has another choice of cells than rank 0" "measure $text" "--lengths 8,16" "--lengths 8,24"
apart "rank 1 has another choice of cells than rank 0" "measure $text --lengths 8,16" "--shard 1/2" "--shard 2/2"
apart "rank 1 has another set of options than rank 0" "measure $text --length 8" "" "--tol 1e-2"
apart "rank 1 has another set of options than rank 0" "measure $text --length 8" "" "--map block"
apart "rank 1 has another choice of layers than rank 0" "bounds $text --length 8" "--layers 0,1,2" "--layers 0,2,3"
apart "rank 1 has another set of options than rank 0" "bounds $text --length 8 --layers 0:2" "" "--p 2"
apart "rank 1 has another layer at its input than rank 0" "bounds $text --layers 0:2" "--length 8" "--length 9"
ranks 0 2 measure $text --length 8 --windows 1 --threads 1 -q # what may differ is not asked for
LIPSCOPE_MPI_PLUGIN=/nowhere.so mpirun -n 2 "$bin" $small >out 2>err && fail "ranks without MPI"
has err "/nowhere.so"
ranks 0 2 devices --format tsv # nothing to share
has err "2 ranks were started, and one computes"
[ "$(grep -c '^guard' out)" = 1 ] || fail "a command that shares nothing has spoken twice"
finish
