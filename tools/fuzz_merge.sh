#!/bin/sh
# The fewest of the inputs that long runs kept which reach every edge that they reached, beside
# the seeds with names: they replace tests/fuzz/corpus/NAME/found-*.  Of the program under the
# sanitizers, and then of the bare one, which has other edges: neither begins anew.
#     fuzz_merge.sh BUILD_DIR BARE_BUILD_DIR CORPORA
set -eu
build=$1 bare=$2 corpora=$3
root=$(cd "$(dirname "$0")/.." && pwd)
export LSAN_OPTIONS="suppressions=$root/tools/lsan.supp:print_suppressions=0"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for kept in "$corpora"/*; do
    name=$(basename "$kept")
    seeds=$root/tests/fuzz/corpus/$name
    mkdir "$scratch/$name" "$scratch/$name.named"
    find "$seeds" -type f ! -name 'found-*' -exec cp {} "$scratch/$name.named" \;
    quiet=0
    [ "$name" != args ] || quiet=3
    longest=0
    case $name in # what tools/fuzz.sh reads of an input
    tokenizer | vocab) longest=1200 ;;
    esac
    # edges, not how often each was passed: a corpus that is read in a second
    for folder in "$build" "$bare"; do
        "$folder/tests/fuzz/fuzz_$name" -set_cover_merge=1 -use_counters=0 -max_len=$longest -timeout=600 -rss_limit_mb=2048 -close_fd_mask=$quiet \
            "$scratch/$name" "$scratch/$name.named" "$kept" "$seeds" >"$folder/merge-$name.log" 2>&1 ||
            { tail -n 20 "$folder/merge-$name.log"; exit 1; }
    done
    rm -f "$seeds"/found-*
    number=0
    for input in "$scratch/$name"/*; do
        [ -f "$input" ] || continue
        cmp -s "$input" /dev/null && continue
        for named in "$scratch/$name.named"/*; do cmp -s "$input" "$named" && continue 2; done
        cp "$input" "$seeds/found-$(basename "$input" | cut -c 1-12)"
        number=$((number + 1))
    done
    printf '%-14s %4d of %5d inputs\n' "$name" "$number" "$(find "$kept" -type f | wc -l)"
done
