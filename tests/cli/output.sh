# Results that cannot be written are a failure; progress appears only when asked for.
. "$(dirname "$0")/begin.sh"
"$make" G1 g1 || exit 1

# full ARGS...: exit 1 and one message when the disk is full, or standard output closed
full() {
    "$bin" "$@" >/dev/full 2>err
    code=$?
    [ $code = 1 ] || fail "exit $code on a full disk: lipscope $*"
    has err "No space left on device"
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line: lipscope $*"
    "$bin" "$@" >&- 2>err
    code=$?
    [ $code = 1 ] || fail "exit $code with standard output closed: lipscope $*"
    [ -s err ] || fail "no message: lipscope $*"
}
if [ -c /dev/full ]; then
    full --version
    full --help
    full layer --help
    for format in table tsv json; do full layer g1 --format $format; done
fi

# with standard output closed, results must not land in a file opened later
"$bin" layer g1 --save-direction top >&- 2>err && fail "standard output was closed"
[ ! -e top ] || run 0 check top

run 0 layer g1
empty err
run 0 layer g1 --progress=always
[ -s err ] || fail "no progress"
for silent in --progress=never "--progress always -q" --progress=auto; do
    run 0 layer g1 $silent
    empty err
done
finish
