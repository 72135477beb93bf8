# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""gated_scan in Triton; see ``reference.py`` for the equations."""

from __future__ import annotations

from collections.abc import Container

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.gated_scan.reference import Operands, Results
from representer.ops.steps import clear, grid, load_steps, place, step


@triton.jit(do_not_specialize=["time"])
def _forward(
    u, f, c0, lengths, states, final, time, batch, units, DECAY: tl.constexpr,
    REVERSE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    row, unit, steps, length = place(lengths, time, units, BLOCK)
    at, stride, is_unit = row * units + unit, batch * units, unit < units
    c = tl.load(c0 + at, mask=is_unit, other=0.0).to(ACC)
    if DECAY < 2:
        constant = tl.load(f + unit * DECAY, mask=is_unit, other=0.0).to(ACC)
    for first in range(0, length, CHUNK):
        inputs = load_steps(u + at, first, length, steps, stride, REVERSE, CHUNK, ACC)
        if DECAY == 2:
            decays = load_steps(f + at, first, length, steps, stride, REVERSE, CHUNK, ACC)
        for k in tl.static_range(CHUNK):
            is_real = steps > first + k
            c = tl.where(is_real, (decays[k] if DECAY == 2 else constant) * c + inputs[k], c)
            to = step(first + k, length, REVERSE) * tl.cast(stride, tl.int64)
            tl.store(states + at + to, c, mask=is_real)
    tl.store(final + at, c, mask=is_unit)
    clear(states + at, length, time, stride, is_unit, BLOCK)


@triton.jit(do_not_specialize=["time"])
def _backward(
    grad, grad_final, f, c0, lengths, states, du, df, dc0, time, batch, units,
    DECAY: tl.constexpr, REVERSE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    row, unit, steps, length = place(lengths, time, units, BLOCK)
    at, stride, is_unit = row * units + unit, batch * units, unit < units
    start = tl.load(c0 + at, mask=is_unit, other=0.0).to(ACC)
    carried = tl.load(grad_final + at, mask=is_unit, other=0.0).to(ACC)
    if DECAY < 2:
        constant = tl.load(f + unit * DECAY, mask=is_unit, other=0.0).to(ACC)
    total = tl.zeros((BLOCK,), ACC)
    BACK: tl.constexpr = not REVERSE  # gradients flow against the recurrence
    for first in range(0, length, CHUNK):
        grads = load_steps(grad + at, first, length, steps, stride, BACK, CHUNK, ACC)
        before = load_steps(states + at, first + 1, length, steps, stride, BACK, CHUNK, ACC)
        if DECAY == 2:
            decays = load_steps(f + at, first, length, steps, stride, BACK, CHUNK, ACC)
        for k in tl.static_range(CHUNK):
            is_real = steps > first + k
            g = grads[k] + carried
            carried = tl.where(is_real, g * (decays[k] if DECAY == 2 else constant), carried)
            to = step(first + k, length, BACK) * tl.cast(stride, tl.int64)
            tl.store(du + at + to, g, mask=is_real)
            of_f = g * tl.where(length == first + k + 1, start, before[k])
            if DECAY == 2:
                tl.store(df + at + to, of_f, mask=is_real)
            else:
                total = tl.where(is_real, total + of_f, total)
    tl.store(dc0 + at, carried, mask=is_unit)
    clear(du + at, length, time, stride, is_unit, BLOCK)
    if DECAY == 2:
        clear(df + at, length, time, stride, is_unit, BLOCK)
    else:
        tl.store(df + at, total, mask=is_unit)


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    size, options = grid(p.u.shape, p.u.dtype, 2)
    if 0 not in size:
        u, f, c0 = (x.contiguous() for x in p[:3])
        _forward[size](
            u, f, c0, p.lengths, *new, *u.shape, DECAY=min(f.dim(), 2), REVERSE=p.reverse, **options
        )
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of u, f and c0."""
    states, f, c0 = kept.states, p.f.contiguous(), p.c0.contiguous()
    size, options = grid(states.shape, states.dtype, 3)
    du, dc0 = torch.empty_like(states), torch.empty_like(c0)
    df = torch.empty_like(
        states if f.dim() == 3 else c0, dtype=torch.promote_types(f.dtype, torch.float32)
    )
    if 0 not in size:
        _backward[size](
            grad.states.contiguous(), grad.final.contiguous(), f, c0, p.lengths, states, du, df,
            dc0, *states.shape, DECAY=min(f.dim(), 2), REVERSE=p.reverse, **options,
        )  # fmt: skip
    return {"u": du, "f": df.sum_to_size(f.shape).to(f.dtype), "c0": dc0}
