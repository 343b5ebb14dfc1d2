# Screens of bounds and of worst inputs: bounds, attack, perturb.
. "$(dirname "$0")/nano.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/begin.sh"
. "$here/screen.sh"

on="builtin:gpt2-nano --text builtin:lighthouse"
screen bounds 0 bounds $on --layers 3 --length 16
screen bounds-around 0 bounds $on --layers 3 --length 8 --around 0.01 --relative
screen attack 0 attack builtin:gpt2-nano --layer 3 --length 8 --radius layernorm --dtype f64 --restarts 1 --iterations 2
screen attack-around 0 attack $on --layer 3 --lengths 4,8,16 --domain around --radius 0.01 --relative \
    --dtype f64 --restarts 1 --iterations 2 -o found.safetensors
screen perturb 0 perturb $on --length 8 --layers 0,3 --tokens 2 --neighbours 1
finish
