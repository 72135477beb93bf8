"""The tie between a kernel and its network: two views of one object.

The state of unit i of ``kernel.network(...)`` is the kernel between the input and reference i, and
``network.kernel`` gives that kernel back. This is the one place where ``kernels`` and ``nn`` meet.
"""

from __future__ import annotations

from typing import Any

from representer.errors import KindError
from representer.kernels.kernel import Kernel
from representer.kernels.mercer import mercer_obstacle
from representer.kernels.recurrent_kernel import RecurrentKernel
from representer.nn import RKM
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine
from representer.nn.recurrent.sequence_layer import SequenceLayer


def network_of(kernel: Kernel, input_size: int, hidden_size: int, options: dict[str, Any]) -> Any:
    """Return the layer that evaluates a kernel against learned references.

    Args:
        kernel: The kernel; its ``filter_length`` and ``dilation`` hold where options name none.
        input_size: I, features of one step.
        hidden_size: Number of references.
        options: Other arguments of ``nn.RKM``.

    Raises:
        KindError: If no layer evaluates the kernel.
    """
    if not isinstance(kernel, RecurrentKernel):
        raise KindError("kernel", repr(kernel), "a kernel that has a network")
    lengths = {"filter_length": kernel.filter_length, "dilation": kernel.dilation}
    settings = {**lengths, **options}
    return RKM(input_size, hidden_size, q=kernel.q, feedback=False, **settings)


def kernel_of(layer: SequenceLayer) -> RecurrentKernel:
    """Return the exact kernel that a layer evaluates against its ``references()``.

    Raises:
        KindError: If there is none, with the reason.
    """
    obstacle = _obstacle(layer)
    if obstacle or not isinstance(layer, RKM):
        raise KindError(
            "layer", repr(layer), "one that evaluates a symmetric kernel", hint=obstacle
        )
    n = layer.filter_length
    longest = max(n) if isinstance(n, dict) else n
    return RecurrentKernel(layer.q, filter_length=longest, dilation=layer.dilation, repeat=True)


def _obstacle(layer: SequenceLayer) -> str:
    if not isinstance(layer, RecurrentKernelMachine):
        return "Only nn.RKM(feedback=False) evaluates a RecurrentKernel."
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
            "so that the two cannot change places."
        )
    if not isinstance(layer, RKM):
        return "Only nn.RKM(feedback=False) evaluates a RecurrentKernel."
    if layer.feedback:
        return "Its units see each other through the feedback; use feedback=False."
    if layer.num_layers > 1 or layer.bidirectional:
        return "It has several layers or directions; each one alone has a kernel."
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
    obstacle = mercer_obstacle(layer.q)
    return f"Its q is not a Mercer kernel: {obstacle}." if obstacle else ""
