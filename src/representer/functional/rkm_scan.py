"""The recurrence of the recurrent-kernel-machine family, step by step.

    a_t  = z_t + W h_{t-1}                                     L19 (18), (19)
    c~_t = phi(a_candidate)
    i_t  = sigma(a_input),  f_t = sigma(a_forget),  o_t = sigma(a_output)
    c_t  = i_t * c~_t + f_t * m_{t-1}
    c_t  = LayerNorm(c_t)                                      if ``norm``; also the memory
    h_t  = o_t * psi(c_t)

Liang et al. 2019, (8)-(11), (17)-(19) and Table 1; z_t holds the n-gram products X~ . X_t and the
biases. This is the reference implementation for any cell, in plain torch.

Shapes: T time, B batch, G pre-activations of the cell, R of them recurrent, H units.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.nonlinearities import NONLINEARITIES

EPS = 1e-5  # of the layer norm, as in torch.nn.LayerNorm


def rkm_scan(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    *,
    cell: Cell,
    static: Tensor | None = None,
    norm: Tensor | None = None,
    hold: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    psi: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run any cell over a sequence.

    Args:
        z: Input part of the pre-activations ``(T, B, G, H)``, gates in the order of ``cell.gates``.
        weight: Recurrent matrices ``(R, H, H)``, output by input, for ``cell.recurrent_gates``.
        h0: Output before the first step ``(B, H)``.
        c0: Memory cell before the first step ``(B, H)``.
        cell: The cell.
        static: Static gates ``(2, H)``: input and forget, where the cell's are static.
        norm: Gain and bias of the layer norm ``(2, H)``.
        hold: Fraction of the previous cell and output to keep ``(2, T, B, H)`` (zoneout).
        lengths: True lengths ``(B,)``; beyond them the state does not change and the output is 0.
        reverse: Run from the last true step to the first.
        psi: Output nonlinearity that replaces that of the cell.

    Returns:
        ``h`` of every step ``(T, B, H)`` and the last ``h`` and ``c``, each ``(B, H)``.
    """
    phi = NONLINEARITIES[cell.candidate].value
    psi = psi or NONLINEARITIES[cell.output].value
    h, c = h0, c0
    outputs: list[Tensor] = [h0] * len(z)
    for t in reversed(range(len(z))) if reverse else range(len(z)):
        a = dict(zip(cell.gates, z[t].unbind(-2), strict=True))
        if weight is not None:
            feedback_RBH = torch.einsum("rij,bj->rbi", weight, h)
            for gate, recurrent in zip(cell.recurrent_gates, feedback_RBH, strict=True):
                a[gate] = a[gate] + recurrent
        c_new = _input(cell, a, static) * phi(a["candidate"])
        if cell.forget_gate != "none":
            c_new = c_new + _forget(cell, a, static) * _memory(cell, h, c)
        if norm is not None:
            c_new = F.layer_norm(c_new, c_new.shape[-1:], norm[0], norm[1], EPS)
        h_new = psi(c_new)
        if cell.output_gate:
            h_new = torch.sigmoid(a["output"]) * h_new
        if hold is not None:
            c_new = torch.lerp(c_new, c, hold[0, t])
            h_new = torch.lerp(h_new, h, hold[1, t])
        if lengths is None:
            h, c, outputs[t] = h_new, c_new, h_new
        else:
            is_real = (t < lengths)[:, None]
            h, c = torch.where(is_real, h_new, h), torch.where(is_real, c_new, c)
            outputs[t] = torch.where(is_real, h_new, torch.zeros_like(h))
    return torch.stack(outputs), h, c


def _input(cell: Cell, a: dict[str, Tensor], static: Tensor | None) -> Tensor:
    if cell.input_gate == "dynamic":
        return torch.sigmoid(a["input"])
    if cell.input_gate == "coupled":
        return torch.sigmoid(-a["forget"])  # 1 - sigma(a)
    assert static is not None
    return static[0]


def _forget(cell: Cell, a: dict[str, Tensor], static: Tensor | None) -> Tensor:
    if cell.forget_gate == "dynamic":
        return torch.sigmoid(a["forget"])
    assert static is not None
    return static[1]


def _memory(cell: Cell, h: Tensor, c: Tensor) -> Tensor:
    return {"cell": c, "output": h, "expm1": torch.expm1(c)}[cell.memory]
