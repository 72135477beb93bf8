# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""rkm_scan in Triton with weights that stay on the chip: all steps forward in one kernel.

A program has 64 rows of the recurrent weights in shared memory, of 16 units with up to four gates
that depend on h, of 32 with two, or of 64 with one, and computes these units of a group of
sequences, and of further groups in turn. After every step the programs of a group exchange h
through memory, at an address of its own for each step, and wait for each other; all of them must
run at the same time, which a cooperative launch guarantees. With layer norm they exchange means and
squared deviations of their units before, and wait twice. Where programs run one after another, as
in Triton's interpreter, each step is a launch, and one more up to these sums with layer norm.

Products of float32 are in TF32 where torch's switch for matrix products allows it, else sums of
three products in TF32 or bfloat16, whose error is about that of float32 or 1e-5.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.functional.rkm import EPS
from representer.ops.gpu import IS_INTERPRETED, ceil_div, power_of_2
from representer.ops.rkm_scan.pointwise import (
    constants,
    emission,
    fresh_cell,
    load,
    memory_before,
    through_emission,
    through_gates,
)
from representer.ops.rkm_scan.reference import Operands, Results
from representer.ops.steps import contiguous

ENABLED = "REPRESENTER_WEIGHTS_ON_CHIP"  # environment variable: 0 turns these kernels off
MOST_UNITS = 1152  # whose weights fit into shared memory
MOST_TURNS = 8  # of groups of sequences, after which a product in BLAS for each step is faster
ROWS_OF_WEIGHTS = 64  # of a program
MOST_AT_ONCE = 128  # units of h in one product, which is waited for
# turns after which a program waits no longer, and its results are NaN: a mistake must neither hang
# the machine nor go unnoticed
SPINS = 2**26
crowded: set[torch.device] = set()  # whose driver refused to run programs at once
# multiprocessors and bytes of each, and its compute capability, where there is no device: an H100
_DEVICE, _MAJOR = (132, 227 * 1024), 9


def refuses(p: Operands) -> str:
    """Return why these kernels do not run a call, or "" if they do."""
    units = p.h0.shape[1]
    if os.environ.get(ENABLED) == "0":
        return f"{ENABLED} is 0"
    if p.z.device in crowded:
        return "the driver does not run the programs of a call at once"
    if p.z.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"weights stay on the chip in 16 and 32 bits, not in {p.z.dtype}"
    if p.weight is None or not p.h0.numel():
        return "weights do not stay on the chip without feedback"
    if units > MOST_UNITS:
        return f"the weights of {units} units do not fit on the chip"
    count, bytes_of_each = _device(p)
    if (needed := _bytes(p)) > bytes_of_each:
        return f"{needed} bytes of shared memory are more than {bytes_of_each}"
    (tiles, at_once), groups = _grid(p), _groups(p)
    if tiles > count:
        return f"{tiles} programs do not run at once on {count} multiprocessors"
    turns = ceil_div(groups, at_once)
    return f"{groups} groups of sequences take {turns} turns" if turns > MOST_TURNS else ""


def _bytes(p: Operands) -> int:
    """Return the memory for the weights of a program and for h of a group of sequences."""
    numbers = 2 if precision(p) == "tf32x3" else 1  # for each entry
    exchanged = width = _width(p)
    if p.z.dtype == torch.float32:  # of which a chunk at a time passes through memory
        exchanged = min(width, 2 * MOST_AT_ONCE)
    return p.z.element_size() * numbers * (ROWS_OF_WEIGHTS * width + _rows(p) * exchanged)


def _device(p: Operands) -> tuple[int, int]:
    """Return the number of multiprocessors, and the shared memory of each in bytes."""
    if not p.z.is_cuda:
        return _DEVICE
    device = torch.cuda.get_device_properties(p.z.device)
    shared = device.shared_memory_per_block_optin if device.major >= 8 else 0
    return device.multi_processor_count, shared


