"""The kernel of embedded objects: sequences, vectors, graphs, references, and errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

from representer.errors import KindError, ShapeError
from representer.kernels import Embedded, Gaussian, RandomWalkKernel, StringKernel
from representer.kernels import WeisfeilerLehmanKernel as WL
from representer.nn import RKM, Relabeling, StringKernelRNN

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def affine() -> torch.nn.Sequential:
    """Return tanh(A x) of compositions.md."""
    f = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), torch.nn.Tanh()).double()
    with torch.no_grad():
        f[0].weight.copy_(torch.tensor([[0.5, -0.25], [1, 0.5], [0, 0.75]]))
    return f


def test_the_values_are_those_of_the_embedded_sequences():
    x, y = [[1.0, 2], [0, 1], [-1, 1]], [[2.0, 0], [1, 1]]
    kernel = Embedded(StringKernel(2), affine())
    np.testing.assert_allclose(kernel([x], [y]), 0.230618908461, atol=1e-12)
    np.testing.assert_allclose(kernel([x], [[[1.0, -1], [2, 1]]]), 0.141451172156, atol=1e-12)
    behind = Embedded(StringKernel(2), affine(), repeat=True)
    expected = [[-0.727183644278]]
    np.testing.assert_allclose(behind([x], [[[1.0, 0, -1], [0, 1, 1]]]), expected, atol=1e-12)
    np.testing.assert_allclose(behind([x, y]), kernel([x, y]))
    np.testing.assert_allclose(behind.diag([x, y, []]), np.diag(kernel([x, y, []])))
    tensors = kernel([torch.tensor(x).double(), torch.empty(0, 2).double()])
    assert isinstance(tensors, torch.Tensor)
    assert tensors.requires_grad
    np.testing.assert_allclose(tensors.detach(), kernel([x, []]))


def test_layers_embed_every_prefix_in_evaluation_mode():
    lower = StringKernelRNN(3, 4, decay=0.5, num_layers=2, dropout=0.5).double()
    X = [torch.randn(n, 3).double() for n in (4, 0, 2)]
    embedded = Embedded(StringKernel(2), lower)
    K = embedded(X)
    assert lower.training
    torch.testing.assert_close(K, embedded(X))
    outputs = [lower.eval()(x)[0] if len(x) else x.new_zeros(0, 4) for x in X]
    torch.testing.assert_close(K, StringKernel(2)(outputs), **CLOSE)


def test_vectors_and_graphs_are_embedded():
    V = torch.randn(4, 2).double()
    f = affine()
    torch.testing.assert_close(Embedded(Gaussian(), f)(V), Gaussian()(f(V)), **CLOSE)
    assert isinstance(Embedded(Gaussian(), f)(V.numpy()), np.ndarray)
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graphs = [Data(x=torch.randn(3, 2).double(), edge_index=edges) for _ in range(3)]
    r, walks = Relabeling(2).double(), RandomWalkKernel(2)
    levels = walks(graphs) + Embedded(walks, r)(graphs)
    torch.testing.assert_close(levels, WL(walks, 1, r)(graphs), **CLOSE)

    class OfData(torch.nn.Module):
        def forward(self, data):
            return Data(x=r(data.x, data.edge_index), edge_index=data.edge_index)

    torch.testing.assert_close(Embedded(walks, OfData())(graphs), Embedded(walks, r)(graphs))


def test_it_is_cloned_with_its_module_and_checks_its_arguments():
    f = affine()
    kernel = Embedded(StringKernel(2), f)
    copy = clone(kernel).set_params(kernel__order=1)
    assert copy.kernel.order == 1
    torch.testing.assert_close(copy.embed[0].weight, f[0].weight)
    with pytest.raises(KindError, match="embed is 'tanh'; expected a module"):
        Embedded(StringKernel(), "tanh")
    with pytest.raises(ShapeError, match="the result of embed has shape"):
        Embedded(StringKernel(), torch.nn.Flatten(0))([torch.ones(2, 2)])
    assert Embedded(StringKernel(), RKM(3, 4)).repeats is False
