"""One time step of a few sequences on the compiled core, with as little overhead as possible.

For streaming without gradients: no operator dispatch, no copies, no packed weights. It computes
one step of ``rkm_scan`` with ``input_weight``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import _C, Tensor, nn
from torch._C._functorch import maybe_current_level  # pyright: ignore

from representer.functional.cell import Cell
from representer.functional.rkm_scan import EPS
from representer.ops import core, structs
from representer.ops.checks import is_forward_mode
from representer.ops.packed_step import padded
from representer.ops.rkm_scan.cpp import KNOWN
from representer.ops.selection import allows

_PLAIN = (Tensor, nn.Parameter)
FEW = 32  # sequences up to which the core multiplies without packing


def is_usable(x: Tensor) -> bool:
    """Return True if a step on this input can take the short path."""
    return not torch.is_grad_enabled() and x.shape[0] <= FEW and is_plain(x)


def is_plain(x: Tensor) -> bool:
    """Return True if the core may read an input, and nothing observes operators."""
    return (
        not torch.compiler.is_compiling()
        and not core.MISSING
        and type(x) is Tensor
        and x.is_cpu
        and x.dtype in (torch.float32, torch.float64)
        and not x.is_neg()
        and allows("cpp")
        and not _C._is_any_autocast_enabled()
        # the short path calls no operator that these could see, differentiate, batch or trace
        and not _C._len_torch_dispatch_stack()
        and not _C._len_torch_function_stack()
        and not _C._is_tracing()
        and maybe_current_level() is None
        and not is_forward_mode()
    )


def is_ready(tensor: Any, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Return True if the core may read a tensor: plain, of this shape and dtype, contiguous."""
    return (
        type(tensor) in _PLAIN
        and tensor.shape == shape
        and tensor.dtype == dtype
        and tensor.is_cpu
        and tensor.is_contiguous()
        and not tensor.is_neg()
    )


class Operands(NamedTuple):
    """The weights of a step."""

    input_weight: Tensor  # (G·H, I)
    bias: Tensor | None  # (b·H,), of the last b gates
    weight: Tensor | None  # (R·H, H)
    static: Tensor | None  # (2, H)
    norm: Tensor | None  # (2, H)


class Step:
    """A cell with a number of units, ready to take steps on operands that `fits` checked."""

    operation, carries = "rkm", False

    def __init__(self, cell: Cell, units: int) -> None:
        self.cell = cell
        self.gates, self.seen, self.units = len(cell.gates), len(cell.recurrent_gates), units
        self.needs_static = "static" in (cell.input_gate, cell.forget_gate)
        self.is_known = (self.gates, self.seen) in KNOWN
        self.template = structs.ForwardStruct(
            core.cell_struct(cell), 1, 0, units, 0, False, 1, epsilon=EPS
        )

    def fits(self, features: int, dtype: torch.dtype, operands: Operands) -> bool:
        """Return True if the core may read these operands; nothing else protects its memory."""
        input_weight, bias, weight, static, norm = operands
        units = self.units
        return (
            is_ready(input_weight, (self.gates * units, features), dtype)
            and (bias is None or is_ready(bias, (self._biased(bias) * units,), dtype))
            and (weight is not None) == (self.seen > 0)
            and (weight is None or is_ready(weight, (self.seen * units, units), dtype))
            and (static is not None) == self.needs_static
            and (static is None or is_ready(static, (2, units), dtype))
            and (norm is None or is_ready(norm, (2, units), dtype))
        )

    def packed_entries(self, operands: Operands) -> int:
        """Return an upper bound of the entries of the packed weights."""
        return self.gates * padded(self.units) * (1 + operands.input_weight.shape[1] + self.units)

    def struct(self, operands: Operands) -> Any:
        """Return the arguments of a step without input, output and state."""
        input_weight, bias, weight, static, norm = operands
        s = structs.ForwardStruct.from_buffer_copy(self.template)
        s.features = s.x_batch = input_weight.shape[1]
        s.input_weight = input_weight.data_ptr()
        if bias is not None:
            s.bias, s.biased = bias.data_ptr(), self._biased(bias)
        if weight is not None:
            s.weight = weight.data_ptr()
        if static is not None:
            s.gate_values = static.data_ptr()
        if norm is not None:
            s.norm = norm.data_ptr()
        return s

    def _biased(self, bias: Tensor) -> int:
        return min(len(bias) // self.units, self.gates)