def precision(p: Operands) -> str:
    """Return how products in 32 bits are computed: by the switch of matrix products in torch."""
    if p.z.dtype != torch.float32 or torch.backends.cuda.matmul.allow_tf32:
        return "tf32"
    # in TF32, the low digits of every entry are kept beside it; on B200 they spill 2 kB a thread
    fits = 8 * _width(p) * (ROWS_OF_WEIGHTS + _rows(p)) <= _device(p)[1]
    major = torch.cuda.get_device_capability(p.z.device)[0] if p.z.is_cuda else _MAJOR
    return "tf32x3" if fits and p.h0.shape[1] <= 320 and major != 10 else "bf16x3"


def slots(p: Operands) -> int:
    """Return the rows of the weights for a unit: its gates that depend on h, up to a power of 2."""
    return power_of_2(len(p.weight))


def _grid(p: Operands) -> tuple[int, int]:
    """Return the programs that share a sequence, and the groups of sequences at the same time."""
    tiles = ceil_div(p.h0.shape[1], ROWS_OF_WEIGHTS // slots(p))
    return tiles, min(_groups(p), max(1, _device(p)[0] // tiles))


def _groups(p: Operands) -> int:
    return ceil_div(len(p.h0), _rows(p))


def _rows(p: Operands) -> int:
    """Return the sequences of a program: more where weights leave registers and memory for them."""
    batch, units = p.h0.shape
    most = 32 if units <= 640 else 16
    if p.z.dtype == torch.float32:
        most = 32 if units <= 256 else 16
    return min(max(16, power_of_2(batch)), most)


def _width(p: Operands) -> int:
    """Return the length of a row of h, with zeros at its end."""
    units = p.h0.shape[1]
    whole = 64 if units <= 704 or p.z.dtype == torch.float32 else 128
    return ceil_div(units, whole) * whole


def _chunks(p: Operands, is_backward: bool) -> tuple[int, ...]:
    """Return the sizes of the chunks of a row, each of which is one product that is waited for.

    Forward, weights in 32 bits pass through registers, which larger ones do not leave enough of.
    """
    width, sizes = _width(p), []
    is_tight = p.z.dtype == torch.float32 and (width <= 512 or slots(p) == 1)
    most = MOST_AT_ONCE // 2 if is_tight and not is_backward else MOST_AT_ONCE
    while (left := width - sum(sizes)) > 0:
        sizes.append(min(most, power_of_2(left + 1) // 2))
    return tuple(sizes)


@triton.jit
def arrive(counter, missed):
    """Tell the other programs that what this one has stored so far can be read, unless it is NaN.

    Then the others wait in vain, and their results are NaN, too.
    """
    tl.debug_barrier()
    tl.atomic_add(counter, tl.where(missed == 0, 1, 0), sem="release", scope="gpu")


@triton.jit
def wait(counter, target, missed, SPINS: tl.constexpr):
    """Wait until a counter, which every program raises once a step, has reached a number.

    Returns:
        ``missed``, which is 0, or NaN if the counter has not reached it, now or before.
    """
    seen = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    spins = 0
    while (seen < target) & (spins < SPINS) & (missed == 0):
        seen = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
        spins += 1
    tl.debug_barrier()
    return tl.where(seen < target, float("nan"), missed)


@triton.jit
def place(group, batch, units, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """Return the units and sequences of this program, which pairs exist, and where they are."""
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    row = (tl.cast(group, tl.int64) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    is_there = (unit < units)[:, None] & (row < batch)[None, :]
    return unit, row, is_there, row[None, :] * units + unit[:, None]


@triton.jit
def _columns(fixed):
    """Return four vectors of units as columns."""
    return fixed[0][:, None], fixed[1][:, None], fixed[2][:, None], fixed[3][:, None]


@triton.jit
def by_gate(product, SLOTS: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr):
    """Return the parts ``(UNITS, ROWS)`` of a product ``(SLOTS UNITS, ROWS)``."""
    parts = (product,)  # Triton compiles what follows a return
    if SLOTS > 1:
        last = tl.permute(tl.reshape(product, (SLOTS, UNITS, ROWS)), (1, 2, 0))
        if SLOTS == 2:
            parts = tl.split(last)
        else:
            even, odd = tl.split(tl.reshape(last, (UNITS, ROWS, 2, 2)))
            first, third = tl.split(even)
            second, fourth = tl.split(odd)
            parts = first, second, third, fourth
    return parts


@triton.jit
def load_tiles(weight, units, R: tl.constexpr, SLOTS: tl.constexpr, UNITS: tl.constexpr,
               CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, DOWN: tl.constexpr,
               UPCAST: tl.constexpr):  # fmt: skip
    """Return chunks of the rows of this program in a weight ``(R, units, units)``.

    Filled up with zeros, each is ``(SLOTS UNITS, CHUNKS[j])``, or its transpose with ``DOWN``.
    """
    row, tiles = tl.arange(0, SLOTS * UNITS), ()
    slot, unit = row // UNITS, tl.program_id(0) * UNITS + row % UNITS
    is_row, first = (slot < R) & (unit < units), (slot * units + unit) * units
    for j in tl.static_range(len(CHUNKS)):
        k = FIRSTS[j] + tl.arange(0, CHUNKS[j])
        is_k = k < units
        if DOWN:
            at, is_entry = first[None, :] + k[:, None], is_row[None, :] & is_k[:, None]
        else:
            at, is_entry = first[:, None] + k[None, :], is_row[:, None] & is_k[None, :]
        tile = tl.load(weight + at, mask=is_entry, other=0.0)
        tiles = tiles + (tile.to(tl.float32) if UPCAST else tile,)
    return tiles


@triton.jit
def edge_of(units):
    """Return the end of what programs exchange: whole vectors, which loads with a mask need."""
    return (units + 15) // 16 * 16


@triton.jit
def multiply(
    tiles, before, is_row, units, CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, ROWS: tl.constexpr,
    OUT: tl.constexpr, UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the product of the chunks of a weight with h of a group, all of it loaded first."""
    parts = ()
    for j in tl.static_range(len(CHUNKS)):
        k = FIRSTS[j] + tl.arange(0, CHUNKS[j])[:, None]
        is_there = is_row & (k < edge_of(units)) if j == len(CHUNKS) - 1 else is_row
        part = tl.load(before + k, mask=is_there, other=0.0, cache_modifier=".cg")
        parts = parts + (part.to(tl.float32) if UPCAST else part,)
    product = tl.zeros((OUT, ROWS), tl.float32)
    for j in tl.static_range(len(CHUNKS)):
        product = tl.dot(tiles[j], parts[j], product, input_precision=PRECISION)
    return product


@triton.jit
def _ahead(gates, t, batch, units, row, unit, is_there, G: tl.constexpr):
    """Return the pre-activations of a step."""
    of_gate = (tl.cast(t, tl.int64) * batch + row[None, :]) * (G * units) + unit[:, None]
    loaded = ()
    for j in tl.static_range(G):
        loaded = loaded + (load(gates, of_gate + j * units, is_there, tl.float32),)
    return loaded


@triton.jit
def _publish(sums, i, group, groups, first, second, ROWS: tl.constexpr):
    """Write two numbers of this program for each sequence, at one of two places in turn."""
    place = (i % 2 * groups + group) * tl.num_programs(0) + tl.program_id(0)
    to = sums + place * (2 * ROWS) + tl.arange(0, ROWS)
    tl.store(to, first)
    tl.store(to + ROWS, second)


@triton.jit
def _published(sums, i, group, groups, PROGRAMS: tl.constexpr, ROWS: tl.constexpr):
    """Return the two numbers ``(PROGRAMS, ROWS)`` of each program."""
    program = tl.arange(0, PROGRAMS)[:, None]
    place = (i % 2 * groups + group) * tl.num_programs(0) + program
    to, is_there = sums + place * (2 * ROWS) + tl.arange(0, ROWS), program < tl.num_programs(0)
    first = tl.load(to, mask=is_there, other=0.0, cache_modifier=".cg")
    second = tl.load(to + ROWS, mask=is_there, other=0.0, cache_modifier=".cg")
    return first, second


@triton.jit
def _of_units(x, unit, units):
    """Return the sum over the units that this program has."""
    return tl.sum(tl.where((unit < units)[:, None], x, 0.0), 0)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "groups"])
def _forward(
    gates, states, h0, c0, h_last, c_last, weight, static, norm, hold, lengths, output, cells,
    fresh, sums, counters, begin, end, time, batch, groups, units, FIRST: tl.constexpr,
    EARLY: tl.constexpr, PROGRAMS: tl.constexpr, CELL: tl.constexpr, EPS: tl.constexpr,
    REVERSE: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr, UNITS: tl.constexpr,
    CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, SPINS: tl.constexpr, UPCAST: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Take some steps, from h0 and c0 or from h_last and c_last: pre-activations become gates.

    What other programs read, h after step i in states[i + 1], is stored first in a step, and they
    are told. Then come the other results, and the pre-activations of the next step before it waits.
    """
    ACC: tl.constexpr = tl.float32
    G: tl.constexpr = len(CELL.gates)
    R: tl.constexpr = len(CELL.recurrent_gates)
    WIDTH: tl.constexpr = FIRSTS[-1] + CHUNKS[-1]  # of a row of h, with zeros at its end
    OUT: tl.constexpr = SLOTS * UNITS
    stride = tl.cast(batch, tl.int64) * units
    tiles = load_tiles(weight, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, False, UPCAST)
    missed = 0.0
    for group in range(tl.program_id(1), groups, tl.num_programs(1)):
        unit, row, is_there, at = place(group, batch, units, ROWS, UNITS)
        is_row = (row < batch)[None, :]
        fixed = _columns(constants(static, norm, unit, units, unit < units, ACC))
        length = tl.full((ROWS,), 0, tl.int64)
        if lengths is not None:
            length = tl.load(lengths + row, mask=row < batch, other=0).to(tl.int64)
        is_read, counter = (unit < edge_of(units))[:, None] & is_row, counters + group
        h = load(h0 if FIRST else h_last, at, is_there, ACC)
        c_t = load(c0 if FIRST else c_last, at, is_there, ACC)
        if FIRST:
            tl.store(states + row[None, :] * WIDTH + unit[:, None], h, mask=is_read)
            if SPINS > 0:
                arrive(counter, missed)
        to = time - 1 - begin if REVERSE else begin
        loaded = _ahead(gates, to, batch, units, row, unit, is_there, G)
        for i in range(begin, end):
            t = time - 1 - i if REVERSE else i
            here = tl.cast(t, tl.int64) * stride + at
            before = states + (tl.cast(i, tl.int64) * batch + row[None, :]) * WIDTH
            if hold is not None:
                held_c = load(hold, here, is_there, ACC)
                held_h = load(hold + time * stride, here, is_there, ACC)
            if SPINS > 0:
                missed = wait(counter, (i + 1) * tl.num_programs(0), missed, SPINS)
            product = multiply(
                tiles, before, is_row, units, CHUNKS, FIRSTS, ROWS, OUT, UPCAST, PRECISION
            )
            fed, a = by_gate(product + missed, SLOTS, UNITS, ROWS), ()
            for j in tl.static_range(G):
                a = a + (loaded[j] + fed[j - (G - R)] if j >= G - R else loaded[j],)
            found, fresh_c = fresh_cell(a, h, c_t, fixed, CELL)
            new = fresh_c
            if norm is not None:
                here_units = tl.minimum(units - tl.program_id(0) * UNITS, UNITS)
                own = _of_units(fresh_c, unit, units) / here_units
                spread = _of_units((fresh_c - own) * (fresh_c - own), unit, units)
                _publish(sums, i, group, groups, own, spread, ROWS)
                if EARLY:  # what follows is the next launch
                    is_there, is_read = (
                        is_there & (unit < 0)[:, None],
                        is_read & (unit < 0)[:, None],
                    )
                if SPINS > 0:
                    arrive(counter + groups, missed)
                    missed = wait(counter + groups, (i + 1) * tl.num_programs(0), missed, SPINS)
                means, spreads = _published(sums, i, group, groups, PROGRAMS, ROWS)
                counts = tl.minimum(units - tl.arange(0, PROGRAMS)[:, None] * UNITS, UNITS)
                counts = tl.maximum(counts, 0)
                mean = tl.sum(counts * means, 0) / units + missed
                means -= mean
                variance = tl.sum(spreads + counts * means * means, 0) / units
                new = (fresh_c - mean) / tl.sqrt(variance + EPS) * fixed[2] + fixed[3]
            y = emission(found, new, CELL)
            if hold is not None:
                new += held_c * (c_t - new)
                y += held_h * (h - y)
            emitted = y
            if lengths is not None:
                is_real = (t < length)[None, :]
                y, new = tl.where(is_real, y, h), tl.where(is_real, new, c_t)
                emitted = tl.where(is_real, y, 0.0)
            tl.store(before + unit[:, None] + batch.to(tl.int64) * WIDTH, y, mask=is_read)
            if SPINS > 0:  # what follows is not read by other programs
                arrive(counter, missed)
            of_gate = (tl.cast(t, tl.int64) * batch + row[None, :]) * (G * units) + unit[:, None]
            for j in tl.static_range(G):
                tl.store(gates + of_gate + j * units, found[j], mask=is_there)
            if fresh is not None:
                tl.store(fresh + here, fresh_c, mask=is_there)
            tl.store(output + here, emitted, mask=is_there)
            if cells is not None:
                tl.store(cells + here, new, mask=is_there)
            c_t, h = new, y.to(states.dtype.element_ty).to(ACC)
            is_next = is_there & (row * 0 + i + 1 < end)[None, :]
            following = t - 1 if REVERSE else t + 1
            loaded = _ahead(gates, following, batch, units, row, unit, is_next, G)
        tl.store(h_last + at, h, mask=is_there)
        tl.store(c_last + at, c_t, mask=is_there)


def forward(p: Operands, gates: Tensor, new: Results) -> tuple[Tensor, Tensor]:
    """Make gates of the pre-activations, write output and cells, and return the last h and c."""
    (time, batch, _, units), (grid, groups, options) = gates.shape, plan(p)
    states = gates.new_empty(time + 1, batch, sum(options["CHUNKS"]))
    h, c = wide(new.h), wide(new.c)
    given = contiguous(p.weight, p.static, p.norm, p.hold, p.lengths)
    start, kept = contiguous(p.h0, p.c0), [x if x.numel() else None for x in new[-2:]]
    counters = torch.zeros(2 * groups, dtype=torch.int32, device=gates.device)
    programs, sums = _sums(p, grid[0], groups, options)
    for begin, end, is_early in _launches(p, spans(time)):
        _forward[grid](
            gates, states, *start, h, c, *given, new.output, *kept, sums, counters, begin, end,
            time, batch, groups, units, FIRST=begin == 0, EARLY=is_early, PROGRAMS=programs,
            CELL=p.cell, EPS=EPS, **options,
        )  # fmt: skip
    return h.to(gates.dtype), c.to(gates.dtype)


def wide(x: Tensor) -> Tensor:
    """Return memory for a state, in 32 bits where launches of single steps exchange it."""
    return torch.empty_like(x, dtype=torch.float32) if IS_INTERPRETED else x


def plan(p: Operands, *, is_backward: bool = False) -> tuple[tuple[int, int], int, dict[str, Any]]:
    """Return the grid of a call, all groups of sequences, and the constants of kernels."""
    rows, chunks = _rows(p), _chunks(p, is_backward)
    is_wide = p.z.dtype == torch.float32 or (is_backward and p.h0.shape[1] > 704)
    is_large = rows > 16 or (is_wide and p.h0.shape[1] > 320)
    return _grid(p), _groups(p), {
        "REVERSE": p.reverse, "ROWS": rows, "SLOTS": slots(p),
        "UNITS": ROWS_OF_WEIGHTS // slots(p), "CHUNKS": chunks,
        "FIRSTS": tuple(sum(chunks[:j]) for j in range(len(chunks))),
        "SPINS": 0 if IS_INTERPRETED else SPINS, "UPCAST": IS_INTERPRETED,
        "PRECISION": "ieee" if IS_INTERPRETED else precision(p), "num_warps": 8 if is_large else 4,
        "launch_cooperative_grid": not IS_INTERPRETED,
    }  # fmt: skip


def _sums(
    p: Operands, tiles: int, groups: int, options: dict[str, Any]
) -> tuple[int, Tensor | None]:
    """Return the programs of a group, up to a power of 2, and memory for the sums of its norm."""
    if p.norm is None:
        return 1, None
    size = 2, groups, tiles, 2, options["ROWS"]
    return power_of_2(tiles), torch.empty(size, dtype=torch.float32, device=p.h0.device)


def _launches(p: Operands, steps: list[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """Return launches, and whether they are up to the sums of a norm."""
    has_two = IS_INTERPRETED and p.norm is not None
    ways = {(begin, end): (True, False) if has_two and begin < end else (False,)
            for begin, end in steps}  # fmt: skip
    return [(*step, is_early) for step, each in ways.items() for is_early in each]


def gradient_exchange(
    h0: Tensor, tiles: int, groups: int, options: dict[str, Any]
) -> tuple[Tensor, Tensor, dict[str, int]]:
    """Return counters and parts for programs to exchange, all 0, and the numbers of parts.

    The last parts stay 0, so that the same number is added at once each time.
    """
    rows, width = options["ROWS"], sum(options["CHUNKS"])
    turns = ceil_div(tiles * rows, _LOADS)
    at_once = ceil_div(tiles, turns)
    aligned, size = ceil_div(2 * groups, 32) * 32, 2 * groups * turns * at_once * rows * width
    memory = torch.zeros(aligned + size, dtype=torch.float32, device=h0.device)
    counters = memory[:aligned].view(torch.int32)
    return counters, memory[aligned:], {"SOURCES": turns * at_once, "AT_ONCE": at_once}


def spans(time: int, *, is_backward: bool = False) -> list[tuple[int, int]]:
    """Return the first step and the end of every launch.

    Where programs run one after another, each step is one, and so is what they exchange first, or
    last in a gradient.
    """
    if not IS_INTERPRETED:
        return [(0, time)]
    steps = [(i, i + 1) for i in range(time)]
    return [*steps, (time, time)] if is_backward else [(0, 0), *steps]


# The gradient of rkm_scan with weights that stay on the chip: all steps back in one kernel.
#
# A program has rows of the recurrent weights, as above. In each step
# it computes the gradients of the pre-activations of these units, multiplies them by its rows, and
# so has a part of the gradient of every unit of h. The programs of a group exchange these parts
# through memory, and each adds those of its units up in the same order, so that two runs give the
# same bits.


_LOADS = 512  # most entries of parts that a program has in flight for each of its units


@triton.jit
def together(d, SLOTS: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr):
    """Return parts ``(UNITS, ROWS)`` as one ``(SLOTS UNITS, ROWS)``, filled up with 0."""
    joined = d[0]
    if SLOTS > 1:
        last = tl.join(d[0], d[1])
        if SLOTS == 4:
            zero = tl.zeros((UNITS, ROWS), tl.float32)
            third, fourth = d[2], d[3] if len(d) == 4 else zero
            last = tl.join(tl.join(d[0], third), tl.join(d[1], fourth))
        last = tl.reshape(last, (UNITS, ROWS, SLOTS))
        joined = tl.reshape(tl.permute(last, (2, 0, 1)), (SLOTS * UNITS, ROWS))
    return joined


@triton.jit
def add_parts(
    of_unit, size, SOURCES: tl.constexpr, AT_ONCE: tl.constexpr, UNITS: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Return the sum of the parts of all programs, in their order."""
    total = tl.zeros((UNITS, ROWS), tl.float32)
    for first in range(0, SOURCES, AT_ONCE):
        loaded = ()
        for j in tl.static_range(AT_ONCE):
            loaded = loaded + (tl.load(of_unit + (first + j) * size, cache_modifier=".cg"),)
        for j in tl.static_range(AT_ONCE):
            total += loaded[j]
    return total


@triton.jit
def store_parts(
    part, tiles, d, element, CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, UPCAST: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Store the part of this program in the gradient of h, its rows of the weights times d."""
    right = d.to(element)
    right = right.to(tl.float32) if UPCAST else right
    for j in tl.static_range(len(CHUNKS)):
        k = FIRSTS[j] + tl.arange(0, CHUNKS[j])[:, None]
        tl.store(part + k, tl.dot(tiles[j], right, input_precision=PRECISION))


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "groups"])
def _backward(
    grad, gates, h_before, c_before, emitted, means, scales, weight, static, norm, hold, lengths,
    dz, g_normed, g_fresh, grad_h, grad_c, to_h, to_c, parts, sums, counters, begin, end, time,
    batch, groups, units, FIRST: tl.constexpr, LAST: tl.constexpr, EARLY: tl.constexpr,
    PROGRAMS: tl.constexpr, CELL: tl.constexpr, REVERSE: tl.constexpr, ROWS: tl.constexpr,
    SLOTS: tl.constexpr, UNITS: tl.constexpr, CHUNKS: tl.constexpr, FIRSTS: tl.constexpr,
    SOURCES: tl.constexpr, AT_ONCE: tl.constexpr, SPINS: tl.constexpr, UPCAST: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Go some steps back: to_h and to_c become the gradients before, at last with all parts."""
    ACC: tl.constexpr = tl.float32
    G: tl.constexpr = len(CELL.gates)
    R: tl.constexpr = len(CELL.recurrent_gates)
    WIDTH: tl.constexpr = FIRSTS[-1] + CHUNKS[-1]
    stride = tl.cast(batch, tl.int64) * units
    of_row = tl.arange(0, ROWS)[None, :] * WIDTH
    tiles = load_tiles(weight, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, True, UPCAST)
    missed = 0.0
    for group in range(tl.program_id(1), groups, tl.num_programs(1)):
        unit, row, is_there, at = place(group, batch, units, ROWS, UNITS)
        fixed = _columns(constants(static, norm, unit, units, unit < units, ACC))
        length = tl.full((ROWS,), 0, tl.int64)
        if lengths is not None:
            length = tl.load(lengths + row, mask=row < batch, other=0).to(tl.int64)
        h_t = load(grad_h if FIRST else to_h, at, is_there, ACC)
        c_t = load(grad_c if FIRST else to_c, at, is_there, ACC)
        for i in range(begin, end):
            t = i if REVERSE else time - 1 - i
            here = tl.cast(t, tl.int64) * stride + at
            of_gate = (tl.cast(t, tl.int64) * batch + row[None, :]) * (G * units) + unit[:, None]
            e = load(grad, here, is_there, ACC)
            found = _ahead(gates, t, batch, units, row, unit, is_there, G)
            memory = memory_before(h_before, c_before, here, is_there, CELL, ACC)
            x = load(emitted, here, is_there, ACC)
            held_h, held_c = tl.zeros((UNITS, ROWS), ACC), tl.zeros((UNITS, ROWS), ACC)
            if hold is not None:
                held_c = load(hold, here, is_there, ACC)
                held_h = load(hold + time * stride, here, is_there, ACC)
            if SPINS > 0:  # after the loads, which do not depend on other programs
                target = (i - begin) * tl.num_programs(0)
                missed = wait(counters + group, target, missed, SPINS)
            before = (tl.cast((i + 1) % 2, tl.int64) * groups + group) * SOURCES
            of_unit = parts + before * (WIDTH * ROWS) + of_row + unit[:, None]
            fed = add_parts(of_unit, WIDTH * ROWS, SOURCES, AT_ONCE, UNITS, ROWS)
            h_later, c_later = h_t + fed + missed, c_t
            e += h_later
            held_e, held_g = e * held_h, c_later * held_c
            if norm is not None:
                of_row_t = tl.cast(t, tl.int64) * batch + row
                mean = tl.load(means + of_row_t, mask=row < batch, other=0.0)
                scale = tl.load(scales + of_row_t, mask=row < batch, other=0.0)
                normed = (x - mean) * scale
                x = normed * fixed[2] + fixed[3]
            of_fresh, d_output = through_emission(found, x, e - held_e, c_later - held_g, CELL)
            if norm is not None:
                if g_normed is not None:
                    tl.store(g_normed + here, of_fresh, mask=is_there)
                of_fresh *= fixed[2]
                first = _of_units(of_fresh, unit, units)
                second = _of_units(of_fresh * normed, unit, units)
                _publish(sums, i, group, groups, first, second, ROWS)
                if EARLY:  # what follows is the next launch
                    is_there = is_there & (unit < 0)[:, None]
                if SPINS > 0:
                    arrive(counters + groups + group, missed)
                    target = (i + 1 - begin) * tl.num_programs(0)
                    missed = wait(counters + groups + group, target, missed, SPINS)
                firsts, seconds = _published(sums, i, group, groups, PROGRAMS, ROWS)
                through = tl.sum(firsts, 0) + normed * tl.sum(seconds, 0) + missed
                of_fresh = (of_fresh - through / units) * scale
            d, h_t, c_t = through_gates(found, memory, of_fresh, d_output, fixed, CELL)
            h_t, c_t = h_t + held_e, c_t + held_g
            is_real = is_there
            if lengths is not None:
                is_real = is_there & (t < length)[None, :]
                h_t, c_t = tl.where(is_real, h_t, h_later), tl.where(is_real, c_t, c_later)
            real, seen = (), ()
            for j in tl.static_range(G):
                real = real + (tl.where(is_real, d[j], 0.0),)
                if j >= G - R:
                    seen = seen + (real[j],)
            after = (tl.cast(i % 2, tl.int64) * groups + group) * SOURCES + tl.program_id(0)
            part = parts + after * (WIDTH * ROWS) + of_row
            pulled = together(seen, SLOTS, UNITS, ROWS)
            store_parts(
                part, tiles, pulled, weight.dtype.element_ty, CHUNKS, FIRSTS, UPCAST, PRECISION
            )
            if SPINS > 0:
                arrive(counters + group, missed)
            for j in tl.static_range(G):
                tl.store(dz + of_gate + j * units, real[j], mask=is_there)
            if g_fresh is not None:
                tl.store(g_fresh + here, of_fresh, mask=is_there)
        if LAST:
            if SPINS > 0:
                missed = wait(counters + group, end * tl.num_programs(0), missed, SPINS)
            before = (tl.cast((end + 1) % 2, tl.int64) * groups + group) * SOURCES
            of_unit = parts + before * (WIDTH * ROWS) + of_row + unit[:, None]
            h_t += add_parts(of_unit, WIDTH * ROWS, SOURCES, AT_ONCE, UNITS, ROWS) + missed
        tl.store(to_h + at, h_t, mask=is_there)
        tl.store(to_c + at, c_t, mask=is_there)


def backward(
    p: Operands, grad: Results, read: tuple[Any, ...], written: tuple[Any, ...]
) -> tuple[Tensor, Tensor]:
    """Write the gradients of the pre-activations and cells, and return those of h0 and c0."""
    (*_, emitted), (grid, groups, options) = read, plan(p, is_backward=True)
    dz = written[0]
    time, batch, _, units = dz.shape
    counters, parts, counts = gradient_exchange(p.h0, grid[0], groups, options)
    to_h, to_c = (wide(dz.new_empty(p.h0.shape)) for _ in range(2))
    given = contiguous(p.weight, p.static, p.norm, p.hold, p.lengths)
    upstream, moments = contiguous(grad.h, grad.c), (None, None)
    if p.norm is not None:
        _, *moments = torch.native_layer_norm(emitted.float(), (units,), None, None, EPS)
    programs, sums = _sums(p, grid[0], groups, options)
    for begin, end, is_early in _launches(p, spans(time, is_backward=True)):
        _backward[grid](
            *read, *moments, *given, *written, *upstream, to_h, to_c, parts, sums, counters, begin,
            end, time, batch, groups, units, FIRST=begin == 0, EARLY=is_early, PROGRAMS=programs,
            LAST=begin == time or not IS_INTERPRETED, CELL=p.cell, **counts, **options,
        )  # fmt: skip
    return to_h.to(dz.dtype), to_c.to(dz.dtype)
