#!/usr/bin/env python3
"""Prints the CUDA plugin's time per pair of products (J, J^T) beside torch.compile's, JAX's and that of the strongest fused
kernels put together, as a table of Markdown.

    bench/peers_gpu.py [--own BENCH_CUDA LIBLIPSCOPE_CUDA_SO] [n ...]       default n: 256 1024 4096 16384

One layer of GPT-2's size (width 768, 12 heads of 64), causal, one window, everything on the first GPU and in the same run.
torch and jax, in f32 and with tf32 in the products, include the projections, as ours do; "fused core" is attention alone, in
f16: jvp-flash-attention for J and torch's flash backward for J^T.  Medians of at least 20 samples by CUDA events (jax: by the
clock, around work that is waited for).  Needs a Python that has them (PyPI: torch, jax[cuda13], jvp-flash-attention); what
cannot be imported, or does not fit into the memory, is named and left out.  This is a comparison, not a test."""
import math
import re
import statistics
import subprocess
import sys
import time

WIDTH, HEADS = 768, 12
SIZE = WIDTH // HEADS


def torch_median(torch, work, samples=21):
    """Milliseconds of one call, after three that are not counted."""
    for _ in range(3):
        work()
    times = []
    for _ in range(samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def torch_pair(torch, n):
    """J and J^T written out with the probabilities stored, which torch.compile fuses best."""
    torch.manual_seed(n)
    scale = 1 / math.sqrt(SIZE)
    make = dict(device="cuda", dtype=torch.float32)
    inputs, outputs = 0.06 * torch.randn(WIDTH, 3 * WIDTH, **make), 0.02 * torch.randn(WIDTH, WIDTH, **make)
    x = torch.nn.functional.layer_norm(torch.randn(n, WIDTH, **make), (WIDTH,))
    hidden = torch.ones(n, n, dtype=torch.bool, device="cuda").triu(1)

    def split(t):
        return t.reshape(n, HEADS, SIZE).transpose(0, 1)

    def join(t):
        return t.transpose(0, 1).reshape(n, WIDTH)

    q, k, w = (split(t) for t in (x @ inputs).split(WIDTH, 1))
    p = torch.softmax((scale * q @ k.transpose(1, 2)).masked_fill(hidden, -math.inf), -1)

    def pair(t):
        dq, dk, dw = (split(s) for s in (t @ inputs).split(WIDTH, 1))
        ds = scale * (dq @ k.transpose(1, 2) + q @ dk.transpose(1, 2))
        image = join((p * (ds - (p * ds).sum(-1, keepdim=True))) @ w + p @ dw) @ outputs
        g = split(image @ outputs.T)
        gp = g @ w.transpose(1, 2)
        gs = scale * p * (gp - (p * gp).sum(-1, keepdim=True))
        back = torch.cat([join(gs @ k), join(gs.transpose(1, 2) @ q), join(p.transpose(1, 2) @ g)], 1)
        return back @ inputs.T

    return pair, torch.randn(n, WIDTH, **make)


def torch_times(lengths):
    import torch
    found = {}
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for n in lengths:
            try:
                pair, v = torch_pair(torch, n)
                compiled = torch.compile(pair)
                with torch.no_grad():
                    found["torch.compile " + ("tf32" if tf32 else "f32"), n] = torch_median(torch, lambda: compiled(v))
            except torch.cuda.OutOfMemoryError:
                print(f"torch.compile, n = {n}: out of memory", file=sys.stderr)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
    return f"torch {torch.__version__}", found


def fused_times(lengths):
    """The core alone: q, k, v and their tangents are given."""
    import torch
    from jvp_flash_attention.jvp_attention import JVPAttn
    from torch.nn.attention import SDPBackend, sdpa_kernel
    found = {}
    for n in lengths:
        q, k, w, dq, dk, dw, g = (torch.randn(1, HEADS, n, SIZE, device="cuda", dtype=torch.float16) for _ in range(7))

        def forward():
            with torch.autograd.forward_ad.dual_level():
                dual = [torch.autograd.forward_ad.make_dual(t, d) for t, d in ((q, dq), (k, dk), (w, dw))]
                return torch.autograd.forward_ad.unpack_dual(JVPAttn.fwd_dual(*dual, causal=True)).tangent

        leaves = [t.clone().requires_grad_() for t in (q, k, w)]
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)

        def backward():
            return torch.autograd.grad(out, leaves, g, retain_graph=True)

        with torch.no_grad():
            j = torch_median(torch, forward)
        found["fused core f16, J", n], found["fused core f16, J^T", n] = j, torch_median(torch, backward)
    return "jvp-flash-attention with torch's flash backward", found


