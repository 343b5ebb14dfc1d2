# begin.sh - sourced by every test here: $bin, $make, a fresh scratch folder, and checks.
# One run shows all failures; `finish` gives the exit code.
set -u
bin=$1 make=$3
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 1
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# run CODE ARGS...: the program; standard output in ./out, standard error in ./err
run() {
    want=$1
    shift
    "$bin" "$@" >out 2>err
    code=$?
    [ $code = "$want" ] || {
        fail "exit $code, not $want: lipscope $*"
        sed 's/^/    /' err
    }
}

# hurried COMMAND...: with a clock that goes on whenever it is looked at (hurry.c)
hurried() { LD_PRELOAD=$HURRY_CLOCK ASAN_OPTIONS=verify_asan_link_order=0 "$@"; }

# signalled SIGNAL CONDITION ARGS...: the program, sent the signal as soon as the condition, a
# shell command, holds; as `run`, with the exit code in $code.  A minute is enough on any machine.
signalled() {
    signal=$1 condition=$2
    shift 2
    : >err # what the last one said is not taken for it
    : >pid
    {
        for i in $(seq 3000); do
            [ -s pid ] && eval "$condition" && break
            sleep 0.02
        done
        kill -s $signal "$(cat pid)"
    } >/dev/null 2>&1 &
    watcher=$!
    # in the foreground: what is started behind a shell would not hear of Ctrl-C
    sh -c 'echo $$ >pid; exec "$@"' sh "$bin" "$@" >out 2>err
    code=$?
    kill $watcher 2>/dev/null
    wait $watcher 2>/dev/null
}

# until_said PATTERN ARGS...: the program, killed when it has said that on standard error (./err);
# all work is long there
until_said() {
    words=$1
    shift
    hurried signalled KILL 'grep -q "$words" err' "$@"
    grep -q "$words" err || { fail "'$words' was not said:"; sed 's/^/    /' err; }
}

# has FILE TEXT: a line that contains the text as it is
has() { grep -qF -e "$2" "$1" || { fail "no '$2' in $1:"; sed 's/^/    /' "$1"; }; }
# is FILE TEXT: the whole file, without its last newline
is() { [ "$(cat "$1")" = "$2" ] || { fail "$1 is not '$2':"; sed 's/^/    /' "$1"; }; }
empty() { [ ! -s "$1" ] || { fail "$1 is not empty:"; sed 's/^/    /' "$1"; }; }

# field NAME: its value in the JSON of ./out (one member per line)
field() { sed -n "s/^ *\"$1\": \(.*[^,]\),*\$/\1/p" out; }
# near A B TOLERANCE: relative
near() {
    awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a - b; if (d < 0) d = -d
        if (b < 0) b = -b; exit !(a != "" && d <= t * b) }' ||
        fail "$1 is not within $3 of $2"
}

finish() {
    [ $failures = 0 ] && echo "all passed"
    [ $failures = 0 ]
    exit $?
}
