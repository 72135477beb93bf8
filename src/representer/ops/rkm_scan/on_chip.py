# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""Parts of kernels whose programs keep weights on the chip and exchange h after every step."""

from __future__ import annotations

import triton
import triton.language as tl

from representer.ops.rkm_scan.pointwise import load


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
def direction_of(DIRECTIONS: tl.constexpr):
    """Return 0, or 1 for a program of the reverse direction."""
    direction = 0  # Triton compiles what follows a return
    if DIRECTIONS > 1:
        direction = tl.program_id(2)
    return direction


@triton.jit
def place_of_direction(row, unit, batch, units, DIRECTIONS: tl.constexpr):
    """Return the rows of a direction among those of both, where they are in a step and a state."""
    direction = direction_of(DIRECTIONS)
    both, state = row * DIRECTIONS + direction, tl.cast(batch, tl.int64) * direction + row
    return both, both[None, :] * units + unit[:, None], state[None, :] * units + unit[:, None]


@triton.jit
def step_of(i, time, REVERSE: tl.constexpr, DIRECTIONS: tl.constexpr):
    """Return the place in the sequence of the i-th step of a direction."""
    if DIRECTIONS == 1:
        place_of_step = time - 1 - i if REVERSE else i
    else:
        place_of_step = tl.where(tl.program_id(2) == 0, i, time - 1 - i)
    return place_of_step


@triton.jit
def columns(fixed):
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
               CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, RESIDENT: tl.constexpr,
               BEGIN: tl.constexpr, END: tl.constexpr, DOWN: tl.constexpr,
               UPCAST: tl.constexpr):  # fmt: skip
    """Return some chunks of the rows of this program in a weight ``(R, units, units)``.

    Filled up with zeros, each is ``(SLOTS UNITS, CHUNKS[j])``, or its transpose with ``DOWN``. If
    not all stay on the chip, the rows in memory are filled up, too.
    """
    row, tiles = tl.arange(0, SLOTS * UNITS), ()
    slot, unit = row // UNITS, tl.program_id(0) * UNITS + row % UNITS
    IS_FILLED: tl.constexpr = len(CHUNKS) > RESIDENT
    width = FIRSTS[-1] + CHUNKS[-1] if IS_FILLED else units
    is_row, first = (slot < R) & (unit < units), (slot * units + unit) * width
    for j in tl.static_range(BEGIN, END):
        k = FIRSTS[j] + tl.arange(0, CHUNKS[j])
        is_k = k < width
        if DOWN:
            at, is_entry = first[None, :] + k[:, None], is_row[None, :] & is_k[:, None]
        else:
            at, is_entry = first[:, None] + k[None, :], is_row[:, None] & is_k[None, :]
        tile = tl.load(weight + at, mask=is_entry, other=0.0)
        tiles = tiles + (tile.to(tl.float32) if UPCAST else tile,)
    return tiles


@triton.jit
def _tile(j: tl.constexpr, tiles, weight, units, R: tl.constexpr, SLOTS: tl.constexpr,
          UNITS: tl.constexpr, CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, DOWN: tl.constexpr,
          UPCAST: tl.constexpr):  # fmt: skip
    """Return one chunk, of those on the chip or from memory."""
    if j < len(tiles):
        tile = tiles[j]
    else:
        (tile,) = load_tiles(
            weight, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, len(tiles), j, j + 1, DOWN, UPCAST
        )
    return tile


@triton.jit
def edge_of(units):
    """Return the end of what programs exchange: whole vectors, which loads with a mask need."""
    return (units + 15) // 16 * 16


@triton.jit
def _load_part(before, is_row, units, j: tl.constexpr, CHUNKS: tl.constexpr,
               FIRSTS: tl.constexpr, UPCAST: tl.constexpr):  # fmt: skip
    """Return a chunk of h of a group."""
    k = FIRSTS[j] + tl.arange(0, CHUNKS[j])[:, None]
    is_there = is_row & (k < edge_of(units)) if j == len(CHUNKS) - 1 else is_row
    part = tl.load(before + k, mask=is_there, other=0.0, cache_modifier=".cg")
    return part.to(tl.float32) if UPCAST else part


@triton.jit
def multiply(
    tiles, weight, before, is_row, units, R: tl.constexpr, SLOTS: tl.constexpr,
    UNITS: tl.constexpr, CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, ROWS: tl.constexpr,
    UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the product of a weight with h of a group, loaded at first as far as tiles need it."""
    parts, product = (), tl.zeros((SLOTS * UNITS, ROWS), tl.float32)
    for j in tl.static_range(len(tiles)):
        parts = parts + (_load_part(before, is_row, units, j, CHUNKS, FIRSTS, UPCAST),)
    for j in tl.static_range(len(tiles)):
        product = tl.dot(tiles[j], parts[j], product, input_precision=PRECISION)
    for j in tl.static_range(len(tiles), len(CHUNKS)):
        part = _load_part(before, is_row, units, j, CHUNKS, FIRSTS, UPCAST)
        tile = _tile(j, tiles, weight, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, False, UPCAST)
        product = tl.dot(tile, part, product, input_precision=PRECISION)
    return product


@triton.jit
def ahead(gates, t, batch, units, row, unit, is_there, G: tl.constexpr):
    """Return the pre-activations of a step."""
    of_gate = (tl.cast(t, tl.int64) * batch + row[None, :]) * (G * units) + unit[:, None]
    loaded = ()
    for j in tl.static_range(G):
        loaded = loaded + (load(gates, of_gate + j * units, is_there, tl.float32),)
    return loaded


@triton.jit
def publish(sums, i, group, groups, first, second, ROWS: tl.constexpr):
    """Write two numbers of this program for each sequence, at one of two places in turn."""
    place = (i % 2 * groups + group) * tl.num_programs(0) + tl.program_id(0)
    to = sums + place * (2 * ROWS) + tl.arange(0, ROWS)
    tl.store(to, first)
    tl.store(to + ROWS, second)


@triton.jit
def published(sums, i, group, groups, PROGRAMS: tl.constexpr, ROWS: tl.constexpr):
    """Return the two numbers ``(PROGRAMS, ROWS)`` of each program."""
    program = tl.arange(0, PROGRAMS)[:, None]
    place = (i % 2 * groups + group) * tl.num_programs(0) + program
    to, is_there = sums + place * (2 * ROWS) + tl.arange(0, ROWS), program < tl.num_programs(0)
    first = tl.load(to, mask=is_there, other=0.0, cache_modifier=".cg")
    second = tl.load(to + ROWS, mask=is_there, other=0.0, cache_modifier=".cg")
    return first, second


@triton.jit
def of_units(x, unit, units):
    """Return the sum over the units that this program has."""
    return tl.sum(tl.where((unit < units)[:, None], x, 0.0), 0)


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
    part, tiles, weight, d, units, R: tl.constexpr, SLOTS: tl.constexpr, UNITS: tl.constexpr,
    CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Store the part of this program in the gradient of h, its rows of the weights times d."""
    right = d.to(weight.dtype.element_ty)
    right = right.to(tl.float32) if UPCAST else right
    for j in tl.static_range(len(CHUNKS)):
        k = FIRSTS[j] + tl.arange(0, CHUNKS[j])[:, None]
        tile = _tile(j, tiles, weight, units, R, SLOTS, UNITS, CHUNKS, FIRSTS, True, UPCAST)
        tl.store(part + k, tl.dot(tile, right, input_precision=PRECISION))
