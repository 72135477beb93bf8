"""The fast path of ``step()``: all layers on the compiled core, without gradients.

It computes the same as the general path with less overhead. Uncommon calls and errors are left to
the general path. All arguments are checked, since the core accesses raw memory.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.nn.recurrent.states import RecurrentState, StringMassState, StringState
from representer.ops import core
from representer.ops.rkm_scan.step import is_ready, is_usable

if TYPE_CHECKING:
    from representer.nn.recurrent.sequence_layer import SequenceLayer

CoreSteps = tuple[tuple[Any, Any], ...]  # a Step and its Operands for each layer
SUPPORTED = (RecurrentState, StringState, StringMassState)  # states of layers with such steps


def fast_step(layer: SequenceLayer, x_t: Tensor, state: Any) -> tuple[Tensor, Any] | None:
    """Run one step of a layer with one direction, or return None if the general path is needed."""
    layout = layer.layout
    kind = layout.type
    if type(state) is not kind or kind not in SUPPORTED or x_t.dim() != 2 or not is_usable(x_t):
        return None
    dtype, batch, units = x_t.dtype, len(x_t), layer.hidden_size
    layers = len(layout.features)
    for part, inner in zip(state, layout.inner.values(), strict=True):
        if not is_ready(part, (layers, *(inner or ()), batch, units), dtype):
            return None
    steps = layer._core_steps(x_t)
    if steps is None:
        return None
    h0, c0 = state[0], state[1] if kind is RecurrentState else _joined(state)
    h, c, x_t = torch.empty_like(h0), torch.empty_like(c0), x_t.contiguous()
    output = torch.empty_like(h0[0] if layers > 1 else h0).view(batch, units)
    of_h = batch * units * h.element_size()  # bytes of a layer
    of_c = of_h * (c.numel() // h.numel()) if layers * of_h else 0
    x, at = x_t.data_ptr(), [tensor.data_ptr() for tensor in (h0, c0, h, c)]
    for k, (step, operands) in enumerate(steps):
        s = step.struct(operands)
        s.batch, s.x = batch, x
        s.h0, s.c0, s.h, s.c = at
        s.out = at[2] if k + 1 < layers else output.data_ptr()
        if step.carries:
            s.carry = x
        operation = step.operation + "_forward"
        if status := core.function(operation, dtype)(ctypes.byref(s)):
            raise core.failure(operation, status)
        x, at = s.out, [at[0] + of_h, at[1] + of_c, at[2] + of_h, at[3] + of_c]
    return output, RecurrentState._make((h, c)) if kind is RecurrentState else _parted(state, h, c)


def weight(layer: SequenceLayer, name: str) -> Any:
    """Return a parameter, which may be None; attribute access of modules is slow."""
    own = layer._parameters
    return own[name] if name in own else getattr(layer, name)  # parametrized


def _joined(state: Any) -> Tensor:
    """Return c and the masses, if any, as the core reads them ``(L, B, S, H)``."""
    c = state[1] if len(state) == 2 else torch.cat(state[1:], dim=1)
    return c.transpose(1, 2).contiguous()


def _parted(state: Any, h: Tensor, c: Tensor) -> Any:
    parts = c.transpose(1, 2).split(state[1].shape[1], dim=1)
    return type(state)(h, *(part.contiguous() for part in parts))
