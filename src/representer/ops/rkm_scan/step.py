"""One time step of a few sequences on the compiled core, with as little as possible around it.

For streaming without gradients: no operator dispatch, no copies, no packed weights. What it
computes is one step of ``rkm_scan`` with ``input_weight``; the caller has checked the arguments.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.rkm_scan import EPS
from representer.ops import core
from representer.ops.rkm_scan.cpp import KNOWN
from representer.ops.selection import chosen_backend

FEW = 8  # sequences up to which the core multiplies without packing


def is_usable(x: Tensor) -> bool:
    """Whether a step on this input can take the short path now."""
    return (
        not torch.is_grad_enabled()
        and not core.MISSING
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and x.shape[0] <= FEW
        and chosen_backend() in (None, "cpp")
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


class Step:
    """A cell of given sizes, ready to take steps.

    Args:
        cell: Which cell.
        units: H.
        features: I.
        biased: How many of the last gates have biases.
    """

    def __init__(self, cell: Cell, units: int, features: int, biased: int) -> None:
        assert (len(cell.gates), len(cell.recurrent_gates)) in KNOWN
        self.template = core.ForwardStruct(
            core.cell_struct(cell), 1, 0, units, features, False, 1, biased, epsilon=EPS
        )

    def __call__(
        self,
        x: Tensor,
        h0: Tensor,
        c0: Tensor,
        input_weight: Tensor,
        bias: Tensor | None,
        weight: Tensor | None,
        static: Tensor | None,
        norm: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take a step; all tensors are contiguous, shapes as in ``rkm_scan`` without time."""
        output, h, c = torch.empty_like(h0), torch.empty_like(h0), torch.empty_like(h0)
        s = core.ForwardStruct.from_buffer_copy(self.template)
        s.batch, s.x, s.x_batch = x.shape[0], x.data_ptr(), x.shape[1]
        s.h0, s.c0, s.input_weight = h0.data_ptr(), c0.data_ptr(), input_weight.data_ptr()
        s.out, s.h, s.c = output.data_ptr(), h.data_ptr(), c.data_ptr()
        if bias is not None:
            s.bias = bias.data_ptr()
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
