"""The elementwise linear recurrence of all cells without feedback.

    c_t = f_t * c_{t-1} + u_t,      c_0 given                          scan
    c_t = sum_{s<=t} (f_{s+1} ... f_t) * u_s  +  (f_1 ... f_t) * c_0   definition

Liang et al. 2019, (9) and (15) with f = sigma_f^2 and u = sigma_i^2 c~. Shapes: T time, B batch,
H units.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gated_scan_definition(u: Tensor, f: Tensor, c0: Tensor) -> Tensor:
    """Evaluate the sum as written. An oracle: quadratic in T.

    Args:
        u: Input of each step ``(T, B, H)``.
        f: Decay of each step, broadcastable to ``(T, B, H)``.
        c0: State before the first step ``(B, H)``.

    Returns:
        c_1..c_T ``(T, B, H)``.
    """
    f = f.expand_as(u)
    states = []
    for t in range(len(u)):
        c_t = f[: t + 1].prod(0) * c0
        for s in range(t + 1):
            c_t = c_t + f[s + 1 : t + 1].prod(0) * u[s]
        states.append(c_t)
    return torch.stack(states)


def gated_scan(
    u: Tensor,
    f: Tensor,
    c0: Tensor,
    *,
    lengths: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run the recurrence in O(T).

    Args:
        u: Input of each step ``(T, B, H)``.
        f: Decay of each step: a scalar, a vector ``(H,)`` or ``(T, B, H)``.
        c0: State before the first step ``(B, H)``.
        lengths: True lengths ``(B,)``; beyond them the state does not change and the output is 0.
        reverse: Run from the last true step to the first.

    Returns:
        c_1..c_T ``(T, B, H)`` and the final state ``(B, H)``.
    """
    f = f.expand_as(u)
    c = c0
    states: list[Tensor] = [c0] * len(u)
    for t in reversed(range(len(u))) if reverse else range(len(u)):
        c_new = f[t] * c + u[t]
        if lengths is None:
            states[t] = c = c_new
        else:
            is_real = (t < lengths)[:, None]
            c = torch.where(is_real, c_new, c)
            states[t] = torch.where(is_real, c_new, torch.zeros_like(c))
    return torch.stack(states), c
