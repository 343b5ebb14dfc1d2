# tools/abi.sh on libraries of one function: a field in the middle of a struct is refused, a new
# function and another number in the library's name are not.
#     abi.sh TOOLS CC
set -u
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "skipped: no abidiff"; exit 77; }
tools=$1 cc=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
library() { # NAME NUMBER FIELDS MORE
    echo "struct s { int a; $3 double b; }; double f(const struct s *x); double f(const struct s *x) { return x->b; } $4" >"$scratch/$1.c"
    "$cc" -g -shared -fPIC -Wl,-soname,libx.so."$2" "$scratch/$1.c" -o "$scratch/$1.so"
}
failures=0
judge() { # NAME WANTED WORDS
    sh "$tools/abi.sh" compare "$scratch/last.so" "$scratch/$1.so" >"$scratch/out" 2>&1
    code=$?
    [ $code = "$2" ] && grep -q "$3" "$scratch/out" && return
    echo "$1: exit $code, not $2 with '$3':"
    cat "$scratch/out"
    failures=1
}
library last 0 "" "" && library field 0 "int c;" "" && library more 0 "" "int g(void); int g(void) { return 1; }" &&
    library next 1 "int c;" "" || exit 1
judge last 0 "is kept"
judge field 1 "SOVERSION must, too"
judge more 0 "is kept"
judge next 0 "another library"
exit $failures
