# `bench` on one short length: its rows and fields, not its speed.
. "$(dirname "$0")/begin.sh"
run 0 bench --lengths 16 --repeats 1 --threads 2 --format json
empty err
got=$(sed -n 's/^ *"\([a-z_]*\)": .*/\1/p' out | tr '\n' ' ')
row="n mask dtype threads block batch ms_per_pair gflops sgemm_gflops fraction peak_bytes"
[ "$got" = "lipscope schema command rows $row $row isa repeats " ] || fail "fields are $got"
run 0 bench --length 8,16 --mask causal --dtype both --block 2 --batch 3 --repeats 1 --format tsv
awk -F'\t' 'NR == 1 { ok = $0 == "n\tmask\tdtype\tthreads\tblock\tbatch\tms_per_pair\tgflops\t" \
                              "sgemm_gflops\tfraction\tpeak_bytes" }
    NR > 1 { if ($2 != "causal" || $5 != 2 || $6 != 3 || $7 <= 0 || $9 <= 0 || $11 <= 0) ok = 0
             d = $8 / $9 - $10; if (d > 1e-12 || d < -1e-12) ok = 0
             order = order $1 $3 " " }
    END { exit !(ok && order == "8f32 8f64 16f32 16f64 ") }' out || { fail "rows"; cat out; }
for with in "--bias buckets" "--bias linear --soft-cap 20"; do
    run 0 bench --length 8 --mask causal $with --repeats 1 --threads 1 --format tsv
    awk -F'\t' '{ ok = NR == 1 ? $12 == "of_plain" : ok && $12 > 0 }
        END { exit !(NR == 2 && ok) }' out || fail "$with: $(cat out)"
done
run 2 bench --bias steep
run 2 bench --soft-cap -1
finish
