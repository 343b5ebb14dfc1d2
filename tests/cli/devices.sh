# `devices` and --device: what there is, the same bits on each, and refusals.
. "$(dirname "$0")/begin.sh"
run 0 devices
empty err
has out "cpu"
run 0 devices --format json
got=$(sed -n 's/^ *"name": "\(.*\)",$/\1/p' out | tr '\n' ' ')
case "$got" in "cpu guard "*) ;; *) fail "devices are $got" ;; esac
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --layers 1 --lengths 8,16 --windows 2 --device cpu --threads 1 --format json
sed '/seconds/d' out >cpu
for device in guard cpu:0 auto; do
    run 0 measure builtin:gpt2-nano --text builtin:lighthouse --layers 1 --lengths 8,16 --windows 2 --device $device --threads 2 --format json
    sed '/seconds/d; s/"device": ".*"/"device": "cpu"/' out | cmp -s - cpu || fail "other rows on $device"
done
run 1 demo --quick --device nowhere
has err "there is no device 'nowhere'"
LIPSCOPE_DEVICE=nowhere
export LIPSCOPE_DEVICE
run 1 measure builtin:gpt2-nano --text builtin:lighthouse --layers 0 --lengths 8
has err "there is no device 'nowhere'"
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --layers 0 --lengths 8 --windows 1 --device cpu
unset LIPSCOPE_DEVICE
for name in gpu cpu:1 guard:1 cpu:x; do
    run 1 measure builtin:gpt2-nano --text builtin:lighthouse --layers 0 --lengths 8 --device $name
    [ "$(wc -l <err)" = 1 ] || fail "more than a sentence: $(cat err)"
done
# without the plugin or a GPU: one sentence that names what is missing
"$bin" devices --format tsv | awk -F'\t' '$1 == "cuda" { if ($2 == "false" && $4 == "") bad = 1; seen = 1 }
    END { exit bad || !seen }' || fail "cuda is not listed with its reason"
run 1 measure builtin:gpt2-nano --text builtin:lighthouse --layers 0 --lengths 8 --device cuda:1000
[ "$(wc -l <err)" = 1 ] || fail "more than a sentence: $(cat err)"
finish
