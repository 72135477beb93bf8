"""The short path of ``step()``: streaming on the compiled core without gradients.

``CellDirection`` computes the same by the general path; this one only leaves out what a single
step does not need. Whatever is unusual about a call is left to the general path, which has the
messages. The core reads bare memory, so nothing reaches it that was not looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.utils.parametrize import type_before_parametrizations

from representer.nn.recurrent.direction import CellDirection
from representer.nn.recurrent.filters import DenseFilters
from representer.nn.recurrent.states import RecurrentState, StringMassState, StringState
from representer.nn.recurrent.string_streaming_step import is_hooked, string_streaming_step
from representer.ops.rkm_scan import step as core_step


def streaming_step(directions: Any, x_t: Tensor, state: Any) -> tuple[Tensor, Any] | None:
    """Take one step through all layers, or return None where the general path is needed.

    Args:
        directions: One ``CellDirection`` a layer, or one ``StringDirection``.
        x_t: Input ``(B, I)``.
        state: State returned by the last step.
    """
    if type(state) in (StringState, StringMassState):
        return string_streaming_step(directions, x_t, state)
    if type(state) is not RecurrentState or x_t.dim() != 2 or not core_step.is_usable(x_t):
        return None
    batch, dtype, units = x_t.shape[0], x_t.dtype, directions[0].hidden_size
    shape = (len(directions), batch, units)
    if not all(core_step.is_ready(part, shape, dtype) for part in (state.h, state.c)):
        return None
    hs, cs, x = [], [], x_t.contiguous()
    for k, direction in enumerate(directions):
        plan = _PLANS.get(direction)
        if plan is None:
            plan = _PLANS[direction] = _plan(direction)
        operands = _operands(direction, plan)
        if operands is None or not plan.step.fits(x, operands):
            return None
        x, h, c = plan.step(x, state.h[k], state.c[k], operands)
        hs.append(h)
        cs.append(c)
    single = len(hs) == 1
    h, c = (hs[0][None], cs[0][None]) if single else (torch.stack(hs), torch.stack(cs))
    return x, RecurrentState(h, c)


class _Plan(NamedTuple):
    """The constants of a direction's steps: its filters, if they are plain, and its cell."""

    filters: DenseFilters | None
    step: core_step.Step


_PLANS: WeakKeyDictionary[Any, _Plan] = WeakKeyDictionary()


def _plan(direction: Any) -> _Plan:
    filters, cell = direction.filters, direction.cell
    kind = type_before_parametrizations(direction)  # dropped weights are read like others
    is_usual = kind is CellDirection and type(filters) is DenseFilters
    is_usual = is_usual and cell.has_memory and filters.is_plain and not filters.reach
    step = core_step.Step(cell, direction.hidden_size)
    return _Plan(filters if is_usual and step.is_known else None, step)


def _operands(direction: CellDirection, plan: _Plan) -> core_step.Operands | None:
    """Return the weights as they are now, or None where something stands between them and h."""
    modules = direction._modules  # attributes of a module are slow to look up
    if modules["filters"] is not plan.filters or plan.filters is None or direction.psi is not None:
        return None
    if any(direction.zoneout) or (direction.weight_drop and direction.training):
        return None
    if is_hooked(direction):
        return None
    weight = plan.filters.weights._parameters.get("0")
    if weight is None:
        return None
    norm, static = cast(Any, modules.get("norm")), modules.get("static")
    return core_step.Operands(
        weight,
        direction.full_bias() if direction.forget_bias else direction.bias,
        direction.recurrent,
        None if static is None else static().contiguous(),
        None if norm is None else torch.stack((norm.weight, norm.bias)),
    )
