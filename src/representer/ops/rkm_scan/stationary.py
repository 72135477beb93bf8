# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""rkm_scan in Triton with weights that stay on the chip: all steps forward in one kernel.

A program has the recurrent weights of 16 units, 64 rows for up to four gates, in shared memory, and
computes these units of a group of sequences. After every step the programs of a group exchange h
through memory, at an address of its own for each step, and wait for each other; all of them must
run at the same time, which a cooperative launch guarantees. Where programs run one after another,
as in Triton's interpreter, each step is a launch.
"""

from __future__ import annotations

import math
import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.functional.rkm import EPS
from representer.ops.gpu import IS_INTERPRETED
from representer.ops.rkm_scan.pointwise import advance, constants, load, memory_before, retreat
from representer.ops.rkm_scan.reference import Operands, Results

ENABLED = "REPRESENTER_WEIGHTS_ON_CHIP"  # environment variable: 0 turns these kernels off
MOST_UNITS = 1152  # whose weights fit into shared memory
UNITS = 16  # of a program
_SPINS = 2**26  # turns after which a program waits no longer: a mistake must not hang the machine
_DEVICE = 132, 227 * 1024  # multiprocessors and bytes of each, where there is no device: an H100


def refuses(p: Operands) -> str:
    """Return why these kernels do not run a call, or "" if they do."""
    units = p.h0.shape[1]
    if os.environ.get(ENABLED) == "0":
        return f"{ENABLED} is 0"
    if p.z.dtype not in (torch.float16, torch.bfloat16):
        return f"weights stay on the chip in 16 bits, not in {p.z.dtype}"
    if p.weight is None or p.norm is not None or not p.h0.numel():
        return "weights do not stay on the chip with layer norm or without feedback"
    if units > MOST_UNITS:
        return f"the weights of {units} units do not fit on the chip"
    (count, bytes_of_each), (_, _, width) = _device(p), _sizes(p)
    needed = 2 * width * (4 * UNITS + _rows(p))  # of the weights and of h
    programs = math.prod(_grid(p))
    if needed > bytes_of_each:
        return f"{needed} bytes of shared memory are more than {bytes_of_each}"
    return f"{programs} programs do not run at once on {count}" if programs > count else ""


def _device(p: Operands) -> tuple[int, int]:
    """Return the number of multiprocessors, and the shared memory of each in bytes."""
    if not p.z.is_cuda:
        return _DEVICE
    device = torch.cuda.get_device_properties(p.z.device)
    shared = device.shared_memory_per_block_optin if device.major == 9 else 0  # as tested
    return device.multi_processor_count, shared


def _grid(p: Operands) -> tuple[int, int]:
    batch, units = p.h0.shape
    return triton.cdiv(units, UNITS), triton.cdiv(batch, _rows(p))


def _rows(p: Operands) -> int:
    """Return the sequences of a program: more where weights leave registers and memory for them."""
    batch, units = p.h0.shape
    most = 64 if units <= 320 else 32 if units <= 640 else 16
    return min(max(16, triton.next_power_of_2(batch)), most)


def _sizes(p: Operands) -> tuple[int, int, int]:
    """Return the size of a chunk of h, their number, and both multiplied."""
    units = p.h0.shape[1]
    chunk = 64 if units <= 704 else 128
    count = triton.cdiv(units, chunk)
    return chunk, count, chunk * count


@triton.jit
def wait(counter, target, SPINS: tl.constexpr):
    """Wait until a counter, which every program raises once a step, has reached a number."""
    tl.debug_barrier()
    seen = tl.atomic_add(counter, 1, sem="release", scope="gpu") + 1
    spins = 0
    while (seen < target) & (spins < SPINS):
        seen = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
        spins += 1
    tl.debug_barrier()


@triton.jit
def place(batch, units, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """Return the units and sequences of this program, which pairs exist, and where they are."""
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    is_there = (unit < units)[:, None] & (row < batch)[None, :]
    return unit, row, is_there, row[None, :] * units + unit[:, None]


@triton.jit
def _by_gate(product, UNITS: tl.constexpr, ROWS: tl.constexpr):
    """Return the four parts ``(UNITS, ROWS)`` of a product ``(4 UNITS, ROWS)``."""
    last = tl.permute(tl.reshape(product, (4, UNITS, ROWS)), (1, 2, 0))
    even, odd = tl.split(tl.reshape(last, (UNITS, ROWS, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit(do_not_specialize=["begin", "end", "time"])
def _forward(
    gates, states, c, weight, static, hold, lengths, output, cells, fresh, counters, begin, end,
    time, batch, units, CELL: tl.constexpr, EPS: tl.constexpr, REVERSE: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, K: tl.constexpr, CHUNKS: tl.constexpr,
    SPINS: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """Take some steps: pre-activations become gates, c the cell, states[i + 1] h after step i."""
    ACC: tl.constexpr = tl.float32
    G: tl.constexpr = len(CELL.gates)
    unit, row, is_there, at = place(batch, units, ROWS, UNITS)
    first, stride = tl.program_id(0) * UNITS, batch * units
    WIDTH: tl.constexpr = CHUNKS * K  # of a row of the weights and of h, with zeros at its end
    of_row, k = tl.arange(0, 4 * UNITS)[:, None], tl.arange(0, K)
    is_row = (row < batch)[None, :]
    tiles = ()
    for j in tl.static_range(CHUNKS):
        tile = tl.load(weight + (first * 4 + of_row) * WIDTH + j * K + k[None, :])
        tiles = tiles + (tile.to(ACC) if UPCAST else tile,)
    i_static, f_static, _, _ = constants(static, None, unit, units, unit < units, ACC)
    fixed = (i_static[:, None], f_static[:, None], 0.0, 0.0)
    c_t = load(c, at, is_there, ACC)
    for i in range(begin, end):
        t = time - 1 - i if REVERSE else i
        here = tl.cast(t, tl.int64) * stride + at
        of_gate = (tl.cast(t, tl.int64) * batch + row[None, :]) * (G * units) + unit[:, None]
        before = states + (tl.cast(i, tl.int64) * batch + row[None, :]) * WIDTH
        loaded, parts, a = (), (), ()
        for j in tl.static_range(G):
            loaded = loaded + (load(gates, of_gate + j * units, is_there, ACC),)
        if hold is not None:
            held_c = load(hold, here, is_there, ACC)
            held_h = load(hold + tl.cast(time, tl.int64) * stride, here, is_there, ACC)
        if SPINS > 0:  # after the loads, which do not depend on other programs
            wait(counters + tl.program_id(1), (i - begin + 1) * tl.num_programs(0), SPINS)
        for j in tl.static_range(CHUNKS):
            part = tl.load(
                before + j * K + k[:, None], mask=is_row, other=0.0, cache_modifier=".cg"
            )
            parts = parts + (part.to(ACC) if UPCAST else part,)
        own = before + unit[:, None]
        h = tl.load(own, mask=is_there, other=0.0, cache_modifier=".cg").to(ACC)
        product = tl.zeros((4 * UNITS, ROWS), ACC)
        for j in tl.static_range(CHUNKS):
            product = tl.dot(tiles[j], parts[j], product)
        fed = _by_gate(product, UNITS, ROWS)
        for j in tl.static_range(G):
            a = a + (loaded[j] + fed[j],)
        found, fresh_c, y, new = advance(a, h, c_t, fixed, is_there, units, CELL, False, EPS)
        for j in tl.static_range(G):
            tl.store(gates + of_gate + j * units, found[j], mask=is_there)
        if fresh is not None:
            tl.store(fresh + here, fresh_c, mask=is_there)
        if hold is not None:
            new += held_c * (c_t - new)
            y += held_h * (h - y)
        emitted = y
        if lengths is not None:
            length = tl.load(lengths + row, mask=row < batch, other=0)
            is_real = (t < length)[None, :]
            y, new = tl.where(is_real, y, h), tl.where(is_real, new, c_t)
            emitted = tl.where(is_real, y, 0.0)
        tl.store(own + tl.cast(batch, tl.int64) * WIDTH, y, mask=is_there)
        tl.store(output + here, emitted, mask=is_there)
        if cells is not None:
            tl.store(cells + here, new, mask=is_there)
        c_t = new
    tl.store(c + at, c_t, mask=is_there)


def forward(p: Operands, gates: Tensor, new: Results) -> tuple[Tensor, Tensor]:
    """Make gates of the pre-activations, write output and cells, and return the last h and c."""
    (time, batch, _, units), ((tiles, groups), options) = gates.shape, plan(p)
    weight = tiled(p, tiles)
    states = gates.new_zeros(time + 1, batch, weight.shape[-1])
    c = p.c0.float().contiguous().clone()
    states[0, :, :units] = p.h0
    given = [None if x is None else x.contiguous() for x in (p.static, p.hold, p.lengths)]
    kept = [x if x.numel() else None for x in (new.cells, new.fresh)]
    counters = torch.zeros(groups, dtype=torch.int32, device=gates.device)
    for begin, end in spans(time):
        _forward[tiles, groups](
            gates, states, c, weight, *given, new.output, *kept, counters, begin, end, time, batch,
            units, **options,
        )  # fmt: skip
    return states[time, :, :units].clone(), c.to(gates.dtype)


def plan(p: Operands) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid of a call, programs by groups of sequences, and the constants of kernels."""
    rows, (chunk, chunks, _) = _rows(p), _sizes(p)
    return _grid(p), {
        "CELL": p.cell, "EPS": EPS, "REVERSE": p.reverse, "ROWS": rows, "UNITS": UNITS, "K": chunk,
        "CHUNKS": chunks, "SPINS": 0 if IS_INTERPRETED else _SPINS, "UPCAST": IS_INTERPRETED,
        "num_warps": 8 if rows > 16 else 4, "launch_cooperative_grid": not IS_INTERPRETED,
    }  # fmt: skip


def spans(time: int) -> list[tuple[int, int]]:
    """Return the first step and the end of every launch."""
    return [(i, i + 1) for i in range(time)] if IS_INTERPRETED else [(0, time)]


def tiled(p: Operands, tiles: int) -> Tensor:
    """Return the rows of the recurrent weights by program, gate and unit, filled up with zeros."""
    units, gates, (_, _, width) = p.weight.shape[1], len(p.cell.gates), _sizes(p)
    rows = p.weight.new_zeros(4, tiles * UNITS, width)
    rows[gates - len(p.weight) : gates, :units, :units] = p.weight
    return rows.unflatten(1, (tiles, UNITS)).transpose(0, 1).contiguous()


# The gradient of rkm_scan with weights that stay on the chip: all steps back in one kernel.
#
# A program has the rows of the recurrent weights of 16 units, as in ``stationary.py``. In each step
# it computes the gradients of the pre-activations of these units, multiplies them by its rows, and
# so has a part of the gradient of every unit of h. The programs of a group exchange these parts
# through memory, and each adds those of its units up in the same order, so that two runs give the
# same bits.


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
