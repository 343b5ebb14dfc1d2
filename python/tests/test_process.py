"""The process around: threads, forks, Ctrl-C, warnings, memory."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import random_layer

import lipscope as ls


def python(code, *flags):
    """Runs code in a new interpreter; what it prints."""
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_threads(rng):
    """One operator for each thread, and one for all of them."""
    X, W = rng.normal(size=(24, 16)), random_layer(rng, 16, 4)
    shared = ls.attention(X, *W, heads=4, threads=1)
    want, found = float(shared.sigma()), []

    def work():
        found.append(float(ls.attention(X, *W, heads=4, threads=1).sigma()))
        found.append(float(shared.sigma()))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [want] * 12


def test_gil_is_released(rng):
    """Another thread goes on while C works."""
    X, W = rng.normal(size=(384, 64)), random_layer(rng, 64, 4)
    J = ls.attention(X, *W, heads=4, causal=True)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(100):  # on a fast machine one product may be too short for it
        start = time.perf_counter()
        J @ rng.normal(size=(384 * 64, 60))
        end = time.perf_counter()
        if sum(start < t < end for t in ticks) >= 3:
            break
    done.set()
    thread.join()
    assert sum(start < t < end for t in ticks) >= 3


def test_after_fork():
    said = python("""
import os, numpy as np, lipscope as ls
J = ls.attention(np.ones((3, 2)), np.eye(2), np.eye(2), np.eye(2))
J.sigma()
child = os.fork()
if child == 0:
    try:
        J.sigma()
    except ls.Unusable as e:
        print(e, flush=True)
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
J.sigma()
""")
    assert "forked" in said and "spawn" in said


def test_fork_first():
    python("""
import os, numpy as np, lipscope as ls
child = os.fork()
if child == 0:
    os._exit(0 if ls.attention(np.ones((3, 2)), np.eye(2), np.eye(2), np.eye(2)).sigma() > 0 else 1)
assert os.waitpid(child, 0)[1] == 0
""")


@pytest.mark.parametrize("certify", [None, 1e-3])
def test_interrupt(rng, certify):
    """Ctrl-C stops a solve in C; the operator can be used after it."""
    X, W = rng.normal(size=(16, 8)), random_layer(rng, 8, 2)
    J = ls.attention(X, *W, heads=2)
    seen = []

    def progress(products, sigma, residual):
        seen.append(products)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        J.sigma(certify=certify, progress=progress)
    assert len(seen) == 1
    assert J.sigma() > 0


def test_interrupt_from_outside():
    """The same by a signal that comes while C works."""
    code = """
import numpy as np, lipscope as ls
rng = np.random.default_rng(0)
X, W = rng.normal(size=(256, 64)), rng.normal(size=(4, 64, 64))
J = ls.attention(X, *W, heads=4)
print("ready", flush=True)
try:
    while True: J.sigma(tol=1e-14, max_products=10**6)
except ls.NotConverged: print("no")
except KeyboardInterrupt: print("stopped")
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    start = time.perf_counter()
    said, _ = child.communicate(timeout=60)
    assert said == "stopped\n" and time.perf_counter() - start < 20


def test_no_warnings(tmp_path):
    """-X dev -W error: warnings of our modules are errors, files that stay open among them."""
    assert python(f"""
import gc, numpy as np, lipscope as ls
with ls.attention(np.ones((3, 2)), np.eye(2), np.eye(2), np.eye(2)) as J: J.sigma(certify=1e-3); J.upper()
ls.wasserstein([[0.0]], [[1.0]]); ls.split(np.eye(2), ls.Layer(np.eye(2), None, np.eye(2)))
some = dict(text="builtin:lighthouse", lengths=[8], windows=1, layers=[0])
r = ls.measure("builtin:gpt2-nano", **some); repr(r); r._repr_html_(); r.worst().tokens(); r.compare(r)
ls.bounds("builtin:gpt2-nano", layer=0, ids=range(4)); ls.perturb("builtin:gpt2-nano", ids=range(4), length=4, layers=[0], bounds=False)
ls.export("builtin:gpt2-nano", {str(tmp_path / "l")!r}, layer=0, ids=range(4)); ls.layer({str(tmp_path / "l")!r})
try: ls.measure("builtin:gpt2-nano", text="")
except ls.ArgumentError: pass
del J, r; gc.collect()
""", "-X", "dev", "-W", "error") == ""


