# A build without Vega: every command works but `report`, which says why it does not.
. "$(dirname "$0")/begin.sh"
run 0 measure builtin:gpt2-nano --text builtin:lighthouse --layer 0 --lengths 8,16 --windows 2 --run a.db
run 1 report a.db -o a.html
has err "a.html: this build writes no pages: it was configured without Vega"
[ ! -e a.html ] || fail "a page was written"
run 1 perturb builtin:gpt2-nano --text builtin:lighthouse --length 8 --layers 1 --tokens 1 --no-bounds -o p.html -q
has err "p.html: this build writes no pages"
run 0 demo --quick -o demo.html
has out "No page"
[ ! -e demo.html ] || fail "demo wrote a page"
finish
