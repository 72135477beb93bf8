"""The short path of ``step()`` for string-kernel layers; ``streaming_step`` has that of the cells.

``StringDirection`` computes the same by the general path, to which whatever is unusual about a call
is left. The core reads bare memory, so nothing reaches it that was not looked at.
"""

from __future__ import annotations

from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.utils.parametrize import type_before_parametrizations

from representer.nn.recurrent.states import StringMassState, StringState
from representer.nn.recurrent.string_direction import StringDirection
from representer.ops.rkm_scan.step import is_ready, is_usable
from representer.ops.string_scan.step import Operands, Step


def string_streaming_step(
    directions: Any, x_t: Tensor, state: StringState | StringMassState
) -> tuple[Tensor, Any] | None:
    """Take one step through all layers, or return None where the general path is needed.

    Args:
        directions: One ``StringDirection`` a layer.
        x_t: Input ``(B, I)``.
        state: State returned by the last step.
    """
    if x_t.dim() != 2 or not is_usable(x_t) or not _is_usual(directions[0]):
        return None
    chain, units = directions[0].chain, directions[0].hidden_size
    layers, batch, dtype = len(directions), x_t.shape[0], x_t.dtype
    before = state[1:]  # c and, where there are any, masses
    shape = (layers, chain.order, batch, units)
    if not all(is_ready(part, shape, dtype) for part in before):
        return None
    if len(before) != 1 + chain.has_mass or not is_ready(state.h, (layers, batch, units), dtype):
        return None
    hs, after, x = [], [], x_t.contiguous()
    for k, direction in enumerate(directions):
        operands = _operands(direction)
        step = _step(direction)
        if operands is None or not step.fits(x, operands):
            return None
        states = before[0][k] if len(before) == 1 else torch.cat([part[k] for part in before])
        x, h, c = step(x, state.h[k], states.transpose(0, 1).contiguous(), operands)
        hs.append(h)
        after.append(c.transpose(0, 1).contiguous())
    h = hs[0][None] if layers == 1 else torch.stack(hs)
    c = after[0][None] if layers == 1 else torch.stack(after)
    parts = (c,) if len(before) == 1 else (part.contiguous() for part in c.split(chain.order, 1))
    return x, cast(Any, type(state))(h, *parts)


_STEPS: WeakKeyDictionary[Any, Step] = WeakKeyDictionary()


def _step(direction: StringDirection) -> Step:
    step = _STEPS.get(direction)
    if step is None or step.chain is not direction.chain:
        is_learned = direction.decay_logit is not None
        step = Step(direction.chain, direction.hidden_size, is_learned)
        _STEPS[direction] = step
    return step


def _is_usual(direction: Any) -> bool:
    return type_before_parametrizations(direction) is StringDirection  # dropped weights are weights


def is_hooked(module: Any) -> bool:
    """Return True if a module has hooks of its own, or a ``forward`` set on the instance."""
    own = module.__dict__  # attributes of a module are slow to look up
    return bool(own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own)


def _operands(direction: Any) -> Operands | None:
    """Return the weights as they are now, or None where something stands between them and h."""
    if not _is_usual(direction) or (direction.hidden_dropout and direction.training):
        return None
    if is_hooked(direction):
        return None
    return Operands(
        direction.input_weight, direction.bias, direction.decay_value(), direction.recurrent
    )
