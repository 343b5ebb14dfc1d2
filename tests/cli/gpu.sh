# `--device cuda` and `auto` with a plugin that is made on the CPU (tests/cuda/fake.c): the
# same values, and one sentence for whatever goes wrong; nothing that was found is lost.
. "$(dirname "$0")/begin.sh"
plugin=$FAKE_PLUGIN
export LIPSCOPE_CUDA_PLUGIN="$plugin"
some="measure builtin:gpt2-nano --text builtin:lighthouse --layers 1,2 --lengths 8,24 --windows 2 --threads 2"

# as_on_cpu WHAT: sigma in out is that of cpu.sigma, but for the roundings of two lengths,
# whose squares are added there in another order: chains of at most 400 additions lose less
# than 2e-14 of one
as_on_cpu() {
    field sigma | paste - cpu.sigma | awk '{ d = $1 - $2; if (!($2 > 0 && d * d <= (2e-14 * $2) ^ 2)) exit 1; n++ }
        END { exit !n }' || fail "$1: $(field sigma | paste - cpu.sigma)"
}

# same OPTIONS...: residual and number of products are those of the CPU to the last bit,
# sigma but for its lengths; what is proved allows for a few roundings more
same() {
    run 0 $some --device cpu --format json "$@"
    for name in sigma residual products upper_prob; do field $name >cpu.$name; done
    field lower >cpu.lower
    run 0 $some --device cuda --format json "$@"
    empty err
    [ "$(field device | sort -u)" = '"cuda"' ] || fail "not on the GPU: $*"
    as_on_cpu "sigma with $*"
    for name in residual products; do
        field $name | cmp -s - cpu.$name || fail "another $name with $*"
    done
    field lower | paste - cpu.lower | awk '$1 == "null" && $2 == "null" { next }
        !($1 > 0 && $1 <= $2 * (1 + 1e-12) && $1 >= $2 * (1 - 1e-5)) { exit 1 }' ||
        fail "lower with $*: $(field lower | paste - cpu.lower)"
}
same
same --dtype f64
same --upper --details
for device in cpu cuda; do # entropy and sink, which a GPU finds by itself
    run 0 $some --details --device $device --format json
    for name in entropy sink sink_token; do field $name >$device.$name; done
    awk '{ exit !($1 > 0) }' $device.entropy || fail "no entropy on $device"
done
for name in entropy sink sink_token; do
    paste cpu.$name cuda.$name | awk '{ d = $1 - $2; if (!(d * d <= 1e-24 * $1 * $1)) exit 1 }' ||
        fail "another $name: $(paste cpu.$name cuda.$name)"
done
same --count 2 --tol 1e-3
# a device that is not ready yet: numbers are read meanwhile, and made of later
for n in 2 5 40; do LIPSCOPE_FAKE=begins:$n same; done
LIPSCOPE_FAKE=begins:9 same --layers all --threads 1
# inputs that f16 cannot hold are computed in bf16 x 3, each for itself
for tokens in 8 24; do LIPSCOPE_FAKE=narrow:$tokens same; done
LIPSCOPE_FAKE=narrow:24 same --map block
# a product of length zero, whose square says nothing of its length
mkdir -p zero
echo '{"model_type":"llama","hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":1,"num_key_value_heads":1,"vocab_size":50,"max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000,"hidden_act":"silu","tie_word_embeddings":true,"initializer_range":0}' >zero/config.json
echo 1 2 3 4 5 6 7 8 >ids
for device in cpu cuda; do
    run 0 measure random:zero --ids ids --length 8 --windows 1 --device $device --format json
    for name in sigma lower upper_prob; do field $name; done >zero.$device
done
cmp -s zero.cpu zero.cuda || fail "zero is another: $(cat zero.cpu zero.cuda)"
[ "$(head -n 1 zero.cuda)" = 0.0 ] || fail "zero is $(cat zero.cuda)"
# long inputs in f16; what f16 cannot hold is done in f16 x 3
mkdir -p long
echo '{"model_type":"llama","hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":1,"num_key_value_heads":1,"vocab_size":50,"max_position_embeddings":8192,"rms_norm_eps":1e-5,"rope_theta":10000,"hidden_act":"silu","tie_word_embeddings":true}' >long/config.json
awk 'BEGIN { for (i = 0; i < 4096; i++) printf "%d ", i * i % 47 }' >ids
long="measure random:long --ids ids --length 4096 --windows 1 --tol 1e-3 --threads 2 --format json"
run 0 $long --device cpu
field sigma >cpu.sigma
for fault in none-at-all half; do
    LIPSCOPE_FAKE=$fault run 0 $long --device cuda
    as_on_cpu "$fault"
done
# a residual that f32 does not reach is one of f64, unless f32 is pinned
run 0 $some --layers 1 --lengths 24 --windows 1 --tol 1e-9 --device cuda --format json
[ "$(field converged)" = true ] || fail "not converged: $(cat out)"
run 3 $some --layers 1 --lengths 24 --windows 1 --tol 1e-9 --max-products 40 --dtype f32 --device cuda --format json
same --map heads --mask none
for map in norm-attention residual block; do same --map $map --dtype f64; done
run 0 $some --layers 1 --lengths 8 --windows 1 --device cuda --certify 1e-2 --format json
[ "$(field certified)" = true ] || fail "not certified"
for device in cpu cuda; do # gradients of sigma
    run 0 attack builtin:gpt2-nano --layer 1 --length 4 --radius 1 --restarts 2 --iterations 5 --dtype f64 --threads 2 --device $device --format json
    field sigma >attack.$device
