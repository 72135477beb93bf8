"""Fingerprints of the kernels and objects of Gram matrices on disk."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import types

import networkx
import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from representer.errors import KindError
from representer.kernels import (
    KERNELS,
    Gaussian,
    RecurrentKernel,
    StringKernel,
    WeisfeilerLehmanKernel,
    gram,
)
from representer.kernels.fingerprint import fingerprint
from representer.nn import Relabeling

kernel = StringKernel()


def mark(content):
    return fingerprint(kernel, [content])


def defined(source, name="f", **values):
    """Execute source code as a module that is not installed, and return its definitions."""
    space = {"__name__": "scratch", **values}
    exec(source, space)
    return space[name]


def scaled(factor):
    return lambda z: factor * z


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, z):
        return self.factor * z

    def method(self, z):
        return self.factor * z


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor


class Half(nn.Module):
    def __init__(self, factor=0.5):
        super().__init__()
        self.factor = factor
        self.register_buffer("hidden", torch.tensor(factor), persistent=False)

    def forward(self, z):
        return self.factor * z


def test_contents_are_distinguished():
    contents = [
        ["ab", "c"], ["a", "bc"], [["ab"], "c"], [1, 2], ["1", "2"], np.zeros(2), np.zeros((1, 2)),
        np.zeros(2, np.float32), None, [None], [], [[]], True, 1, 1.0, torch.exp, torch.sinh,
        torch.zeros(2), torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.bfloat16),
        {1, 2}, {1: 2}, ("ab", "c"), np.array(["ab", None], object), 1 + 0j, math.exp, np.exp,
        torch.ops.aten.exp, torch.ops.aten.exp.default, nn.Tanh(), nn.ReLU(),
        nn.functional.relu, torch.float32, range(3), Scaled, Slotted, Half, "".upper, str.upper,
        str.lower, "a".upper,
    ]  # fmt: skip
    marks = [mark(content) for content in contents]
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda z: 2 * z, lambda z: 3 * z),
        (lambda z: z + 1, lambda z: z - 1),
        (scaled(2.0), scaled(3.0)),
        (scaled(torch.ones(2)), scaled(torch.zeros(2))),
        (lambda z, n=2: z**n, lambda z, n=3: z**n),
        (lambda z, *, n=2: z**n, lambda z, *, n=3: z**n),
        (lambda z: (lambda y: y + 1)(z), lambda z: (lambda y: y + 2)(z)),
        (lambda z: z.sin(), lambda z: z.cos()),
        (lambda z: z in {"a", "b"}, lambda z: z in {"a", "c"}),
        (scaled(scaled(2.0)), scaled(scaled(3.0))),
        (functools.partial(torch.pow, exponent=2), functools.partial(torch.pow, exponent=3)),
        (functools.partial(scaled(2.0), 1), functools.partial(scaled(3.0), 1)),
        (Scaled(2).method, Scaled(3).method),
        (Scaled(2), Scaled(3)),
        (Slotted(2), Slotted(3)),
        (torch.ones(2).add, torch.zeros(2).add),
        (functools.lru_cache(scaled(2.0)), functools.lru_cache(scaled(3.0))),
        (torch.func.vmap(scaled(2.0)), torch.func.vmap(scaled(3.0))),
        (torch.ops.aten.sin.default, torch.ops.aten.cos.default),
        (Half(0.5), Half(0.25)),
        (nn.Dropout(0.5), nn.Dropout(0.25)),
        (nn.Dropout(0.5), nn.Dropout(0.5).eval()),
        (nn.LeakyReLU(0.1), nn.LeakyReLU(0.2)),
    ],
)
def test_functions_and_modules_are_distinguished_by_what_they_compute(one, other):
    assert mark(one) != mark(other)
    assert mark(one) == mark(one)


@pytest.mark.parametrize(
    ("source", "values", "changed"),
    [
        ("def f(z): return a * z", {"a": 2}, {"a": 3}),
        ("def f(z): return (lambda y: a * y)(z)", {"a": 2}, {"a": 3}),
        ("def f(z): return g(z)", {"g": scaled(2)}, {"g": scaled(3)}),
        (
            "def f(z): return m.g(z)",
            {"m": types.SimpleNamespace(g=scaled(2))},
            {"m": types.SimpleNamespace(g=scaled(3))},
        ),
        (
            "class f:\n def __call__(self, z): return a * z",
            {"a": 2},
            {"a": 3},
        ),
        ("class f:\n @property\n def g(self): return a", {"a": 2}, {"a": 3}),
        ("class f:\n @staticmethod\n def g(): return a", {"a": 2}, {"a": 3}),
        ("class f(B): pass", {"B": type("B", (), {"a": 2})}, {"B": type("B", (), {"a": 3})}),
        ("def f(z): return f(a * z) if z else z", {"a": 2}, {"a": 3}),
        ("def g(z): return f(a * z)\ndef f(z): return g(z)", {"a": 2}, {"a": 3}),
    ],
)
def test_fingerprints_depend_on_the_globals_of_functions(source, values, changed):
    first, again, other = (
        defined(source, **v, b=n) for n, v in enumerate((values, values, changed))
    )
    assert mark(first) == mark(again)  # b is not used
    assert mark(first) != mark(other)


def test_fingerprints_depend_on_functions_of_user_modules():
    def imported(factor):
        module = types.ModuleType("own_helpers")
        exec(f"def g(z): return {factor} * z", vars(module))
        return defined("def f(z): return m.g(z)", m=module)

    assert mark(imported(2)) == mark(imported(2))
    assert mark(imported(2)) != mark(imported(3))


def test_fingerprints_depend_on_weights():
    torch.manual_seed(0)
    network, marks = nn.Sequential(nn.LSTM(2, 2), nn.BatchNorm1d(2)), []
    for change in (
        lambda: None,
        lambda: network[0].weight_hh_l0.data[0, 0].add_(1e-6),
        lambda: network[1].running_mean.add_(1),
        lambda: network[1].weight.requires_grad_(False).mul_(2),
    ):
        change()
        marks.append(mark(network))
    assert len(set(marks)) == 4
    half = Half()
    before = mark(half)
    half.hidden += 1
    assert mark(half) != before


@pytest.mark.parametrize(
    "content",
    [
        sys.stdout,
        iter([1, 2]),
        (n for n in range(3)),
        np.frompyfunc(scaled(2), 1, 1),
        torch.ones(1, 1).to_mkldnn(),
        torch.Generator(),
        object(),
        scaled(object()),
        functools.partial(scaled(1.0), object()),
        Scaled(object()).method,
    ],
)
def test_values_that_cannot_be_fingerprinted_are_rejected(content):
    with pytest.raises(KindError, match=r"^X\[0\].*that gram\(\) can fingerprint"):
        mark(content)


def test_the_error_names_the_location_of_the_value():
    with pytest.raises(KindError, match=r"^kernel\.q\.factor is <object"):
        fingerprint(RecurrentKernel(scaled(object()), check_mercer=False), [])


PROGRAM = """
import logging, sys, torch
from representer.kernels import RecurrentKernel, StringKernel
from representer.kernels.fingerprint import fingerprint
log = logging.getLogger(__name__)
table = {"a": {"x", "y", "z"}}
class Own(StringKernel):
    def __call__(self, X, Y=None):
        log.info("called")
        return super().__call__(X, Y) * len(table["a"])
