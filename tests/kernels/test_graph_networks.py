"""A graph kernel gives its network, a network its kernel, or the reason why there is none."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ArgumentError, KindError
from representer.kernels import InversePolynomial, RandomWalkKernel
from representer.nn import RandomWalkKernelNN

X, EDGES = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 1]])


def test_the_network_takes_the_options_of_the_layer_but_stays_that_of_its_kernel():
    net = RandomWalkKernel(3, 0.7, "add").network(3, 4, activation="relu", order=3)
    shown = "RandomWalkKernelNN(3, 4, order=3, decay=0.7, combine='add', activation='relu'"
    assert " ".join(repr(net).split()).replace("( 3", "(3").startswith(shown[:19])
    assert net.extra_repr() == shown.removeprefix("RandomWalkKernelNN(")
    for option, value in {"order": 2, "decay": "gated", "combine": "multiply",
                          "nonlinear": True}.items():  # fmt: skip
        with pytest.raises(ArgumentError, match=f"{option} is .*as in the kernel"):
            RandomWalkKernel(3, 0.7, "add").network(3, 4, **{option: value})


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (RandomWalkKernel(base="delta"), {}, "base is 'delta'; expected 'linear'.*embed them"),
        (RandomWalkKernel(nonlinear=InversePolynomial()), {}, "nonlinear .* name a q"),
        (
            RandomWalkKernel(edges=True),
            {},
            "edge_dim is None; expected the number of edge features",
        ),
        (RandomWalkKernel(), {"edge_dim": 2}, r"edge_dim is 2; .* RandomWalkKernel\(edges=True\)"),
    ],
)
def test_a_kernel_that_no_layer_evaluates_says_why(kernel, options, message):
    with pytest.raises(ArgumentError, match=message):
        kernel.network(3, 4, **options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"decay": "gated"},
            "gate that depends on the edges of the graph and not on the reference",
        ),
        ({"decay": "learned"}, r"RandomWalkKernel\(order, float\(layer.decay_gate\(\)\[i\]\)\)"),
        ({"nonlinear": True}, "not a Mercer kernel: tanh has no power series"),
        ({"nonlinear": "relu"}, "not a Mercer kernel"),
        ({"activation": "relu"}, "activation relu of a kernel is no kernel"),
    ],
)
def test_a_layer_without_a_symmetric_kernel_says_why(options, reason):
    layer = RandomWalkKernelNN(3, 4, **options)
    with pytest.raises(KindError, match=reason) as caught:
        layer.kernel  # noqa: B018
    assert isinstance(caught.value, TypeError)


def test_walks_of_one_node_have_a_kernel_whatever_would_join_them():
    layer = RandomWalkKernelNN(3, 4, order=1, nonlinear="relu")
    assert layer.kernel.get_params()["order"] == 1
