"""One time step of a few sequences of a string-kernel cell, with as little overhead as possible.

For streaming without gradients: no operator dispatch, and only the checks that memory needs. It
computes one step of ``string_scan`` with ``input_weight``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.functional import StringChain
from representer.ops import core, structs
from representer.ops.packed_step import padded
from representer.ops.rkm_scan.step import is_ready


class Operands(NamedTuple):
    """The weights of a step."""

    input_weight: Tensor  # (P·H, I)
    bias: Tensor | None  # (g·H,), of the last g products
    decay: Tensor | None  # () or (H,)
    weight: Tensor | None  # (H, H)


class Step:
    """A chain with a number of units, ready to take steps on operands that `fits` checked.

    With ``is_learned``, a decay that is not a gate has one value for each unit.
    """

    operation = "string"

    def __init__(self, chain: StringChain, units: int, is_learned: bool) -> None:
        self.chain, self.units, self.products = chain, units, len(chain.products)
        self.of_decay, self.carries = (units,) if is_learned else (), chain.highway
        decay = None if chain.is_gated else torch.empty(self.of_decay)
        struct = core.chain_struct(chain, decay)
        self.template = structs.StringForwardStruct(struct, 1, 0, units, 0, False, 1)

    def fits(self, features: int, dtype: torch.dtype, operands: Operands) -> bool:
        """Return True if the core may read these operands; nothing else protects its memory."""
        input_weight, bias, decay, weight = operands
        chain, units = self.chain, self.units
        return (
            is_ready(input_weight, (self.products * units, features), dtype)
            and (bias is None or is_ready(bias, ((self.products - chain.order) * units,), dtype))
            and (decay is None) == chain.is_gated
            and (decay is None or is_ready(decay, self.of_decay, dtype))
            and (weight is not None) == chain.is_state_gated
            and (weight is None or is_ready(weight, (units, units), dtype))
            and not (chain.highway and features != units)
        )

    def packed_entries(self, operands: Operands) -> int:
        """Return an upper bound of the entries of the packed weights."""
        outputs, features = operands.input_weight.shape
        return padded(outputs) * features + padded(self.units) * self.units

    def struct(self, operands: Operands) -> Any:
        """Return the arguments of a step without input, output and state."""
        input_weight, bias, decay, weight = operands
        s = structs.StringForwardStruct.from_buffer_copy(self.template)
        s.features, s.input_weight = input_weight.shape[1], input_weight.data_ptr()
        if bias is not None:
            s.bias, s.biased = bias.data_ptr(), len(bias) // self.units
        if decay is not None:
            s.decay = decay.data_ptr()
        if weight is not None:
            s.weight = weight.data_ptr()
        return s
