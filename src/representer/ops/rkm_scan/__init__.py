"""The recurrence of any cell of L19 Table 1 on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import Cell
from representer.ops.checks import check_floating, check_lengths, check_like
from representer.ops.op import Backend, Op
from representer.ops import core
from representer.ops.rkm_scan import cpp, reference
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
    backend: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run any cell over a sequence; the equations are those of ``functional.rkm_scan``.

    Args:
        z: Input part of the pre-activations, gates in the order of ``cell.gates``.
        weight: Recurrent matrices, output by input, for ``cell.recurrent_gates``.
        h0: Emission before the first step.
        c0: Memory cell before the first step.
        cell: Which cell.
        static: Static gates, input and forget, where the cell's are static.
        norm: Gain and bias of the layer norm on the cell.
        hold: Share of the previous cell and emission that is kept (zoneout); a constant.
        lengths: True lengths; beyond them the state stands still and the output is 0.
        reverse: Whether to run from the last true step to the first.
        backend: A backend by name, which then runs or raises; None for the best there is.

    Shape:
        - z ``(T, B, G, H)``; weight ``(R, H, H)``; h0, c0 ``(B, H)``; static, norm ``(2, H)``;
          hold ``(2, T, B, H)``; lengths ``(B,)``
        - returns h of every step ``(T, B, H)`` and the last h and c, each ``(B, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or the cell needs what is not given.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the backend asked for cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (8)-(19).
    """
    if cell.candidate not in ("identity", "tanh"):
        raise ArgumentError(
            "cell.candidate", cell.candidate, "'identity' or 'tanh'", hint=_BY_AUTOGRAD
        )
    check_floating("z", z)
    gates, seen = len(cell.gates), len(cell.recurrent_gates)
    if z.dim() != 4 or not len(z) or z.shape[2] != gates:
        raise ShapeError("z", z.shape, f"(time, batch, {gates}, units) with at least one step")
    time, batch, _, units = z.shape
    check_like("h0", h0, z, (batch, units))
    check_like("c0", c0, z, (batch, units))
    expected = {
        "weight": (weight, (seen, units, units), seen > 0),
        "static": (static, (2, units), "static" in (cell.input_gate, cell.forget_gate)),
        "norm": (norm, (2, units), norm is not None),
        "hold": (hold, (2, time, batch, units), hold is not None),
    }
    for name, (tensor, shape, needed) in expected.items():
        if (tensor is not None) != needed:
            came = "None" if tensor is None else f"a tensor {tuple(tensor.shape)}"
            wanted = f"a tensor {shape}" if needed else "None"
            raise KindError(name, came, f"{wanted} for this cell")
        if tensor is not None:
            check_like(name, tensor, z, shape)
    check_lengths(lengths, time, batch)
    arguments = (z, weight, h0, c0, static, norm, hold, lengths, cell.code, reverse)
    name = OP.choose(backend, z.device.type, arguments)
    differentiable = (z, weight, h0, c0, static, norm)
    save = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in differentiable
    )
    output, h, c, *_ = torch.ops.representer.rkm_scan(*arguments, save, name)
    return output, h, c


def _fake(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    static: Tensor | None,
    norm: Tensor | None,
    hold: Tensor | None,
    lengths: Tensor | None,
    cell: str,
    reverse: bool,
    save: bool,
    backend: str,
) -> tuple[Tensor, ...]:
    time, batch, gates, units = z.shape
    gates_shape = (time, batch, gates, units) if save else (0,)
    cells_shape = (time, batch, units) if save else (0,)
    fresh_shape = cells_shape if norm is not None or hold is not None else (0,)
    shapes = ((time, batch, units), (batch, units), (batch, units), gates_shape, cells_shape)
    return tuple(z.new_empty(shape) for shape in (*shapes, fresh_shape))


def _backward_fake(
    grad_output: Tensor,
    grad_h: Tensor,
    grad_c: Tensor,
    output: Tensor,
    gates: Tensor,
    cells: Tensor,
    fresh: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    static: Tensor | None,
    norm: Tensor | None,
    *_: Any,
) -> tuple[Tensor, ...]:
    optional = (weight, static, norm)
    d_weight, d_static, d_norm = (gates.new_empty((0,) if x is None else x.shape) for x in optional)
    return (
        gates.new_empty(gates.shape),
        d_weight,
        gates.new_empty(h0.shape),
        gates.new_empty(c0.shape),
        d_static,
        d_norm,
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, weight, h0, c0, static, norm, hold, lengths, ctx.cell, ctx.reverse, _, ctx.backend = inputs
    states, _, _, gates, cells, fresh = output
    ctx.mark_non_differentiable(gates, cells, fresh)
    ctx.set_materialize_grads(False)  # the saved tensors' gradients would be as large as they are
    ctx.save_for_backward(states, gates, cells, fresh, weight, h0, c0, static, norm, hold, lengths)


def _gradient(
    ctx: Any, d_output: Tensor | None, d_h: Tensor | None, d_c: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    states, _, _, _, weight, h0, c0, static, norm, _, _ = saved = ctx.saved_tensors
    dz, d_weight, dh0, dc0, d_static, d_norm = torch.ops.representer.rkm_scan_backward(
        torch.zeros_like(states) if d_output is None else d_output,
        torch.zeros_like(h0) if d_h is None else d_h,
        torch.zeros_like(c0) if d_c is None else d_c,
        *saved,
        ctx.cell,
        ctx.reverse,
        ctx.backend,
    )
    return (
        dz,
        None if weight is None else d_weight,
        dh0,
        dc0,
        None if static is None else d_static,
        None if norm is None else d_norm,
        *(None,) * 6,
    )


OP = Op("rkm_scan", rkm_scan, functional.rkm_scan, samples)
OP.register(
    "(Tensor z, Tensor? weight, Tensor h0, Tensor c0, Tensor? static, Tensor? norm, Tensor? hold,"
    " Tensor? lengths, str cell, bool reverse, bool save, str backend)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "(Tensor grad_output, Tensor grad_h, Tensor grad_c, Tensor output, Tensor gates, Tensor cells,"
    " Tensor fresh, Tensor? weight, Tensor h0, Tensor c0, Tensor? static, Tensor? norm,"
    " Tensor? hold, Tensor? lengths, str cell, bool reverse, str backend)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
