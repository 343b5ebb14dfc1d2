# mpirun -n K lipscope attack, reproduce, bounds: pieces that the ranks share, the same output
# and files as one process, whoever ends.
. "$(dirname "$0")/begin.sh"
command -v mpirun >/dev/null && [ -e "$(dirname "$bin")/liblipscope_mpi.so" ] ||
    { echo "skipped: no MPI"; exit 77; }
. "$(dirname "$0")/mpirun.sh"
export OMP_NUM_THREADS=1

# ---- attack: lengths
"$make" multi layer.safetensors
attack="attack layer.safetensors --num-heads 2 --kv-heads 1 --radius 1 --iterations 6 --restarts 4"
mkdir -p one two
run 0 $attack --lengths 2:6 --format tsv -o one/in.safetensors
sed 's|one/in|two/in|' out >want
for k in 2 3; do
    rm -f two/* a.db
    ranks 0 $k $attack --lengths 2:6 --format tsv -o two/in.safetensors --run a.db
    cmp -s out want || fail "$k ranks attack otherwise: $(diff out want)"
    diff -r one two >/dev/null || fail "$k ranks write other inputs"
done
[ "$(grep -c 'read it with' err)" = 5 ] || fail "not said once for each length: $(cat err)"
ranks 0 2 $attack --lengths 2:8 --format tsv -o two/in.safetensors --run a.db -q # two more lengths
[ "$(sqlite3 a.db 'SELECT count(*) FROM cells')" = 7 ] || fail "a run of attacks was not extended"
head -6 out | cmp -s - want || fail "rows of the run file are others"
ranks 0 2 $attack --lengths 2:6 --seconds 0.2 --format tsv -o two/late.safetensors
[ "$(wc -l <out)" = 6 ] || fail "a time limit: $(cat out err)"
# the climbs of one length: in f32 and then in double; while large scores grow back
for how in "--radius 1 --dtype f32" "--radius 40"; do
    run 0 $attack --length 9 $how --format tsv
    cp out want
    ranks 0 2 $attack --length 9 $how --format tsv
    cmp -s out want || fail "two ranks climb otherwise with $how: $(diff out want)"
done
# whoever is told to end or killed, the same command goes on, from lengths and from climbs
long="$attack --restarts 6 --iterations 400"
run 0 $long --lengths 20:26 --format tsv
cp out want
for victim in 2 1 job all; do
    lengths=20:26
    [ $victim = 1 ] && lengths=20,26 # whose climbs are shared
    mpirun -n 2 "$bin" $long --lengths $lengths --run k.db -q >out 2>err </dev/null &
    job=$!
    set -- $(listening $job)
    stored k.db >before
    for _ in $(seq 100); do
        stored k.db >after
        cmp -s before after && kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    mv after before
    case $victim in
    all) kill -s INT "$@" ;; # Ctrl-C
    job) kill -s TERM $job ;;
    1) kill -s KILL "${1:-$job}" ;; # no rank is left where all was found before
    2) kill -s KILL "${2:-$job}" ;;
    esac 2>/dev/null
    await $job "$@"
    gone "$@" || fail "a rank outlived $victim"
    stored k.db >after
    [ "$(lost)" = 0 ] || fail "$victim cost $(lost) finished lengths"
done
stored k.db >before
[ -s before ] || fail "no length was finished before anybody was killed"
ranks 0 2 $long --lengths 20:26 --format tsv --run k.db
cmp -s out want || fail "an attack that was killed and resumed has other rows: $(diff out want)"
stored k.db >after
[ "$(lost)" = 0 ] || fail "$(lost) finished lengths were computed again"
# what is wrong is said once
ranks 1 2 attack nowhere.safetensors --length 4 --radius 1
[ "$(grep -c 'nowhere' err)" = 1 ] || fail "not said once: $(cat err)"
ranks 2 2 $attack --length 4 --domain around --radius 1 --atoms 2
[ "$(grep -c 'leave out' err)" -le 1 ] || fail "not said once: $(cat err)"
ranks 1 2 $attack --lengths 2:6 -o nowhere/in.safetensors
[ "$(grep -c 'cannot write files' err)" = 1 ] || fail "not said once: $(cat err)"

# ---- bounds: layers
bounds="bounds builtin:gpt2-nano --text builtin:lighthouse --length 8"
run 0 $bounds --layers 0:2 --format json
cp out want.json
for k in 2 3; do
    ranks 0 $k $bounds --layers 0:2 --format json
    cmp -s out want.json || fail "$k ranks bound otherwise: $(diff out want.json | head -4)"
done
run 0 $bounds --layers 0:2 --format tsv
[ "$(cut -f1 out | sort -u | tr '\n' ' ')" = "0 1 2 layer " ] || fail "bounds of three layers: $(cut -f1 out | sort -u)"
awk -F'\t' 'NR > 1 && $1 == 1' out | cut -f2- >several
run 0 $bounds --layers 1 --format tsv # the layer alone says the same
tail -n +2 out | cmp -s - several || fail "a layer among others has other bounds"
run 0 $bounds --layers 0,2
[ "$(grep -c 'sigma is' out)" = 2 ] || fail "two layers for people: $(cat out)"
ranks 1 2 $bounds --layers 0,99
[ "$(grep -c 'layer 99' err)" = 1 ] || fail "not said once: $(cat err)"
run 2 bounds layer.safetensors --num-heads 2 --kv-heads 1 --layers 0,1
has err "a layer file has one layer"

# ---- reproduce: computations, sweeps, adversarial inputs
for part in lemmas text adversarial; do
    k=2
    [ $part = text ] && k=3
    run 0 reproduce --quick --only $part --out alone.$part -q
    ranks 0 $k reproduce --quick --only $part --out shared.$part -q
    for table in alone.$part/*.tsv; do
        cmp -s "$table" "shared.$part/${table##*/}" || fail "$k ranks: another ${table##*/} of $part"
    done
done
# killed, and again
for what in "reproduce --quick --only text --out again -q" "$bounds --layers 0:2 --format json"; do
    mpirun -n 2 "$bin" $what >out 2>err </dev/null &
    job=$!
    set -- $(listening $job)
    kill -s KILL "${2:-$job}" 2>/dev/null
    await $job "$@"
    gone "$@" || fail "a rank of '$what' outlived another"
done
ranks 0 2 reproduce --quick --only text --out again -q
for table in alone.text/*.tsv; do
    cmp -s "$table" "again/${table##*/}" || fail "killed and begun again: another ${table##*/}"
done
ranks 1 2 reproduce --quick --only lemmas --gpt2 nowhere --out bad -q
[ "$(grep -c 'nowhere' err)" = 1 ] || fail "not said once: $(cat err)"
finish
