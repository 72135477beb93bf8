"""The correspondence of kernels and networks, and errors where there is none."""

from __future__ import annotations

import inspect
from functools import partial

import pytest
import torch

from representer.errors import ArgumentError, KindError
from representer.functional import NONLINEARITIES
from representer.kernels import RandomWalkKernel, RecurrentKernel, StringKernel
from representer.nn import (
    KBRN,
    RKM,
    RKMLSTM,
    LinearKernelRNN,
    NgramLSTM,
    RandomWalkKernelNN,
    StringKernelRNN,
)

MERCER = [name for name, q in NONLINEARITIES.items() if q.mercer]


@pytest.mark.parametrize("q", [*MERCER, torch.sinh])
def test_the_network_returns_its_kernel(q):
    kernel = RecurrentKernel(q, filter_length=3, dilation=2, repeat=True)
    assert kernel.network(3, 4).kernel.get_params() == kernel.get_params()


def test_a_string_network_accepts_layer_options_that_agree_with_its_kernel():
    kernel = StringKernel(3, 0.7)
    network = kernel.network(4, 4, num_layers=2, activation="relu", batch_first=True, order=3)
    shown = "StringKernelRNN(4, 4, num_layers=2, batch_first=True, order=3, decay=0.7,"
    assert repr(network) == f"{shown} activation='relu')"
    for option, value in {"order": 2, "decay": "input", "combine": "add", "normalized": True,
                          "readout": "sum"}.items():  # fmt: skip
        with pytest.raises(ArgumentError, match=f"{option} is .*as in the kernel"):
            kernel.network(4, 4, **{option: value})


def test_the_network_accepts_the_options_of_the_layer():
    kernel = RecurrentKernel("linear", filter_length=3)
    network = kernel.network(3, 6, filter_length={1: 2, 3: 4}, batch_first=True)
    assert isinstance(network, RKM)
    assert not network.feedback
    x = torch.randn(2, 5, 3)
    assert network(x)[0].shape == (2, 5, 6)
    torch.testing.assert_close(
        network(x)[0][:, -1], network.kernel(list(x), list(network.references()))
    )


RKM_OF = partial(RKM, 3, 4, q="exponential", feedback=False)
STRING_OF = partial(StringKernelRNN, 3, 4, decay=0.5, activation=None)
WITHOUT = {
    "tanh inside": (NgramLSTM(3, 4), r"NgramLSTM\(3, 4\).*Its candidate passes through tanh"),
    "activations": (KBRN(3, 4), "learned activations are applied to the sum of input and state"),
    "feedback": (RKM(3, 4, q="exponential"), "Its q is applied to the memory"),
    "tanh": (RKM(3, 4, q="tanh", feedback=False), "not a Mercer kernel: tanh has no power series"),
    "relu": (RKM(3, 4, q=torch.relu, feedback=False), "not a Mercer kernel: no power series"),
    "two of them": (RKM(3, 4, 2, q="tanh", feedback=False), "not a Mercer kernel"),
    "directions": (RKM_OF(bidirectional=True), r"two directions; layer.part\(k, reverse\)"),
    "norm": (
        RKM_OF(layer_norm=True),
        "The layer norm subtracts the mean of all units, so a unit is not linear in its own",
    ),
    "norm of a gated cell": (RKMLSTM(3, 4, layer_norm=True), "subtracts the mean of all units"),
    "zoneout": (RKMLSTM(3, 4, zoneout=0.1), "Zoneout mixes"),
    "mixed Gaussian": (
        RKM(3, 4, q="gaussian", feedback=False, filter_length={1: 2, 2: 2}),
        "windows of different lengths",
    ),
    "string directions": (STRING_OF(bidirectional=True), "two directions"),
    "several q": (RKM(3, 2, q=("linear", "exponential"), feedback=False), "its own q; unit i"),
}


