"""gated_scan in torch, with the gradient of the whole sequence written out.

g_t = dc_t + f_{t+1} * g_{t+1},    du_t = g_t,    df_t = g_t * c_{t-1},    dc_0 = f_1 * g_1
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer.ops.common import Steps, previous
from representer.ops.table import LENGTHS, Operand


def _restored(p: Any, kept: Mapping[str, Tensor]) -> Tensor:
    """Return u = c_t - f_t c_{t-1}."""
    before = previous(kept["states"], p.c0, p.lengths, p.reverse)
    return kept["states"] - p.f * before


class Operands(NamedTuple):
    """Operands of gated_scan."""

    u: Annotated[Tensor, Operand("time batch units", saved=False, restored=_restored)]
    f: Annotated[Tensor, Operand("time batch units | units |")]
    c0: Annotated[Tensor, Operand("batch units")]
    lengths: Annotated[Tensor | None, LENGTHS]
    reverse: bool


class Results(NamedTuple):
    """Results of gated_scan."""

    states: Annotated[Tensor, Operand("time batch units")]
    final: Annotated[Tensor, Operand("batch units", saved=False)]


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    u, f, c, lengths, reverse = p
    f, states = f.expand_as(u), new.states
    steps = Steps(len(u), lengths, reverse)
    for t in steps:
        if steps.is_whole(t):
            c = torch.addcmul(u[t], f[t], c, out=states[t])
        else:
            real = steps.real(t)
            fresh = torch.addcmul(u[t], f[t], c)
            states[t] = torch.where(real, fresh, 0.0)
            c = torch.where(real, fresh, c)
    new.final.copy_(c)
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of u, f and c0."""
    states, decay = kept.states, p.f.expand_as(kept.states)
    du = torch.empty_like(states)
    steps = Steps(len(states), p.lengths, p.reverse)
    carried = grad.final  # the gradient of c_t from later steps
    for t in steps.backwards():
        if steps.is_whole(t):
            torch.add(grad.states[t], carried, out=du[t])
            carried = du[t] * decay[t]
        else:
            real = steps.real(t)
            du[t] = torch.where(real, grad.states[t] + carried, 0.0)
            carried = torch.where(real, du[t] * decay[t], carried)
    df = du * previous(states, p.c0, p.lengths, p.reverse)
    return {"u": du, "f": df.sum_to_size(p.f.shape), "c0": carried.clone()}
