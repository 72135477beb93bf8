"""Layers in programs that differentiate gradients: penalties, meta-learning, curvature."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vjp, vmap

from representer import nn
from representer.ops import use_backend

TIME, BATCH, INPUT, HIDDEN = 4, 2, 3, 4
EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
MODULES: dict[str, Callable[[], torch_nn.Module]] = {
    **{name: partial(build, INPUT, HIDDEN) for name, build in nn.TABLE1.items()},
    "RAN": partial(nn.RAN, INPUT, HIDDEN),
    "RKM": partial(nn.RKM, INPUT, HIDDEN),
    "two layers": partial(nn.RKMLSTM, INPUT, HIDDEN, 2, bidirectional=True, layer_norm=True),
    "n-grams": partial(nn.RKMCIFG, INPUT, HIDDEN, filter_length=2, recompute_gates=True),
    "wavelets": partial(nn.CNN, INPUT, HIDDEN, filters="wavelet", filter_length=3),
    "no feedback": partial(nn.LinearKernelRNN, INPUT, HIDDEN, feedback=False, output_gate=False),
    "strings": partial(nn.StringKernelRNN, INPUT, HIDDEN),
    "gapped strings": partial(nn.StringKernelRNN, INPUT, HIDDEN, decay=0.5, normalized="exact"),
    "KBRN": partial(nn.KBRN, INPUT, HIDDEN, green="gaussian"),
    "activation": partial(nn.KernelActivation, INPUT, green="cubic", num_centers=5),
    "walks": lambda: nn.RandomWalkKernelNN(INPUT, HIDDEN),
    "Weisfeiler-Lehman": lambda: nn.WLKernelNN(INPUT, HIDDEN, activation="tanh"),
    "trees": lambda: nn.TreeKernelNN(INPUT, HIDDEN, 2, "state"),
}
GRAPHS = ("walks", "Weisfeiler-Lehman", "trees")
EACH = pytest.mark.parametrize("name", MODULES)


def _module(name: str) -> tuple[torch_nn.Module, Tensor, Callable[..., Tensor]]:
    """Return a module, an input, and its output as a function of parameters and input."""
    if name in GRAPHS:
        pytest.importorskip("torch_geometric")
    module, more = MODULES[name]().double().eval(), ()
    x = torch.randn(TIME, BATCH, INPUT, dtype=torch.float64)
    if name in GRAPHS:
        x, more = x[:, 0], (EDGES[:, :3] if name == "trees" else EDGES,)

    def output(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        found: Any = functional_call(module, parameters, (x, *more))
        return found[0] if isinstance(found, tuple) else found

    return module, x, output


def _values(module: torch_nn.Module) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in module.named_parameters()}


@EACH
def test_a_gradient_penalty_has_the_gradients_of_the_reference(name: str):
    """As in WGAN-GP: the norm of the gradient of the input is a part of the loss."""
    module, x, output = _module(name)
    parameters = dict(module.named_parameters())
    found = []
    for backend in (None, "reference"):
        point = x.clone().requires_grad_()
        with use_backend(backend):
            (slope,) = torch.autograd.grad(
                output(parameters, point).square().sum(), point, create_graph=True
            )
            penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()
            found.append(
                torch.autograd.grad(penalty, [*parameters.values(), point], allow_unused=True)
            )
    assert sum(float(g.abs().sum()) for g in found[0] if g is not None) > 0
    torch.testing.assert_close(*found)


@EACH
def test_jacobians_forward_and_reverse_agree(name: str):
    module, x, output = _module(name)
    of_input = partial(output, _values(module))
    reverse = jacrev(of_input)(x)
    torch.testing.assert_close(jacfwd(of_input)(x), reverse)
    direction = torch.randn_like(x)
    y, tangent, *_ = jvp(of_input, (x,), (direction,))
    _, pull, *_ = vjp(of_input, x)
    torch.testing.assert_close((y * tangent).sum(), (pull(y)[0] * direction).sum())


@pytest.mark.parametrize("name", [n for n in MODULES if n not in GRAPHS])
def test_gradients_per_example_are_those_of_each_example_alone(name: str):
    module, x, output = _module(name)
    parameters = _values(module)

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return output(parameters, x[:, None]).square().sum()

    each = vmap(grad(loss), (None, 1))(parameters, x)
    for i in range(BATCH):
        alone = grad(loss)(parameters, x[:, i])
        torch.testing.assert_close({n: g[i] for n, g in each.items()}, alone)
