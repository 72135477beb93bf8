# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""Parts of the Triton kernels of scans, and their launch.

A program computes some units of one sequence. It loads the operands of several steps before it uses
the first, because a load takes as long as hundreds of steps of arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from representer.ops.gpu import IS_INTERPRETED, ceil_div, power_of_2

_WIDEST = 256  # units of a program
_PROGRAMS = 264  # two for each multiprocessor of an H100
ON_A_GPU = 32
_IN_FLIGHT = 4 if IS_INTERPRETED else ON_A_GPU  # loads of a unit


@triton.jit
def place(lengths, time, units, BLOCK: tl.constexpr):
    """Return the row and units of this program, the steps of each, and those of the row.

    A unit that does not exist has no steps. A mask is a comparison of the steps of units: a
    conjunction with a scalar is one that the interpreter gets wrong.
    """
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    length = time
    if lengths is not None:
        length = tl.load(lengths + row).to(tl.int32)
    return row, unit, tl.where(unit < units, length, 0), length


@triton.jit
def place_chunk(lengths, time, part, batch, units, BLOCK: tl.constexpr):
    """Return the place of this program in a scan whose sequences are cut into chunks.

    A program computes some units of one chunk of ``part`` steps of one sequence.

    Returns:
        The places of its units in the first step of the chunk in ``(time, batch, units)`` and in
        ``(chunks, batch, units)``; unit, steps of each and those of the row as in ``place``; and
        the steps of the chunk.
    """
    row, unit, _, length = place(lengths, time, units, BLOCK)
    chunk = tl.program_id(2).to(tl.int64)
    begin = chunk * part
    size = tl.minimum(time - begin, part).to(tl.int32)
    length = tl.minimum(tl.maximum(length - begin, 0), size).to(tl.int32)
    at, lane = (begin * batch + row) * units + unit, (chunk * batch + row) * units + unit
    return at, lane, unit, tl.where(unit < units, length, 0), length, size


@triton.jit
def load_steps(
    x, first, length, steps, stride, REVERSE: tl.constexpr, CHUNK: tl.constexpr, ACC: tl.constexpr
):
    """Return the values of the steps from the ``first``-th on, 0 beyond the last."""
    values = ()
    for k in tl.static_range(CHUNK):
        at = step(first + k, length, REVERSE) * tl.cast(stride, tl.int64)
        value = tl.load(x + at, mask=steps > first + k, other=0.0).to(ACC)
        values = values + (value,)
    return values


