# Screens of all other commands; demo has its own in demo.sh.
. "$(dirname "$0")/nano.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/begin.sh"
. "$here/screen.sh"

on="builtin:gpt2-nano --text builtin:lighthouse"
screen help 0 help
screen help-help 0 help help
screen help-split 0 help split
screen info 0 info builtin:gpt2-nano
screen info-random 0 info random:gpt2
screen export 0 export $on --layer 3 --length 8 -o layer.safetensors
screen info-file 0 info layer.safetensors
mask="s/^[^ ]*(model.safetensors:)/\1/" screen info-tensors 0 info builtin:gpt2-nano --tensors
"$bin" layer layer.safetensors --save-direction top.safetensors -q >out 2>err || fail "no direction"
screen check 0 check top.safetensors
echo "The keeper of the lighthouse" >words.txt
screen tokens 0 tokens builtin:gpt2-nano words.txt
"$bin" tokens builtin:gpt2-nano words.txt >words.ids
screen tokens-decode 0 tokens builtin:gpt2-nano --decode words.ids
"$bin" measure $on --length 8 --layers 3 --windows 2 --run a.db -q >out 2>err || fail "measure"
screen merge 0 merge a.db -o all.db
screen report 0 report a.db -o page.html

# measures
"$make" G1 line || exit 1
printf '1\n-1\n0.5\n' >three.csv
mask='s/[0-9.]+e-[0-9]+/TINY/' screen split 0 split three.csv --layer line
screen split-search 0 split --search 1,2 --layer line
screen push 0 push three.csv --layer line -o image.safetensors
printf '0,0\n1,0\n0,1\n' >a.csv
printf '0,0\n2,0\n0,3\n' >b.csv
screen distance 0 distance a.csv b.csv

# figures of this machine are masked; a name of other kernels would break the lines elsewhere
mask='s/[-0-9.]+e[-+][0-9]+ +[0-9e-]+$/ERROR LIMIT/; s/^lipscope .*/VERSION/; /^BLAS/,/^$/d; s/1 and [0-9]+ threads/1 and T threads/; s/[0-9.]+ seconds/S seconds/' \
    screen selftest 0 selftest
mask='s/^( +[0-9]+  [a-z]+ +[a-z0-9]+) .*/\1 FIGURES/; s/generic/ISA/' LIPSCOPE_ISA=generic \
    screen bench 0 bench --length 8 --repeats 1 --threads 2
mask='s/ +[0-9.]+ [KMGT]iB / MEMORY /; s/[0-9]+ threads.*/THREADS/; 3,$d' screen devices 0 devices
mask='s/[0-9.]+e-[0-9]+/TINY/' screen reproduce 0 reproduce --quick --only split --out paper -q
finish
