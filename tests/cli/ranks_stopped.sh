# Ranks that are told to end, or that stand still for a while: one sentence, nothing finished is
# lost, and the same command goes on; and ranks that were not asked for the same.
. "$(dirname "$0")/begin.sh"
command -v mpirun >/dev/null && [ -e "$(dirname "$bin")/liblipscope_mpi.so" ] ||
    { echo "skipped: no MPI"; exit 77; }
. "$(dirname "$0")/mpirun.sh"
export OMP_NUM_THREADS=1
state() { sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null; } # PID: T where it stands still

# ---- The writer stands still: the others wait, and go on with it
sweep="measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8:32:x2 --windows 24 --dtype f64 --format tsv"
run 0 $sweep
rows out >want
mpirun -n 2 "$bin" $sweep --run still.db >out 2>err </dev/null &
job=$!
set -- $(listening $job)
for _ in $(seq 300); do # until something is stored
    [ "$(stored still.db | wc -l)" -gt 3 ] && break
    sleep 0.05
done
kill -s STOP "$1"
sleep 0.2
[ "$(state "$1")" = T ] || fail "the writer does not stand still: $(state "$1")"
stored still.db >before
sleep 1.5 # the other finishes its portion meanwhile, and asks for more
stored still.db >after
cmp -s before after || fail "somebody else wrote into the run file"
kill -0 "$2" 2>/dev/null && kill -0 $job || fail "a rank did not wait for the writer"
grep -v " cells, about " err >words # what a busy machine says before long work
empty words
kill -s CONT "$1"
await $job "$@" || fail "exit $? after the writer stood still: $(cat err)"
rows out | cmp -s - want || fail "a run whose writer stood still has other rows"
stored still.db >after
[ -s before ] && [ "$(lost)" = 0 ] || fail "$(lost) finished cells were computed again"
# and where it never goes on: whoever ends the job loses nothing
mpirun -n 2 "$bin" $sweep --run ended.db >out 2>err </dev/null &
job=$!
set -- $(listening $job)
for _ in $(seq 300); do
    [ "$(stored ended.db | wc -l)" -gt 3 ] && break
    sleep 0.05
done
kill -s STOP "$1"
stored ended.db >before
kill -s TERM $job
kill -s KILL "$1" # as a scheduler does at last
await $job "$@" && fail "a job that was ended has finished"
gone "$@" || fail "a rank outlived a writer that stood still"
ranks 0 2 $sweep --run ended.db
rows out | cmp -s - want || fail "other rows after a writer that stood still was killed"
stored ended.db >after
[ "$(lost)" = 0 ] || fail "$(lost) finished cells were computed again"

# ---- reproduce and bounds, told to end
# told SIGNAL FILE COMMAND...: both ranks hear of it when the run file has its first row, or soon
# where there is none (-); exit code in $code
told() {
    signal=$1 file=$2
    shift 2
    mpirun -n 2 "$bin" "$@" >out 2>err </dev/null &
    job=$!
    set -- $(listening $job)
    for _ in $(seq $([ "$file" = - ] && echo 14 || echo 400)); do
        [ "$file" = - ] || [ -z "$(stored "$file")" ] || break
        sleep 0.05
    done
    kill -s "$signal" "$@" 2>/dev/null
    await $job "$@"
    code=$?
    gone "$@" || fail "a rank does not end when it is told to"
}
# half a minute of work: none of it is finished when it is told to end
: >before
for signal in INT TERM; do
    told $signal again/run.db reproduce --out again -q --only text
    case $code in
    1 | 130 | 143) ;;
    *) fail "$signal ended reproduce with $code: $(cat err)" ;;
    esac
    [ "$(grep -c '^lipscope reproduce: interrupted; the same command continues from again/run.db$' err)" = 1 ] ||
        fail "reproduce and $signal: $(cat err)"
    [ "$(grep -c '^lipscope' err)" = 1 ] || fail "not one sentence: $(cat err)"
    stored again/run.db >after
    [ -s after ] && [ "$(lost)" = 0 ] || fail "$(lost) finished rows of reproduce were computed again, or none is there"
    mv after before
done
# rank 0 stands still when both are told: the other has nothing to do, and waits for its word
ticks() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '{ print $12 + $13 }'; } # PID: of the processor
mpirun -n 2 "$bin" reproduce --out again -q --only text >out 2>err </dev/null &
job=$!
set -- $(listening $job)
for _ in $(seq 400); do
    stored again/run.db >after
    cmp -s before after || break
    sleep 0.05
done
kill -s STOP "$1"
quiet=0 was=0
for _ in $(seq 100); do
    now=$(ticks "$2")
    [ "${now:-0}" -le $((was + 1)) ] && quiet=$((quiet + 1)) || quiet=0
    [ $quiet = 3 ] && break
    was=${now:-0}
    sleep 0.2