@triton.jit
def load_each(
    x, rows: tl.constexpr, first, length, steps, stride, units, REVERSE: tl.constexpr,
    CHUNK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Return ``load_steps`` of each row of ``(time, batch, rows, units)``."""
    loaded = ()
    for j in tl.static_range(rows):
        row = x + j * units
        loaded = loaded + (
            load_steps(row, first, length, steps, stride * rows, REVERSE, CHUNK, ACC),
        )
    return loaded


@triton.jit
def load_rows(x, rows: tl.constexpr, units, is_unit, ACC: tl.constexpr):
    """Return the values of each row of ``(batch, rows, units)``."""
    loaded = ()
    for j in tl.static_range(rows):
        loaded = loaded + (tl.load(x + j * units, mask=is_unit, other=0.0).to(ACC),)
    return loaded


@triton.jit
def load_square(weight, units, BLOCK: tl.constexpr, ACC: tl.constexpr):
    """Return a matrix of units by units, filled up with zeros."""
    first, second = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    is_entry = tl.maximum(first, second) < units
    return tl.load(weight + first * units + second, mask=is_entry, other=0.0).to(ACC)


@triton.jit
def step(i, length, REVERSE: tl.constexpr):
    """Return the place in the sequence of the i-th step of the recurrence."""
    if REVERSE:
        return length - 1 - i
    else:
        return i


@triton.jit
def span(position, length, REVERSE: tl.constexpr):
    """Return the first step and the end of a launch: all steps, or that of one place if any."""
    begin, end = 0, length
    if position is not None:
        begin = step(position, length, REVERSE)
        end = tl.where(position < length, begin + 1, begin)
    return begin, end


@triton.jit
def clear(x, first, time, stride, is_unit, BLOCK: tl.constexpr):
    """Set x to 0 from a step on."""
    for t in range(first, time):
        zero = tl.zeros((BLOCK,), x.dtype.element_ty)
        tl.store(x + t * tl.cast(stride, tl.int64), zero, mask=is_unit)


@triton.jit
def expm1(z):
    """Return exp(z) - 1, near 0 by its series: the difference has no correct digit there."""
    DEGREE: tl.constexpr = 16 if z.dtype == tl.float64 else 9
    near = tl.where(tl.abs(z) < 0.5, z, 0.0)
    series = tl.full(z.shape, 1.0, z.dtype)
    for i in tl.static_range(DEGREE - 1):
        series = 1 + series * near / (DEGREE - i)
    return tl.where(tl.abs(z) < 0.5, series * near, tl.exp(z) - 1)


@triton.jit
def value(z, KIND: tl.constexpr):
    """Return a nonlinearity of z, by its name in ``functional.nonlinearities``."""
    if KIND == "linear":
        z = z / 2
    elif KIND == "polynomial":
        z = (z + 1) * (z + 1) / 4
    elif KIND == "exponential":
        z = expm1(z) / 2
    elif KIND == "inverse":
        z = z / (2 - z)
    elif KIND == "gaussian":
        z = tl.exp(z)
    elif KIND == "tanh":
        e = expm1(-2 * tl.abs(z))  # -2 |z| never overflows
        z = tl.where(z < 0, e, -e) / (2 + e)
    elif KIND == "sigmoid":
        z = tl.sigmoid(z)
    elif KIND == "relu":
        z = tl.maximum(z, 0.0)
    return z


@triton.jit
def slope(z, y, KIND: tl.constexpr):
    """Return the derivative of a nonlinearity at z, whose value is y."""
    if KIND == "identity":
        y = tl.full(z.shape, 1.0, z.dtype)
    elif KIND == "linear":
        y = tl.full(z.shape, 0.5, z.dtype)
    elif KIND == "polynomial":
        y = (z + 1) / 2
    elif KIND == "exponential":
        y = y + 0.5
    elif KIND == "inverse":
        y = 2 / ((2 - z) * (2 - z))
    elif KIND == "tanh":
        y = 1 - y * y
    elif KIND == "sigmoid":
        y = y * (1 - y)
    elif KIND == "relu":
        y = tl.where(z > 0, 1.0, 0.0).to(z.dtype)
    return y


def contiguous(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """Return tensors as the kernels read them."""
    return [None if x is None else x.contiguous() for x in tensors]


def accumulator(dtype: torch.dtype) -> tuple[torch.dtype, dict[str, Any]]:
    """Return the dtype in which a kernel computes, and its options."""
    is_double = dtype == torch.float64
    options = {"ACC": tl.float64 if is_double else tl.float32, "enable_fp_fusion": True}
    return torch.float64 if is_double else torch.float32, options


def warps_of(block: int, matrices: int) -> int:
    """Return the warps of a program of some units, with square matrices in its registers."""
    lanes = block * block * matrices // 32 if matrices else block
    return max(1, min(8, power_of_2(lanes) // 32))


def grid(
    sizes: Sequence[int], dtype: torch.dtype, loads: int = 1
) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid of a scan over ``(time, batch, units)`` and its constants.

    ``loads`` is the number of values that a unit loads for a step.
    """
    time, batch, units = sizes
    block = min(power_of_2(max(units, 1)), _WIDEST)
    while block > 64 and batch * ceil_div(units, block) < _PROGRAMS:
        block //= 2
    ahead = max(_IN_FLIGHT // power_of_2(loads), 1)
    options = {
        "BLOCK": block,
        "CHUNK": min(power_of_2(max(time, 1)), ahead),
        "num_warps": max(1, block // 64),
    } | accumulator(dtype)[1]
    return (batch, ceil_div(units, block)), options
