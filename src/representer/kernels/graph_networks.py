"""Graph kernels and their networks, the counterpart of ``networks`` for sequences.

The output of unit i of ``kernel.network(...)`` is the kernel of the graph with the path of
reference i, and ``network.kernel`` gives that kernel back. It needs torch_geometric, and is
imported on demand.
"""

from __future__ import annotations

from typing import Any

from representer.errors import ArgumentError, KindError
from representer.kernels.mercer import mercer_violation
from representer.kernels.random_walk_kernel import RandomWalkKernel
from representer.kernels.weisfeiler_lehman_kernel import WeisfeilerLehmanKernel
from representer.nn.graph.graph_options import sigma_of
from representer.nn.graph.random_walk_kernel_nn import RandomWalkKernelNN
from representer.nn.graph.relabeling import Relabeling
from representer.nn.graph.wl_kernel_nn import WLKernelNN

GATE = (
    "Its decay is a gate that depends on the edges of the graph and not on the reference, so "
    "that the two are not interchangeable."
)


def network_of(
    kernel: RandomWalkKernel, in_channels: int, hidden_channels: int, options: dict[str, Any]
) -> RandomWalkKernelNN:
    """Return the layer that evaluates a kernel against learned walks.

    Args:
        kernel: The kernel. Options cannot override its arguments.
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
        expected = "the number of edge features, since the kernel compares edges"
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
            raise ArgumentError(name, options[name], f"{value!r}, as in the kernel")
    return RandomWalkKernelNN(in_channels, hidden_channels, **{**options, **own})


def kernel_of(layer: RandomWalkKernelNN) -> RandomWalkKernel:
    """Return the exact kernel that a layer evaluates against its ``references()``.

    Raises:
        KindError: If there is none, with the reason.
    """
    reason = why_no_walk_kernel(layer.decay, layer.order, sigma_of(layer.nonlinear))
    if not reason and layer.activation is not None:
        reason = (
            f"Its activation {layer.activation} of a kernel is no kernel; use activation=None. "
            "Before the activation, node_states are kernel values."
        )
    if reason or isinstance(layer.decay, str):
        raise refuse_kernel(layer, reason)
    sigma = sigma_of(layer.nonlinear)
    idle = sigma == "identity" or (layer.order == 1 and mercer_violation(sigma) != "")
    return RandomWalkKernel(
        layer.order,
        layer.decay,
        layer.combine,
        nonlinear=False if idle else sigma,
        edges=layer.edge_dim is not None,
    )


def network_of_levels(
    kernel: WeisfeilerLehmanKernel,
    in_channels: int,
    hidden_channels: int,
    options: dict[str, Any],
) -> WLKernelNN:
    """Return the layer that reads out the levels of a Weisfeiler-Lehman kernel.

    Args:
        kernel: The kernel; its relabeling becomes the layer's.
        in_channels: d, features of a node.
        hidden_channels: Number of references.
        options: Other arguments of ``nn.WLKernelNN``.

    Raises:
        ArgumentError: If the kernel has no network, or an option contradicts the kernel.
    """
    base, relabel = kernel._base, kernel.relabel
    if not isinstance(relabel, Relabeling) or relabel.channels != in_channels:
        expected = f"nn.Relabeling({in_channels}) for a network"
        raise ArgumentError("relabel", relabel, expected)
    plain = isinstance(base, RandomWalkKernel) and base.base == "linear" and not base.nonlinear
    if not plain or base.combine != "multiply" or base.edges != kernel.edges:  # pyright: ignore
        hint = f"With edges={kernel.edges}, as the relabeling."
        expected = "RandomWalkKernel(order, decay) for a network"
        raise ArgumentError("base", base, expected, hint=hint)
    assert isinstance(base, RandomWalkKernel)
    own: dict[str, Any] = {
        "depth": kernel.depth + 1,
        "order": base.order,
        "decay": float(base.decay),
        "edge_dim": relabel.edge_dim if kernel.edges else None,
        "readout": "sum",
        "sigma": relabel.activation,
    }
    for name, value in own.items():
        if name in options and options[name] != value:
            raise ArgumentError(name, options[name], f"{value!r}, as in the kernel")
    like = {"device": relabel.weight.device, "dtype": relabel.weight.dtype}
    layer = WLKernelNN(in_channels, hidden_channels, **{**like, **options, **own})
    layer.relabeling = relabel
    return layer


def kernel_of_levels(layer: WLKernelNN) -> WeisfeilerLehmanKernel:
    """Return the exact kernel that a layer evaluates against its ``references()``.

    Raises:
        KindError: If there is none, with the reason.
    """
    reason = why_no_walk_kernel(layer.decay, layer.order, "identity")
    if layer.activation is not None:
        reason = f"Its activation {layer.activation} of a kernel is no kernel."
    elif layer.label_channels is not None:
        reason = "Its first labels are a learned embedding of the nodes; embed them before."
    elif layer.depth > 1 and layer.readout == "last":
        reason = "It reads out the last relabeling alone; use readout='sum'."
    elif layer.depth > 1 and not layer.share_references:
        reason = "Each level has references of its own; use share_references=True."
    if reason or isinstance(layer.decay, str):
        raise refuse_kernel(layer, reason)
    edges = layer.edge_dim is not None
    base = RandomWalkKernel(layer.order, layer.decay, edges=edges)
    return WeisfeilerLehmanKernel(base, layer.depth - 1, layer.relabeling, edges, repeat=True)


def refuse_kernel(layer: Any, reason: str) -> KindError:
    """Return the error for a layer that has no symmetric kernel."""
    expected = "one that evaluates a symmetric kernel"
    return KindError("layer", repr(layer), expected, hint=reason)


def why_no_walk_kernel(decay: Any, order: int, sigma: str) -> str:
    """Return the reason why the walks of a layer have no kernel; "" if they have one."""
    if decay == "gated":
        return GATE
    if decay == "learned":
        return (
            "Each unit has its own decay, and so its own kernel: for unit i it "
            "is RandomWalkKernel(order, float(layer.decay_gate()[i]))."
        )
    reason = mercer_violation(sigma) if order > 1 else ""
    return f"Its σ is not a Mercer kernel: {reason}." if reason else ""