done
kill -s INT "$@"
sleep 0.2
kill -s CONT "$1"
await $job "$@" && fail "reproduce that was told to end has finished"
gone "$@" || fail "a rank does not end when it is told to"
[ "$(grep '^lipscope' err)" = "lipscope reproduce: interrupted; the same command continues from again/run.db" ] ||
    fail "reproduce whose rank 0 stood still: $(cat err)"
# a second of work, told to end at its first row, comes to the same end as one that nobody disturbs
quick="reproduce -q --quick --only text"
run 0 $quick --out alone
told INT short/run.db $quick --out short
stored short/run.db >before
ranks 0 2 $quick --out short
stored short/run.db >after
[ "$(lost)" = 0 ] || fail "$(lost) finished rows of reproduce were computed again"
for table in alone/*.tsv; do
    cmp -s "$table" "short/${table##*/}" || fail "told to end and begun again: another ${table##*/}"
done
# a solve and a bound inside of which it ends: seconds of work, and no layer is finished
for signal in INT TERM; do
    begun=$(date +%s)
    told $signal - bounds random:gpt2 --text builtin:lighthouse --length 512 --layers 0:2
    case $code in # mpirun's, by which of the two ends first
    1 | 130 | 143) ;;
    *) fail "$signal ended bounds with $code: $(cat err)" ;;
    esac
    [ "$(grep -c '^lipscope bounds: interrupted' err)" = 1 ] && [ "$(grep -c '^lipscope.*interrupted' err)" = 1 ] ||
        fail "bounds and $signal: $(cat err)"
    empty out
    # layers of a minute each; a busy machine is given forty seconds for what takes tenths of one
    [ $(($(date +%s) - begun)) -lt 40 ] || fail "bounds did not hear of $signal for $(($(date +%s) - begun)) s"
done

# ---- Ranks that were asked for something else
# each ARGS0 -- ARGS1: rank 0 and rank 1 of one job
each() {
    first=
    while [ "$1" != -- ]; do first="$first $1"; shift; done
    shift
    mpirun -n 1 "$bin" $first : -n 1 "$bin" "$@" >out 2>err </dev/null
    code=$?
}
"$make" multi layer.safetensors
attack="attack layer.safetensors --num-heads 2 --kv-heads 1 --radius 1 --iterations 6 --restarts 4 --lengths 2:6 --format tsv"
each $attack --seconds 5 -- $attack --seconds 50
[ $code = 1 ] || fail "two limits of time: exit $code"
has err "lipscope attack: rank 1 has another seconds than rank 0"
[ "$(grep -c '^lipscope' err)" = 1 ] || fail "not one sentence: $(cat err)"
each $attack -- $attack --device guard
has err "lipscope attack: rank 1 has another device than rank 0"
small="measure builtin:gpt2-nano --text builtin:lighthouse --length 8 --windows 2 --format tsv"
each $small -- $small --device guard
[ $code = 1 ] || fail "two devices: exit $code"
has err "lipscope measure: rank 1: it computes on guard and rank 0 on cpu: give all the same --device"
[ "$(grep -c '^lipscope' err)" = 1 ] || fail "not one sentence: $(cat err)"
# what `auto` takes is rank 0's to say: it alone knows how much is left
export LIPSCOPE_CUDA_PLUGIN="$FAKE_PLUGIN"
device_of() { awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "device") c = i; next } { sub(/:.*/, "", $c); print $c }' out | sort -u | tr '\n' ' '; }
LIPSCOPE_AUTO_SECONDS=0 ranks 0 2 $small --run auto.db
[ "$(device_of)" = "cuda " ] || fail "auto takes the GPU for both: $(device_of)"
for seconds in 0 1000; do # rank 1 would decide otherwise
    cat >odd.sh <<END
[ \$OMPI_COMM_WORLD_RANK = 1 ] && LIPSCOPE_AUTO_SECONDS=$((1000 - seconds)) || LIPSCOPE_AUTO_SECONDS=$seconds
export LIPSCOPE_AUTO_SECONDS
exec "$bin" $small --windows 12
END
    mpirun -n 2 sh odd.sh >out 2>err </dev/null || fail "ranks that disagree: $(cat err)"
    [ "$(device_of)" = "$([ $seconds = 0 ] && echo cuda || echo cpu) " ] || fail "auto with $seconds: $(device_of)"
done
cat >odd.sh <<END
[ \$OMPI_COMM_WORLD_RANK = 1 ] && export LIPSCOPE_FAKE=none
exec "$bin" $small
END
LIPSCOPE_AUTO_SECONDS=0 mpirun -n 2 sh odd.sh >out 2>err </dev/null && fail "a rank without a GPU"
has err "lipscope measure: rank 1: rank 0 computes on cuda: "
finish
