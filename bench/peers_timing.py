#!/usr/bin/env python3
"""Times pairs of products (J, J^T) of one attention layer of GPT-2's size (width 768, 12 heads, f32) in PyTorch and JAX.

    peers_timing.py PEER THREADS WINDOWS n...     PEER: torch or jax; rows of JSON on standard output

WINDOWS windows of n tokens share the layer and go through one call (vmap).  Each pair begins with the result of the one
before, so that nothing can be left out.  A time is the best of several samples of at least a tenth of a second; no new
one is begun after three seconds, so that of a slow peer there is one, after one pair that warms up."""
import json
import math
import sys
import time

WIDTH, HEADS = 768, 12
SIZE = WIDTH // HEADS


def best(pair, state, samples=5):
    """Seconds per call of `pair`, which takes and returns the state."""
    state = pair(state)
    count, found, end = 1, math.inf, time.perf_counter() + 3
    while samples and (found == math.inf or time.perf_counter() < end):
        begin = time.perf_counter()
        for _ in range(count):
            state = pair(state)
        seconds = time.perf_counter() - begin
        if seconds < 0.1 and count < 1 << 14:
            count *= 2
            continue
        found = min(found, seconds / count)
        samples -= 1
    return found


def torch_pairs(threads, windows, n, causal):
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(n)
    inputs, outputs = 0.06 * torch.randn(WIDTH, 3 * WIDTH), 0.02 * torch.randn(WIDTH, WIDTH)
    x = torch.nn.functional.layer_norm(torch.randn(windows, n, WIDTH), (WIDTH,))
    v = torch.randn(windows, n, WIDTH)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) if causal else None

    def split(t):
        return t.reshape(n, HEADS, SIZE).transpose(0, 1)

    def layer(one):
        q, k, w = (split(t) for t in (one @ inputs).split(WIDTH, 1))
        scores = q @ k.transpose(1, 2) / math.sqrt(SIZE)
        if causal:
            scores = scores.masked_fill(hidden, -math.inf)
        return (torch.softmax(scores, -1) @ w).transpose(0, 1).reshape(n, WIDTH) @ outputs

    every = torch.func.vmap(layer)

    def unit(t):
        return t / t.norm()

    def autodiff(t):
        image = torch.func.jvp(every, (x,), (t,))[1]
        return unit(torch.func.vjp(every, x)[1](image)[0])

    yield "torch autodiff", autodiff, v
    linear, back = torch.func.linearize(every, x)[1], torch.func.vjp(every, x)[1]
    yield "torch linearize", lambda t: unit(back(linear(t))[0]), v
    hand = by_hand(torch, x, inputs, outputs, hidden)
    with torch.no_grad():
        wanted, got = autodiff(v), hand(v)
        assert float((wanted - got).norm()) < 1e-4
        yield "torch by hand", hand, v


def by_hand(torch, x, inputs, outputs, hidden):
    """J and J^T written out, with the matrix of probabilities stored."""
    windows, n, _ = x.shape
    scale = 1 / math.sqrt(SIZE)

    def split(t):
        return t.reshape(windows, n, HEADS, SIZE).transpose(1, 2)

    def join(t):
        return t.transpose(1, 2).reshape(windows, n, WIDTH)

    q, k, w = (split(t) for t in (x @ inputs).split(WIDTH, 2))
    scores = scale * q @ k.transpose(2, 3)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    p = torch.softmax(scores, -1)

    def centred(t):
        return p * (t - (p * t).sum(-1, keepdim=True))

    def pair(t):
        dq, dk, dw = (split(s) for s in (t @ inputs).split(WIDTH, 2))
        ds = scale * (dq @ k.transpose(2, 3) + q @ dk.transpose(2, 3))
        image = join(centred(ds) @ w + p @ dw) @ outputs
        g = split(image @ outputs.T)
        gs = scale * centred(g @ w.transpose(2, 3))
        back = torch.cat([join(gs @ k), join(gs.transpose(2, 3) @ q), join(p.transpose(2, 3) @ g)], 2) @ inputs.T
        return back / back.norm()

    return pair


def jax_pairs(threads, windows, n, causal):
    import jax
    import jax.numpy as jnp
    keys = jax.random.split(jax.random.PRNGKey(n), 4)
    inputs = 0.06 * jax.random.normal(keys[0], (WIDTH, 3 * WIDTH))
    outputs = 0.02 * jax.random.normal(keys[1], (WIDTH, WIDTH))
    x = jax.random.normal(keys[2], (windows, n, WIDTH))
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    v = jax.random.normal(keys[3], (windows, n, WIDTH))

    def layer(one):
        q, k, w = (t.reshape(n, HEADS, SIZE).transpose(1, 0, 2) for t in jnp.split(one @ inputs, 3, 1))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(SIZE)
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, -jnp.inf)
        return (jax.nn.softmax(scores, -1) @ w).transpose(1, 0, 2).reshape(n, WIDTH) @ outputs

    every = jax.vmap(layer) if windows > 1 else lambda t: layer(t[0])[None]
    pairs = 4 if windows * n <= 1024 else 1  # per call: the linearisation at x is made once and shared

    @jax.jit
    def several(x, t):
        _, linear = jax.linearize(every, x)
        transpose = jax.linear_transpose(linear, x)

        def pair(_, t):
            back = transpose(linear(t))[0]
            return back / jnp.linalg.norm(back)

        return jax.lax.fori_loop(0, pairs, pair, t), jax.lax.fori_loop(0, 4 * pairs, pair, t)

    one = jax.jit(lambda x, t: several(x, t)[0])
    four = jax.jit(lambda x, t: several(x, t)[1])
    # the forward pass is in both, so that their difference is three times as many pairs
    long = best(lambda t: four(x, t).block_until_ready(), v)
    short = best(lambda t: one(x, t).block_until_ready(), v)
    yield "jax linearize", max(long - short, 0) / (3 * pairs), None


def main():
    peer, threads, windows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rows = []
    for n in map(int, sys.argv[4:]):
        for causal in (False, True):
            for name, pair, state in (torch_pairs if peer == "torch" else jax_pairs)(threads, windows, n, causal):
                seconds = pair if state is None else best(pair, state)
                rows.append({"peer": name, "n": n, "windows": windows, "causal": causal, "ms": 1e3 * seconds})
    module = __import__(peer)
    json.dump({"version": module.__version__, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
