# report: a page from run files, and everything that is no run file.
. "$(dirname "$0")/begin.sh"

# a model of one layer and sixteen numbers, whose folder has a name that is markup
evil="<img src=x onerror=alert(1)>"
mkdir "$evil"
cat >"$evil/config.json" <<'END'
{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 64,
 "vocab_size": 2048, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new"}
END
i=0
while [ $i -lt 200 ]; do echo "the quick brown fox $i"; i=$((i + 1)); done >"<script>alert(2)<-script>"
measure() { # ARGS...
    run 0 measure "random:$evil" --text "<script>alert(2)<-script>" --lengths 8:32:x2 --windows 2 -q "$@"
}
measure --run a.db
measure --run b.db --seed 2

run 0 report a.db -o a.html
empty out
is err "lipscope report: wrote a.html"
cp a.db a.copy
run 0 report a.db -o a.html -q # over the page that is there
empty err
cmp -s a.db a.copy || fail "a report changed its run"
[ ! -e a.db-wal ] && [ ! -e a.db-shm ] && [ ! -e a.db-lock ] || fail "files are left beside the run"
[ "$(head -c 15 a.html)" = "<!DOCTYPE html>" ] || fail "no HTML: $(head -c 100 a.html)"
grep -q '</html>' a.html || fail "the page has no end"
! grep -q '@[A-Za-z.-]*@' a.html || fail "a part of the page is missing: $(grep -o '@[A-Za-z.-]*@' a.html)"

# nothing from outside, and no text of the run as markup: it is all in one JSON element
! grep -qE '(src|href)="?(http|//)|@import|sourceMappingURL' a.html || fail "the page refers to something outside"
! grep -qF "$evil" a.html || fail "the name of a model is markup"
! grep -qF "<script>alert" a.html || fail "the name of a text is markup"
has a.html 'random:\u003cimg src=x onerror=alert(1)>'
has a.html 'u003cscript>alert(2)'
[ "$(grep -c '</script>' a.html)" = 3 ] || fail "$(grep -c '</script>' a.html) ends of scripts"
# what it says of its origin, and the licence of what it contains
has a.html '"command_line":"lipscope measure '
has a.html '"model_hash":"'
has a.html "University of Washington Interactive Data Lab"

# the fits are those that measure prints
run 0 measure "random:$evil" --text "<script>alert(2)<-script>" --lengths 8:32:x2 --windows 2 -q --run a.db --format json
exponent=$(field exponent | head -n 1)
[ -n "$exponent" ] || fail "measure has no fit"
has a.html "\"exponent\":$exponent,"

# several, from several folders, and a run that goes on
run 0 report a.db b.db -o two.html
[ "$(grep -o '"command_line"' two.html | wc -l)" = 2 ] || fail "not two runs in the page"
mkdir -p in/side
run 0 report "$PWD/a.db" -o in/side/a.html
[ -s in/side/a.html ] || fail "no page in another folder"
if command -v timeout >/dev/null; then
    "$bin" measure random:gpt2 --text "<script>alert(2)<-script>" --lengths 8:64:x2 --windows 9 -q --run on.db >/dev/null 2>&1 &
    other=$!
    trap 'kill -s KILL $other 2>/dev/null' EXIT
    tries=0
    until "$bin" report on.db -o on.html -q 2>/dev/null || [ $tries -ge 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    run 0 report on.db -o on.html
    has on.html '"command":"measure"'
    kill -s KILL $other 2>/dev/null
    wait $other 2>/dev/null
    run 0 report on.db -o on.html # and one that was killed
fi

# wrong use
run 2 report
has err "missing operand: RUN..."
run 2 report a.db
has err "say where the page goes with -o FILE"
run 2 report a.db -o
run 2 report a.db -o x.html --format json
[ ! -e x.html ] || fail "wrong use wrote a page"

# no run files; a page that is there stays
refused() { # FILE REASON
    cp a.html page.html
    run 1 report a.db "$1" -o page.html
    has err "$1: $2"
    [ "$(wc -l <err)" = 1 ] || fail "not one line: $(cat err)"
    cmp -s a.html page.html || fail "$1 cost the page that was there"
    [ -z "$(ls .lipscope-*.tmp 2>/dev/null)" ] || fail "a temporary file is left"
}
refused nowhere.db "cannot open: "
[ ! -e nowhere.db ] || fail "a report made a run"
refused in "cannot "
echo "dear diary" >diary
refused diary "not a run file"
: >nothing
refused nothing "not a run file (it is empty)"
# bytes 60-63 of an SQLite file are the schema, 68-71 say whose database it is
cp a.db newer.db
printf '\000\000\000\143' | dd of=newer.db bs=1 seek=60 conv=notrunc 2>/dev/null
refused newer.db "written by a newer lipscope (schema 99"
cp a.db foreign.db
printf '\001\002\003\004' | dd of=foreign.db bs=1 seek=68 conv=notrunc 2>/dev/null
refused foreign.db "a database of another program"
head -c 6000 a.db >cut.db
refused cut.db ""

# no room, no folder
if [ -c /dev/full ]; then
    run 1 report a.db -o /dev/full
    has err "/dev/full: cannot write: No space left on device"
fi
run 1 report a.db -o no/such/folder.html
has err "no/such/folder.html: cannot "
run 0 report a.db -o /dev/stdout -q
cmp -s out a.html || awk 'NR == 1 { exit $0 != "<!DOCTYPE html>" }' out || fail "no page on standard output"

# a run in a folder that nobody may write; to root nothing is
mkdir closed && cp a.db closed && chmod 444 closed/a.db && chmod 555 closed
if [ "$(id -u)" != 0 ]; then
    run 0 report closed/a.db -o closed.html
elif command -v setpriv >/dev/null && chmod 755 . &&
    setpriv --reuid=65534 --clear-groups test -r "$PWD/closed/a.db" 2>/dev/null; then
    mkdir open && chmod 777 open
    setpriv --reuid=65534 --clear-groups "$bin" report "$PWD/closed/a.db" -q -o "$PWD/open/a.html" 2>err ||
        fail "a run in a read-only folder: $(cat err)"
    grep -q '</html>' open/a.html || fail "no page of a run in a read-only folder"
fi
chmod 755 closed
finish
