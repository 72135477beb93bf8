"""The recurrence of any cell of L19 Table 1 on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.functional import Cell
from representer.ops import core, gpu
from representer.ops.checks import may_need_gradient
from representer.ops.op import Backend, Op
from representer.ops.rkm_scan import cpp, gradient, reference
from representer.ops.rkm_scan.reference import ALL, CELLS, NOTHING, Operands, Results, sizes
from representer.ops.rkm_scan.samples import samples
from representer.ops.table import Table

MOST_NORMALIZED = 4096  # units, which one program of a GPU normalizes


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
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    recompute: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run any cell over a sequence; the equations are those of ``functional.rkm_scan``.

    Args:
        z: Input part of the pre-activations, gates in the order of ``cell.gates``; or, with
            ``input_weight``, the input x itself.
        weight: Recurrent matrices, output by input, for ``cell.recurrent_gates``.
        h0: Emission before the first step.
        c0: Memory cell before the first step.
        cell: The cell.
        static: Static gates, input and forget, where the cell's are static.
        norm: Gain and bias of the layer norm on the cell.
        hold: Fraction of the previous cell and emission that is kept (zoneout); a constant.
        lengths: True lengths; beyond them the state does not change and the output is 0.
        reverse: Whether to run from the last true step to the first.
        input_weight: Filters that turn x into z = W x + b, inside the op.
        bias: b, with ``input_weight``.
        recompute: Whether the gradient computes the gates again instead of keeping them.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - z ``(T, B, G, H)``, or x ``(T, B, I)`` with input_weight ``(G, H, I)`` and bias
          ``(G, H)``; weight ``(R, H, H)``; h0, c0 ``(B, H)``; static, norm ``(2, H)``;
          hold ``(2, T, B, H)``; lengths ``(B,)``
        - returns h of every step ``(T, B, H)`` and the last h and c, each ``(B, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or the cell needs an operand that is missing.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (8)-(19).
    """
    keep = NOTHING
    if may_need_gradient((z, input_weight, bias, weight, h0, c0, static, norm)):
        keep = CELLS if recompute else ALL
    p = Operands(
        z, input_weight, bias, weight, h0, c0, static, norm, hold, lengths, cell, reverse, keep
    )
    output, h, c, *_ = OP(p, backend)
    return output, h, c


def _definition(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    *,
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    recompute: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run ``functional.rkm_scan`` on the op's arguments; ``recompute`` changes no value."""
    if input_weight is not None:
        z = torch.einsum("tbi,ghi->tbgh", z, input_weight) + (0 if bias is None else bias)
    return functional.rkm_scan(z, weight, h0, c0, **options)


def _refuses(p: Operands) -> str:
    """Return why the GPU kernels cannot run a call, or "" if they can."""
    if p.norm is not None and p.h0.shape[1] > MOST_NORMALIZED:
        return f"normalizes up to {MOST_NORMALIZED} units, not {p.h0.shape[1]}"
    return gpu.refuses(p)


OP = Op("rkm_scan", rkm_scan, _definition, samples)
OP.register(Table(Operands, Results, sizes))
OP.add_backend(Backend("reference", (), reference.forward, gradient.backward))
OP.add_backend(gpu.backend("rkm_scan", _refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
