# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""rkm_scan in Triton: a whole sequence in one kernel, or one a step beside a product in BLAS.

``whole.py`` has the kernels of the first kind. Those of the second compute some units of one
sequence; with layer norm, all of them. What a step reads of h and c it reads before it writes them,
unit by unit, so the running states are updated in place.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from representer.functional.rkm import EPS
from representer.ops.common import input_products, previous, real
from representer.ops.gpu import ceil_div, power_of_2
from representer.ops.rkm_scan import stationary, whole
from representer.ops.rkm_scan.pointwise import advance, constants, load, memory_before, retreat
from representer.ops.rkm_scan.reference import ALL, Operands, Results, finish, gates_of
from representer.ops.steps import accumulator, contiguous, load_rows

_UNITS = 256  # of a program without layer norm


@triton.jit(do_not_specialize=["t", "batch"])
def _forward(
    gates, h, c, static, norm, hold, lengths, output, cells, fresh, t, time, batch, units,
    CELL: tl.constexpr, EPS: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Take step t: pre-activations become gates, h and c the states after it."""
    G: tl.constexpr = len(CELL.gates)
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_unit = unit < units
    at, step = row * units + unit, (tl.cast(t, tl.int64) * batch + row) * units
    of_gate = gates + step * G + unit
    h_old, c_old = load(h, at, is_unit, ACC), load(c, at, is_unit, ACC)
    a = load_rows(of_gate, G, units, is_unit, ACC)
    fixed = constants(static, norm, unit, units, is_unit, ACC)
    found, before, y, new = advance(
        a, h_old, c_old, fixed, is_unit, units, CELL, norm is not None, EPS
    )
    for j in tl.static_range(G):
        tl.store(of_gate + j * units, found[j], mask=is_unit)
    if fresh is not None:
        tl.store(fresh + step + unit, before, mask=is_unit)
    if hold is not None:
        kept = hold + step + unit
        new += load(kept, 0, is_unit, ACC) * (c_old - new)
        of_h = tl.cast(time, tl.int64) * batch * units
        y += load(kept, of_h, is_unit, ACC) * (h_old - y)
    emitted = y
    if lengths is not None:
        is_real = t < tl.load(lengths + row)
        y, new = tl.where(is_real, y, h_old), tl.where(is_real, new, c_old)
        emitted = tl.where(is_real, y, 0.0)
    tl.store(output + step + unit, emitted, mask=is_unit)
    if cells is not None:
        tl.store(cells + step + unit, new, mask=is_unit)
    tl.store(h + at, y, mask=is_unit)
    tl.store(c + at, new, mask=is_unit)


@triton.jit(do_not_specialize=["t", "batch"])
def _backward(
    grad, gates, h_before, c_before, emitted, static, norm, hold, lengths, dz, to_h, to_c,
    g_normed, g_fresh, t, time, batch, units, CELL: tl.constexpr, EPS: tl.constexpr,
    ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Go back through step t, but for the product: to_h and to_c become the gradients before it."""
    G: tl.constexpr = len(CELL.gates)
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_unit = unit < units
    at, step = row * units + unit, (tl.cast(t, tl.int64) * batch + row) * units
    here = step + unit
    is_real = is_unit
    if lengths is not None:
        is_real = tl.where(is_unit, t - tl.load(lengths + row).to(tl.int32), 0) < 0
    memory = memory_before(h_before, c_before, here, is_unit, CELL, ACC)
    h_later, c_later = load(to_h, at, is_unit, ACC), load(to_c, at, is_unit, ACC)
    e, g = load(grad, here, is_unit, ACC) + h_later, c_later
    held_e, held_g = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
    if hold is not None:
        held_g = g * load(hold, here, is_unit, ACC)
        held_e = e * load(hold + tl.cast(time, tl.int64) * batch * units, here, is_unit, ACC)
        e, g = e - held_e, g - held_g
    found = load_rows(gates + step * G + unit, G, units, is_unit, ACC)
    fixed = constants(static, norm, unit, units, is_unit, ACC)
    x = load(emitted, here, is_unit, ACC)
    d, of_normed, of_fresh, to_h_new, to_c_new = retreat(
        found, x, memory, e, g, fixed, is_unit, units, CELL, norm is not None, EPS
    )
    for j in tl.static_range(G):
        tl.store(dz + step * G + unit + j * units, tl.where(is_real, d[j], 0.0), mask=is_unit)
    if g_normed is not None:
        tl.store(g_normed + here, of_normed, mask=is_unit)
    if g_fresh is not None:
        tl.store(g_fresh + here, of_fresh, mask=is_unit)
    tl.store(to_h + at, tl.where(is_real, held_e + to_h_new, h_later), mask=is_unit)
    tl.store(to_c + at, tl.where(is_real, held_g + to_c_new, c_later), mask=is_unit)


def forward(p: Operands, new: Results) -> Results:
    """Return the results, in the memory of ``new`` but for the gates."""
    is_whole, x = not whole.refuses(p), p.z
    if p.input_weight is not None:
        x = input_products(p.z, p.input_weight, p.bias)
    elif not is_whole:
        x = p.z.clone(memory_format=torch.contiguous_format)
    if is_whole:
        gates = new.gates if p.input_weight is None else x
        h, c = whole.forward(p, x, gates if p.keep == ALL else None, new)
    else:
        gates = x
        h, c = _on_chip_or_by_step(p, stationary.forward, _steps_forward, gates, new)
    return new._replace(h=h, c=c, gates=gates if p.keep == ALL else new.gates)


def _steps_forward(p: Operands, gates: Tensor, new: Results) -> tuple[Tensor, Tensor]:
    launch, wide = _launch(p, gates), accumulator(gates.dtype)[0]
    h, c = p.h0.clone(memory_format=torch.contiguous_format), p.c0.to(wide).contiguous().clone()
    seen, weight = _recurrent(p, gates)
    weight = None if weight is None else weight.t()
    given = contiguous(p.static, p.norm, p.hold, p.lengths)
    kept = [x if x.numel() else None for x in (new.cells, new.fresh)]
    for t in reversed(range(len(gates))) if p.reverse else range(len(gates)):
        if weight is not None:
            seen[t].addmm_(h, weight)
        launch(_forward, gates, h, c, *given, new.output, *kept, t)
    return h, c.to(h.dtype)


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    gates = gates_of(p, kept)
    dz, shape = torch.empty_like(gates), kept.output.shape
    candidate = gates[:, :, :: gates.shape[2] // shape[2]] if len(shape) == 4 else gates[:, :, 0]
    g_normed = None if p.norm is None else gates.new_empty(shape)
    g_fresh = gates.new_empty(shape) if "static" in requested else None
    h_before = c_before = None
    if p.cell.memory == "output" and p.cell.forget_gate != "none":
        h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
    else:
        c_before = previous(kept.cells, p.c0, p.lengths, p.reverse)
    emitted = kept.fresh if kept.fresh.numel() else kept.cells
    read = grad.output.contiguous(), gates, h_before, c_before, emitted
    given = grad, read, (dz, g_normed, g_fresh)
    if not whole.refuses(p):
        to_h, to_c = whole.backward(p, *given)
    else:
        to_h, to_c = _on_chip_or_by_step(p, stationary.backward, _steps_backward, *given)
    found = finish(
        p, kept, dz, candidate, g_fresh, None, "z" in requested, transpose=None
    )  # fmt: skip
    if g_normed is not None:
        normed, fresh = real(g_normed, p.lengths), real(kept.fresh, p.lengths)
        if p.h0.dim() == 3:  # both directions
            ways = zip(normed.unbind(2), fresh.unbind(2), p.norm[:, 0], strict=True)
            found["norm"] = torch.stack([_of_norm(*of) for of in ways])
        else:
            found["norm"] = _of_norm(normed, fresh, p.norm[0])
    return {"h0": to_h, "c0": to_c} | found


def _of_norm(grad: Tensor, fresh: Tensor, gain: Tensor) -> Tensor:
    """Return the gradients of gain and bias, in three kernels of torch."""
    _, mean, scale = torch.native_layer_norm(fresh, gain.shape, None, None, EPS)
    back, wanted = torch.ops.aten.native_layer_norm_backward, (False, True, True)
    return torch.stack(back(grad, fresh, gain.shape, mean, scale, gain, gain, wanted)[1:])


def _on_chip_or_by_step(p: Operands, on_chip: Any, by_step: Any, *arguments: Any) -> Any:
    """Call one of two functions; a driver may not run programs at once that fit on the device.

    It says so before it runs any, for example if processes share the device.
    """
    if not stationary.refuses(p):
        try:
            return on_chip(p, *arguments)
        except RuntimeError as error:
            if "cooperative" not in str(error):
                raise
            stationary.crowded.add(p.z.device)
    return by_step(p, *arguments) if p.h0.dim() == 2 else _one_by_one(p, by_step, arguments)


def _one_by_one(p: Operands, by_step: Any, arguments: Any) -> tuple[Tensor, ...]:
    """Run both directions of a layer step by step on copies, and return their states ``(2, …)``."""
    ends = []
    for d in range(2):
        weight, static, norm = (x if x is None else x[d] for x in (p.weight, p.static, p.norm))
        alone = p._replace(
            weight=weight, static=static, norm=norm, h0=p.h0[d], c0=p.c0[d], reverse=bool(d),
            hold=None if p.hold is None else p.hold[:, :, :, d],
        )  # fmt: skip
        ours, tree = tree_flatten(arguments)
        copies = [x if x is None or x.dim() < 3 else _of(x, d).contiguous() for x in ours]
        ends.append(by_step(alone, *tree_unflatten(copies, tree)))
        for x, copied in zip(ours, copies, strict=True):
            if x is not None and x.dim() == 4:
                _of(x, d).copy_(copied)
    return tuple(map(torch.stack, zip(*ends, strict=True)))


def _of(x: Tensor, d: int) -> Tensor:
    """Return what a direction has of a sequence ``(T, B, 2 n, H)`` or a state ``(2, B, H)``."""
    return x[d] if x.dim() == 3 else x.chunk(2, dim=2)[d]


def describe(p: Operands) -> str:
    """Return which kernels run a call, and why not faster ones."""
    if not (reason := whole.refuses(p)):
        return "all steps in one kernel"
    if not (other := stationary.refuses(p)):
        return f"all steps in one kernel, with the weights on the chip: {reason}"
    return f"a kernel a step: {reason}; {other}"


def _steps_backward(
    p: Operands, grad: Results, read: tuple[Any, ...], written: tuple[Any, ...]
) -> tuple[Tensor, Tensor]:
    dz, *of_cells = written
    launch, (wide, _) = _launch(p, dz), accumulator(dz.dtype)
    to_h = grad.h.clone(memory_format=torch.contiguous_format)
    to_c = grad.c.to(wide).contiguous().clone()
    seen, weight = _recurrent(p, dz)
    given = contiguous(p.static, p.norm, p.hold, p.lengths)
    for t in range(len(dz)) if p.reverse else reversed(range(len(dz))):
        launch(_backward, *read, *given, dz, to_h, to_c, *of_cells, t)
        if weight is not None:
            to_h.addmm_(seen[t], weight)
    return to_h, to_c.to(to_h.dtype)


def _launch(p: Operands, gates: Tensor) -> Any:
    """Return a function that launches a kernel for a step."""
    time, batch, _, units = gates.shape
    block = power_of_2(max(1, min(units, _UNITS if p.norm is None else units)))
    options = accumulator(gates.dtype)[1] | {
        "CELL": p.cell, "EPS": EPS, "BLOCK": block, "num_warps": max(1, min(8, block // 64)),
    }  # fmt: skip
    grid = batch, ceil_div(units, block)

    def launch(kernel: Any, *arguments: Any) -> None:
        if batch and units:
            kernel[grid](*arguments, time, batch, units, **options)

    return launch


def _recurrent(p: Operands, gates: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the pre-activations that depend on h ``(T, B, R·H)``, and their weight."""
    weight = None if p.weight is None else p.weight.flatten(0, 1)
    flat = gates.flatten(2)
    return flat[:, :, flat.shape[2] - (0 if weight is None else len(weight)) :], weight
