"""The tie between a graph kernel and its network, as ``networks`` ties those of sequences.

The output of unit i of ``kernel.network(...)`` is the kernel of the graph with the path of
reference i, and ``network.kernel`` gives that kernel back. It needs torch_geometric, and is loaded
when asked.
"""

from __future__ import annotations

from typing import Any

from representer.errors import ArgumentError, KindError
from representer.kernels.mercer import mercer_obstacle
from representer.kernels.random_walk_kernel import RandomWalkKernel
from representer.nn.graph.graph_options import sigma_of
from representer.nn.graph.random_walk_kernel_nn import RandomWalkKernelNN

GATE = (
    "Its decay is a gate that sees the edges of the graph and not the reference, so that the two "
    "cannot change places."
)


def network_of(
    kernel: RandomWalkKernel, in_channels: int, hidden_channels: int, options: dict[str, Any]
) -> RandomWalkKernelNN:
    """Return the layer that evaluates a kernel against learned walks.

    Args:
        kernel: The kernel. What it is, options cannot change.
        in_channels: d, features of a node.
        hidden_channels: Number of references.
        options: Other arguments of ``nn.RandomWalkKernelNN``.

    Raises:
        ArgumentError: If the kernel has no network, or an option contradicts the kernel.
    """
    if kernel.base != "linear":
        hint = "A unit compares nodes by the inner product of their features; embed them first."
        raise ArgumentError("base", kernel.base, "'linear' for a network", hint=hint)
    if kernel.nonlinear is not False and not isinstance(kernel.nonlinear, str):
        hint = "A unit needs σ itself; name a q of functional.NONLINEARITIES."
        raise ArgumentError("nonlinear", kernel.nonlinear, "False or a name", hint=hint)
    if kernel.edges and options.get("edge_dim") is None:
        expected = "the number of the edges' features, since the kernel compares edges"
        raise ArgumentError("edge_dim", None, expected)
    if not kernel.edges and options.get("edge_dim") is not None:
        hint = "Use RandomWalkKernel(edges=True)."
        raise ArgumentError("edge_dim", options["edge_dim"], "None for this kernel", hint=hint)
    own: dict[str, Any] = {
        "order": kernel.order,
        "decay": float(kernel.decay),
        "combine": kernel.combine,
        "nonlinear": kernel.nonlinear,
    }
    for name, value in own.items():
        if name in options and options[name] != value:
            raise ArgumentError(name, options[name], f"{value!r}, which the kernel says")
    return RandomWalkKernelNN(in_channels, hidden_channels, **{**options, **own})


def kernel_of(layer: RandomWalkKernelNN) -> RandomWalkKernel:
    """Return the exact kernel that a layer evaluates against its ``references()``.

    Raises:
        KindError: If there is none, with the reason.
    """
    obstacle = walks_obstacle(layer.decay, layer.order, sigma_of(layer.nonlinear))
    if not obstacle and layer.activation is not None:
        obstacle = (
            f"Its activation {layer.activation} of a kernel is no kernel; with activation=None, "
            "and before the activation in node_states, there is one."
        )
    if obstacle or isinstance(layer.decay, str):
        expected = "one that evaluates a symmetric kernel"
        raise KindError("layer", repr(layer), expected, hint=obstacle)
    sigma = sigma_of(layer.nonlinear)
    idle = sigma == "identity" or (layer.order == 1 and mercer_obstacle(sigma) != "")
    return RandomWalkKernel(
        layer.order,
        layer.decay,
        layer.combine,
        nonlinear=False if idle else sigma,
        edges=layer.edge_dim is not None,
    )


def walks_obstacle(decay: Any, order: int, sigma: str) -> str:
    """Say why the walks of a layer have no kernel; "" if they have one."""
    if decay == "gated":
        return GATE
    if decay == "learned":
        return (
            "Its units have each a decay of their own, and so a kernel of their own: for unit i it "
            "is RandomWalkKernel(order, float(layer.decay_gate()[i]))."
        )
    obstacle = mercer_obstacle(sigma) if order > 1 else ""
    return f"Its σ is not a Mercer kernel: {obstacle}." if obstacle else ""
