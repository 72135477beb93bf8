# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""The gradient of rkm_scan with weights that stay on the chip: all steps back in one kernel.

A program has the rows of the recurrent weights of 16 units, as in ``stationary.py``. In each step
it computes the gradients of the pre-activations of these units, multiplies them by its rows, and so
has a part of the gradient of every unit of h. The programs of a group exchange these parts through
memory, and each adds those of its units up in the same order, so that two runs give the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.rkm_scan.pointwise import constants, load, memory_before, retreat
from representer.ops.rkm_scan.reference import Operands, Results
from representer.ops.rkm_scan.stationary import place, plan, spans, tiled, wait

_LOADS = 512  # most entries of parts that a program has in flight for each of its units


@triton.jit
def _together(d, G: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr):
    """Return up to four parts ``(UNITS, ROWS)`` as one ``(4 UNITS, ROWS)``, filled up with 0."""
    four = ()
    for j in tl.static_range(4):
        four = four + (d[j] if j < G else tl.zeros((UNITS, ROWS), tl.float32),)
    first, second, third, fourth = four
    both = tl.join(tl.join(first, third), tl.join(second, fourth))
    last = tl.reshape(both, (UNITS, ROWS, 4))
    return tl.reshape(tl.permute(last, (2, 0, 1)), (4 * UNITS, ROWS))


@triton.jit(do_not_specialize=["begin", "end", "time"])
def _backward(
    grad, gates, h_before, c_before, emitted, weight, static, hold, lengths, dz, g_fresh, to_h,
    to_c, parts, counters, begin, end, time, batch, units, CELL: tl.constexpr, EPS: tl.constexpr,
    REVERSE: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, K: tl.constexpr,
    CHUNKS: tl.constexpr, SOURCES: tl.constexpr, AT_ONCE: tl.constexpr, SPINS: tl.constexpr,
    UPCAST: tl.constexpr,
):  # fmt: skip
    """Go some steps back: to_h and to_c become the gradients before, but for the last parts."""
    ACC: tl.constexpr = tl.float32
    G: tl.constexpr = len(CELL.gates)
    WIDTH: tl.constexpr = CHUNKS * K
    unit, row, is_there, at = place(batch, units, ROWS, UNITS)
    stride, k = batch * units, tl.arange(0, K)[:, None]
    own, of_row = tl.arange(0, 4 * UNITS)[None, :], tl.arange(0, ROWS)[None, :]
    tiles = ()
    for j in tl.static_range(CHUNKS):
        tile = tl.load(weight + (tl.program_id(0) * WIDTH + j * K + k) * (4 * UNITS) + own)
        tiles = tiles + (tile.to(ACC) if UPCAST else tile,)
    i_static, f_static, _, _ = constants(static, None, unit, units, unit < units, ACC)
    fixed = (i_static[:, None], f_static[:, None], 0.0, 0.0)
    h_t, c_t = load(to_h, at, is_there, ACC), load(to_c, at, is_there, ACC)
    for i in range(begin, end):
        t = i if REVERSE else time - 1 - i
        here = tl.cast(t, tl.int64) * stride + at
        of_gate = (tl.cast(t, tl.int64) * batch + row[None, :]) * (G * units) + unit[:, None]
        e, found = load(grad, here, is_there, ACC), ()
        for j in tl.static_range(G):
            found = found + (load(gates, of_gate + j * units, is_there, ACC),)
        memory = memory_before(h_before, c_before, here, is_there, CELL, ACC)
        x = load(emitted, here, is_there, ACC)
        held_h, held_c = tl.zeros((UNITS, ROWS), ACC), tl.zeros((UNITS, ROWS), ACC)
        if hold is not None:
            held_c = load(hold, here, is_there, ACC)
            held_h = load(hold + tl.cast(time, tl.int64) * stride, here, is_there, ACC)
        group = tl.program_id(1)
        if SPINS > 0:  # after the loads, which do not depend on other programs
            wait(counters + group, (i - begin + 1) * tl.num_programs(0), SPINS)
        before = (((i + 1) % 2) * tl.num_programs(1) + group).to(tl.int64) * SOURCES
        of_unit = parts + before * (WIDTH * ROWS) + of_row * WIDTH + unit[:, None]
        fed = tl.zeros((UNITS, ROWS), ACC)
        for first in range(0, SOURCES, AT_ONCE):
            loaded = ()
            for j in tl.static_range(AT_ONCE):
                part = of_unit + (first + j) * (WIDTH * ROWS)
                loaded = loaded + (tl.load(part, cache_modifier=".cg"),)
            for j in tl.static_range(AT_ONCE):
                fed += loaded[j]
        h_later, c_later = h_t + fed, c_t
        e += h_later
        held_e, held_g = e * held_h, c_later * held_c
        d, _after, of_fresh, h_t, c_t = retreat(
            found, x, memory, e - held_e, c_later - held_g, fixed, is_there, units, CELL, False, EPS
        )
        h_t, c_t = h_t + held_e, c_t + held_g
        is_real = is_there
        if lengths is not None:
            length = tl.load(lengths + row, mask=row < batch, other=0)
            is_real = is_there & (t < length)[None, :]
            h_t, c_t = tl.where(is_real, h_t, h_later), tl.where(is_real, c_t, c_later)
        real = ()
        for j in tl.static_range(G):
            real = real + (tl.where(is_real, d[j], 0.0),)
            tl.store(dz + of_gate + j * units, real[j], mask=is_there)
        if g_fresh is not None:
            tl.store(g_fresh + here, of_fresh, mask=is_there)
        right = _together(real, G, UNITS, ROWS).to(weight.dtype.element_ty)
        right = right.to(ACC) if UPCAST else right
        after = ((i % 2) * tl.num_programs(1) + group).to(tl.int64) * SOURCES + tl.program_id(0)
        for j in tl.static_range(CHUNKS):
            part = parts + after * (WIDTH * ROWS) + of_row * WIDTH + j * K + k
            tl.store(part, tl.dot(tiles[j], right))
    tl.store(to_h + at, h_t, mask=is_there)
    tl.store(to_c + at, c_t, mask=is_there)


def backward(
    p: Operands, grad: Results, read: tuple[Any, ...], written: tuple[Any, ...]
) -> tuple[Tensor, Tensor]:
    """Write the gradients of the pre-activations and cells, and return those of h0 and c0."""
    (dz, _, g_fresh), ((tiles, groups), options) = written, plan(p)
    (time, batch, _, units), rows = dz.shape, options["ROWS"]
    weight = tiled(p, tiles).flatten(1, 2).transpose(1, 2).contiguous()
    turns = triton.cdiv(tiles * rows, _LOADS)
    at_once = triton.cdiv(tiles, turns)
    sources = turns * at_once  # parts, of which the last may be 0
    parts = dz.new_zeros(2, groups, sources, rows, weight.shape[1], dtype=torch.float32)
    to_h, to_c = (x.float().contiguous().clone() for x in (grad.h, grad.c))
    given = [None if x is None else x.contiguous() for x in (p.static, p.hold, p.lengths)]
    counters = torch.zeros(groups, dtype=torch.int32, device=dz.device)
    for begin, end in spans(time):
        _backward[tiles, groups](
            *read, weight, *given, dz, g_fresh, to_h, to_c, parts, counters, begin, end, time,
            batch, units, SOURCES=sources, AT_ONCE=at_once, **options,
        )  # fmt: skip
    last = parts[(time + 1) % 2].sum(1).flatten(0, 1)[:batch, :units]
    return (to_h + last).to(dz.dtype), to_c.to(dz.dtype)
