#!/bin/sh
# Runs AFL++ on targets of tests/fuzz for some seconds each, from their checked-in seeds, as
# many at once as there are cores.  What it finds stays in BUILD_DIR/afl; a crash or a hang
# ends with 1.
#     fuzz_afl.sh BUILD_DIR SECONDS TARGET...
set -eu
build=$1 seconds=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
export AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_UI=1 AFL_NO_AFFINITY=1
export ASAN_OPTIONS=abort_on_error=1:symbolize=0:detect_leaks=0

one() { # NAME
    rm -rf "$build/afl/$1"
    mkdir -p "$build/afl"
    dict=$root/tests/fuzz/${1#fuzz_}.dict
    [ -f "$dict" ] || dict=
    afl-fuzz -V "$seconds" -t 5000 -m none ${dict:+-x "$dict"} -i "$root/tests/fuzz/corpus/${1#fuzz_}" \
        -o "$build/afl/$1" -- "$build/tests/fuzz/$1" >"$build/afl/$1.log" 2>&1 ||
        { tail -n 20 "$build/afl/$1.log"; return 1; }
    awk -F' *: *' -v name="$1" '{ of[$1] = $2 }
        END {
            printf "%-20s %10d executions in %d s, %6d edges reached, %d crashes, %d hangs\n", name, of["execs_done"],
                of["run_time"], of["edges_found"], of["saved_crashes"], of["saved_hangs"]
            exit of["saved_crashes"] + of["saved_hangs"] > 0
        }' "$build/afl/$1/default/fuzzer_stats"
}

if [ $# = 1 ]; then
    one "$1"
    exit
fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -I NAME sh "$0" "$build" "$seconds" NAME
