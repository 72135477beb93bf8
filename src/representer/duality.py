"""The correspondence between kernels and networks.

The state of unit i of ``kernel.network(...)`` is the kernel between the input and reference i, and
``network.kernel`` returns that kernel. Only this module imports both ``kernels`` and ``nn``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from representer.errors import ArgumentError, NoKernelError
from representer.kernels import (
    Kernel,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
    TreeKernel,
    WeisfeilerLehmanKernel,
)
from representer.kernels.composition import mercer_violation
from representer.kernels.kernel import References
from representer.nn import CNN, RKM, LinearKernelRNN, StringKernelRNN
from representer.nn.recurrent.machine import RecurrentKernelMachine

if TYPE_CHECKING:
    from torch import nn

    from representer.nn import RandomWalkKernelNN, TreeKernelNN, WLKernelNN

_SEVERAL = "It has several layers or directions; each one alone has a kernel."
_NOT_INTERCHANGEABLE = "and not on the reference, so that the two are not interchangeable."
_OWN_DECAYS = (
    "Each unit has its own decay, and so its own kernel: for unit i it is "
    "{}(order, float(layer.decay_gate()[i]))."
)


def network_of(
    kernel: Kernel,
    input_size: int,
    hidden_size: int,
    *,
    reference: Any = None,
    references: References = "shared",
    fused: bool = True,
    **options: Any,
) -> nn.Module:
    """Return the network of a kernel; see ``Kernel.network``.

    Raises:
        ArgumentError: If the kernel has no network, or an argument is invalid or contradicts it.
    """
    if reason := kernel.no_network():
        raise ArgumentError("kernel", kernel, "one that is differentiable", hint=reason)
    if isinstance(kernel, RecurrentKernel):
        lengths = {"filter_length": kernel.filter_length, "dilation": kernel.dilation}
        settings: dict[str, Any] = {**lengths, "feedback": False, **options}
        if kernel.static_gates is not None:
            settings = {"output_gate": False, "output_nonlinearity": "identity", **settings}
            return LinearKernelRNN(
                input_size, hidden_size, static_gates=kernel.static_gates, **settings
            )
        return RKM(input_size, hidden_size, q=kernel.q, unit_norm=kernel.unit_norm, **settings)
    if isinstance(kernel, StringKernel):
        own = {"combine": "add_exact" if kernel.combine == "add" else "multiply"}
        own |= {"normalized": kernel.normalized, "readout": "last"}
        _check_string(kernel)
        settings = {"activation": None, **_settings(kernel, options, own)}
        return StringKernelRNN(input_size, hidden_size, **settings)
    if isinstance(kernel, RandomWalkKernel):
        from representer.nn import RandomWalkKernelNN

        _check_walks(kernel, options)
        own = {"combine": kernel.combine, "nonlinear": kernel.nonlinear}
        return RandomWalkKernelNN(input_size, hidden_size, **_settings(kernel, options, own))
    if isinstance(kernel, TreeKernel):
        from representer.nn import TreeKernelNN

        own = {"ordered": kernel.ordered}
        return TreeKernelNN(input_size, hidden_size, **_settings(kernel, options, own))
    assert isinstance(kernel, WeisfeilerLehmanKernel)
    return _levels_network(kernel, input_size, hidden_size, options)


def kernel_of(layer: nn.Module) -> Kernel:
    """Return the exact kernel that a layer evaluates against its ``references()``.

    Raises:
        NoKernelError: If there is none; the message states the reason.
    """
    found = _kernel_or_reason(layer)
    if isinstance(found, str):
        expected = "one that evaluates a symmetric kernel"
        raise NoKernelError("layer", repr(layer), expected, hint=found)
    return found


def _settings(kernel: Any, options: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the arguments of the kernel, which they must not contradict."""
    own = {"order": kernel.order, "decay": float(kernel.decay), **own}
    for name, value in own.items():
        if name in options and options[name] != value:
            raise ArgumentError(name, options[name], f"{value!r}, as in the kernel")
    return {**options, **own}


