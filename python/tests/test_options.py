"""Every option of every command has its argument, or a reason to have none."""
import inspect
import re

import pytest
from conftest import command

import lipscope as ls

# on a screen, or of the program alone
SCREEN = "format progress quiet help rows timing"
# option -> argument, where the names differ
NAMES = {"solver": "method", "count": "k", "no-bounds": "bounds", "as-released": "as_released"}

# command -> (calls that it is, options that something else is in Python)
FILE = "num-heads kv-heads causal sliding scale"  # of a layer file: those of ls.layer, whose outcome these calls take
LAYER = f"layer model layers heads map mask part seed {FILE}"  # ls.Model(m).layer(3, head=1, map=, mask=), ls.Layer.load(file)
PARITY = {
    "measure": ([ls.measure], "max-sigma"),  # ls.assert_sigma
    "bounds": ([ls.bounds], f"{FILE} layers heads"),  # layer=, head=
    "attack": ([ls.attack], f"{FILE} layers heads atoms"),  # masses=True, with length=
    "layer": ([ls.layer, ls.Attention.sigma, ls.save, ls.check],
              f"{FILE} upper as-released certify-seconds certify-memory save-direction max-sigma"),  # J.upper(), J.released()
    "perturb": ([ls.perturb], "pixels out"),  # refused there too; a page of the program
    "distance": ([ls.wasserstein, ls.ratio, ls.Measure.load], LAYER),
    "push": ([ls.push, ls.Measure.load], f"{LAYER} merge samples out"),  # Measure.merge, Gaussians.sample, Measure.save
    "split": ([ls.split, ls.pairs, ls.Measure.load], f"{LAYER} samples tol radius restarts step measured search atoms out"),
    "export": ([ls.export], "layers out"),  # layer=, path
    "check": ([ls.check], ""),
    "info": ([ls.Model], "tensors"),  # ls.tensors
    "tokens": ([ls.Tokenizer.encode], "decode part"),  # Tokenizer.decode
    "report": ([ls.report], "out"),  # path
    "compare": ([ls.compare], "out fail-above"),  # ls.report, an assertion
    "merge": ([ls.merge], ""),
    "reproduce": ([ls.reproduce], "run gpt text spoil"),  # the folder; gpt2=, texts=; a test of the test
    "bench": ([ls.bench], "lengths mpi"),  # n=; ranks are processes
    "selftest": ([ls.selftest], ""),
    "devices": ([ls.devices], ""),
}


@pytest.mark.parametrize("name", PARITY)
def test_options(name):
    calls, elsewhere = PARITY[name]
    known = {argument for call in calls for argument in inspect.signature(call).parameters}
    known |= set(SCREEN.split()) | {word.replace("-", "_") for word in elsewhere.split()}
    for option in re.findall(r"^ +(?:-[a-z], )?--([a-z-]+)", command("help", name), re.M):
        assert NAMES.get(option, option).replace("-", "_") in known, f"{name} has no argument for --{option}"
