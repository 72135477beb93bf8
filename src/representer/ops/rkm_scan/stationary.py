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
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from representer.functional.rkm import EPS
from representer.ops.gpu import IS_INTERPRETED, ceil_div, power_of_2
from representer.ops.rkm_scan.on_chip import (
    add_parts,
    ahead,
    arrive,
    by_gate,
    columns,
    direction_of,
    edge_of,
    load_tiles,
    multiply,
    of_units,
    place,
    place_of_direction,
    publish,
    published,
    step_of,
    store_parts,
    together,
    wait,
)
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
PASSING = 64  # columns of weights that do not stay on the chip and are read at once
# turns after which a program waits no longer, and its results are NaN: a mistake must neither hang
# the machine nor go unnoticed
SPINS = 2**26
crowded: set[torch.device] = set()  # whose driver refused to run programs at once
# multiprocessors and bytes of each, and its compute capability, where there is no device: an H100
_DEVICE, _MAJOR = (132, 227 * 1024), 9


def refuses(p: Operands) -> str:
    """Return why these kernels do not run a call, or "" if they do."""
    units = p.h0.shape[-1]
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
    if (needed := _bytes(p)) > bytes_of_each and _resident(p) == _width(p):
        return f"{needed} bytes of shared memory are more than {bytes_of_each}"
    (tiles, at_once, directions), groups = _grid(p), _groups(p)
    if (programs := tiles * directions) > count:
        return f"{programs} programs do not run at once on {count} multiprocessors"
    turns = ceil_div(groups, at_once)
    return f"{groups} groups of sequences take {turns} turns" if turns > MOST_TURNS else ""


def _bytes(p: Operands) -> int:
    """Return the memory for the weights of a program and for h of a group of sequences."""
    numbers = 2 if precision(p) == "tf32x3" else 1  # for each entry
    exchanged = width = _width(p)
    if p.z.dtype == torch.float32:  # of which a chunk at a time passes through memory
        exchanged = min(width, 2 * MOST_AT_ONCE)
    return p.z.element_size() * numbers * (ROWS_OF_WEIGHTS * width + _rows(p) * exchanged)


def _resident(p: Operands, *, is_backward: bool = False) -> int:
    """Return how many columns of the weights stay on the chip; all, but for many in float32.

    Then there is memory for a chunk of the others, which are read from the L2 cache in every step.
    On B200, Triton keeps weights in registers, which have no space left for these chunks.
    """
    width, shared = _width(p), _device(p)[1] - (4096 if is_backward else 0)
    if _bytes(p) <= _device(p)[1] or p.z.dtype != torch.float32 or _major(p) != 9:
        return width
    fitting = shared // (ROWS_OF_WEIGHTS * p.z.element_size()) - PASSING
    return fitting // PASSING * PASSING if 2 * fitting >= width else width


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
    return "tf32x3" if fits and p.h0.shape[-1] <= 320 and _major(p) != 10 else "bf16x3"


def _major(p: Operands) -> int:
    """Return the major compute capability of the device."""
    return torch.cuda.get_device_capability(p.z.device)[0] if p.z.is_cuda else _MAJOR


def slots(p: Operands) -> int:
    """Return the rows of the weights for a unit: its gates that depend on h, up to a power of 2."""
    return power_of_2(p.weight.shape[-3])


