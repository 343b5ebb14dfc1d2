"""mypy --strict takes a script of somebody who uses the package."""
import subprocess
import sys

import pytest

SCRIPT = '''
import numpy as np
import lipscope as ls


def worst(path: str, text: str) -> float:
    r: ls.Result = ls.measure(path, text=text, lengths=[8, 16], windows=2)
    J = ls.attention(np.eye(3), np.eye(3), np.eye(3), np.eye(3), causal=True)
    s, many = J.sigma(certify=1e-3), J.sigma(k=3)
    print(s.lower, s.v.shape, many[0], J.upper().value, J @ np.ones(9), r.worst().tokens()[0][0].upper())
    found: ls.Attack = ls.attack(path, layer=3, length=4, radius=1.0)
    several: ls.Attacks = ls.attack(path, layer=3, lengths=[4, 5], radius=1.0)
    print(found.sigma + ls.bounds(path, layer=3, text=text).sigma, several.law, r.fits, r.rows[0]["sigma"])
    try:
        ls.Model("nothing")
    except ls.FileError as wrong:
        print(str(wrong))
    return float(ls.wasserstein([[0.0]], [[1.0]])) + float(s)


reveal_type(ls.attention)
worst(3, 4)
'''


def test_script(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "script.py"], cwd=tmp_path,
                          capture_output=True, text=True)
    wrong = [line for line in done.stdout.splitlines() if "error:" in line]
    # the two that are meant to be wrong, and nothing else: the types are seen
    assert len(wrong) == 2 and all('Argument' in line and "arg-type" in line for line in wrong), done.stdout
    assert "lipscope.layers.Attention" in done.stdout
