"""One time step on the compiled core, with packed weights and a state that is updated in place."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from representer.ops import core

_WIDEST = 64  # outputs to a multiple of which the core pads packed weights, or to less


def padded(outputs: int) -> int:
    """Return an upper bound of the outputs of packed weights, on any instruction set."""
    return -(-outputs // _WIDEST) * _WIDEST


class PackedStep:
    """A step of a cell whose operands were checked.

    The arguments of the core are made once; a call sets two pointers.

    Args:
        step: The ``Step`` of a cell.
        operands: Its operands, which `fits` checked.
        h: Last output ``(B, H)``, updated in place.
        c: Last memory cells or states ``(B, …, H)``, updated in place.
    """

    def __init__(self, step: Any, operands: Any, h: Tensor, c: Tensor) -> None:
        self._operation = step.operation + "_forward"
        self._run = core.function(self._operation, h.dtype)
        struct = self._struct = step.struct(operands)
        packed = torch.empty(step.packed_entries(operands), dtype=h.dtype)
        self._alive = (packed, h, c, operands)  # the arguments point to them
        struct.packed, struct.batch = packed.data_ptr(), 0
        core.call(step.operation + "_pack", h.dtype, struct)
        struct.batch, struct.threads = len(h), 1
        struct.h0 = struct.h = h.data_ptr()
        struct.c0 = struct.c = c.data_ptr()
        self._pointer = ctypes.byref(struct)
        self._carries, self._is_batched = step.carries, len(h) > 1

    def __call__(self, x: int, output: int) -> None:
        """Take a step from the address of the input ``(B, I)`` to that of the output ``(B, H)``."""
        struct = self._struct
        struct.x, struct.out = x, output
        if self._carries:
            struct.carry = x
        if self._is_batched:
            struct.threads = core.threads()
        if status := self._run(self._pointer):
            raise core.failure(self._operation, status)
