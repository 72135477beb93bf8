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
from scipy.stats import multivariate_normal
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
from representer.kernels.subtree_kernel import JITTER, _loss, block_weights
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


# Weights of kernels by the marginal likelihood of a Gaussian process.


RNG = np.random.default_rng(0)
X = [RNG.normal(size=(40, 3)) for _ in range(2)]
X = [x - x.mean(0) for x in X]  # as the targets, which are centered
BLOCKS = [x @ x.T for x in X]
Y = np.stack([X[0] @ [1.0, 2, 3] + 0.3 * RNG.normal(size=40), X[0][:, 0] - 1], axis=1)
Y = (Y - Y.mean(0)) / Y.std(0)


def test_the_loss_is_the_negative_logarithm_of_the_marginal_likelihood():
    logs = np.log([0.7, 1e-30, 0.2])
    loss, _ = _loss(logs, BLOCKS, Y)
    covariance = 0.7 * BLOCKS[0] + (0.2 + JITTER) * np.eye(40)
    peers = [multivariate_normal(cov=covariance).logpdf(y) for y in Y.T]
    constant = Y.size * np.log(2 * np.pi) / 2
    assert loss == pytest.approx(-np.sum(peers) - constant, rel=1e-9)


def test_the_kernel_that_explains_the_targets_gets_the_weight():
    weights, noise = block_weights(BLOCKS, Y[:, :1])
    assert weights[0] > 100 * weights[1]
    assert noise == pytest.approx(0.09 / np.var(X[0] @ [1.0, 2, 3]), rel=0.5)


def test_scale_and_offset_of_the_targets_have_no_influence():
    weights, noise = block_weights(BLOCKS, Y)
    again, same = block_weights(BLOCKS, 9 + 100 * Y)
    np.testing.assert_allclose(again, weights, rtol=1e-3)
    assert same == pytest.approx(noise, rel=1e-3)


def test_targets_that_are_constant_leave_all_weights_equal():
    weights, noise = block_weights(BLOCKS, np.ones((40, 1)))
    assert (weights.tolist(), noise) == ([0.5, 0.5], 1.0)
