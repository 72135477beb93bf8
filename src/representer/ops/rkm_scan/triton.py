# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""rkm_scan in Triton: one kernel a step beside the product with the recurrent matrices in BLAS.

A program computes the units of one sequence; with layer norm, all of them. What a step reads of h
and c it reads before it writes them, unit by unit, so the running states are updated in place.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.functional.rkm_scan import EPS
from representer.ops.products import input_products
from representer.ops.rkm_scan.products import finish, gates_of
from representer.ops.rkm_scan.reference import ALL, Operands, Results
from representer.ops.sequence import previous
from representer.ops.steps import accumulator, slope, value

_UNITS = 256  # of a program without layer norm


@triton.jit
def _load(x, at, is_unit, ACC: tl.constexpr):
    return tl.load(x + at, mask=is_unit, other=0.0).to(ACC)


@triton.jit
def _normalize(x, is_unit, units, ACC: tl.constexpr, EPS: tl.constexpr):
    """Return x normalized over its units, and 1 / their standard deviation."""
    centered = tl.where(is_unit, x - tl.sum(tl.where(is_unit, x, 0.0), 0) / units, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, 0) / units + EPS)
    return centered * scale, scale


@triton.jit
def _memory(h, c, KIND: tl.constexpr):
    """Return m_{t-1} from the emission and the cell."""
    if KIND == "output":
        c = h
    elif KIND == "expm1":
        c = tl.exp(c) - 1
    return c


