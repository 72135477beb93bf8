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

from representer.functional.rkm_scan import EPS
from representer.ops.gpu import IS_INTERPRETED
from representer.ops.rkm_scan.pointwise import advance, constants, load
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
