# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""gated_scan in Triton; see ``__init__.py`` for the equations.

Few units with many steps would leave most of a GPU idle, so their sequences are cut into chunks,
which run side by side: the final state of a chunk is A c + b with the state c before it. The first
pass computes A, the product of the decays, and b; a scan over the chunks gives the states before
them, with which the second pass is that of whole sequences. Gradients run alike, backwards.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.gated_scan import Operands, Results
from representer.ops.gpu import ceil_div
from representer.ops.steps import accumulator, clear, grid, load_steps, place_chunk, step

_FEW_LANES, _MANY_STEPS = 2**14, 512  # sequences are cut below and from here on
_LANES, _LEAST = 2**16, 32  # lanes of all chunks to aim at, and steps of a chunk


@triton.jit(do_not_specialize=["time", "part", "batch"])
def _forward(
    u, f, c0, lengths, states, final, product, time, part, batch, units, DECAY: tl.constexpr,
    REVERSE: tl.constexpr, INTO: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Run a chunk; without ``states`` from 0, for A and b. ``INTO``: the input is decayed, too."""
    at, lane, unit, steps, length, size = place_chunk(lengths, time, part, batch, units, BLOCK)
    stride, is_unit = tl.cast(batch, tl.int64) * units, unit < units
    c, decayed = tl.zeros((BLOCK,), ACC), tl.full((BLOCK,), 1.0, ACC)
    if c0 is not None:
        c = tl.load(c0 + lane, mask=is_unit, other=0.0).to(ACC)
    if DECAY < 2:
        constant = tl.load(f + unit * DECAY, mask=is_unit, other=0.0).to(ACC)
    for first in range(0, length, CHUNK):
        inputs = load_steps(u + at, first, length, steps, stride, REVERSE, CHUNK, ACC)
        if DECAY == 2:
            decays = load_steps(f + at, first, length, steps, stride, REVERSE, CHUNK, ACC)
        for k in tl.static_range(CHUNK):
            is_real, decay = steps > first + k, decays[k] if DECAY == 2 else constant
            new = decay * (c + inputs[k]) if INTO else decay * c + inputs[k]
            c = tl.where(is_real, new, c)
            if states is None:
                decayed = tl.where(is_real, decay * decayed, decayed)
            else:
                to = step(first + k, length, REVERSE) * tl.cast(stride, tl.int64)
                tl.store(states + at + to, c, mask=is_real)
    tl.store(final + lane, c, mask=is_unit)
    if states is None:
        tl.store(product + lane, decayed, mask=is_unit)
    else:
        clear(states + at, length, size, stride, is_unit, BLOCK)


@triton.jit(do_not_specialize=["time", "part", "batch"])
def _backward(
    grad, grad_final, f, c0, lengths, states, du, df, dc0, time, part, batch, units,
    DECAY: tl.constexpr, REVERSE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    at, lane, unit, steps, length, size = place_chunk(lengths, time, part, batch, units, BLOCK)
    stride, is_unit = tl.cast(batch, tl.int64) * units, unit < units
    start = tl.load(c0 + lane, mask=is_unit, other=0.0).to(ACC)
    carried = tl.load(grad_final + lane, mask=is_unit, other=0.0).to(ACC)
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
    tl.store(dc0 + lane, carried, mask=is_unit)
    clear(du + at, length, size, stride, is_unit, BLOCK)
    if DECAY == 2:
        clear(df + at, length, size, stride, is_unit, BLOCK)
    else:
        tl.store(df + lane, total, mask=is_unit)


def chunk_steps(time: int, batch: int, units: int) -> int:
    """Return the number of steps of a chunk, that of all steps for one chunk."""
    lanes = batch * units
    if time < _MANY_STEPS or not 0 < lanes < _FEW_LANES:
        return time
    return max(ceil_div(time, ceil_div(_LANES, lanes)), _LEAST)


def describe(p: Operands) -> str:
    """Return how many chunks of a call run side by side."""
    part = chunk_steps(*p.u.shape)
    return "" if part >= len(p.u) else f"in chunks of {part} steps, two passes"


def _launch(p: Operands, part: int, loads: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the grid of a launch over chunks, and its constants."""
    time, batch, units = p.u.shape
    size, options = grid((part, batch, units), p.u.dtype, loads)
    return (*size, ceil_div(time, part)), options


def _carried(
    p: Operands, inputs: Tensor, f: Tensor, start: Tensor, end: Tensor, part: int, *, back: bool
) -> Tensor:
    """Return the state before each chunk of a scan ``(K, B, H)``, and fill in the final one.

    Args:
        p: The operands.
        inputs: Input of each step ``(T, B, H)``; of a gradient (``back``), decayed, too.
        f: The decays.
        start: The state before the scan.
        end: Memory for the final state.
        part: Steps of a chunk.
        back: Run against the direction of the operands.
    """
    size, options = _launch(p, part, 2)
    shape = size[2], *p.u.shape[1:]
    reverse = p.reverse != back
    b, product, after = (start.new_empty(shape, dtype=accumulator(p.u.dtype)[0]) for _ in range(3))
    _forward[size](
        inputs, f, None, p.lengths, None, b, product, len(p.u), part, *shape[1:],
        DECAY=min(f.dim(), 2), REVERSE=reverse, INTO=back, **options,
    )  # fmt: skip
    _forward[(*size[:2], 1)](
        b, product, start, None, after, end, None, shape[0], *shape, DECAY=2, REVERSE=reverse,
        INTO=False, **options,
    )  # fmt: skip
    first = start[None].to(after.dtype)
    return torch.cat((after[1:], first) if reverse else (first, after[:-1]))


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    u, f, c0 = (x.contiguous() for x in p[:3])
    part = chunk_steps(*u.shape)
    size, options = _launch(p, part, 2)
    if 0 in size:
        return new
    final = new.final
    if size[2] > 1:
        c0 = _carried(p, u, f, c0, final, part, back=False)
        final = torch.empty_like(c0)
    _forward[size](
        u, f, c0, p.lengths, new.states, final, None, len(u), part, *u.shape[1:],
        DECAY=min(f.dim(), 2), REVERSE=p.reverse, INTO=False, **options,
    )  # fmt: skip
    return new


def _starts(p: Operands, states: Tensor, part: int) -> Tensor:
    """Return the state before the first step of each chunk ``(K, B, H)``."""
    if not p.reverse:
        return torch.cat((p.c0[None], states[part - 1 : -1 : part]))
    later = states[part::part]
    # backwards, a chunk in which a sequence ends is its first: it starts from c0
    if p.lengths is not None:
        first = torch.arange(part, len(states), part, device=states.device)
        later = torch.where((first[:, None] < p.lengths)[:, :, None], later, p.c0)
    return torch.cat((later, p.c0[None]))


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of u, f and c0."""
    states, f, c0 = kept.states, p.f.contiguous(), p.c0.contiguous()
    p = p._replace(u=states)  # u is not kept: below, its shape and dtype alone are read
    part = chunk_steps(*states.shape)
    size, options = _launch(p, part, 3)
    upstream, last = grad.states.contiguous(), grad.final.contiguous()
    du, dc0 = torch.empty_like(states), torch.empty_like(c0)
    carried = dc0
    if 0 not in size and size[2] > 1:
        c0 = _starts(p, states, part).contiguous()
        last = _carried(p, upstream, f, last, dc0, part, back=True)
        carried = torch.empty_like(last)
    exact = torch.promote_types(f.dtype, torch.float32)
    df = states.new_empty(states.shape if f.dim() == 3 else (size[2], *dc0.shape), dtype=exact)
    if 0 not in size:
        _backward[size](
            upstream, last, f, c0, p.lengths, states, du, df, carried, len(states), part,
            *dc0.shape, DECAY=min(f.dim(), 2), REVERSE=p.reverse, **options,
        )  # fmt: skip
    return {"u": du, "f": df.sum_to_size(f.shape).to(f.dtype), "c0": dc0}