@triton.jit(do_not_specialize=["t"])
def _forward(
    gates, h, c, static, norm, hold, lengths, output, cells, fresh, t, time, batch, units,
    G: tl.constexpr, INPUT: tl.constexpr, FORGET: tl.constexpr, FORGET_AT: tl.constexpr,
    OUTPUT: tl.constexpr, PHI: tl.constexpr, PSI: tl.constexpr, MEMORY: tl.constexpr,
    EPS: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Take step t: pre-activations become gates, h and c the states after it."""
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_unit = unit < units
    at, step = row * units + unit, (tl.cast(t, tl.int64) * batch + row) * units
    of_gate = gates + step * G + unit
    h_old, c_old = _load(h, at, is_unit, ACC), _load(c, at, is_unit, ACC)
    memory = _memory(h_old, c_old, MEMORY)
    candidate = value(_load(of_gate, 0, is_unit, ACC), PHI)
    tl.store(of_gate, candidate, mask=is_unit)
    if FORGET == "dynamic":
        f = tl.sigmoid(_load(of_gate, FORGET_AT * units, is_unit, ACC))
        tl.store(of_gate + FORGET_AT * units, f, mask=is_unit)
    elif FORGET == "static":
        f = _load(static, units + unit, is_unit, ACC)
    if INPUT == "coupled":
        new = candidate + f * (memory - candidate)
    else:
        if INPUT == "dynamic":
            i = tl.sigmoid(_load(of_gate, units, is_unit, ACC))
            tl.store(of_gate + units, i, mask=is_unit)
        else:
            i = _load(static, unit, is_unit, ACC)
        new = i * candidate
        if FORGET != "none":
            new += f * memory
    if fresh is not None:
        tl.store(fresh + step + unit, new, mask=is_unit)
    if norm is not None:
        normed, _ = _normalize(new, is_unit, units, ACC, EPS)
        new = normed * _load(norm, unit, is_unit, ACC) + _load(norm, units + unit, is_unit, ACC)
    y = value(new, PSI)
    if OUTPUT:
        o = tl.sigmoid(_load(of_gate, (G - 1) * units, is_unit, ACC))
        tl.store(of_gate + (G - 1) * units, o, mask=is_unit)
        y *= o
    if hold is not None:
        kept = hold + step + unit
        new += _load(kept, 0, is_unit, ACC) * (c_old - new)
        of_h = tl.cast(time, tl.int64) * batch * units
        y += _load(kept, of_h, is_unit, ACC) * (h_old - y)
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


@triton.jit(do_not_specialize=["t"])
def _backward(
    grad, gates, h_before, c_before, cells, fresh, static, norm, hold, lengths, dz, to_h, to_c,
    g_normed, g_fresh, t, time, batch, units, G: tl.constexpr, INPUT: tl.constexpr,
    FORGET: tl.constexpr, FORGET_AT: tl.constexpr, OUTPUT: tl.constexpr, PHI: tl.constexpr,
    PSI: tl.constexpr, MEMORY: tl.constexpr, EPS: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Go back through step t, but for the product: to_h and to_c become the gradients before it."""
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_unit = unit < units
    at, step = row * units + unit, (tl.cast(t, tl.int64) * batch + row) * units
    here, of_gate, to_gate = step + unit, gates + step * G + unit, dz + step * G + unit
    is_real = is_unit
    if lengths is not None:
        is_real = tl.where(is_unit, t - tl.load(lengths + row).to(tl.int32), 0) < 0
    if FORGET == "none" or MEMORY != "output":
        memory = _memory(0.0, _load(c_before, here, is_unit, ACC), MEMORY)
    else:
        memory = _load(h_before, here, is_unit, ACC)
    h_later, c_later = _load(to_h, at, is_unit, ACC), _load(to_c, at, is_unit, ACC)
    e, g = _load(grad, here, is_unit, ACC) + h_later, c_later
    to_h_new, to_c_new = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
    if hold is not None:
        to_c_new = g * _load(hold, here, is_unit, ACC)
        to_h_new = e * _load(hold + tl.cast(time, tl.int64) * batch * units, here, is_unit, ACC)
        e, g = e - to_h_new, g - to_c_new
    if fresh is None:
        emitted = _load(cells, here, is_unit, ACC)
    else:
        emitted = _load(fresh, here, is_unit, ACC)
    if norm is not None:
        gain = _load(norm, unit, is_unit, ACC)
        normed, scale = _normalize(emitted, is_unit, units, ACC, EPS)
        emitted = normed * gain + _load(norm, units + unit, is_unit, ACC)
    y = value(emitted, PSI)
    of_cell = e * slope(emitted, y, PSI)
    if OUTPUT:
        o = _load(of_gate, (G - 1) * units, is_unit, ACC)
        of_cell *= o
        d_output = tl.where(is_real, e * y * o * (1 - o), 0.0)
        tl.store(to_gate + (G - 1) * units, d_output, mask=is_unit)
    g += of_cell
    if norm is not None:
        tl.store(g_normed + here, g, mask=is_unit)
        g = tl.where(is_unit, g * gain, 0.0)
        centered = g - tl.sum(g, 0) / units
        g = (centered - normed * (tl.sum(g * normed, 0) / units)) * scale
    if g_fresh is not None:
        tl.store(g_fresh + here, g, mask=is_unit)
    candidate = _load(of_gate, 0, is_unit, ACC)
    if FORGET == "dynamic":
        f = _load(of_gate, FORGET_AT * units, is_unit, ACC)
        replaced = memory - candidate if INPUT == "coupled" else memory
        d_forget = tl.where(is_real, g * replaced * f * (1 - f), 0.0)
        tl.store(to_gate + FORGET_AT * units, d_forget, mask=is_unit)
    elif FORGET == "static":
        f = _load(static, units + unit, is_unit, ACC)
    if INPUT == "coupled":
        i = 1 - f
    elif INPUT == "dynamic":
        i = _load(of_gate, units, is_unit, ACC)
        d_input = tl.where(is_real, g * candidate * i * (1 - i), 0.0)
        tl.store(to_gate + units, d_input, mask=is_unit)
    else:
        i = _load(static, unit, is_unit, ACC)
    d_candidate = tl.where(is_real, g * i * slope(candidate, candidate, PHI), 0.0)
    tl.store(to_gate, d_candidate, mask=is_unit)
    if FORGET != "none":
        if MEMORY == "output":
            to_h_new += g * f
        elif MEMORY == "cell":
            to_c_new += g * f
        else:
            to_c_new += g * f * (memory + 1)
    tl.store(to_h + at, tl.where(is_real, to_h_new, h_later), mask=is_unit)
    tl.store(to_c + at, tl.where(is_real, to_c_new, c_later), mask=is_unit)


def forward(p: Operands, new: Results) -> Results:
    """Return the results, in the memory of ``new`` but for the gates."""
    if p.input_weight is None:
        gates = p.z.clone(memory_format=torch.contiguous_format)
    else:
        gates = input_products(p.z, p.input_weight, p.bias)
    launch, wide = _launch(p, gates), accumulator(gates.dtype)[0]
    h, c = p.h0.clone(memory_format=torch.contiguous_format), p.c0.to(wide).contiguous().clone()
    seen, weight = _recurrent(p, gates)
    weight = None if weight is None else weight.t()
    static, norm, hold, lengths = _contiguous(p.static, p.norm, p.hold, p.lengths)
    kept = [x if x.numel() else None for x in (new.cells, new.fresh)]
    for t in reversed(range(len(gates))) if p.reverse else range(len(gates)):
        if weight is not None:
            seen[t].addmm_(h, weight)
        launch(_forward, gates, h, c, static, norm, hold, lengths, new.output, *kept, t)
    return new._replace(h=h, c=c.to(h.dtype), gates=gates if p.keep == ALL else new.gates)


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    gates = gates_of(p, kept)
    launch, (wide, _) = _launch(p, gates), accumulator(gates.dtype)
    dz, new = torch.empty_like(gates), gates.new_empty
    to_h = grad.h.clone(memory_format=torch.contiguous_format)
    to_c = grad.c.to(wide).contiguous().clone()
    shape = kept.output.shape
    g_normed = None if p.norm is None else new(shape)
    g_fresh = new(shape) if "static" in requested else None
    h_before = c_before = None
    if p.cell.memory == "output" and p.cell.forget_gate != "none":
        h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
    else:
        c_before = previous(kept.cells, p.c0, p.lengths, p.reverse)
    seen, weight = _recurrent(p, dz)
    static, norm, hold, lengths = _contiguous(p.static, p.norm, p.hold, p.lengths)
    upstream, fresh = grad.output.contiguous(), kept.fresh if kept.fresh.numel() else None
    for t in range(len(gates)) if p.reverse else reversed(range(len(gates))):
        launch(
            _backward, upstream, gates, h_before, c_before, kept.cells, fresh, static, norm, hold,
            lengths, dz, to_h, to_c, g_normed, g_fresh, t,
        )  # fmt: skip
        if weight is not None:
            to_h.addmm_(seen[t], weight)
    found = finish(p, kept, dz, gates[:, :, 0], g_fresh, g_normed, "z" in requested)
    return {"h0": to_h, "c0": to_c.to(to_h.dtype)} | found


def _launch(p: Operands, gates: Tensor) -> Any:
    """Return a function that launches a kernel for a step."""
    cell, (time, batch, count, units) = p.cell, gates.shape
    widest = _UNITS if p.norm is None else units
    block = triton.next_power_of_2(max(1, min(units, widest)))
    options = accumulator(gates.dtype)[1] | {
        "G": count, "INPUT": cell.input_gate, "FORGET": cell.forget_gate,
        "FORGET_AT": cell.gates.index("forget") if "forget" in cell.gates else 0,
        "OUTPUT": cell.output_gate, "PHI": cell.candidate, "PSI": cell.output,
        "MEMORY": cell.memory, "EPS": EPS, "BLOCK": block, "num_warps": max(1, min(8, block // 64)),
    }  # fmt: skip
    grid = batch, triton.cdiv(units, block)

    def launch(kernel: Any, *arguments: Any) -> None:
        if batch and units:
            kernel[grid](*arguments, time, batch, units, **options)

    return launch


def _recurrent(p: Operands, gates: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the pre-activations that depend on h ``(T, B, R·H)``, and their weight."""
    weight = None if p.weight is None else p.weight.flatten(0, 1)
    flat = gates.flatten(2)
    return flat[:, :, flat.shape[2] - (0 if weight is None else len(weight)) :], weight


def _contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if x is None else x.contiguous() for x in tensors]
