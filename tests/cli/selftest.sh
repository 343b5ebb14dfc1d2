# `selftest` passes on this machine and counts what it did.
. "$(dirname "$0")/begin.sh"
run 0 selftest
empty err
! grep -q FAILED out || { fail "a check failed"; cat out; }
grep -qE '^[0-9]+ checks, 0 failed' out || fail "no summary"
finish