done
cmp -s attack.cpu attack.cuda || fail "another attack: $(cat attack.cpu attack.cuda)"
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --map model --length 8 --windows 1 --device cuda:1 --format json
[ "$(field device)" = '"cuda:1"' ] || fail "not on the second GPU"
run 0 devices --format tsv
awk -F'\t' '$1 == "cuda" && $2 == "true" { seen = 1 } END { exit !seen }' out || fail "cuda is not usable"

# what cannot be opened: one sentence, exit 1; auto takes the CPU without a word
refused() {
    run 1 $some --device cuda
    [ "$(wc -l <err)" = 1 ] || fail "more than a sentence: $(cat err)"
    has err "$1"
    LIPSCOPE_AUTO_SECONDS=0 run 0 $some --device auto --format json
    empty err
    [ "$(field device | sort -u)" = '"cpu"' ] || fail "auto is not on the CPU"
}
export LIPSCOPE_FAKE=abi
refused "of another build"
LIPSCOPE_FAKE=driver
refused "driver is missing or too old"
LIPSCOPE_FAKE=none
refused "there is no NVIDIA GPU"
LIPSCOPE_FAKE=old
refused "too old for this plugin"
run 0 devices --format tsv
awk -F'\t' '$1 == "cuda" && $2 == "false" { seen = 1 } END { exit !seen }' out || fail "an old GPU is usable"
unset LIPSCOPE_FAKE
LIPSCOPE_CUDA_PLUGIN=/dev/null
refused "/dev/null"
LIPSCOPE_CUDA_PLUGIN=$plugin
CUBLAS_EMULATE_DOUBLE_PRECISION=1
export CUBLAS_EMULATE_DOUBLE_PRECISION
refused "CUBLAS_EMULATE_DOUBLE_PRECISION"
unset CUBLAS_EMULATE_DOUBLE_PRECISION
run 1 $some --device cuda:2
has err "there is no cuda:2"

# a GPU that fails on the way: by its name a sentence and exit 1, with what is finished kept,
# and another device goes on; auto goes on by itself
run 0 $some --device cpu --format json
field sigma >cpu.sigma
for fault in memory:1 memory:4 memory:30 lost:1 lost:20 lost:300 lost:900; do
    rm -f a.db
    LIPSCOPE_FAKE=$fault run 1 $some --device cuda --run a.db
    [ "$(wc -l <err)" = 1 ] || fail "$fault: more than a sentence: $(cat err)"
    case $fault in
    memory*) has err "cuda: the GPU is out of memory" ;;
    lost*) has err "cuda: CUDA, waiting for the GPU: it is lost" ;;
    esac
    run 0 $some --device cpu --run a.db --format json
    as_on_cpu "$fault, then by the CPU"
    LIPSCOPE_AUTO_SECONDS=0 LIPSCOPE_FAKE=$fault run 0 $some --format json
    [ "$(wc -l <err)" = 1 ] || fail "$fault: more than a sentence: $(cat err)"
    has err "the rest is computed on the cpu"
    as_on_cpu "$fault, then by auto"
    field device | grep -q '"cpu"' || fail "$fault: nothing was computed on the CPU"
done
# work that is not worth a GPU stays on the CPU
run 0 $some --format json
[ "$(field device | sort -u)" = '"cpu"' ] || fail "auto took a GPU for nothing"
LIPSCOPE_AUTO_SECONDS=0 run 0 $some --format json
[ "$(field device | sort -u)" = '"cuda"' ] || fail "auto did not take the GPU"
# under mpirun each rank has its own; Open MPI never frees some of its memory
if command -v mpirun >/dev/null && [ -e "$(dirname "$bin")/liblipscope_mpi.so" ]; then
    LIPSCOPE_FAKE=
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
    many="measure builtin:gpt2-nano --text builtin:lighthouse --layers 1,2 --lengths 8,24 --windows 12 --format json"
    run 0 $many --device cpu
    field sigma >cpu.sigma
    ASAN_OPTIONS=detect_leaks=0 mpirun -n 2 "$bin" $many --device cuda >out 2>err </dev/null || fail "two ranks on two GPUs: $(cat err)"
    as_on_cpu "two ranks on two GPUs"
    [ "$(field device | sort -u | tr -d '"\n')" = "cuda:0cuda:1" ] || fail "GPUs of two ranks: $(field device | sort -u)"
    # a GPU that fails ends the job: a rank that went on alone by its CPU would leave the others waiting
    export ASAN_OPTIONS=detect_leaks=0 LIPSCOPE_AUTO_SECONDS=0 LIPSCOPE_FAKE=lost:300
    for shared in "$many" "reproduce --quick --only text --out alone"; do
        code=0
        timeout 120 mpirun -n 2 "$bin" $shared --device auto >out 2>err </dev/null || code=$?
        [ "$code" = 1 ] || fail "ranks whose GPU fails end with $code: $(cat err)"
        grep -q "the rest is computed on the cpu" err && fail "a rank goes on alone: $(cat err)"
        [ "$(grep -c '^lipscope' err)" = 1 ] || fail "ranks whose GPU fails say: $(cat err)"
    done
fi

finish