def jax_times(lengths):
    import jax
    import jax.numpy as jnp
    found = {}

    def layer(x, inputs, outputs):
        n = x.shape[0]
        q, k, w = (t.reshape(n, HEADS, SIZE).transpose(1, 0, 2) for t in jnp.split(x @ inputs, 3, 1))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(SIZE)
        scores = jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, -jnp.inf)
        return (jax.nn.softmax(scores, -1) @ w).transpose(1, 0, 2).reshape(n, WIDTH) @ outputs

    def several(count):
        def run(x, t, inputs, outputs):
            _, linear = jax.linearize(lambda y: layer(y, inputs, outputs), x)
            back = jax.linear_transpose(linear, x)

            def pair(_, t):
                y = back(linear(t))[0]
                return y / jnp.linalg.norm(y)

            return jax.lax.fori_loop(0, count, pair, t)

        return jax.jit(run)

    def median(work):
        for _ in range(3):
            work().block_until_ready()
        times = []
        for _ in range(21):
            begin = time.perf_counter()
            work().block_until_ready()
            times.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(times)

    for precision, name in (("highest", "f32"), ("default", "tf32")):
        with jax.default_matmul_precision(precision):
            few, many = several(4), several(16)
            for n in lengths:
                keys = jax.random.split(jax.random.PRNGKey(n), 4)
                given = (jax.random.normal(keys[2], (n, WIDTH)), jax.random.normal(keys[3], (n, WIDTH)),
                         0.06 * jax.random.normal(keys[0], (WIDTH, 3 * WIDTH)), 0.02 * jax.random.normal(keys[1], (WIDTH, WIDTH)))
                try:  # the linearisation is in both: their difference is twelve pairs
                    found["jax " + name, n] = max(median(lambda: many(*given)) - median(lambda: few(*given)), 0) / 12
                except Exception as error:  # jaxlib's own class for memory
                    print(f"jax, n = {n}: {str(error).splitlines()[0]}", file=sys.stderr)
    return f"jax {jax.__version__}", found


def own_times(program, plugin, lengths):
    out = subprocess.run([program, plugin, str(max(lengths))], check=True, stdout=subprocess.PIPE, text=True).stdout
    line = re.compile(r"^\s*1 x (\d+)\s+(\S+)\s+J\s+(\S+)\s+J\^T\s+(\S+)\s+pair\s+(\S+) ms", re.M)
    return out.splitlines()[0], {("lipscope " + m[2], int(m[1])): float(m[5]) for m in line.finditer(out)}


def main():
    arguments = sys.argv[1:]
    sides = [jax_times, torch_times, fused_times]
    if arguments[:1] == ["--own"]:
        program, plugin = arguments[1:3]
        arguments = arguments[3:]
        sides.insert(0, lambda lengths: own_times(program, plugin, lengths))
    lengths = [int(n) for n in arguments] or [256, 1024, 4096, 16384]
    times, versions = {}, []
    for side in sides:
        try:
            version, found = side(lengths)
            versions.append(version)
            times.update(found)
            for (name, n), ms in found.items():  # a long run that is stopped has shown what it had
                print(f"{name}, n = {n}: {ms:.4g} ms", file=sys.stderr, flush=True)
        except (ImportError, RuntimeError, subprocess.CalledProcessError, OSError) as error:
            print(f"left out: {error}", file=sys.stderr)
    names = sorted({name for name, _ in times}, key=lambda name: (not name.startswith("lipscope"), name))
    print(f"ms per pair (J, J^T), width {WIDTH}, {HEADS} heads, causal; {'; '.join(versions)}\n")
    print("| n | " + " | ".join(names) + " |")
    print("| --- " * (1 + len(names)) + "|")
    for n in lengths:
        print(f"| {n} | " + " | ".join(f"{times[name, n]:.3g}" if (name, n) in times else "-" for name in names) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
