#!/bin/sh
# Runs every libFuzzer target of a build for some seconds, from its checked-in seeds, as many
# at once as there are cores.  New inputs go to the build folder; a crash leaves its input
# there and ends with 1.
#     fuzz.sh BUILD_DIR SECONDS [TARGET]       FUZZ_CORPUS, FUZZ_LOG: where that one keeps
#     new inputs, and what it says; FUZZ_TIMEOUT: seconds of the clock (default 10) after which
#     an input counts as a hang
set -eu
build=$1 seconds=$2
root=$(cd "$(dirname "$0")/.." && pwd)
export LSAN_OPTIONS="suppressions=$root/tools/lsan.supp:print_suppressions=0"

one() { # NAME
    name=$1
    seeds=$root/tests/fuzz/corpus/${name#fuzz_}
    case $name in # a layer file is a safetensors file
    fuzz_layer_file | fuzz_gauss_file) dict=safetensors ;;
    *) dict=${name#fuzz_} ;;
    esac
    quiet=0
    [ "$name" != fuzz_args ] || quiet=3 # it says what is wrong, a million times
    case $name in # three times as many in a second as of 4,096 bytes; no seed is longer
    fuzz_tokenizer | fuzz_vocab) longest=1200 ;;
    fuzz_api) longest=64 ;; # about a dozen calls
    *) longest=0 ;; # libFuzzer's own
    esac
    dict=$root/tests/fuzz/$dict.dict
    [ -f "$dict" ] || dict=
    corpus=${FUZZ_CORPUS:-$build/corpus/$name}
    log=${FUZZ_LOG:-$build/$name.log}
    mkdir -p "$corpus"
    "$build/tests/fuzz/$name" -max_total_time="$seconds" -timeout="${FUZZ_TIMEOUT:-10}" -rss_limit_mb=2048 -print_final_stats=1 -max_len=$longest \
        -close_fd_mask=$quiet ${dict:+-dict="$dict"} -artifact_prefix="$build/$name-" "$corpus" "$seeds" \
        >"$log" 2>&1 || { tail -n 60 "$log"; exit 1; }
    awk -v name="$name" '/cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") reached = $(i + 1) }
        /number_of_executed_units/ { runs = $2 }
        END { printf "%-20s %10d executions, %6d edges reached\n", name, runs, reached }' "$log"
}

if [ $# = 3 ]; then
    one "$3"
    exit 0
fi
found=
for target in "$build"/tests/fuzz/fuzz_*; do
    if [ -f "$target" ] && [ -x "$target" ]; then found="$found $(basename "$target")"; fi
done
if [ -z "$found" ]; then echo "no fuzz targets in $build/tests/fuzz" >&2; exit 1; fi
# shellcheck disable=SC2086 # a list of words
printf '%s\n' $found | xargs -P "$(nproc)" -I NAME sh "$0" "$build" "$seconds" NAME