def q(z):
    return torch.exp(z) if "u" not in {"p", "q", "r", "s"} else z
print(fingerprint(Own(), [set('abcdefghijkl')]), fingerprint(RecurrentKernel(q), ["a"], None, 5))
"""


@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process(capsys):
    other = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    exec(compile("\n\n" + PROGRAM, "", "exec", dont_inherit=True), {"__name__": "__main__"})
    assert capsys.readouterr().out == other != ""


def test_every_kernel_of_the_library_has_a_fingerprint():
    kernels = [make() for make in KERNELS.values()]
    modules = [nn.Linear(2, 2), Relabeling(2), Relabeling(2)]
    kernels += [WeisfeilerLehmanKernel(relabel=module) for module in modules]
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    marks = [fingerprint(k, [data, networkx.path_graph(2), "CO"]) for k in kernels]
    assert len(set(marks)) == len(kernels)
    assert marks == [fingerprint(k, [data.clone(), networkx.path_graph(2), "CO"]) for k in kernels]


def test_fingerprints_depend_on_the_code_of_user_kernels():
    source = (
        "class f(StringKernel):\n def __call__(self, X, Y=None): return {} * super().__call__(X, Y)"
    )
    twice, again, thrice = (
        defined(source.format(n), StringKernel=StringKernel)() for n in (2, 2, 3)
    )
    assert fingerprint(twice, []) == fingerprint(again, []) != fingerprint(thrice, [])
    assert fingerprint(twice, []) != fingerprint(StringKernel(), [])
    assert fingerprint(Gaussian(1.0), []) != fingerprint(Gaussian(2.0), [])


def test_a_changed_lambda_invalidates_the_matrix(tmp_path):
    X = [np.full((2, 1), 0.5), np.full((3, 1), 0.25)]
    for factor in (1.0, 0.5):
        changed = RecurrentKernel(scaled(factor))
        matrix = gram(changed, X, out=tmp_path / f"{factor}.npy")
        np.testing.assert_allclose(matrix, changed(X))
    with pytest.raises(ValueError, match="expected the Gram matrix of this kernel"):
        gram(RecurrentKernel(scaled(0.5)), X, out=tmp_path / "1.0.npy")