def _check_string(kernel: StringKernel) -> None:
    if kernel.base != "linear":
        hint = "A unit compares tokens by their inner product; embed them first."
        raise ArgumentError("base", kernel.base, "'linear' for a network", hint=hint)
    if not kernel.trailing:
        hint = "A recurrence cannot tell which n-gram is the last; use trailing=True."
        raise ArgumentError("trailing", False, "True for a network", hint=hint)


def _check_walks(kernel: RandomWalkKernel, options: dict[str, Any]) -> None:
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


def _levels_network(
    kernel: WeisfeilerLehmanKernel, features: int, references: int, options: dict[str, Any]
) -> WLKernelNN:
    from representer.nn import Relabeling, WLKernelNN

    base, relabel = kernel.base_kernel, kernel.relabel
    if not isinstance(relabel, Relabeling) or relabel.channels != features:
        expected = f"nn.Relabeling({features}) for a network"
        raise ArgumentError("relabel", relabel, expected)
    if (
        not isinstance(base, RandomWalkKernel)
        or (base.base, base.combine, base.edges) != ("linear", "multiply", kernel.edges)
        or base.nonlinear
    ):
        hint = f"With edges={kernel.edges}, as the relabeling."
        raise ArgumentError("base", base, "RandomWalkKernel(order, decay) for a network", hint=hint)
    own = {
        "depth": kernel.depth + 1,
        "edge_dim": relabel.edge_dim if kernel.edges else None,
        "readout": "sum",
        "label_channels": 0,
        "sigma": relabel.activation,
    }
    like = {"device": relabel.weight.device, "dtype": relabel.weight.dtype}
    layer = WLKernelNN(features, references, **{**like, **_settings(base, options, own)})
    layer.relabeling = relabel
    return layer


def _kernel_or_reason(layer: Any) -> Kernel | str:
    if isinstance(layer, RecurrentKernelMachine):
        return _recurrent(layer)
    if isinstance(layer, StringKernelRNN):
        return _string(layer)
    from representer.nn import RandomWalkKernelNN, TreeKernelNN, WLKernelNN

    if isinstance(layer, RandomWalkKernelNN):
        return _walks(layer)
    if isinstance(layer, TreeKernelNN):
        return _trees(layer)
    if isinstance(layer, WLKernelNN):
        return _levels(layer)
    return (  # DeepGraphKernelNN
        "Its references lie in the space of its kernel, kernels.DeepGraphKernel, and are not "
        "graphs; those of nn.RandomWalkKernelNN are."
    )


def _first(*reasons: tuple[object, str]) -> str:
    """Return the first reason that applies; "" if none does."""
    return next((reason for applies, reason in reasons if applies), "")


def _recurrent(layer: RecurrentKernelMachine) -> RecurrentKernel | str:
    cell = layer.cell
    dynamic = {
        "input": cell.input_gate != "static",
        "forget": cell.forget_gate == "dynamic",
        "output": cell.output_gate,
    }
    gates = ", ".join(gate for gate, is_dynamic in dynamic.items() if is_dynamic)
    if gates:
        return f"Its gates ({gates}) depend on the input {_NOT_INTERCHANGEABLE}"
    q, static_gates, unit_norm = cell.output, None, True
    if isinstance(layer, RKM):
        q, unit_norm = layer.q, layer.unit_norm
    elif isinstance(layer, (LinearKernelRNN, CNN)):
        if layer.learn_static:
            return "Its static gates are learned, and each unit has its own."
        b = layer.static[1] if cell.forget_gate == "static" else 0.0
        q, static_gates = "linear", (layer.static[0], b)
    else:
        return "Only nn.RKM(feedback=False) evaluates a RecurrentKernel."
    if isinstance(q, tuple):
        return "Each unit has its own q; unit i evaluates RecurrentKernel(q_i, repeat=True)."
    n = layer.filter_length
    lengths = list(n) if isinstance(n, dict) else [n]
    reason = _first(
        (
            cell.feedback != "none",
            "Its units depend on each other by feedback; use feedback=False.",
        ),
        (layer.num_layers > 1 or layer.bidirectional, _SEVERAL),
        (layer.stride > 1, "It skips steps, unlike the kernel."),
        (layer.layer_norm, "The layer norm mixes its units."),
        (any(layer.zoneout), "Zoneout mixes each state with the previous one."),
        (
            q == "gaussian" and len(lengths) > 1,
            "Its filters compare windows of different lengths.",
        ),
    )
    if not reason and (violation := mercer_violation(q)):
        reason = f"Its q is not a Mercer kernel: {violation}."
    return reason or RecurrentKernel(
        q, filter_length=max(lengths), dilation=layer.dilation, repeat=True,
        static_gates=static_gates, unit_norm=unit_norm,
    )  # fmt: skip


