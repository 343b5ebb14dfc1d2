#!/bin/sh
# The long fuzz run counts every round once: targets that only say what libFuzzer would.
#     long.sh TOOLS
set -eu
tools=$1
command -v python3 >/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() { printf 'FAIL: %s\n' "$1" >&2; exit 1; }

# BUILD EDGES: every target of a build; a billion executions, which is all that is wanted
make_build() {
    mkdir -p "$dir/$1/tests/fuzz"
    for name in ids safetensors gguf gauss_file measure_file layer_file args tokenizer index config vocab run_file; do
        printf '#!/bin/sh\necho "#7\tDONE cov: %s ft: 9"\necho "stat::number_of_executed_units: 1000000000"\n' "$2" \
            >"$dir/$1/tests/fuzz/fuzz_$name"
        chmod +x "$dir/$1/tests/fuzz/fuzz_$name"
    done
}
long() { python3 "$tools/fuzz_long.py" "$dir/sanitized" "$dir/bare" "$dir/state" 60 2 >"$dir/out" 2>"$dir/err"; }
rounds() { tail -n +2 "$dir/state/rounds.tsv" | wc -l; }

make_build sanitized 20
make_build bare 10
long || fail "a run without a finding"
[ "$(rounds)" = 24 ] || fail "each target once in each build, not $(rounds) rounds"
grep -q '^| all | 24,000,000,000 | 12,000,000,000 |' "$dir/out" || fail "the sum: $(tail -n 1 "$dir/out")"
! grep -q growing "$dir/out" || fail "coverage that stands grows"
[ -z "$(find "$dir/state" -name '*.log')" ] || fail "a log of a round that found nothing is left"

# a second run at the same time counts nothing
if flock "$dir/state/lock" python3 "$tools/fuzz_long.py" "$dir/sanitized" "$dir/bare" "$dir/state" 5 2>"$dir/err"; then
    fail "two runs on one state"
fi
grep -q 'another run adds to' "$dir/err" || fail "no sentence: $(cat "$dir/err")"
[ "$(rounds)" = 24 ] || fail "a refused run wrote rounds"

# a program that was compiled anew has its rounds, though all that is wanted is done: one that
# begins its coverage, one in which it stands
echo '# anew' >>"$dir/sanitized/tests/fuzz/fuzz_index"
long || fail "a run of one new program"
[ "$(rounds)" = 26 ] || fail "$(rounds) rounds, not two more"
[ "$(grep -c '^index' "$dir/state/rounds.tsv")" = 4 ] || fail "$(cat "$dir/state/rounds.tsv")"

# compiled anew: its coverage is not known to stand, even where it has fewer edges
echo "ids	bare	5	0.1	8	9		anew" >>"$dir/state/rounds.tsv"
python3 "$tools/fuzz_long.py" --table "$dir/state" >"$dir/out"
grep -q '^| `fuzz_ids` | 2,000,000,005 .* 20, 8 | 0 (still growing) | 0 |' "$dir/out" || fail "$(cat "$dir/out")"

# only what is asked for, by a name that is one
for name in index args; do echo '# anew' >>"$dir/bare/tests/fuzz/fuzz_$name"; done
before=$(rounds)
FUZZ_TARGETS=args long || fail "a run of one target"
[ "$(rounds)" = "$((before + 2))" ] || fail "$(rounds) rounds, not two more than $before"
[ "$(tail -n 2 "$dir/state/rounds.tsv" | cut -f 1 | uniq)" = args ] || fail "$(tail -n 2 "$dir/state/rounds.tsv")"
! FUZZ_TARGETS=arguments long || fail "a target that is none"
grep -q "names 'arguments'; the targets are ids" "$dir/err" || fail "no sentence: $(cat "$dir/err")"

# a finding ends its target and the run, with 1
printf '#!/bin/sh\necho "Test unit written to crash-7"\nexit 77\n' >"$dir/sanitized/tests/fuzz/fuzz_ids"
if long; then fail "a finding that nobody hears of"; fi
grep -q '^ids: crash-7' "$dir/out" || fail "$(cat "$dir/out")"
[ "$(grep -c crash-7 "$dir/state/rounds.tsv")" = 1 ] || fail "a finding was looked for again"
