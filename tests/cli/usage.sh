# Wrong use: one sentence and a hint on standard error, exit 2, nothing on standard output.
. "$(dirname "$0")/begin.sh"
"$make" G1 g1 || exit 1

# wrong TEXT ARGS...: the exact sentence
wrong() {
    text=$1
    shift
    run 2 "$@"
    empty out
    [ "$(head -n 1 err)" = "$text" ] || { fail "lipscope $*"; sed 's/^/    /' err; }
    case $(tail -n 1 err) in "Try 'lipscope"*"--help'.") ;; *) fail "no hint: $*" ;; esac
}

wrong "lipscope: missing command"
wrong "lipscope: unknown command 'frobnicate'" frobnicate
wrong "lipscope: unknown command 'layre'; did you mean 'layer'?" layre
wrong "lipscope: unknown option '--foo'" --foo
wrong "lipscope: unknown command 'nothing'" help nothing
wrong "lipscope: extra operand 'check'" help layer check

wrong "lipscope layer: missing operand: FILE" layer
wrong "lipscope layer: extra operand 'b'" layer a b
wrong "lipscope layer: unknown option '--foo'" layer --foo
wrong "lipscope layer: unknown option '--casual'; did you mean '--causal'?" layer g1 --casual
wrong "lipscope layer: unknown option '--head'" layer g1 --head=3
wrong "lipscope layer: unknown option '--num'; did you mean '--num-heads'?" layer g1 --num 3
wrong "lipscope layer: unknown option '-z'" layer g1 -z
wrong "lipscope layer: unknown option '-z'" layer g1 -qz
wrong "lipscope layer: option '--scale' needs a value" layer g1 --scale
wrong "lipscope layer: option '--causal' takes no value" layer g1 --causal=yes
wrong "lipscope layer: the value of '--save-direction' is empty" layer g1 --save-direction=
for value in 12x -1 0 "" " 1" 1.5 99999999999999999999; do
    wrong "lipscope layer: invalid value '$value' for '--num-heads': expected a whole \
number from 1 to 65536" layer g1 --num-heads "$value"
done
for value in 0 -1 nan inf 1e999 1e-2x ""; do
    wrong "lipscope layer: invalid value '$value' for '--tol': expected a positive number" \
        layer g1 --tol "$value"
done
for value in 0 1 2 -0.5; do
    wrong "lipscope layer: invalid value '$value' for '--probability': expected a number \
between 0 and 1" layer g1 --probability "$value"
done
wrong "lipscope layer: invalid value '0' for '--scale': expected a number other than zero" \
    layer g1 --scale 0
wrong "lipscope layer: invalid value 'xml' for '--format': expected table|tsv|json" \
    layer g1 --format xml
wrong "lipscope layer: invalid value '-3' for '--seed': expected a whole number that is \
not negative" layer g1 --seed -3
for value in 8: :8 8:4 8:64:x1 8:64:x 8:64:0 8,,16 , 8:16:2:4 0 8-16; do
    wrong "lipscope bench: invalid value '$value' for '--lengths': expected a list such as \
16,64 or a range such as 8:512:x2, of numbers from 1 to 100000000" bench --lengths "$value"
done
wrong "lipscope selftest: extra operand 'now'" selftest now
wrong "lipscope demo: unknown option '--fast'" demo --fast

# GNU conventions that are right
run 0 layer g1 --scale=1 --format tsv
run 0 layer --scale 1 --format=tsv g1
run 0 --version
run 0 layer -q --format tsv -- g1
run 0 layer --scale -1 g1 # a value may begin with a dash
run 1 layer -- --causal   # behind "--" it is a file
has err "--causal"
finish
