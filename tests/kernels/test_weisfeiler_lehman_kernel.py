"""The Weisfeiler-Lehman kernel: bases, relabelings, networks, and errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

from representer.data.molecules import read_smiles
from representer.errors import ArgumentError, KindError
from representer.kernels import (
    DeepGraphKernel,
    Gaussian,
    InversePolynomial,
    RandomWalkKernel,
    StringKernel,
    WeisfeilerLehmanKernel,
    gram,
)
from representer.nn import Relabeling

MOLECULES = [read_smiles(s) for s in ("CCO", "c1ccccc1", "CC(=O)O", "C", "[Na+].[Cl-]")]


def graphs(count: int = 4) -> list[Data]:
    torch.manual_seed(0)
    return [
        Data(
            x=torch.randn(n + 1, 3), edge_index=torch.randint(0, n + 1, (2, 2 * n)),
            edge_attr=torch.randn(2 * n, 2),
        )
        for n in range(count)
    ]  # fmt: skip


def test_the_base_can_be_any_kernel_of_graphs():
    for base in (RandomWalkKernel(2), DeepGraphKernel(2, 1), RandomWalkKernel(2, edges=True)):
        actual = WeisfeilerLehmanKernel(base, 0)(MOLECULES)
        np.testing.assert_allclose(actual, base(MOLECULES), atol=1e-12)
    twice = WeisfeilerLehmanKernel(WeisfeilerLehmanKernel(depth=1), 1)(MOLECULES)
    by_level = np.diff([WeisfeilerLehmanKernel(depth=d)(MOLECULES) for d in range(3)], axis=0)
    first = WeisfeilerLehmanKernel(depth=0)(MOLECULES)
    np.testing.assert_array_equal(twice, first + 2 * by_level[0] + by_level[1])


def test_relabeling_uses_edges_on_request():
    X = [read_smiles("CC"), read_smiles("C=C")]
    alone, bonds = (WeisfeilerLehmanKernel(depth=1, edges=e)(X) for e in (False, True))
    assert alone[0, 1] == 8
    assert bonds[0, 1] == 4


@pytest.mark.parametrize(
    "kernel",
    [
        WeisfeilerLehmanKernel(RandomWalkKernel(2, edges=True), 1, edges=True),
        WeisfeilerLehmanKernel(RandomWalkKernel(2, edges=True), 1),
        WeisfeilerLehmanKernel(DeepGraphKernel(edges=True), 1, edges=True),
    ],
    ids=["counts", "not relabeled", "deep"],
)
def test_edges_may_have_numbers(kernel):
    X = graphs()
    K = kernel(X)
    torch.testing.assert_close(kernel.diag(X), K.diagonal())
    torch.testing.assert_close(kernel(X[:2], X), K[:2])


def test_relabeling_by_a_network_preserves_its_dtype_and_gradients():
    X, module = graphs(), Relabeling(3, edge_dim=2)
    kernel = WeisfeilerLehmanKernel(RandomWalkKernel(2), 2, module, edges=True)
    K = kernel(X)
    assert K.dtype == torch.float64
    K.sum().backward()
    assert module.weight.grad.any()
    torch.testing.assert_close(kernel.diag(X), K.diagonal())
    torch.testing.assert_close(clone(kernel)(X), K)


def test_a_gram_file_depends_on_the_weights_of_a_relabeling(tmp_path):
    X, kernel = graphs(), WeisfeilerLehmanKernel(relabel=Relabeling(3))
    gram(kernel, X, out=tmp_path / "k.npy")
    with torch.no_grad():
        kernel.relabel.weight.mul_(2)
    with pytest.raises(ArgumentError, match="expected the Gram matrix of this kernel"):
        gram(kernel, X, out=tmp_path / "k.npy")


@pytest.mark.parametrize(("kernel", "options", "message"), [
    (WeisfeilerLehmanKernel(), {}, "discrete relabeling is not differentiable"),
    (WeisfeilerLehmanKernel(relabel=Relabeling(2)), {}, "relabel is Relabeling"),
    (
        WeisfeilerLehmanKernel(RandomWalkKernel(2, edges=True), relabel=Relabeling(3)), {},
        "edge_dim is None; expected the number of edge features",
    ),
    (WeisfeilerLehmanKernel(relabel=Relabeling(3)), {"depth": 2}, "depth is 2; expected 4"),
])  # fmt: skip
def test_the_error_for_a_kernel_without_a_network_states_the_reason(kernel, options, message):
    with pytest.raises(ArgumentError, match=message):
        kernel.network(3, 4, **options)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"base": StringKernel()}, KindError, "base is StringKernel.*; expected a kernel of graphs"),
    ({"depth": -1}, ArgumentError, "depth is -1; expected an integer of at least 0"),
    ({"relabel": "hash"}, ArgumentError, "relabel is 'hash'; expected 'discrete' or a module"),
    ({"edges": 1}, ArgumentError, "edges is 1"),
    ({"repeat": True}, ArgumentError, "repeat is True; expected False for relabel='discrete'"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(arguments, error, message):
    with pytest.raises(error, match=message):
        WeisfeilerLehmanKernel(**arguments)


def test_repeat_concerns_a_given_Y_only():
    kernel = WeisfeilerLehmanKernel(relabel=Relabeling(3), repeat=True)
    plain = WeisfeilerLehmanKernel(relabel=kernel.relabel)
    torch.testing.assert_close(kernel(graphs()), plain(graphs()))
    torch.testing.assert_close(kernel.diag(graphs()), plain.diag(graphs()))


def test_a_module_with_an_invalid_result_is_rejected():
    kernel = WeisfeilerLehmanKernel(relabel=torch.nn.Bilinear(3, 2, 3), depth=1)
    kernel.relabel.forward = lambda x, edges: x[:1]
    with pytest.raises(ArgumentError, match=r"relabel's result is \(1, 3\); expected a tensor"):
        kernel(graphs())


@pytest.mark.parametrize(
    "kernel",
    [
        WeisfeilerLehmanKernel(depth=2),
        WeisfeilerLehmanKernel(depth=2, edges=True),
        WeisfeilerLehmanKernel(RandomWalkKernel(3, 0.5, edges=True), 1, edges=True),
    ],
    ids=str,
)
def test_the_counts_are_features_whose_products_are_the_kernel(kernel):
    counts = kernel.counts(MOLECULES)
    np.testing.assert_allclose((counts @ counts.T).toarray(), kernel(MOLECULES), rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        WeisfeilerLehmanKernel(relabel=Relabeling(3)),
        WeisfeilerLehmanKernel(DeepGraphKernel()),
        WeisfeilerLehmanKernel(RandomWalkKernel(2, edges=True)),
    ],
    ids=["module", "deep", "edges"],
)
def test_kernels_without_walk_counts_reject_counts(kernel):
    with pytest.raises(KindError, match="RandomWalkKernel that counts labels"):
        kernel.counts(MOLECULES)


# The deep graph kernel's arguments; the recursion is in tests/theorems.


DEEP_MOLECULES = [read_smiles(s) for s in ("CCO", "c1ccccc1", "CC(=O)O", "C")]


def test_labels_edges_and_base_kernels_work_as_for_walks():
    plain = DeepGraphKernel()(DEEP_MOLECULES)
    np.testing.assert_allclose(DeepGraphKernel(base="delta")(DEEP_MOLECULES), plain)
    assert not np.allclose(DeepGraphKernel(edges=True)(DEEP_MOLECULES), plain)
    np.testing.assert_allclose(DeepGraphKernel(activation=Gaussian())(DEEP_MOLECULES), plain)
    X = [Data(x=torch.randn(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))]
    assert DeepGraphKernel(base=Gaussian())(X).shape == (1, 1)


def test_graphs_that_a_kernel_cannot_take_are_refused():
    with pytest.raises(ArgumentError, match=r"X is \[\]; expected at least one graph"):
        WeisfeilerLehmanKernel().counts([])
    with pytest.raises(ArgumentError, match=r"below 2 for 1/.*Scale the inputs"):
        DeepGraphKernel(activation=InversePolynomial())(DEEP_MOLECULES)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"num_layers": 0}, "num_layers is 0"),
    ({"order": 0}, "order is 0"),
    ({"activation": "relu"}, "activation is 'relu'; .* relu has no power series"),
    ({"combine": "max"}, "combine is 'max'"),
])  # fmt: skip
def test_invalid_arguments_of_deep_kernels_are_rejected(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        DeepGraphKernel(**arguments)
