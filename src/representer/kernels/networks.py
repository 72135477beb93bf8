"""Kernels and their networks: two views of one object.

The state of unit i of ``kernel.network(...)`` is the kernel between the input and reference i, and
``network.kernel`` gives that kernel back. Only this module connects ``kernels`` and ``nn``.
"""

from __future__ import annotations

from typing import Any, overload

from representer.errors import ArgumentError, KindError
from representer.kernels.mercer import mercer_violation
from representer.kernels.recurrent_kernel import RecurrentKernel
from representer.kernels.string_kernel import StringKernel
from representer.nn import RKM, StringKernelRNN
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


@overload
def network_of(
    kernel: RecurrentKernel, input_size: int, hidden_size: int, options: dict[str, Any]
) -> RKM: ...
@overload
def network_of(
    kernel: StringKernel, input_size: int, hidden_size: int, options: dict[str, Any]
) -> StringKernelRNN: ...
def network_of(
    kernel: RecurrentKernel | StringKernel,
    input_size: int,
    hidden_size: int,
    options: dict[str, Any],
) -> RKM | StringKernelRNN:
    """Return the layer that evaluates a kernel against learned references.

    Args:
        kernel: The kernel. The ``filter_length`` and ``dilation`` of a recurrent kernel are
            defaults of the options; options cannot override the arguments of a string kernel.
        input_size: I, features of one step.
        hidden_size: Number of references.
        options: Other arguments of ``nn.RKM`` or ``nn.StringKernelRNN``; the latter has no
            activation unless one is given.

    Raises:
        ArgumentError: If the kernel has no network, or an option contradicts the kernel.
    """
    if isinstance(kernel, RecurrentKernel):
        lengths = {"filter_length": kernel.filter_length, "dilation": kernel.dilation}
        settings = {**lengths, **options}
        return RKM(input_size, hidden_size, q=kernel.q, feedback=False, **settings)
    return _string_network(kernel, input_size, hidden_size, options)


@overload
def kernel_of(layer: RecurrentKernelMachine) -> RecurrentKernel: ...
@overload
def kernel_of(layer: StringKernelRNN) -> StringKernel: ...
def kernel_of(layer: RecurrentKernelMachine | StringKernelRNN) -> RecurrentKernel | StringKernel:
    """Return the exact kernel that a layer evaluates against its ``references()``.

    Raises:
        KindError: If there is none, with the reason.
    """
    if isinstance(layer, StringKernelRNN):
        return _string_kernel(layer)
    reason = _why_no_kernel(layer)
    if reason or not isinstance(layer, RKM):
        raise _no_kernel(layer, reason)
    n = layer.filter_length
    longest = max(n) if isinstance(n, dict) else n
    return RecurrentKernel(layer.q, filter_length=longest, dilation=layer.dilation, repeat=True)


def _no_kernel(layer: RecurrentKernelMachine | StringKernelRNN, reason: str) -> KindError:
    return KindError("layer", repr(layer), "one that evaluates a symmetric kernel", hint=reason)


def _why_no_kernel(layer: RecurrentKernelMachine) -> str:
    cell = layer.cell
    dynamic = {
        "input": cell.input_gate != "static",
        "forget": cell.forget_gate == "dynamic",
        "output": cell.output_gate,
    }
    gates = [gate for gate, is_dynamic in dynamic.items() if is_dynamic]
    if gates:
        return (
            f"Its gates ({', '.join(gates)}) depend on the input and not on the reference, "
            "so that the two are not interchangeable."
        )
    if not isinstance(layer, RKM):
        return "Only nn.RKM(feedback=False) evaluates a RecurrentKernel."
    if layer.feedback:
        return "Its units see each other through the feedback; use feedback=False."
    if layer.num_layers > 1 or layer.bidirectional:
        return _SEVERAL
    if layer.stride > 1:
        return "It skips steps, which the kernel does not."
    if layer.layer_norm:
        return "The layer norm mixes its units."
    if any(layer.zoneout):
        return "Zoneout mixes each state with the one before."
    if (
        layer.q == "gaussian"
        and isinstance(layer.filter_length, dict)
        and len(layer.filter_length) > 1
    ):
        return "Its filters scale windows of different lengths to unit length."
    reason = mercer_violation(layer.q)
    return f"Its q is not a Mercer kernel: {reason}." if reason else ""


_SEVERAL = "It has several layers or directions; each one alone has a kernel."


def _string_network(
    kernel: StringKernel, input_size: int, hidden_size: int, options: dict[str, Any]
) -> StringKernelRNN:
    if kernel.base != "linear":
        hint = "A unit compares tokens by their inner product; embed them first."
        raise ArgumentError("base", kernel.base, "'linear' for a network", hint=hint)
    if not kernel.trailing:
        hint = "A recurrence cannot tell which n-gram is the last; use trailing=True."
        raise ArgumentError("trailing", False, "True for a network", hint=hint)
    combine = "add_exact" if kernel.combine == "add" else "multiply"
    own: dict[str, Any] = {
        "order": kernel.order,
        "decay": float(kernel.decay),
        "combine": combine,
        "normalized": kernel.normalized,
        "readout": "last",
    }
    for name, value in own.items():
        if name in options and options[name] != value:
            raise ArgumentError(name, options[name], f"{value!r}, as in the kernel")
    return StringKernelRNN(input_size, hidden_size, **{"activation": None, **options, **own})


def _string_kernel(layer: StringKernelRNN) -> StringKernel:
    reason = _why_no_string_kernel(layer)
    if reason or isinstance(layer.decay, str):
        raise _no_kernel(layer, reason)
    combine = "multiply" if layer.chain.combine == "multiply" else "add"
    return StringKernel(layer.order, layer.decay, combine=combine, normalized=layer.normalized)


_GATE = (
    "Its decay is a gate that depends on the input and not on the reference, so that the two are "
    "not interchangeable."
)
_DECAYS = {
    "input": _GATE,
    "state": _GATE,
    "learned": (
        "Each unit has its own decay, and so its own kernel: for unit i it is "
        "StringKernel(order, float(layer.decay_gate()[i]))."
    ),
}


def _why_no_string_kernel(layer: StringKernelRNN) -> str:
    chain = layer.chain
    if isinstance(layer.decay, str):
        return _DECAYS[layer.decay]
    if layer.num_layers > 1 or layer.bidirectional:
        return _SEVERAL
    if chain.order > 1 and chain.combine == "add":
        return (
            "combine='add' as printed weights a new token regardless of the n-grams it completes, "
            "which no symmetric kernel does; use combine='add_exact'."
        )
    if chain.order > 1 and chain.readout == "sum":
        return (
            "readout='sum' compares c_j with the first j tokens of the reference alone, but a "
            "sum of kernels would with all of them; use readout='last'."
        )
    if chain.highway:
        return "The highway mixes the input with its output; use highway=False."
    if layer.activation is not None:
        return (
            f"Its activation {layer.activation} of a kernel is no kernel; use activation=None. "
            "Before the activation, cell_states are kernel values."
        )
    return ""
