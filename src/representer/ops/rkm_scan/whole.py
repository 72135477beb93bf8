# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""rkm_scan in Triton in one kernel a direction, for few units or cells without feedback.

A program computes a sequence. It keeps the recurrent matrices in registers, R tiles of all units by
all units; without feedback it computes some of the units, or all with layer norm. Both directions
of a layer are in one launch: the programs 2 b and 2 b + 1 compute a sequence from both ends.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.functional.rkm import EPS
from representer.ops.gpu import IS_INTERPRETED, ceil_div, power_of_2
from representer.ops.rkm_scan.pointwise import advance, constants, load, memory_before, retreat
from representer.ops.rkm_scan.reference import Operands, Results
from representer.ops.steps import (
    accumulator,
    clear,
    contiguous,
    load_rows,
    load_square,
    place,
    step,
    warps_of,
)

MOST_UNITS = 128  # with feedback: the registers of a program hold all recurrent matrices
MOST_DOUBLES = 64  # the same in 64 bits
MOST_BEFORE_HOPPER = 96  # with four matrices, whose gradient has too few registers there
_UNITS = 256  # of a program without feedback and layer norm


def refuses(p: Operands) -> str:
    """Return why these kernels do not run a call, or "" if they do."""
    units, most = p.h0.shape[-1], MOST_UNITS
    if p.z.dtype == torch.float64:
        most = MOST_DOUBLES
    elif len(p.cell.recurrent_gates) == 4 and p.z.is_cuda:
        is_older = torch.cuda.get_device_capability(p.z.device) < (9, 0)
        most = MOST_BEFORE_HOPPER if is_older else MOST_UNITS
    is_small = p.weight is None or units <= most
    return "" if is_small else f"{units} units with feedback are more than {most}"


@triton.jit
def _tiles(weight, units, R: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr):
    """Return the recurrent matrices, the summed axis first: inputs, or outputs in the gradient."""
    tiles = ()
    for r in tl.static_range(R):
        tiles = tiles + (load_square(weight + r * units * units, units, BLOCK, ACC),)
    return tiles


@triton.jit
def _place(lengths, time, units, BLOCK: tl.constexpr, DIRECTIONS: tl.constexpr):
    """Return what `place` does, of a sequence that has a program for each direction."""
    if lengths is not None:
        row = tl.program_id(0)
        lengths += row // DIRECTIONS - row
    return place(lengths, time, units, BLOCK)


