"""The short path of ``step()``: streaming on the compiled core without gradients.

``CellDirection`` computes the same by the general path; this one only leaves out what a single
step does not need. Whatever is unusual about a call is left to the general path, which has the
messages.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from representer.nn.recurrent.direction import CellDirection
from representer.nn.recurrent.state import RecurrentState
from representer.ops.rkm_scan import step as core_step


def quick_step(directions: Any, x_t: Tensor, state: Any) -> tuple[Tensor, RecurrentState] | None:
    """Take one step through all layers, or return None where the general path is needed.

    Args:
        directions: One ``CellDirection`` a layer.
        x_t: Input ``(B, I)``.
        state: What the last step returned.
    """
    if type(state) is not RecurrentState or not core_step.is_usable(x_t) or x_t.dim() != 2:
        return None
    shape, dtype = (len(directions), x_t.shape[0], state.h.shape[-1]), x_t.dtype
    for part in (state.h, state.c):
        if part.shape != shape or part.dtype != dtype or not part.is_contiguous():
            return None
    hs, cs, x = [], [], x_t.contiguous()
    for k, direction in enumerate(directions):
        plan = _PLANS.get(direction)
        if plan is None:
            plan = _PLANS[direction] = _plan(direction)
        input_weight = plan.weights.get("0")
        if input_weight is None or (direction.weight_drop and direction.training):
            return None
        if input_weight.dtype != dtype or x.shape[1] != input_weight.shape[2]:
            return None
        x, h, c = _step(direction, plan.step, input_weight, x, state.h[k], state.c[k])
        hs.append(h)
        cs.append(c)
    single = len(hs) == 1
    h, c = (hs[0][None], cs[0][None]) if single else (torch.stack(hs), torch.stack(cs))
    return x, RecurrentState(h, c, state.window)


class _Plan(NamedTuple):
    """What a direction's steps have in common: its weights' dict, empty where it is unusual."""

    weights: dict[str, Any]
    step: core_step.Step | None


_PLANS: WeakKeyDictionary[Any, _Plan] = WeakKeyDictionary()


def _plan(direction: Any) -> _Plan:
    if type(direction) is not CellDirection or any(direction.zoneout):
        return _Plan({}, None)
    filters = direction.filters
    if direction.psi is not None or not filters.is_plain or filters.reach:
        return _Plan({}, None)
    if not direction.cell.has_memory:
        return _Plan({}, None)
    (weight,) = filters.weights
    biased = 0 if direction.bias is None else len(direction.bias)
    biased = len(direction.cell.gates) if biased and direction.forget_bias else biased
    sizes = direction.hidden_size, weight.shape[2], biased
    return _Plan(filters.weights._parameters, core_step.Step(direction.cell, *sizes))


def _step(
    direction: CellDirection,
    step: core_step.Step | None,
    input_weight: Tensor,
    x: Tensor,
    h: Tensor,
    c: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    assert step is not None
    norm, static = direction.norm, direction.static
    return step(
        x,
        h,
        c,
        input_weight,
        direction.full_bias() if direction.forget_bias else direction.bias,
        direction.recurrent,
        None if static is None else static().contiguous(),
        None if norm is None else torch.stack((norm.weight, norm.bias)),
    )
