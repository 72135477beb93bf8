"""The recurrence of any cell of L19 Table 1 on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError
from representer.functional import Cell
from representer.ops import core
from representer.ops.checks import (
    check_input,
    check_lengths,
    check_like,
    check_operands,
    may_need_gradient,
)
from representer.ops.op import Backend, Op
from representer.ops.recurrence import gradient_rule
from representer.ops.rkm_scan import cpp, reference
from representer.ops.rkm_scan.arguments import (
    ALL,
    CELLS,
    NOTHING,
    Backward,
    Forward,
    Gradients,
    backward_layout,
    layout,
)
from representer.ops.rkm_scan.samples import samples

_BY_AUTOGRAD = "functional.rkm_scan takes any, with autograd."


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
        KindError: If dtypes or devices do not, or the cell needs what is not given.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (8)-(19).
    """
    if cell.candidate not in ("identity", "tanh"):
        raise ArgumentError(
            "cell.candidate", cell.candidate, "'identity' or 'tanh'", hint=_BY_AUTOGRAD
        )
    gates, seen = len(cell.gates), len(cell.recurrent_gates)
    time, batch, units = check_input("z", z, input_weight, gates)
    check_like("h0", h0, z, (batch, units))
    check_like("c0", c0, z, (batch, units))
    expected = {
        "input_weight": (input_weight, (gates, units, z.shape[-1]), input_weight is not None),
        "bias": (bias, (gates, units), input_weight is not None and bias is not None),
        "weight": (weight, (seen, units, units), seen > 0),
        "static": (static, (2, units), "static" in (cell.input_gate, cell.forget_gate)),
        "norm": (norm, (2, units), norm is not None),
        "hold": (hold, (2, time, batch, units), hold is not None),
    }
    check_operands(expected, z, "cell")
    check_lengths(lengths, time, batch)
    if OP.is_forward_mode(backend):
        return _definition(
            z, weight, h0, c0, cell=cell, input_weight=input_weight, bias=bias, static=static,
            norm=norm, hold=hold, lengths=lengths, reverse=reverse,
        )  # fmt: skip
    keep = NOTHING
    if may_need_gradient((z, input_weight, bias, weight, h0, c0, static, norm)):
        keep = CELLS if recompute else ALL
    operands = Forward(
        z, input_weight, bias, weight, h0, c0, static, norm, hold, lengths, cell.code, reverse, keep
    )
    name = OP.choose(backend, z.device.type, operands)
    output, h, c, *_ = OP.call(name, operands)
    return output, h, c


def _fake(*operands: Any) -> tuple[Tensor, ...]:
    p = Forward(*operands[:-1])
    time, batch, _, units = p.sizes
    shapes = ((time, batch, units), (batch, units), (batch, units), *p.kept_shapes)
    return tuple(p.h0.new_empty(shape) for shape in shapes)


def _backward_fake(*operands: Any) -> Gradients:
    p = Backward(*operands[:-1])
    time, batch, gates, units = (*p.output.shape[:2], len(p.cell.gates), p.output.shape[2])
    dx = (time, batch, gates, units)
    if p.input_weight is not None:
        dx = p.z.shape if p.needs_x else (0,)
    optional = (p.input_weight, p.bias, p.weight, p.static if p.needs_static else None, p.norm)
    of_input, of_bias, of_weight, of_static, of_norm = (
        (0,) if x is None else x.shape for x in optional
    )
    shapes = (dx, of_input, of_bias, of_weight, p.h0.shape, p.c0.shape, of_static, of_norm)
    return Gradients(*(p.h0.new_empty(shape) for shape in shapes))


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


_save, _gradient = gradient_rule(
    "rkm_scan",
    Forward,
    Gradients,
    needs_input=lambda p: p.input_weight is not None or p.keep == CELLS,
    optional=("z", "static"),
)
OP = Op("rkm_scan", rkm_scan, _definition, samples)
OP.register(
    Forward.SCHEMA,
    Backward.SCHEMA,
    layout=layout,
    backward_layout=backward_layout,
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
    batch_axes={"z": 1, "h0": 0, "c0": 0, "hold": 2, "lengths": 0},
    result_axes=(1, 0, 0, 1, 1, 1),
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
