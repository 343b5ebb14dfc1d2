# Ranks on a full disk, told to end, or killed: the same command goes on, and no finished cell is
# lost.  LONG=1 kills at 50 moments instead of 3 (make test-ranks).
. "$(dirname "$0")/begin.sh"
command -v mpirun >/dev/null && [ -e "$(dirname "$bin")/liblipscope_mpi.so" ] ||
    { echo "skipped: no MPI"; exit 77; }
. "$(dirname "$0")/mpirun.sh"
small="measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8:32:x2 --windows 3 --format tsv"

# a full disk: what was finished is kept
cat >full.sh <<END
trap '' XFSZ
ulimit -f 200 # blocks of 512 bytes
exec "$bin" measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8,16 --windows 30 --run full.db --format tsv
END
OMPI_MCA_btl=self,tcp mpirun -n 2 sh full.sh >out 2>err && fail "a full disk"
has err "full.db: cannot store a cell: "
stored full.db >before
[ -s before ] || fail "nothing was stored before the disk was full"
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8,16 --windows 30 --run full.db --format tsv
stored full.db >after
[ "$(lost)" = 0 ] || fail "a full disk cost $(lost) finished cells"

# ---- Killed ---------------------------------------------------------------------------
# one rank hears of Ctrl-C in a solve that all share: they end after the same step, and say what was reached
run 0 export builtin:gpt2-nano --layer 3 --text builtin:lighthouse --length 51 -o layer.safetensors -q
run 0 layer layer.safetensors --format json
sigma=$(field sigma)
mpirun -n 2 "$bin" layer layer.safetensors --solver power --tol 1e-300 --max-products 1000000000 --format json >out 2>err </dev/null &
job=$!
set -- $(listening $job)
sleep 0.5
kill -s INT "$2"
gone "$@" || fail "a rank waits for one that was told to end"
await $job "$@"
awk -v s="$(field sigma)" -v w="$sigma" 'BEGIN { exit !(s > 0 && s <= w * (1 + 1e-12)) }' || fail "not a lower bound of $sigma: $(field sigma)"
has err "interrupted"
# a scheduler whose time is over tells every rank
mpirun -n 2 "$bin" measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8:32:x2 --windows 400 --run told.db \
    --format tsv >out 2>err </dev/null &
job=$!
for _ in $(seq 300); do # until something is stored
    [ "$(stored told.db | wc -l)" -gt 3 ] && break
    sleep 0.1
done
set -- $(children $job)
stored told.db >before
kill -s TERM "$@" 2>/dev/null
await $job "$@" && fail "a run that was told to end has not"
gone "$@" || fail "a rank does not end when it is told to"
stored told.db >after
[ -s after ] && [ "$(lost)" = 0 ] || fail "SIGTERM cost $(lost) finished cells"
# mpirun, killed while its ranks begin: MPI_Init may wait for it for ever, its ranks may not
begun=0 round=0 wanted=4
[ -n "${LONG:-}" ] && wanted=40
while [ $begun -lt $wanted ] && [ $round -lt 200 ]; do
    round=$((round + 1))
    mpirun -n 2 "$bin" $small >out 2>err </dev/null &
    job=$!
    sleep "$(awk -v r=$round 'BEGIN { srand(r); print 0.05 + 0.6 * rand() }')"
    set -- $(children $job)
    kill -s KILL $job 2>/dev/null && [ $# -gt 0 ] && begun=$((begun + 1))
    await $job "$@"
    gone "$@" || fail "a rank outlived its mpirun, killed at the start of round $round"
done
[ $begun = $wanted ] || fail "only $begun of $round rounds had ranks that began"

sweep="measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8:32:x2 --windows 20 --dtype f64 --format tsv"
[ -n "${LONG:-}" ] && sweep="measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8:64:x2 --windows 60 --dtype f64 --format tsv"
run 0 $sweep
rows out >want
kills=3 killed=0 round=0 computed=0
[ -n "${LONG:-}" ] && kills=50
: >before
while [ $killed -lt $kills ] && [ $round -lt 200 ]; do
    round=$((round + 1))
    mpirun -n 2 "$bin" $sweep --run kill.db >out 2>err </dev/null &
    job=$!
    sleep "$(awk -v r=$round 'BEGIN { srand(r); print 0.5 + 2 * rand() }')"
    set -- $(children $job)
    case $((round % 4)) in
    0) victim=$job signal=KILL ;;
    1) victim=${2:-$job} signal=KILL ;;
    2) victim=${1:-$job} signal=KILL ;;
    3) victim=$job signal=TERM ;;
    esac
    kill -s $signal $victim 2>/dev/null && killed=$((killed + 1))
    await $job "$@"
    code=$?
    gone "$@" || fail "a rank outlived whom round $round killed" # the lock is free
    stored kill.db >after
    [ "$(lost)" = 0 ] || fail "$(lost) finished cells were lost or computed again"
    [ "$(wc -l <after)" -gt "$(wc -l <before)" ] && computed=$((computed + 1))
    mv after before
    [ $code != 0 ] || rm -f kill.db before
    [ -e before ] || : >before
done
ranks 0 2 $sweep --run kill.db
rows out | cmp -s - want || fail "a killed and resumed run has other rows"
stored kill.db >after
[ "$(lost)" = 0 ] || fail "$(lost) finished cells were lost or computed again"
echo "$killed killed in $round rounds, $computed of which had finished cells"
finish