def _grid(p: Operands) -> tuple[int, int, int]:
    """Return the programs that share a sequence, the groups at the same time, and directions."""
    tiles, directions = ceil_div(p.h0.shape[-1], ROWS_OF_WEIGHTS // slots(p)), p.h0.dim() - 1
    return tiles, min(_groups(p), max(1, _device(p)[0] // (tiles * directions))), directions


def _groups(p: Operands) -> int:
    """Return the groups of sequences of a direction."""
    return ceil_div(p.h0.shape[-2], _rows(p))


def _rows(p: Operands) -> int:
    """Return the sequences of a program: more where weights leave registers and memory for them."""
    batch, units = p.h0.shape[-2:]
    most = 32 if units <= 640 else 16
    if p.z.dtype == torch.float32:
        most = 32 if units <= 256 else 16
    return min(max(16, power_of_2(batch)), most)


def _width(p: Operands) -> int:
    """Return the length of a row of h, with zeros at its end."""
    units = p.h0.shape[-1]
    whole = 64 if units <= 704 or p.z.dtype == torch.float32 else 128
    return ceil_div(units, whole) * whole


def _chunks(p: Operands, is_backward: bool) -> tuple[int, ...]:
    """Return the sizes of the chunks of a row, each of which is one product that is waited for.

    Forward, weights in 32 bits pass through registers, which larger ones do not leave enough of.
    """
    width, resident, sizes = _width(p), _resident(p, is_backward=is_backward), []
    is_tight = width <= 512 or slots(p) == 1 or resident < width
    is_tight = is_tight and p.z.dtype == torch.float32 and not is_backward
    most = MOST_AT_ONCE // 2 if is_tight else MOST_AT_ONCE
    while (left := width - (begun := sum(sizes))) > 0:
        fitting = most if resident == width or begun + most <= resident else PASSING
        sizes.append(min(fitting, power_of_2(left + 1) // 2))
    return tuple(sizes)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "groups"])
def _forward(
    gates, states, h0, c0, h_last, c_last, weight, static, norm, hold, lengths, output, cells,
    fresh, sums, counters, begin, end, time, batch, groups, units, FIRST: tl.constexpr,
    EARLY: tl.constexpr, PROGRAMS: tl.constexpr, CELL: tl.constexpr, EPS: tl.constexpr,
    REVERSE: tl.constexpr, DIRECTIONS: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr,
    UNITS: tl.constexpr,
    CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, RESIDENT: tl.constexpr, SPINS: tl.constexpr,
    UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Take some steps, from h0 and c0 or from h_last and c_last: pre-activations become gates.

    What other programs read, h after step i in states[i + 1], is stored first in a step, and they
    are told. Then come the other results, and the pre-activations of the next step before it waits.
    """
    ACC: tl.constexpr = tl.float32
    G: tl.constexpr = len(CELL.gates)
    R: tl.constexpr = len(CELL.recurrent_gates)
    WIDTH: tl.constexpr = FIRSTS[-1] + CHUNKS[-1]  # of a row of h, with zeros at its end
    rows, all_groups = batch * DIRECTIONS, groups * DIRECTIONS
    stride = tl.cast(rows, tl.int64) * units
    IS_FILLED: tl.constexpr = len(CHUNKS) > RESIDENT
    direction = direction_of(DIRECTIONS)
    weight += direction * R * units * (WIDTH if IS_FILLED else units)
    if static is not None:
        static += direction * 2 * units
    if norm is not None:
        norm += direction * 2 * units
    tiles = load_tiles(
        weight, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, RESIDENT, 0, RESIDENT, False, UPCAST
    )
    missed = 0.0
    for group in range(tl.program_id(1), groups, tl.num_programs(1)):
        unit, row, is_there, _ = place(group, batch, units, ROWS, UNITS)
        both, at, of_state = place_of_direction(row, unit, batch, units, DIRECTIONS)
        is_row = (row < batch)[None, :]
        fixed = columns(constants(static, norm, unit, units, unit < units, ACC))
        length = tl.full((ROWS,), 0, tl.int64)
        if lengths is not None:
            length = tl.load(lengths + row, mask=row < batch, other=0).to(tl.int64)
        of_group = groups * direction + group
        is_read, counter = (unit < edge_of(units))[:, None] & is_row, counters + of_group
        h = load(h0 if FIRST else h_last, of_state, is_there, ACC)
        c_t = load(c0 if FIRST else c_last, of_state, is_there, ACC)
        if FIRST:
            tl.store(states + both[None, :] * WIDTH + unit[:, None], h, mask=is_read)
            if SPINS > 0:
                arrive(counter, missed)
        to = step_of(begin, time, REVERSE, DIRECTIONS)
        loaded = ahead(gates, to, rows, units, both, unit, is_there, G)
        for i in range(begin, end):
            t = step_of(i, time, REVERSE, DIRECTIONS)
            here = tl.cast(t, tl.int64) * stride + at
            before = states + (tl.cast(i, tl.int64) * rows + both[None, :]) * WIDTH
            if hold is not None:
                held_c = load(hold, here, is_there, ACC)
                held_h = load(hold + time * stride, here, is_there, ACC)
            if SPINS > 0:
                missed = wait(counter, (i + 1) * tl.num_programs(0), missed, SPINS)
            product = multiply(
                tiles, weight, before, is_row, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, ROWS,
                UPCAST, PRECISION,
            )  # fmt: skip
            fed, a = by_gate(product + missed, SLOTS, UNITS, ROWS), ()
            for j in tl.static_range(G):
                a = a + (loaded[j] + fed[j - (G - R)] if j >= G - R else loaded[j],)
            found, fresh_c = fresh_cell(a, h, c_t, fixed, CELL)
            new = fresh_c
            if norm is not None:
                here_units = tl.minimum(units - tl.program_id(0) * UNITS, UNITS)
                own = of_units(fresh_c, unit, units) / here_units
                spread = of_units((fresh_c - own) * (fresh_c - own), unit, units)
                publish(sums, i, of_group, all_groups, own, spread, ROWS)
                if EARLY:  # what follows is the next launch
                    is_there, is_read = (
                        is_there & (unit < 0)[:, None],
                        is_read & (unit < 0)[:, None],
                    )
                if SPINS > 0:
                    arrive(counter + all_groups, missed)
                    target = (i + 1) * tl.num_programs(0)
                    missed = wait(counter + all_groups, target, missed, SPINS)
                means, spreads = published(sums, i, of_group, all_groups, PROGRAMS, ROWS)
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
            tl.store(before + unit[:, None] + rows.to(tl.int64) * WIDTH, y, mask=is_read)
            if SPINS > 0:  # what follows is not read by other programs
                arrive(counter, missed)
            of_gate = (tl.cast(t, tl.int64) * rows + both[None, :]) * (G * units) + unit[:, None]
            for j in tl.static_range(G):
                tl.store(gates + of_gate + j * units, found[j], mask=is_there)
            if fresh is not None:
                tl.store(fresh + here, fresh_c, mask=is_there)
            tl.store(output + here, emitted, mask=is_there)
            if cells is not None:
                tl.store(cells + here, new, mask=is_there)
            c_t, h = new, y.to(states.dtype.element_ty).to(ACC)
            is_next = is_there & (row * 0 + i + 1 < end)[None, :]
            following = step_of(i + 1, time, REVERSE, DIRECTIONS)
            loaded = ahead(gates, following, rows, units, both, unit, is_next, G)
        tl.store(h_last + of_state, h, mask=is_there)
        tl.store(c_last + of_state, c_t, mask=is_there)


def forward(p: Operands, gates: Tensor, new: Results) -> tuple[Tensor, Tensor]:
    """Make gates of the pre-activations, write output and cells, and return the last h and c."""
    time, (batch, units), (grid, groups, options) = len(gates), p.h0.shape[-2:], plan(p)
    every = groups * grid[2]
    states = gates.new_empty(time + 1, batch * grid[2], sum(options["CHUNKS"]))
    h, c = wide(new.h), wide(new.c)
    given = contiguous(filled(p.weight, options), p.static, p.norm, p.hold, p.lengths)
    start, kept = contiguous(p.h0, p.c0), [x if x.numel() else None for x in new[-2:]]
    counters = torch.zeros(2 * every, dtype=torch.int32, device=gates.device)
    programs, sums = _sums(p, grid[0], every, options)
    for begin, end, is_early in _launches(p, spans(time)):
        _forward[grid](
            gates, states, *start, h, c, *given, new.output, *kept, sums, counters, begin, end,
            time, batch, groups, units, FIRST=begin == 0, EARLY=is_early, PROGRAMS=programs,
            CELL=p.cell, EPS=EPS, DIRECTIONS=grid[2], **options,
        )  # fmt: skip
    return h.to(gates.dtype), c.to(gates.dtype)


def filled(weight: Tensor, options: dict[str, Any]) -> Tensor:
    """Return a weight ``(R, H, H)``; its rows are filled up if not all of it stays on the chip."""
    if options["RESIDENT"] == len(options["CHUNKS"]):
        return weight
    return F.pad(weight, (0, sum(options["CHUNKS"]) - weight.shape[-1]))


def wide(x: Tensor) -> Tensor:
    """Return memory for a state, in 32 bits where launches of single steps exchange it."""
    return torch.empty_like(x, dtype=torch.float32) if IS_INTERPRETED else x


def plan(
    p: Operands, *, is_backward: bool = False
) -> tuple[tuple[int, int, int], int, dict[str, Any]]:
    """Return the grid of a call, the groups of sequences, and the constants of kernels."""
    rows, chunks = _rows(p), _chunks(p, is_backward)
    ends, most = accumulate(chunks), _resident(p, is_backward=is_backward)
    is_wide = p.z.dtype == torch.float32 or (is_backward and p.h0.shape[-1] > 704)
    is_large = rows > 16 or (is_wide and p.h0.shape[-1] > 320)
    return _grid(p), _groups(p), {
        "REVERSE": p.reverse, "ROWS": rows, "SLOTS": slots(p),
        "UNITS": ROWS_OF_WEIGHTS // slots(p), "CHUNKS": chunks,
        "FIRSTS": tuple(sum(chunks[:j]) for j in range(len(chunks))),
        "RESIDENT": sum(end <= most for end in ends), "UPCAST": IS_INTERPRETED,
        "SPINS": 0 if IS_INTERPRETED else SPINS,
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


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "groups"])
def _backward(
    grad, gates, h_before, c_before, emitted, means, scales, weight, static, norm, hold, lengths,
    dz, g_normed, g_fresh, grad_h, grad_c, to_h, to_c, parts, sums, counters, begin, end, time,
    batch, groups, units, FIRST: tl.constexpr, LAST: tl.constexpr, EARLY: tl.constexpr,
    PROGRAMS: tl.constexpr, CELL: tl.constexpr, REVERSE: tl.constexpr, DIRECTIONS: tl.constexpr,
    ROWS: tl.constexpr, SLOTS: tl.constexpr, UNITS: tl.constexpr, CHUNKS: tl.constexpr,
    FIRSTS: tl.constexpr, RESIDENT: tl.constexpr, SOURCES: tl.constexpr, AT_ONCE: tl.constexpr,
    SPINS: tl.constexpr, UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Go some steps back: to_h and to_c become the gradients before, at last with all parts."""
    ACC: tl.constexpr = tl.float32
    G: tl.constexpr = len(CELL.gates)
    R: tl.constexpr = len(CELL.recurrent_gates)
    WIDTH: tl.constexpr = FIRSTS[-1] + CHUNKS[-1]
    rows, all_groups = batch * DIRECTIONS, groups * DIRECTIONS
    stride = tl.cast(rows, tl.int64) * units
    IS_FILLED: tl.constexpr = len(CHUNKS) > RESIDENT
    direction = direction_of(DIRECTIONS)
    weight += direction * R * units * (WIDTH if IS_FILLED else units)
    if static is not None:
        static += direction * 2 * units
    if norm is not None:
        norm += direction * 2 * units
    of_row = tl.arange(0, ROWS)[None, :] * WIDTH
    tiles = load_tiles(
        weight, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, RESIDENT, 0, RESIDENT, True, UPCAST
    )
    missed = 0.0
    for group in range(tl.program_id(1), groups, tl.num_programs(1)):
        unit, row, is_there, _ = place(group, batch, units, ROWS, UNITS)
        both, at, of_state = place_of_direction(row, unit, batch, units, DIRECTIONS)
        of_group = groups * direction + group
        fixed = columns(constants(static, norm, unit, units, unit < units, ACC))
        length = tl.full((ROWS,), 0, tl.int64)
        if lengths is not None:
            length = tl.load(lengths + row, mask=row < batch, other=0).to(tl.int64)
        h_t = load(grad_h if FIRST else to_h, of_state, is_there, ACC)
        c_t = load(grad_c if FIRST else to_c, of_state, is_there, ACC)
        for i in range(begin, end):
            t = step_of(time - 1 - i, time, REVERSE, DIRECTIONS)
            here = tl.cast(t, tl.int64) * stride + at
            of_gate = (tl.cast(t, tl.int64) * rows + both[None, :]) * (G * units) + unit[:, None]
            e = load(grad, here, is_there, ACC)
            found = ahead(gates, t, rows, units, both, unit, is_there, G)
            memory = memory_before(h_before, c_before, here, is_there, CELL, ACC)
            x = load(emitted, here, is_there, ACC)
            held_h, held_c = tl.zeros((UNITS, ROWS), ACC), tl.zeros((UNITS, ROWS), ACC)
            if hold is not None:
                held_c = load(hold, here, is_there, ACC)
                held_h = load(hold + time * stride, here, is_there, ACC)
            if SPINS > 0:  # after the loads, which do not depend on other programs
                target = (i - begin) * tl.num_programs(0)
                missed = wait(counters + of_group, target, missed, SPINS)
            before = (tl.cast((i + 1) % 2, tl.int64) * all_groups + of_group) * SOURCES
            of_unit = parts + before * (WIDTH * ROWS) + of_row + unit[:, None]
            fed = add_parts(of_unit, WIDTH * ROWS, SOURCES, AT_ONCE, UNITS, ROWS)
            h_later, c_later = h_t + fed + missed, c_t
            e += h_later
            held_e, held_g = e * held_h, c_later * held_c
            if norm is not None:
                of_row_t = tl.cast(t, tl.int64) * rows + both
                mean = tl.load(means + of_row_t, mask=row < batch, other=0.0)
                scale = tl.load(scales + of_row_t, mask=row < batch, other=0.0)
                normed = (x - mean) * scale
                x = normed * fixed[2] + fixed[3]
            of_fresh, d_output = through_emission(found, x, e - held_e, c_later - held_g, CELL)
            if norm is not None:
                if g_normed is not None:
                    tl.store(g_normed + here, of_fresh, mask=is_there)
                of_fresh *= fixed[2]
                first = of_units(of_fresh, unit, units)
                second = of_units(of_fresh * normed, unit, units)
                publish(sums, i, of_group, all_groups, first, second, ROWS)
                if EARLY:  # what follows is the next launch
                    is_there = is_there & (unit < 0)[:, None]
                if SPINS > 0:
                    arrive(counters + all_groups + of_group, missed)
                    target = (i + 1 - begin) * tl.num_programs(0)
                    missed = wait(counters + all_groups + of_group, target, missed, SPINS)
                firsts, seconds = published(sums, i, of_group, all_groups, PROGRAMS, ROWS)
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
            after = (tl.cast(i % 2, tl.int64) * all_groups + of_group) * SOURCES + tl.program_id(0)
            part = parts + after * (WIDTH * ROWS) + of_row
            pulled = together(seen, SLOTS, UNITS, ROWS)
            store_parts(
                part, tiles, weight, pulled, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, UPCAST,
                PRECISION,
            )  # fmt: skip
            if SPINS > 0:
                arrive(counters + of_group, missed)
            for j in tl.static_range(G):
                tl.store(dz + of_gate + j * units, real[j], mask=is_there)
            if g_fresh is not None:
                tl.store(g_fresh + here, of_fresh, mask=is_there)
        if LAST:
            if SPINS > 0:
                missed = wait(counters + of_group, end * tl.num_programs(0), missed, SPINS)
            before = (tl.cast((end + 1) % 2, tl.int64) * all_groups + of_group) * SOURCES
            of_unit = parts + before * (WIDTH * ROWS) + of_row + unit[:, None]
            h_t += add_parts(of_unit, WIDTH * ROWS, SOURCES, AT_ONCE, UNITS, ROWS) + missed
        tl.store(to_h + of_state, h_t, mask=is_there)
        tl.store(to_c + of_state, c_t, mask=is_there)


def backward(
    p: Operands, grad: Results, read: tuple[Any, ...], written: tuple[Any, ...]
) -> tuple[Tensor, Tensor]:
    """Write the gradients of the pre-activations and cells, and return those of h0 and c0."""
    (*_, emitted), (grid, groups, options) = read, plan(p, is_backward=True)
    dz = written[0]
    time, (batch, units), every = len(dz), p.h0.shape[-2:], groups * grid[2]
    counters, parts, counts = gradient_exchange(p.h0, grid[0], every, options)
    to_h, to_c = (wide(dz.new_empty(p.h0.shape)) for _ in range(2))
    given = contiguous(filled(p.weight, options), p.static, p.norm, p.hold, p.lengths)
    upstream, moments = contiguous(grad.h, grad.c), (None, None)
    if p.norm is not None:
        _, *moments = torch.native_layer_norm(emitted.float(), (units,), None, None, EPS)
    programs, sums = _sums(p, grid[0], every, options)
    for begin, end, is_early in _launches(p, spans(time, is_backward=True)):
        _backward[grid](
            *read, *moments, *given, *written, *upstream, to_h, to_c, parts, sums, counters, begin,
            end, time, batch, groups, units, FIRST=begin == 0, EARLY=is_early, PROGRAMS=programs,
            LAST=begin == time or not IS_INTERPRETED, CELL=p.cell,
            DIRECTIONS=grid[2], **counts, **options,
        )  # fmt: skip
    return to_h.to(dz.dtype), to_c.to(dz.dtype)
