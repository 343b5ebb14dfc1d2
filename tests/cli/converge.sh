# A value that did not converge says so, is printed all the same, and exits 3.
. "$(dirname "$0")/begin.sh"
"$make" multi multi || exit 1
run 3 layer multi --num-heads 4 --kv-heads 2 --max-products 1 --format json
has err "lipscope layer: multi: not converged: residual"
[ "$(field converged)" = false ] || fail "converged is $(field converged)"
low=$(field sigma)
run 0 layer multi --num-heads 4 --kv-heads 2 --format json
awk -v a="$low" -v b="$(field sigma)" 'BEGIN { exit !(a > 0 && a <= b * (1 + 1e-14)) }' ||
    fail "$low is not a lower bound of $(field sigma)"
run 3 layer multi --num-heads 4 --kv-heads 2 --max-products 1 --quiet
empty err
# too large is a failure, converged or not
run 4 layer multi --num-heads 4 --kv-heads 2 --max-products 1 --max-sigma 0
# a tolerance that nothing reaches
run 3 layer multi --num-heads 4 --kv-heads 2 --tol 1e-300 --max-products 50
# a looser one takes fewer products
run 0 layer multi --num-heads 4 --kv-heads 2 --tol 0.3 --format json
loose=$(field products)
run 0 layer multi --num-heads 4 --kv-heads 2 --tol 1e-10 --format json
[ "$loose" -lt "$(field products)" ] || fail "--tol makes no difference"
finish