@triton.jit
def _place_of_direction(row, unit, batch, units, DIRECTIONS: tl.constexpr):
    """Return the direction of a program, and where its units are in a state."""
    direction = row % DIRECTIONS
    state = direction * (batch // DIRECTIONS) + row // DIRECTIONS
    return direction, state * units + unit


@triton.jit
def _step(i, length, direction, REVERSE: tl.constexpr, DIRECTIONS: tl.constexpr):
    """Return the place in the sequence of the i-th step of a direction."""
    if DIRECTIONS == 1:
        place_of_step = step(i, length, REVERSE)
    else:
        place_of_step = tl.where(direction == 0, i, length - 1 - i)
    return place_of_step


@triton.jit
def _add_two(a, b, c, d):
    return a + c, b + d


@triton.jit
def _add_three(a, b, c, d, e, f):
    return a + d, b + e, c + f


@triton.jit
def _add_four(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def _products(tiles, h, R: tl.constexpr, APART: tl.constexpr):
    """Return the products of the matrices with h by one sum, for which all warps wait once.

    ``APART`` takes one sum each: the interpreter calls Python for every addition of a joint one.
    """
    h = h[:, None]
    if R == 0:
        return ()
    elif APART:
        products = ()
        for r in tl.static_range(R):
            products = products + (tl.sum(tiles[r] * h, 0),)
        return products
    elif R == 1:
        return (tl.sum(tiles[0] * h, 0),)
    elif R == 2:
        return tl.reduce((tiles[0] * h, tiles[1] * h), 0, _add_two)
    elif R == 3:
        return tl.reduce((tiles[0] * h, tiles[1] * h, tiles[2] * h), 0, _add_three)
    else:
        return tl.reduce((tiles[0] * h, tiles[1] * h, tiles[2] * h, tiles[3] * h), 0, _add_four)


# units are not specialized: without loads of several entries all tensors have one layout; nor is
# the batch, whose last one of an epoch would compile again
@triton.jit(do_not_specialize=["time", "batch", "units"])
def _forward(
    z, h0, c0, weight, static, norm, hold, lengths, output, h_last, c_last, gates, cells, fresh,
    time, batch, units, CELL: tl.constexpr, EPS: tl.constexpr, REVERSE: tl.constexpr,
    DIRECTIONS: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    G: tl.constexpr = len(CELL.gates)
    R: tl.constexpr = len(CELL.recurrent_gates)
    row, unit, steps, length = _place(lengths, time, units, BLOCK, DIRECTIONS)
    is_unit, at, stride = unit < units, row * units + unit, tl.cast(batch, tl.int64) * units
    direction, of_state = _place_of_direction(row, unit, batch, units, DIRECTIONS)
    of_pair = direction * 2 * units
    h, c = load(h0, of_state, is_unit, ACC), load(c0, of_state, is_unit, ACC)
    if static is not None:
        static += of_pair
    if norm is not None:
        norm += of_pair
    if weight is not None:
        weight += direction * R * units * units
    fixed = constants(static, norm, unit, units, is_unit, ACC)
    tiles = _tiles(weight, units, R, BLOCK, ACC)
    start = row * units * G + unit
    ahead = _step(0, length, direction, REVERSE, DIRECTIONS) * stride * G
    loaded = load_rows(z + start + ahead, G, units, steps > 0, ACC)
    for i in range(length):
        to = _step(i, length, direction, REVERSE, DIRECTIONS) * stride
        ahead = _step(i + 1, length, direction, REVERSE, DIRECTIONS) * stride * G
        of_gate = start + to * G
        following = load_rows(z + start + ahead, G, units, steps > i + 1, ACC)
        fed, a = _products(tiles, h, R, APART), ()
        for j in tl.static_range(G):
            a = a + (loaded[j] + fed[j - (G - R)] if j >= G - R else loaded[j],)
        found, before, y, new = advance(a, h, c, fixed, is_unit, units, CELL, norm is not None, EPS)
        if gates is not None:
            for j in tl.static_range(G):
                tl.store(gates + of_gate + j * units, found[j], mask=is_unit)
        if fresh is not None:
            tl.store(fresh + at + to, before, mask=is_unit)
        if hold is not None:
            of_h = time * stride
            new += load(hold, at + to, is_unit, ACC) * (c - new)
            y += load(hold + of_h, at + to, is_unit, ACC) * (h - y)
        h, c = y, new
        tl.store(output + at + to, h, mask=is_unit)
        if cells is not None:
            tl.store(cells + at + to, c, mask=is_unit)
        loaded = following
    clear(output + at, length, time, stride, is_unit, BLOCK)
    tl.store(h_last + of_state, h, mask=is_unit)
    tl.store(c_last + of_state, c, mask=is_unit)


@triton.jit
def _read(
    grad, gates, h_before, c_before, emitted, at, of_gate, units, is_real, CELL: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Return what a step back reads: the gradient of the emission, gates, memory and cell."""
    G: tl.constexpr = len(CELL.gates)
    memory = memory_before(h_before, c_before, at, is_real, CELL, ACC)
    loaded = load_rows(gates + of_gate, G, units, is_real, ACC)
    return load(grad, at, is_real, ACC), loaded, memory, load(emitted, at, is_real, ACC)


@triton.jit(do_not_specialize=["time", "batch", "units"])
def _backward(
    grad, gates, h_before, c_before, emitted, grad_h, grad_c, weight, static, norm, hold, lengths,
    dz, g_normed, g_fresh, dh0, dc0, time, batch, units, CELL: tl.constexpr, EPS: tl.constexpr,
    REVERSE: tl.constexpr, DIRECTIONS: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
    APART: tl.constexpr,
):  # fmt: skip
    G: tl.constexpr = len(CELL.gates)
    R: tl.constexpr = len(CELL.recurrent_gates)
    row, unit, steps, length = _place(lengths, time, units, BLOCK, DIRECTIONS)
    is_unit, at, stride = unit < units, row * units + unit, tl.cast(batch, tl.int64) * units
    direction, of_state = _place_of_direction(row, unit, batch, units, DIRECTIONS)
    of_pair = direction * 2 * units
    to_h, to_c = load(grad_h, of_state, is_unit, ACC), load(grad_c, of_state, is_unit, ACC)
    if static is not None:
        static += of_pair
    if norm is not None:
        norm += of_pair
    if weight is not None:
        weight += direction * R * units * units
    fixed = constants(static, norm, unit, units, is_unit, ACC)
    tiles = _tiles(weight, units, R, BLOCK, ACC)
    start = row * units * G + unit
    to = _step(length - 1, length, direction, REVERSE, DIRECTIONS) * stride
    ahead = _read(
        grad, gates, h_before, c_before, emitted, at + to, start + to * G, units, steps > 0, CELL,
        ACC,
    )  # fmt: skip
    for i in range(length):
        to = _step(length - 1 - i, length, direction, REVERSE, DIRECTIONS) * stride
        next_to = _step(length - 2 - i, length, direction, REVERSE, DIRECTIONS) * stride
        here, of_gate = at + to, start + to * G
        e, found, memory, x = ahead
        ahead = _read(
            grad, gates, h_before, c_before, emitted, at + next_to, start + next_to * G, units,
            steps > i + 1, CELL, ACC,
        )  # fmt: skip
        e, g = e + to_h, to_c
        held_e, held_g = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
        if hold is not None:
            of_h = time * stride
            held_g = g * load(hold, here, is_unit, ACC)
            held_e = e * load(hold + of_h, here, is_unit, ACC)
            e, g = e - held_e, g - held_g
        d, of_normed, of_fresh, to_h, to_c = retreat(
            found, x, memory, e, g, fixed, is_unit, units, CELL, norm is not None, EPS
        )
        to_h, to_c = to_h + held_e, to_c + held_g
        for j in tl.static_range(G):
            tl.store(dz + of_gate + j * units, d[j], mask=is_unit)
        if R > 0:
            product = tiles[0] * tl.where(is_unit, d[G - R], 0.0)[:, None]
            for j in tl.static_range(1, R):
                product += tiles[j] * tl.where(is_unit, d[G - R + j], 0.0)[:, None]
            to_h += tl.sum(product, 0)
        if g_normed is not None:
            tl.store(g_normed + here, of_normed, mask=is_unit)
        if g_fresh is not None:
            tl.store(g_fresh + here, of_fresh, mask=is_unit)
    for j in tl.static_range(G):
        of_gate = row * units * G + unit + j * units
        clear(dz + of_gate, length, time, stride * G, is_unit, BLOCK)
    tl.store(dh0 + of_state, to_h, mask=is_unit)
    tl.store(dc0 + of_state, to_c, mask=is_unit)


def forward(p: Operands, z: Tensor, gates: Tensor | None, new: Results) -> tuple[Tensor, Tensor]:
    """Write output, cells and gates, and return the last h and c; z and gates may be one tensor."""
    weight = None if p.weight is None else p.weight.mT
    given = contiguous(z, p.h0, p.c0, weight, p.static, p.norm, p.hold, p.lengths)
    kept = [x if x.numel() else None for x in (new.cells, new.fresh)]
    _launch(p, len(z), _forward, *given, new.output, new.h, new.c, gates, *kept)
    return new.h, new.c


def backward(
    p: Operands, grad: Results, read: tuple[Any, ...], written: tuple[Any, ...]
) -> tuple[Tensor, Tensor]:
    """Write the gradients of the pre-activations and cells, and return those of h0 and c0."""
    given = contiguous(grad.h, grad.c, p.weight, p.static, p.norm, p.hold, p.lengths)
    dh0, dc0 = torch.empty_like(given[0]), torch.empty_like(given[0])
    _launch(p, len(written[0]), _backward, *read, *given, *written, dh0, dc0)
    return dh0, dc0


def _launch(p: Operands, time: int, kernel: Any, *arguments: Any) -> None:
    *counts, units = p.h0.shape  # sequences, or those of both directions
    batch = math.prod(counts)
    is_tiled = p.weight is None and p.norm is None
    block = power_of_2(max(1, min(units, _UNITS) if is_tiled else units))
    if batch and units:
        kernel[batch, ceil_div(units, block)](
            *arguments, time, batch, units, CELL=p.cell, EPS=EPS, REVERSE=p.reverse, BLOCK=block,
            DIRECTIONS=len(counts), APART=IS_INTERPRETED,
            num_warps=warps_of(block, 0 if p.weight is None else p.weight.shape[-3]),
            **accumulator(p.z.dtype)[1],
        )  # fmt: skip
