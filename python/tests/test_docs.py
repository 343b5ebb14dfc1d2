"""Every example of a docstring runs."""
import doctest
import importlib
import pkgutil

import pytest

import lipscope as ls

NEED = {"derivatives": "torch", "torch": "torch"}


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(ls.__path__)
                                  if module.name not in ("_binding", "__main__")])
def test_examples(name):
    if name in NEED:
        pytest.importorskip(NEED[name])
    assert doctest.testmod(importlib.import_module("lipscope." + name)).failed == 0
