"""rkm_scan on the compiled core: the loop there, the products of whole sequences in torch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.rkm_scan import EPS
from representer.ops import core
from representer.ops.rkm_scan.products import (
    memory_before,
    norm_gradient,
    normalise,
    static_gradient,
    weight_gradient,
)
from representer.ops.sequence import Steps, previous

KNOWN = {(1, 0), (1, 1), (2, 0), (2, 2), (3, 2), (3, 3), (4, 4)}  # gates, and those that see h


def forward(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    static: Tensor | None,
    norm: Tensor | None,
    hold: Tensor | None,
    lengths: Tensor | None,
    code: str,
    reverse: bool,
    save: bool,
) -> tuple[Tensor, ...]:
    """Return the same as ``reference.forward``."""
    cell = Cell.parse(code)
    Steps(len(z), lengths, reverse)  # checks the lengths
    time, batch, gates, units = z.shape
    x = z if z.stride()[2:] == (units, 1) else z.contiguous()
    weight, h0, c0, static, norm, hold = _contiguous(weight, h0, c0, static, norm, hold)
    lengths = None if lengths is None else lengths.long().contiguous()
    output, h, c = z.new_empty(time, batch, units), z.new_empty(h0.shape), z.new_empty(c0.shape)
    keeps_fresh = save and (norm is not None or hold is not None)
    saved = z.new_empty(z.shape if save else 0)
    cells = z.new_empty(output.shape if save else 0)
    fresh = z.new_empty(output.shape if keeps_fresh else 0)
    arguments = core.ForwardStruct(
        core.cell_struct(cell), time, batch, units, 0, reverse, core.threads(),
        core.pointer(x), x.stride(0), x.stride(1), None, None, core.pointer(weight),
        core.pointer(h0), core.pointer(c0), core.pointer(static), core.pointer(norm),
        core.pointer(hold), core.pointer(lengths), core.pointer(output), core.pointer(h),
        core.pointer(c), core.pointer(saved) if save else None,
        core.pointer(cells) if save else None, core.pointer(fresh) if keeps_fresh else None, EPS,
    )  # fmt: skip
    core.call("rkm_forward", z.dtype, arguments)
    return output, h, c, saved, cells, fresh


def backward(
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
    hold: Tensor | None,
    lengths: Tensor | None,
    code: str,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """Return the same as ``gradient.backward``."""
    cell = Cell.parse(code)
    time, batch, _, units = gates.shape
    strided = grad_output if grad_output.stride(2) == 1 else grad_output.contiguous()
    weight, h0, c0, static, norm, hold = _contiguous(weight, h0, c0, static, norm, hold)
    grad_h, grad_c = grad_h.contiguous(), grad_c.contiguous()
    lengths = None if lengths is None else lengths.long().contiguous()
    dz, to_h, to_c = gates.new_empty(gates.shape), h0.new_empty(h0.shape), c0.new_empty(c0.shape)
    g_fresh = gates.new_empty(cells.shape) if static is not None else None
    g_normed = gates.new_empty(cells.shape) if norm is not None else None
    arguments = core.BackwardStruct(
        core.cell_struct(cell), time, batch, units, reverse, core.threads(),
        core.pointer(strided), strided.stride(0), strided.stride(1), core.pointer(grad_h),
        core.pointer(grad_c), core.pointer(output), core.pointer(gates), core.pointer(cells),
        core.pointer(fresh), core.pointer(weight), core.pointer(h0), core.pointer(c0),
        core.pointer(static), core.pointer(norm), core.pointer(hold), core.pointer(lengths),
        core.pointer(dz), core.pointer(to_h), core.pointer(to_c), core.pointer(g_fresh),
        core.pointer(g_normed), EPS,
    )  # fmt: skip
    core.call("rkm_backward", gates.dtype, arguments)
    if weight is not None:
        seen = dz[-1 if reverse else 0].flatten(1)[:, -len(weight) * units :]
        to_h = to_h.addmm_(seen, weight.flatten(0, 1))
    h_before = previous(output, h0, lengths, reverse)
    memory = memory_before(cell, h_before, previous(cells, c0, lengths, reverse))
    normed = normalise(fresh)[0] if norm is not None else fresh
    return (
        dz,
        weight_gradient(dz, h_before, weight),
        to_h,
        to_c,
        static_gradient(cell, g_fresh, gates[:, :, 0], memory, static, lengths),
        norm_gradient(g_normed, normed, lengths),
    )


def refuses(z: Tensor, weight: Tensor | None, *arguments: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    seen = 0 if weight is None else len(weight)
    if (z.shape[2], seen) not in KNOWN:
        return f"has no kernel for {z.shape[2]} gates of which {seen} see h"
    return core.refuses(z.dtype)


def _contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]
