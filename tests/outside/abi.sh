# tools/abi.sh: the public headers promise what tools/abi keeps.  In copies of the headers a function
# that is gone, an argument more and a field more are refused; a new function and another number in
# the library's name are not.
#     abi.sh TOOLS CC
set -u
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "skipped: no abidiff"; exit 77; }
tools=$1
export CC="$2"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
judge() { # NAME WANTED WORDS COMMAND...
    name=$1 wanted=$2 words=$3
    shift 3
    sh "$tools/abi.sh" "$@" >"$scratch/out" 2>&1
    code=$?
    [ $code = "$wanted" ] && grep -q "$words" "$scratch/out" && return
    echo "$name: exit $code, not $wanted with '$words':"
    cat "$scratch/out"
    failures=1
}

judge "the headers as they are" 0 "is kept" check

# the headers with one line changed: FILE, what sed does, what is said of it
changed() {
    rm -rf "$scratch/include"
    cp -r "$tools/../include" "$scratch/include"
    sed -i "$2" "$scratch/include/lipscope/$1"
    if cmp -s "$tools/../include/lipscope/$1" "$scratch/include/lipscope/$1"; then
        echo "$1: '$2' changes nothing"
        failures=1
    fi
    judge "$1: $2" "$3" "$4" check "$scratch/include"
}
changed status.h '/^LIPSC_API const char \*lipsc_status_name/d' 1 "1 Removed function"
changed status.h 's/lipsc_strerror(lipsc_status s)/lipsc_strerror(lipsc_status s, int more)/' 1 "lipsc_strerror"
changed sigma.h 's/^    double tol; /    int more; double tol; /' 1 "int more"
changed sigma.h 's/^    double tol; /    float tol; /' 1 "float"
changed sigma.h 's/LIPSC_POWER = 1,/LIPSC_POWER = 7,/' 1 "LIPSC_POWER"
changed status.h 's/^LIPSC_API const char \*lipsc_version/LIPSC_API int lipsc_more(int k);\n&/' 0 "is kept"

library() { # NAME NUMBER FIELDS
    echo "struct s { int a; $3 double b; }; double f(const struct s *x); double f(const struct s *x) { return x->b; }" >"$scratch/$1.c"
    "$CC" -g -shared -fPIC -Wl,-soname,libx.so."$2" "$scratch/$1.c" -o "$scratch/$1.so"
}
library last 0 "" && library field 0 "int c;" && library next 1 "int c;" || exit 1
judge "another name" 0 "another library" compare "$scratch/last.so" "$scratch/next.so"
judge "a built library" 1 "SOVERSION must, too" compare "$scratch/last.so" "$scratch/field.so"
exit $failures
