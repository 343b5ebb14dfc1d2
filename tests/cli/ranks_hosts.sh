# Ranks on separate hosts: network namespaces with names and addresses of their own, joined by
# a bridge; mpirun starts its daemons in them.  Needs root and the right to make namespaces.
. "$(dirname "$0")/begin.sh"
. "$(dirname "$0")/mpirun.sh"
command -v mpirun >/dev/null && [ -e "$(dirname "$bin")/liblipscope_mpi.so" ] ||
    { echo "skipped: no MPI"; exit 77; }
net=10.$(($$ / 250 % 250)).$(($$ % 250)) name=l$$
leave() {
    for i in 1 2; do ip netns del ${name}h$i 2>/dev/null; done
    ip link del ${name}b 2>/dev/null
}
join() {
    ip link add ${name}b type bridge && ip addr add $net.254/24 dev ${name}b && ip link set ${name}b up || return 1
    for i in 1 2; do
        ip netns add ${name}h$i && ip link add ${name}v$i type veth peer name eth0 netns ${name}h$i &&
            ip link set ${name}v$i master ${name}b up && ip -n ${name}h$i addr add $net.$i/24 dev eth0 &&
            ip -n ${name}h$i link set eth0 up && ip -n ${name}h$i link set lo up || return 1
    done
    unshare -u true
}
trap leave EXIT
command -v ip >/dev/null && join >err 2>&1 || { echo "skipped: no network namespaces"; exit 77; }

cat >agent.sh <<END
#!/bin/sh
# HOST COMMAND...: what ssh does, into the namespace with this address
i=\${1##*.}
shift
exec ip netns exec ${name}h\$i unshare -u sh -c "hostname host\$i; \$*"
END
chmod +x agent.sh
export OMPI_MCA_plm_rsh_agent="$PWD/agent.sh" OMPI_MCA_btl=self,tcp
export OMPI_MCA_btl_tcp_if_include=$net.0/24 OMPI_MCA_oob_tcp_if_include=$net.0/24
hosts() { # CODE K ARGS...
    want=$1 k=$2
    shift 2
    mpirun --host $net.1:$k,$net.2:$k --map-by node --bind-to none -n "$k" "$bin" "$@" >out 2>err </dev/null
    code=$?
    [ $code = "$want" ] || { fail "exit $code, not $want: $k ranks, $*"; sed 's/^/    /' err; }
}
sweep="measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8,16 --windows 3 --format tsv"
run 0 $sweep
rows out >want
for k in 2 4; do
    hosts 0 $k $sweep --run hosts$k.db
    rows out >got
    cmp -s got want || fail "$k ranks on two hosts have other rows: $(diff got want | head -4)"
done
run 0 export builtin:gpt2-nano --layer 3 --text builtin:lighthouse --length 51 -o layer.safetensors -q
run 0 layer layer.safetensors --dtype f64 --format json
want_sigma=$(field sigma)
hosts 0 3 layer layer.safetensors --dtype f64 --format json
near "$(field sigma)" "$want_sigma" 1e-12

# a host that is cut off: the job ends, and the same command goes on
mpirun --host $net.1:2,$net.2:2 --map-by node --bind-to none -n 2 "$bin" measure builtin:gpt2-nano --text builtin:lighthouse \
    --lengths 8:64:x2 --windows 30 --format tsv --run cut.db >out 2>err </dev/null &
job=$!
sleep 3
pids=$(ip netns pids ${name}h2)
kill -s KILL $pids 2>/dev/null
await $job $(ip netns pids ${name}h1) && echo "note: faster than the kill"
before=$(sqlite3 cut.db 'SELECT count(*) FROM cells' 2>/dev/null)
hosts 0 2 measure builtin:gpt2-nano --text builtin:lighthouse --lengths 8 --windows 30 --format tsv --run cut.db
echo "${before:-0} cells were stored before a host was lost"
finish