def test_no_warnings_with_torch():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    assert python("""
import gc, warnings, torch, transformers, lipscope as ls
block = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dtype=torch.float64)
model = transformers.GPT2Model(transformers.GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=9, n_positions=8, bos_token_id=0, eos_token_id=0))
warnings.simplefilter("error")
ls.jacobian(block, torch.ones(1, 3, 8, dtype=torch.float64)).sigma(certify=1e-3)
ls.jacobian(model, "h.0.attn", [1, 2, 3]).sigma()
ls.torch.sigma(block, torch.ones(1, 3, 8, dtype=torch.float64)).backward()
ls.measure(model, ids=[1, 2, 3, 4], lengths=[4], windows=1)
gc.collect()
""", "-X", "dev").strip() == ""


def test_nothing_is_left_behind():
    """Runs that nobody named are gone with their results, tokenizers and models with the last reference."""
    assert python("""
import gc, glob, os, tempfile
import lipscope as ls
gc.disable()
seen = lambda: [p for d in ("/dev/shm", tempfile.gettempdir()) for p in glob.glob(d + "/lipscope-*") if os.stat(p).st_uid == os.getuid()]
before = set(seen())
r = ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8], windows=1, layers=[0])
made = set(seen()) - before
assert len(made) == 1
del r
assert not made & set(seen())
maps = lambda: open("/proc/self/maps").read().count("model.safetensors")
model = ls.Model("builtin:gpt2-nano"); J = model.jacobian([1, 2], 0); row = ls.measure(model, ids=[1, 2, 3, 4], lengths=[4], windows=1).worst()
assert maps() > 0
del model, J
assert maps() > 0  # the row can still make its Jacobian
del row
assert maps() == 0
""") == ""


def test_memory(rng):
    """Operators are freed with the last reference, without the garbage collector."""
    X, W = rng.normal(size=(128, 64)), random_layer(rng, 64, 4)

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    import gc
    gc.disable()
    try:
        for _ in range(5):
            ls.attention(X, *W, heads=4)
        before = resident()
        for _ in range(200):
            ls.attention(X, *W, heads=4)
        assert resident() - before < 30e6  # 200 of them would take more than 100 MB
    finally:
        gc.enable()


def test_command_line():
    said = subprocess.run([sys.executable, "-m", "lipscope", "--version"], capture_output=True, text=True)
    if "not in this installation" in said.stderr:
        pytest.skip("the program is not in this installation")
    assert said.returncode == 0 and ls.__version__ in said.stdout
    nano = subprocess.run([sys.executable, "-m", "lipscope", "info", "builtin:gpt2-nano"], capture_output=True, text=True)
    assert nano.returncode == 0 and "192" in nano.stdout


def test_command_line_without_proc():
    """A root without /proc, where the system does not tell a program where it lies: libraries and data are found."""
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    try:
        if subprocess.run([*hidden, "true"], capture_output=True).returncode:
            pytest.skip("nobody may hide /proc here")
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    nano = subprocess.run([*hidden, sys.executable, "-m", "lipscope", "info", "builtin:gpt2-nano"], capture_output=True, text=True)
    assert nano.returncode == 0 and "192" in nano.stdout, nano.stderr


def test_command_line_is_the_program():
    """Words, standard input, output and the exit status go through."""
    def said(*words, given=""):
        done = subprocess.run([sys.executable, "-m", "lipscope", *words], input=given, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    code, out, err = said("tokens", "builtin:gpt2-nano", "-", given="The keeper")
    assert (code, err) == (0, "") and [int(word) for word in out.split()] == ls.Tokenizer("builtin:gpt2-nano").encode("The keeper")
    code, out, err = said("measure", "--colour")
    assert code == 2 and out == "" and err.startswith("lipscope measure: ")
    code, out, err = said("info", "/nowhere")
    assert code == 1 and "/nowhere" in err
