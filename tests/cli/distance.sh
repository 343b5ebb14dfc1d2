# lipscope distance: known values, every format of input, the plan, and bad input.
. "$(dirname "$0")/begin.sh"

printf '0,0\n1,0\n' >a
printf 'x;y\n3;4\n4;4\n' >b # a, moved by (3, 4)
for p in 1 1.5 2 3; do
    run 0 distance a b --p $p --format json
    near "$(field distance)" 5 1e-14
    near "$(field p)" $p 0
    [ "$(field conditional)" = false ] || fail "conditional is not false"
    [ "$(field method)" = '"assignment"' ] || fail "method is $(field method)"
done
empty err
run 0 distance b a --format json # the default is p = 2
near "$(field cost)" 25 1e-14
field gap | grep -qE '^-?[0-9.]+(e-[0-9]+)?$' || fail "no gap"

# one dimension, weights, times
printf 'x,weight,time\n0,0.25,0\n1,0.25,0\n5,0.5,1\n' >mu
printf 'x,weight,time\n1,0.25,0\n3,0.25,0\n4,0.5,1\n' >nu
run 0 distance mu nu --p 1 --format json
near "$(field distance)" 1.25 1e-14 # 0.25 (1 + 2) + 0.5
[ "$(field method)" = '"line"' ] || fail "method is $(field method)"
run 0 distance mu nu --p 2 --conditional --plan plan --format json
near "$(field cost)" 1.75 1e-14 # 0.25 (1 + 4) + 0.5
[ "$(field conditional)" = true ] || fail "conditional is not true"
[ -s plan ] || fail "no plan"
run 0 distance mu nu --sinkhorn 5 --format json
near "$(field epsilon)" 5 0
[ "$(field gap)" = null ] || fail "an approximation has no gap"

# .npy: two points of width one, 1 and 4
{
    printf '\223NUMPY\001\000\072\000'
    printf "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1)} "
    printf '\000\000\000\000\000\000\360\077\000\000\000\000\000\000\020\100'
} >array.of.any.name
printf '1\n6\n' >line
run 0 distance array.of.any.name line --p 1 --format json
near "$(field distance)" 1 1e-14

bad() {
    text=$1
    shift
    run 1 distance "$@"
    empty out
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line: lipscope distance $*"
    has err "lipscope distance: "
    has err "$text"
}
bad "No such file" missing a
bad "line: its points have width 1, those of a width 2" a line
: >empty
bad "empty: holds no points" empty a
printf '1\nnan\n' >nan
bad "nan: line 2: holds a NaN" line nan
printf 'x,weight\n0,1.5\n1,-0.5\n' >negative
bad "negative: weight 1 is -0.5" line negative
printf 'x,weight\n0,1e300\n1,1e300\n' >heavy
bad "heavy: the weights sum to 2.0000000000000001e+300, not to 1" line heavy
run 0 distance line heavy --normalise
printf 'x,time\n0,0.5\n1,1.5\n' >late
bad "late: time 1 is 1.5" late late
printf 'x,time\n0,0\n1,0\n5,0.5\n' >other
bad "the time marginals differ" mu other --conditional
bad "needs times" a b --conditional
run 2 distance a
run 2 distance a b --p 0.5
run 2 distance a b --sinkhorn 1 --plan plan
finish