@pytest.mark.parametrize(("layer", "reason"), WITHOUT.values(), ids=WITHOUT.keys())
def test_the_error_for_a_layer_without_a_kernel_states_the_reason(layer, reason):
    with pytest.raises(KindError, match=reason) as caught:
        layer.kernel  # noqa: B018
    assert isinstance(caught.value, TypeError)
    assert "expected one whose units are linear in features of their references" in str(
        caught.value
    )
    assert not hasattr(layer, "kernel")
    assert "kernel" not in dict(inspect.getmembers(layer))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("gates", [(0.7, 0.9), (1.0, 0.0), (2.0, 1.5)])
def test_static_gates_are_a_recurrent_kernel_and_back(gates, n):
    torch.manual_seed(0)
    kernel = RecurrentKernel("linear", static_gates=gates, filter_length=n)
    layer = kernel.network(3, 4, dtype=torch.float64)
    assert type(layer) is LinearKernelRNN
    assert layer.kernel.get_params() == {**kernel.get_params(), "repeat": True}
    x = torch.randn(6, 3, dtype=torch.float64)
    gram = layer.kernel([x[: t + 1] for t in range(6)], list(layer.references()))
    torch.testing.assert_close(layer(x)[0], gram, rtol=1e-10, atol=1e-10)


def test_a_static_gate_that_requires_a_gradient_is_trained_in_the_network():
    gate = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    kernel = RecurrentKernel("linear", static_gates=(gate, 0.9))
    network = kernel.network(3, 4, dtype=torch.float64)
    assert any(parameter is gate for parameter in network.parameters())
    x = [torch.randn(n, 3, dtype=torch.float64) for n in (2, 5)]
    values = network.evaluate(x)
    gram = network.kernel(x, network.reference_objects())
    torch.testing.assert_close(values, gram)
    (slope,) = torch.autograd.grad(values.sum(), gate)
    torch.testing.assert_close(slope, gram.sum() / 0.7)  # the kernel is linear in it


def test_an_unknown_attribute_of_a_layer_is_an_attribute_error():
    for layer in (RKM(3, 4), StringKernelRNN(3, 4), RandomWalkKernelNN(3, 4)):
        with pytest.raises(AttributeError, match="has no attribute 'kernels'"):
            layer.kernels  # noqa: B018


def test_a_walk_network_accepts_layer_options_that_agree_with_its_kernel():
    net = RandomWalkKernel(3, 0.7, "add").network(3, 4, activation="relu", order=3)
    shown = "RandomWalkKernelNN(3, 4, order=3, decay=0.7, combine='add', activation='relu'"
    assert " ".join(repr(net).split()).replace("( 3", "(3").startswith(shown[:19])
    assert net.extra_repr() == shown.removeprefix("RandomWalkKernelNN(")
    for option, value in {"order": 2, "decay": "gated", "combine": "multiply",
                          "nonlinear": True}.items():  # fmt: skip
        with pytest.raises(ArgumentError, match=f"{option} is .*as in the kernel"):
            RandomWalkKernel(3, 0.7, "add").network(3, 4, **{option: value})


@pytest.mark.parametrize(("kernel", "options", "message"), [
    (RandomWalkKernel(edges=True), {}, "edge_dim is None; expected the number of edge features"),
    (RandomWalkKernel(), {"edge_dim": 2}, r"edge_dim is 2; .* RandomWalkKernel\(edges=True\)"),
])  # fmt: skip
def test_the_error_for_a_kernel_without_a_network_states_the_reason(kernel, options, message):
    with pytest.raises(ArgumentError, match=message):
        kernel.network(3, 4, **options)


@pytest.mark.parametrize(("options", "reason"), [
    ({"nonlinear": True}, "not a Mercer kernel: tanh has no power series"),
    ({"nonlinear": "relu"}, "not a Mercer kernel"),
    ({"nonlinear": True, "decay": "gated"}, "not a Mercer kernel"),
])  # fmt: skip
def test_the_error_for_a_walk_layer_without_a_kernel_states_the_reason(options, reason):
    layer = RandomWalkKernelNN(3, 4, **options)
    with pytest.raises(KindError, match=reason) as caught:
        layer.kernel  # noqa: B018
    assert isinstance(caught.value, TypeError)


def test_walks_of_one_node_have_a_kernel_for_all_options():
    layer = RandomWalkKernelNN(3, 4, order=1, nonlinear="relu")
    assert layer.kernel.get_params()["order"] == 1
