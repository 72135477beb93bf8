"""The deep graph kernel's arguments; the recursion is in tests/theorems."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from representer.data.molecules import read_smiles
from representer.errors import ArgumentError
from representer.kernels import DeepGraphKernel, Gaussian, InversePolynomial

MOLECULES = [read_smiles(s) for s in ("CCO", "c1ccccc1", "CC(=O)O", "C")]


def test_labels_edges_and_base_kernels_work_as_for_walks():
    plain = DeepGraphKernel()(MOLECULES)
    np.testing.assert_allclose(DeepGraphKernel(base="delta")(MOLECULES), plain)
    assert not np.allclose(DeepGraphKernel(edges=True)(MOLECULES), plain)
    np.testing.assert_allclose(DeepGraphKernel(activation=Gaussian())(MOLECULES), plain)
    X = [Data(x=torch.randn(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))]
    assert DeepGraphKernel(base=Gaussian())(X).shape == (1, 1)


def test_the_error_beyond_the_limit_of_an_activation_names_the_fix():
    with pytest.raises(ArgumentError, match=r"below 2 for 1/.*Scale the inputs"):
        DeepGraphKernel(activation=InversePolynomial())(MOLECULES)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"num_layers": 0}, "num_layers is 0"),
    ({"order": 0}, "order is 0"),
    ({"activation": "relu"}, "activation is 'relu'; .* relu has no power series"),
    ({"combine": "max"}, "combine is 'max'"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        DeepGraphKernel(**arguments)
