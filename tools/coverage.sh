#!/bin/sh
# What the tests reach of src/: lines, and branches taken at least once, by gcov.  A file that
# is compiled several times (once per instruction set) counts once, by its best.
#     coverage.sh BUILD [CTEST OPTION...]       default: the tests of make test
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-coverage}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- -LE 'real|long' -E '^(repo|browser)\.'
root=$PWD
unset CCACHE_BASEDIR # names of files would be relative then
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS="--coverage -O1" >/dev/null
cmake --build "$build" -j "$(nproc)" >/dev/null
find "$build" -name '*.gcda' -delete
ctest --test-dir "$build" -j "$(nproc)" "$@" || echo "some tests failed: what they reached counts"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
find "$PWD/$build" -name '*.gcda' >"$scratch/data"
cd "$scratch"
while read -r data; do
    LC_ALL=C gcov -b -n "$data" 2>/dev/null
done <data |
    awk -v root="$root/src/" '
        /^File / { gsub(/^File .|.$/, ""); file = index($0, root) == 1 ? substr($0, length(root) + 1) : "" }
        file == "" { next }
        { split($0, part, /[:% ]+/) }
        /^Lines executed/ { n = $NF; share = part[3]; if (!(file in lines) || share > best[file]) { lines[file] = n; best[file] = share } }
        /^Taken at least once/ { n = $NF; share = part[5]; if (!(file in branches) || share > most[file]) { branches[file] = n; most[file] = share } }
        END {
            for (file in lines) {
                printf "%6.2f %6.2f  %s\n", best[file], file in branches ? most[file] : 100, file
                l += lines[file]; got += lines[file] * best[file] / 100
                b += branches[file]; taken += branches[file] * most[file] / 100
            }
            if (!l) { print "nothing was reached"; exit 1 }
            printf "zz lines %.2f %% of %d, branches taken %.2f %% of %d\n", 100 * got / l, l, 100 * taken / b, b
        }' | LC_ALL=C sort | sed 's/^zz //' | tee table
# the bars: 92 % of the lines, 80 % of the branches
tail -n 1 table | awk '{ exit !($2 >= 92 && $8 >= 80) }' || { echo "below 92 % of the lines or 80 % of the branches"; exit 1; }
