"""gated_scan in torch, with the gradient of the whole sequence written out.

g_t = dc_t + f_{t+1} * g_{t+1},    du_t = g_t,    df_t = g_t * c_{t-1},    dc_0 = f_1 * g_1
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.ops.sequence import Steps, previous


def forward(
    u: Tensor, f: Tensor, c0: Tensor, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Return the states and the final one."""
    f = f.expand_as(u)
    states = torch.empty_like(u, memory_format=torch.contiguous_format)
    steps = Steps(len(u), lengths, reverse)
    c = c0
    for t in steps:
        if steps.is_whole(t):
            c = torch.addcmul(u[t], f[t], c, out=states[t])
        else:
            real = steps.real(t)
            fresh = torch.addcmul(u[t], f[t], c)
            states[t] = torch.where(real, fresh, 0.0)
            c = torch.where(real, fresh, c)
    return states, c.clone()


def backward(
    grad_states: Tensor,
    grad_final: Tensor,
    f: Tensor,
    c0: Tensor,
    states: Tensor,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of u, f and c0."""
    decay = f.expand_as(states)
    du = torch.empty_like(states)
    steps = Steps(len(states), lengths, reverse)
    carried = grad_final  # what flows into c_{t} from later steps
    for t in steps.backwards():
        if steps.is_whole(t):
            torch.add(grad_states[t], carried, out=du[t])
            carried = du[t] * decay[t]
        else:
            real = steps.real(t)
            du[t] = torch.where(real, grad_states[t] + carried, 0.0)
            carried = torch.where(real, du[t] * decay[t], carried)
    df = du * previous(states, c0, lengths, reverse)
    return du, df.sum_to_size(f.shape), carried.clone()
