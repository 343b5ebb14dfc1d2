# A model that is larger than the layers that measure has ready at a time.
. "$(dirname "$0")/nano.sh"
. "$(dirname "$0")/begin.sh"
export OMP_WAIT_POLICY=passive

# all 12 layers of GPT-2: 1.2 GB were ready at once, two layers and what may stay behind are 0.5
run 0 measure random:gpt2 --text "$text" --lengths 8 --windows 1 --timing --format tsv --run all.db
[ "$(wc -l <out)" = 13 ] || fail "$(wc -l <out) lines"
cp out whole
peak=$(sed -n 's/.*; \([0-9]*\) MB of memory$/\1/p' err)
[ "${peak:-9999}" -lt 800 ] || fail "peak memory: $(cat err)"
run 0 info random:gpt2 --format json
awk -v a="$(field memory)" -v p="${peak:-0}" 'BEGIN { exit !(a > 1e6 * p / 4 && a < 4e6 * p) }' ||
    fail "memory $(field memory), but $peak MB were needed"

# layers that are asked for later begin where others have been: the same values
run 0 measure random:gpt2 --text "$text" --lengths 8 --windows 1 --layers 1,4 --run part.db --format tsv
cp out part
run 0 measure random:gpt2 --text "$text" --lengths 8 --windows 1 --layers 1:4 --run part.db --format tsv
cut -f3,7-9 whole | awk '$1 >= 1 && $1 <= 4' >a
cut -f3,7-9 out | awk 'NR > 1' | cmp -s - a || fail "rows differ in parts: $(cut -f3,7-9 out)"
# and what was finished is not computed again: its seconds are those of before
awk -F'\t' 'NR > 1' part | while read -r row; do grep -qF -e "$row" out || echo "$row"; done >lost
empty lost

# the way of export, which keeps all layers of one window, in double
run 0 export random:gpt2 --text "$text" --layer 4 --length 8 -o four.safetensors
run 0 layer four.safetensors --dtype f64 --format json
sigma=$(field sigma)
run 0 measure random:gpt2 --text "$text" --layers 4 --lengths 8 --windows 1 --dtype f64 --format json
near "$(field sigma)" "$sigma" 1e-9

finish
