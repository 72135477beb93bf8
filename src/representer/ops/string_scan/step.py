"""One time step of a few sequences of a string-kernel cell, with as little overhead as possible.

For streaming without gradients: no operator dispatch, and only the checks that memory needs. It
computes one step of ``string_scan`` with ``input_weight``.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from representer.functional import StringChain
from representer.ops import core, structs
from representer.ops.rkm_scan.step import is_ready


class Operands(NamedTuple):
    """The weights of a step."""

    input_weight: Tensor  # (P·H, I)
    bias: Tensor | None  # (g·H,), of the last g products
    decay: Tensor | None  # () or (H,)
    weight: Tensor | None  # (H, H)


class Step:
    """A chain with a number of units, ready to take steps.

    With ``is_learned``, a decay that is not a gate has one value for each unit.
    """

    def __init__(self, chain: StringChain, units: int, is_learned: bool) -> None:
        self.chain, self.units, self.products = chain, units, len(chain.products)
        self.of_decay = (units,) if is_learned else ()
        decay = None if chain.is_gated else torch.empty(self.of_decay)
        struct = core.chain_struct(chain, decay)
        self.template = structs.StringForwardStruct(struct, 1, 0, units, 0, False, 1)

    def fits(self, x: Tensor, operands: Operands) -> bool:
        """Return True if the core may read these operands; nothing else protects its memory."""
        input_weight, bias, decay, weight = operands
        chain, units, dtype = self.chain, self.units, x.dtype
        return (
            is_ready(input_weight, (self.products * units, x.shape[1]), dtype)
            and (bias is None or is_ready(bias, ((self.products - chain.order) * units,), dtype))
            and (decay is None) == chain.is_gated
            and (decay is None or is_ready(decay, self.of_decay, dtype))
            and (weight is not None) == chain.is_state_gated
            and (weight is None or is_ready(weight, (units, units), dtype))
            and not (chain.highway and x.shape[1] != units)
        )

    def __call__(
        self, x: Tensor, h0: Tensor, c0: Tensor, operands: Operands
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take a step on tensors that are checked with ``is_ready`` and ``fits``.

        x is ``(B, I)``; h0 is ``(B, H)``, c0 ``(B, S, H)``. Return the output, and the new h and c.
        """
        output, h, c = torch.empty_like(h0), torch.empty_like(h0), torch.empty_like(c0)
        input_weight, bias, decay, weight = operands
        s = structs.StringForwardStruct.from_buffer_copy(self.template)
        s.x = x.data_ptr()
        s.batch, s.features = x.shape
        s.h0, s.c0, s.input_weight = h0.data_ptr(), c0.data_ptr(), input_weight.data_ptr()
        s.out, s.h, s.c = output.data_ptr(), h.data_ptr(), c.data_ptr()
        if bias is not None:
            s.bias, s.biased = bias.data_ptr(), len(bias) // self.units
        if decay is not None:
            s.decay = decay.data_ptr()
        if weight is not None:
            s.weight = weight.data_ptr()
        if self.chain.highway:
            s.carry = s.x
        status = core.function("string_forward", x.dtype)(ctypes.byref(s))
        if status:
            raise MemoryError("string_scan: no memory for the state of one step")
        return output, h, c
