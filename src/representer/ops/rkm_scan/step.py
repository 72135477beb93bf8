"""One time step of a few sequences on the compiled core, with as little overhead as possible.

For streaming without gradients: no operator dispatch, no copies, no packed weights. It computes
one step of ``rkm_scan`` with ``input_weight``.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import torch
from torch import _C, Tensor, nn
from torch._C._functorch import maybe_current_level  # pyright: ignore

from representer.functional.cell import Cell
from representer.functional.rkm_scan import EPS
from representer.ops import core, structs
from representer.ops.checks import is_forward_mode
from representer.ops.rkm_scan.cpp import KNOWN
from representer.ops.selection import allows

_PLAIN = (Tensor, nn.Parameter)
FEW = 8  # sequences up to which the core multiplies without packing


def is_usable(x: Tensor) -> bool:
    """Return True if a step on this input can take the short path."""
    return (
        not torch.compiler.is_compiling()
        and not torch.is_grad_enabled()
        and not core.MISSING
        and type(x) is Tensor
        and x.is_cpu
        and x.dtype in (torch.float32, torch.float64)
        and x.shape[0] <= FEW
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
    """A cell with a number of units, ready to take steps."""

    def __init__(self, cell: Cell, units: int) -> None:
        self.cell = cell
        self.gates, self.seen, self.units = len(cell.gates), len(cell.recurrent_gates), units
        self.needs_static = "static" in (cell.input_gate, cell.forget_gate)
        self.is_known = (self.gates, self.seen) in KNOWN
        self.template = structs.ForwardStruct(
            core.cell_struct(cell), 1, 0, units, 0, False, 1, epsilon=EPS
        )

    def fits(self, x: Tensor, operands: Operands) -> bool:
        """Return True if the core may read these operands; nothing else protects its memory."""
        input_weight, bias, weight, static, norm = operands
        units, dtype = self.units, x.dtype
        return (
            is_ready(input_weight, (self.gates * units, x.shape[1]), dtype)
            and (bias is None or is_ready(bias, (self._biased(bias) * units,), dtype))
            and (weight is not None) == (self.seen > 0)
            and (weight is None or is_ready(weight, (self.seen * units, units), dtype))
            and (static is not None) == self.needs_static
            and (static is None or is_ready(static, (2, units), dtype))
            and (norm is None or is_ready(norm, (2, units), dtype))
        )

    def __call__(
        self, x: Tensor, h0: Tensor, c0: Tensor, operands: Operands
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take a step on tensors that are checked with ``is_ready`` and ``fits``.

        x is ``(B, I)``; h0 and c0 are ``(B, H)``. Return the output, and the new h and c.
        """
        output, h, c = torch.empty_like(h0), torch.empty_like(h0), torch.empty_like(h0)
        input_weight, bias, weight, static, norm = operands
        s = structs.ForwardStruct.from_buffer_copy(self.template)
        s.batch, s.x, (_, s.features) = x.shape[0], x.data_ptr(), x.shape
        s.x_batch = s.features
        s.h0, s.c0, s.input_weight = h0.data_ptr(), c0.data_ptr(), input_weight.data_ptr()
        s.out, s.h, s.c = output.data_ptr(), h.data_ptr(), c.data_ptr()
        if bias is not None:
            s.bias, s.biased = bias.data_ptr(), self._biased(bias)
        if weight is not None:
            s.weight = weight.data_ptr()
        if static is not None:
            s.gate_values = static.data_ptr()
        if norm is not None:
            s.norm = norm.data_ptr()
        status = core.function("rkm_forward", x.dtype)(ctypes.byref(s))
        if status:
            raise MemoryError("rkm_scan: no memory for the state of one step")
        return output, h, c

    def _biased(self, bias: Tensor) -> int:
        return min(len(bias) // self.units, self.gates)