def _string(layer: StringKernelRNN) -> StringKernel | str:
    if layer.decay == "learned":
        return _OWN_DECAYS.format("StringKernel")
    if isinstance(layer.decay, str):
        return f"Its decay is a gate that depends on the input {_NOT_INTERCHANGEABLE}"
    chain = layer.chain
    reason = _first(
        (layer.num_layers > 1 or layer.bidirectional, _SEVERAL),
        (
            chain.order > 1 and chain.combine == "add",
            "combine='add' as printed weights a new token regardless of the n-grams it completes, "
            "which no symmetric kernel does; use combine='add_exact'.",
        ),
        (
            chain.order > 1 and chain.readout == "sum",
            "readout='sum' compares c_j with the first j tokens of the reference alone, but a "
            "sum of kernels would with all of them; use readout='last'.",
        ),
        (chain.highway, "The highway mixes the input with its output; use highway=False."),
        (layer.activation, _activated(layer, "cell_states")),
    )
    combine = "multiply" if chain.combine == "multiply" else "add"
    return reason or StringKernel(
        layer.order, layer.decay, combine=combine, normalized=layer.normalized
    )


def _activated(layer: StringKernelRNN | RandomWalkKernelNN | TreeKernelNN, states: str) -> str:
    return (
        f"Its activation {layer.activation} of a kernel is not a kernel; use activation=None. "
        f"Before the activation, {states} are kernel values."
    )


def _walks(layer: RandomWalkKernelNN) -> RandomWalkKernel | str:
    sigma = layer.options.sigma
    violation = mercer_violation(sigma)
    reason = _decays(layer) or _first(
        (layer.order > 1 and violation, f"Its σ is not a Mercer kernel: {violation}."),
        (layer.activation, _activated(layer, "node_states")),
    )
    idle = sigma == "identity" or violation  # σ has no effect on walks of one node
    return reason or RandomWalkKernel(
        layer.order,
        float(layer.decay),
        layer.combine,
        nonlinear=False if idle else sigma,
        edges=layer.edge_dim is not None,
    )


def _trees(layer: TreeKernelNN) -> TreeKernel | str:
    seen = "state of the child" if layer.decay == "state" else "nodes of an edge"
    reason = _first(
        (layer.decay == "learned", _OWN_DECAYS.format("TreeKernel")),
        (
            isinstance(layer.decay, str),
            f"Its decay is a gate that depends on the {seen} {_NOT_INTERCHANGEABLE}",
        ),
        (layer.activation, _activated(layer, "node_states")),
    )
    return reason or TreeKernel(layer.order, float(layer.decay), layer.ordered)


def _levels(layer: WLKernelNN) -> WeisfeilerLehmanKernel | str:
    reason = _first(
        (layer.activation, f"Its activation {layer.activation} of a kernel is not a kernel."),
        (
            layer.label_channels != 0,
            "Its first labels are a learned embedding of the nodes; use label_channels=0.",
        ),
        (
            layer.depth > 1 and layer.readout == "last",
            "Its read-out is the last relabeling only; use readout='sum'.",
        ),
        (
            layer.depth > 1 and not layer.share_references,
            "Its levels have different references; use share_references=True.",
        ),
    )
    if reason := reason or _decays(layer):
        return reason
    edges = layer.edge_dim is not None
    base = RandomWalkKernel(layer.order, float(layer.decay), edges=edges)
    return WeisfeilerLehmanKernel(base, layer.depth - 1, layer.relabeling, edges, repeat=True)


def _decays(layer: RandomWalkKernelNN | WLKernelNN) -> str:
    gated = f"Its decay is a gate that depends on the edges of the graph {_NOT_INTERCHANGEABLE}"
    return _first(
        (layer.decay == "gated", gated),
        (layer.decay == "learned", _OWN_DECAYS.format("RandomWalkKernel")),
    )
