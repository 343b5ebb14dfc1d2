# mpirun.sh - the program on several ranks, for tests that have sourced begin.sh.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# any number of ranks on any machine; no network but the loopback
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_btl_vader_single_copy_mechanism=none
# who waits for a message leaves the core to the tests beside it
export OMPI_MCA_mpi_yield_when_idle=1
children() { # PID
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v p="$1" '{ pid = $1; sub(/.*\) /, ""); if ($2 == p) print pid }' | sort -n
}
listening() { # PID: its two children, when both hear of Ctrl-C or PID has ended
    for _ in $(seq 300); do
        [ -n "$(alive "$1")" ] || break
        set -- "$1" $(children "$1")
        [ $# = 3 ] && [ "$(sed -n 's/^SigCgt.*[2367abef]$/x/p' /proc/$2/status /proc/$3/status | wc -l)" = 2 ] && break
        sleep 0.1
    done
    shift
    echo "$@"
}
alive() { # PID...: those that run; who is not yet waited for has ended
    for pid in "$@"; do
        case "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null)" in
        '' | [ZX]*) ;;
        *) echo "$pid" ;;
        esac
    done
}
gone() { # PID...: within 20 seconds
    for _ in $(seq 200); do
        left=$(alive "$@")
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    kill -9 $left 2>/dev/null
    return 1
}
# The exit code of JOB, an mpirun with these ranks.  PMIx 4.2.2 can lock itself up when mpirun ends
# after a rank was killed (PMIx_server_finalize): mpirun without a rank is ended after 10 seconds.
await() { # JOB PID...
    waited=$1 idle=0
    shift
    while [ -n "$(alive "$waited")" ] && [ $idle -lt 100 ]; do
        [ -n "$(alive "$@")" ] && idle=0 || idle=$((idle + 1))
        sleep 0.1
    done
    [ $idle -lt 100 ] || echo "mpirun had no rank left and did not end: killed"
    [ $idle -lt 100 ] || kill -s KILL "$waited"
    wait "$waited" 2>/dev/null
}
ranks() { # CODE K ARGS...
    want=$1 k=$2
    shift 2
    mpirun -n "$k" "$bin" "$@" >out 2>err </dev/null
    code=$?
    [ $code = "$want" ] || { fail "exit $code, not $want: $k ranks, $*"; sed 's/^/    /' err; }
}
rows() { # FILE: TSV without the seconds
    awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "seconds") c = i } { $c = ""; print }' "$1"
}
stored() { sqlite3 "$1" 'SELECT key, row FROM cells ORDER BY key' 2>/dev/null; } # FILE
# cells of ./before that ./after does not have, with their seconds: computed again, or gone
lost() { awk 'NR == FNR { there[$0]; next } !($0 in there)' after before | wc -l; }
