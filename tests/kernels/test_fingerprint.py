"""Fingerprints of the kernels and objects of Gram matrices on disk."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

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
from representer.kernels.gram import fingerprint
from representer.nn import Relabeling

kernel = StringKernel()


def mark(content):
    return fingerprint(kernel, [content])


def power(z, exponent):
    return z**exponent


def added(z, exponent):
    return z + exponent


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def method(self, z):
        return self.factor * z


def test_contents_are_distinguished():
    contents = [
        ["ab", "c"], ["a", "bc"], [["ab"], "c"], [1, 2], ["1", "2"], np.zeros(2), np.zeros((1, 2)),
        np.zeros(2, np.float32), None, [None], [], [[]], True, 1, 1.0, torch.zeros(2),
        torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.bfloat16), {1, 2}, {1: 2},
        ("ab", "c"), np.array(["ab", None], object), 1 + 0j, np.exp, nn.Tanh(), nn.ReLU(),
        nn.functional.relu, torch.float32, range(3), Scaled, Scaled(2), Scaled(3),
        Scaled(2).method, Scaled(3).method, functools.partial(power, exponent=2),
        functools.partial(power, exponent=3), nn.Dropout(0.5), nn.Dropout(0.25),
        nn.LeakyReLU(0.1), torch.ones(2), torch.ones(2, requires_grad=True),
    ]  # fmt: skip
    marks = [mark(content) for content in contents]
    assert len(set(marks)) == len(marks)
    assert mark([np.ones(2), torch.ones(3)]) == mark([np.ones(2), torch.ones(3)])


def test_a_function_of_the_main_program_is_identified_by_its_source(monkeypatch):
    marks = []
    for function in (power, added):
        monkeypatch.setattr(function, "__module__", "__main__")
        monkeypatch.setattr(function, "__qualname__", "q")
        monkeypatch.setattr(sys.modules["__main__"], "q", function, raising=False)
        marks.append(mark(function))
    assert marks[0] != marks[1]


@pytest.mark.parametrize(
    "content",
    [sys.stdout, (n for n in range(3)), lambda z: 2 * z, Scaled(lambda z: z)],
)
def test_values_without_a_name_or_content_are_refused(content):
    with pytest.raises(KindError, match=r"not identifiable.*must be defined by `def` in a module"):
        mark(content)


def test_a_kernel_with_a_lambda_is_refused(tmp_path):
    own = RecurrentKernel(lambda z: z + z**2, check_mercer=False)
    with pytest.raises(KindError, match="must be defined by `def` in a module"):
        gram(own, [np.ones((2, 1))], out=tmp_path / "gram.npy")
    assert not (tmp_path / "gram.npy").exists()


PROGRAM = """
import torch
from representer.kernels import RecurrentKernel, StringKernel
from representer.kernels.gram import fingerprint
from own_functions import Own, q
print(fingerprint(Own(), [set('abcdefghijkl')]), fingerprint(RecurrentKernel(q), ["a"], None, 5))
"""
OWN = """
from representer.kernels import StringKernel
class Own(StringKernel):
    def __call__(self, X, Y=None):
        return super().__call__(X, Y) * {factor}
def q(z):
    return z + z**2
"""


@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process_until_the_source_changes(tmp_path):
    def printed(factor, seed):
        (tmp_path / "own_functions.py").write_text(OWN.format(factor=factor))
        paths = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    first, again, changed = (printed(*case).stdout for case in ((2, "1"), (2, "2"), (3, "1")))
    assert first == again != ""
    assert first.split()[0] != changed.split()[0]


def test_every_kernel_of_the_library_has_a_fingerprint():
    kernels = [make() for make in KERNELS.values()]
    modules = [nn.Linear(2, 2), Relabeling(2), Relabeling(2)]
    kernels += [WeisfeilerLehmanKernel(relabel=module) for module in modules]
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    marks = [fingerprint(k, [data, networkx.path_graph(2), "CO"]) for k in kernels]
    assert len(set(marks)) == len(kernels)
    assert marks == [fingerprint(k, [data.clone(), networkx.path_graph(2), "CO"]) for k in kernels]
    assert fingerprint(Gaussian(1.0), []) != fingerprint(Gaussian(2.0), [])
