# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""string_scan in Triton: the chain in one kernel a direction, products with the input in BLAS.

See ``reference.py`` for the recurrence and for the equations of its gradient.
Shapes: T time, B batch, n order, P = n plus the gates, S = n or 2 n with the masses, H units.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.common import input_products
from representer.ops.gpu import power_of_2
from representer.ops.steps import (
    clear,
    contiguous,
    grid,
    load_each,
    load_rows,
    load_square,
    load_steps,
    place,
    slope,
    span,
    step,
    value,
    warps_of,
)
from representer.ops.string_scan import stationary
from representer.ops.string_scan.pointwise import advance, joined, of_longer, of_readout, readout
from representer.ops.string_scan.reference import Operands, Results, finish

MOST_UNITS = 128  # with a gate on h, whose weight the registers of a program hold


@triton.jit(do_not_specialize=["time", "position", "batch"])
def _forward(
    z, decay, h0, c0, carry, mask, lengths, weight, out, h_last, c_last, states, position, time,
    batch, units,
    N: tl.constexpr, S: tl.constexpr, P: tl.constexpr, COMBINE: tl.constexpr, PAPER: tl.constexpr,
    EXACT: tl.constexpr, SUMS: tl.constexpr, DECAY: tl.constexpr, HIGHWAY: tl.constexpr,
    SIGMA: tl.constexpr, KEEP: tl.constexpr, REVERSE: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    row, unit, steps, length = place(lengths, time, units, BLOCK)
    at, is_unit = row * units + unit, unit < units
    stride = tl.cast(batch, tl.int64) * units
    z_at, s_at = z + row * P * units + unit, row * S * units + unit
    c = load_rows(c0 + s_at, S, units, is_unit, ACC)
    h = tl.load(h0 + at, mask=is_unit, other=0.0).to(ACC)
    if weight is not None:
        tile = load_square(weight, units, BLOCK, ACC)
    if DECAY < 2:
        lam = tl.load(decay + unit * DECAY, mask=is_unit, other=0.0).to(ACC)
    k_mask = tl.full((BLOCK,), 1.0, ACC)
    if mask is not None:
        k_mask = tl.load(mask + at, mask=is_unit, other=0.0).to(ACC)
    begin, end = span(position, length, REVERSE)
    for first in range(begin, end, CHUNK):
        zs = load_each(z_at, P, first, length, steps, stride, units, REVERSE, CHUNK, ACC)
        if HIGHWAY:
            xs = load_steps(carry + at, first, length, steps, stride, REVERSE, CHUNK, ACC)
        for k in tl.static_range(CHUNK):
            is_real = steps > first + k
            to = step(first + k, length, REVERSE) * tl.cast(stride, tl.int64)
            tokens = ()
            for j in tl.static_range(N):
                tokens = tokens + (zs[j][k],)
            if DECAY == 2:
                lam = zs[N][k]
                if weight is not None:
                    lam += tl.sum(tile * (k_mask * h)[:, None], 0)
                lam = tl.sigmoid(lam)
                if KEEP:
                    tl.store(z_at + N * units + to * P, lam, mask=is_real)
            after = advance(tokens, lam, c, N, S, COMBINE, PAPER)
            y = value(readout(after, N, EXACT, SUMS), SIGMA)
            if HIGHWAY:
                gate = tl.sigmoid(zs[P - 1][k])
                if KEEP:
                    tl.store(z_at + (P - 1) * units + to * P, gate, mask=is_real)
                y = xs[k] + gate * (k_mask * y - xs[k])
            h = tl.where(is_real, y, h)
            tl.store(out + at + to, y, mask=is_real)
            kept = ()
            for j in tl.static_range(S):
                kept = kept + (tl.where(is_real, after[j], c[j]),)
                if KEEP:
                    tl.store(states + s_at + j * units + to * S, after[j], mask=is_real)
            c = kept
    tl.store(h_last + at, h, mask=is_unit)
    for j in tl.static_range(S):
        tl.store(c_last + s_at + j * units, c[j], mask=is_unit)
        if KEEP and position is None:
            clear(states + s_at + j * units, length, time, stride * S, is_unit, BLOCK)
    if position is None:
        clear(out + at, length, time, stride, is_unit, BLOCK)


@triton.jit(do_not_specialize=["time", "position", "batch"])
def _backward(
    grad, grad_h, grad_c, z, states, decay, c0, carry, mask, lengths, weight, dz, d_carry, dh0,
    dc0, d_decay, position, time, batch, units,
    N: tl.constexpr, S: tl.constexpr, P: tl.constexpr, COMBINE: tl.constexpr, PAPER: tl.constexpr,
    EXACT: tl.constexpr, SUMS: tl.constexpr, DECAY: tl.constexpr, HIGHWAY: tl.constexpr,
    SIGMA: tl.constexpr, REVERSE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    row, unit, steps, length = place(lengths, time, units, BLOCK)
    at, is_unit = row * units + unit, unit < units
    stride = tl.cast(batch, tl.int64) * units
    z_at, s_at = row * P * units + unit, row * S * units + unit
    BACK: tl.constexpr = not REVERSE  # gradients flow against the recurrence
    start = load_rows(c0 + s_at, S, units, is_unit, ACC)
    g = load_rows(grad_c + s_at, S, units, is_unit, ACC)
    to_h = tl.load(grad_h + at, mask=is_unit, other=0.0).to(ACC)
    if DECAY < 2:
        lam = tl.load(decay + unit * DECAY, mask=is_unit, other=0.0).to(ACC)
        total = tl.zeros((BLOCK,), ACC)
    if weight is not None:
        tile = load_square(weight, units, BLOCK, ACC)
    k_mask = tl.full((BLOCK,), 1.0, ACC)
    if mask is not None:
        k_mask = tl.load(mask + at, mask=is_unit, other=0.0).to(ACC)
    begin, end = span(position, length, BACK)
    for first in range(begin, end, CHUNK):
        es = load_steps(grad + at, first, length, steps, stride, BACK, CHUNK, ACC)
        zs = load_each(z + z_at, P, first, length, steps, stride, units, BACK, CHUNK, ACC)
        before = load_each(
            states + s_at, S, first + 1, length, steps, stride, units, BACK, CHUNK, ACC
        )
        if HIGHWAY:
            xs = load_steps(carry + at, first, length, steps, stride, BACK, CHUNK, ACC)
        for k in tl.static_range(CHUNK):
            is_real, is_first = steps > first + k, length == first + k + 1
            to = step(first + k, length, BACK) * tl.cast(stride, tl.int64)
            to_z = dz + z_at + to * P
            tokens, c = (), ()
            for j in tl.static_range(N):
                tokens = tokens + (zs[j][k],)
            for j in tl.static_range(S):
                c = c + (tl.where(is_first, start[j], before[j][k]),)
            if DECAY == 2:
                lam = zs[N][k]
            after = advance(tokens, lam, c, N, S, COMBINE, PAPER)
            s = readout(after, N, EXACT, SUMS)
            y = value(s, SIGMA)
            e = es[k] + to_h
            to_h = tl.where(is_real, 0.0, to_h)
            if HIGHWAY:
                gate, x = zs[P - 1][k], xs[k]
                tl.store(d_carry + at + to, e * (1 - gate), mask=is_real)
                of_gate = e * (k_mask * y - x) * gate * (1 - gate)
                tl.store(to_z + (P - 1) * units, of_gate, mask=is_real)
                e = e * gate * k_mask
            d = e * slope(s, y, SIGMA)
            q = of_readout(d, g, after, N, S, EXACT, SUMS)
            w = 1 - lam if PAPER else tl.full((BLOCK,), 1.0, ACC)
            d_lam, kept = tl.zeros((BLOCK,), ACC), ()
            for j in tl.static_range(S):
                d_lam += q[j] * c[j]
                if PAPER:
                    d_lam -= q[j] * joined(tokens, c, j, N, COMBINE)
                to_c = lam * q[j] + w * of_longer(tokens, q, j, N, COMBINE)
                kept = kept + (tl.where(is_real, to_c, g[j]),)
            for j in tl.static_range(N):
                of_token = w * q[j]
                if j > 0 and COMBINE != "add":
                    of_token *= c[j - 1] if COMBINE == "multiply" else c[N + j - 1]
                tl.store(to_z + j * units, of_token, mask=is_real)
            if DECAY == 2:
                d_gate = d_lam * lam * (1 - lam)
                tl.store(to_z + N * units, d_gate, mask=is_real)
                if weight is not None:
                    d_gate = tl.where(is_real, d_gate, 0.0)
                    to_h += k_mask * tl.sum(tile * d_gate[:, None], 0)
            else:
                total = tl.where(is_real, total + d_lam, total)
            g = kept
    tl.store(dh0 + at, to_h, mask=is_unit)
    for j in tl.static_range(S):
        tl.store(dc0 + s_at + j * units, g[j], mask=is_unit)
    if position is None:
        for j in tl.static_range(P):
            clear(dz + z_at + j * units, length, time, stride * P, is_unit, BLOCK)
        if HIGHWAY:
            clear(d_carry + at, length, time, stride, is_unit, BLOCK)
    if DECAY < 2:
        tl.store(d_decay + at, total, mask=is_unit)


def _constants(p: Operands) -> dict[str, Any]:
    """Return the constants of a chain."""
    chain = p.chain
    return {
        "N": chain.order,
        "S": chain.states,
        "P": len(chain.products),
        "COMBINE": chain.combine,
        "PAPER": chain.normalized == "paper",
        "EXACT": chain.normalized == "exact",
        "SUMS": chain.readout == "sum",
        "DECAY": 2 if p.decay is None else p.decay.dim(),
        "HIGHWAY": chain.highway,
        "SIGMA": chain.activation,
        "REVERSE": p.reverse,
    }


def _grid(p: Operands, z: Tensor, loads: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid of a launch: over all steps, or over one where h is multiplied in between."""
    time, batch, _, units = z.shape
    size, options = grid((1 if is_by_step(p) else time, batch, units), z.dtype, loads)
    if p.weight is not None and not is_by_step(p):  # a program has all units
        block = power_of_2(max(units, 1))
        options |= {"BLOCK": block, "CHUNK": min(time, 2), "num_warps": warps_of(block, 1)}
        size = batch if units else 0, 1
    return size, options


def is_by_step(p: Operands) -> bool:
    """Return True if every step needs a product in BLAS, of which no kernel takes the weight."""
    return p.weight is not None and bool(_refuses_whole(p) and stationary.refuses_chain(p))


def _refuses_whole(p: Operands) -> str:
    units = p.h0.shape[1]
    return (
        "" if units <= MOST_UNITS else f"{units} units with a gate on h are more than {MOST_UNITS}"
    )


def _positions(p: Operands, time: int, *, is_backward: bool) -> Iterable[int | None]:
    """Return None for one launch over all steps, or the steps of launches between products."""
    if not is_by_step(p):
        return (None,)
    return reversed(range(time)) if p.reverse != is_backward else range(time)


def describe(p: Operands) -> str:
    """Return which kernels run a call with a gate on h, and why not faster ones."""
    if p.weight is None or not (reason := _refuses_whole(p)):
        return "all steps in one kernel"
    if not (other := stationary.refuses_chain(p)):
        return f"all steps in one kernel, with the weights on the chip: {reason}"
    return f"a kernel a step: {reason}; {other}"


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    z = p.x.contiguous()
    if p.input_weight is not None:
        z = input_products(p.x, p.input_weight, None)
        if p.bias is not None:
            z[:, :, -len(p.bias) :].add_(p.bias)
    elif p.keep or p.weight is not None:
        z = p.x.clone(memory_format=torch.contiguous_format)  # gates are written to it
    if p.weight is not None and _refuses_whole(p) and not is_by_step(p):
        new = stationary.forward(p, z, new, _constants(p))
        return new._replace(products=z) if p.keep else new
    size, options = _grid(p, z, z.shape[2] + p.chain.highway)
    weight = None if p.weight is None or is_by_step(p) else p.weight.mT
    decay, h, c, *others = contiguous(p.decay, p.h0, p.c0, p.carried, p.mask, p.lengths, weight)
    for t in _positions(p, len(z), is_backward=False):
        if t is None:
            h_new, c_new = new.h, new.c
        elif t == (len(z) - 1 if p.reverse else 0):
            h, c = h.clone(), c.clone()
            h_new, c_new = h, c  # in place: a unit reads them before it writes them
            new.output.zero_()
            new.states.zero_()
        if t is not None:
            z[t, :, p.chain.order].addmm_(h if p.mask is None else p.mask * h, p.weight.t())
        if 0 not in size:
            _forward[size](
                z, decay, h, c, *others, new.output, h_new, c_new, new.states, t,
                *new.output.shape, KEEP=p.keep, **_constants(p), **options,
            )  # fmt: skip
    if is_by_step(p):
        new = new._replace(h=h, c=c)
    return new._replace(products=z) if p.keep else new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    z, h0 = kept.products, p.h0
    dz, to_h, to_c = torch.empty_like(z), z.new_empty(h0.shape), z.new_empty(p.c0.shape)
    d_carry = torch.empty_like(kept.output) if p.chain.highway else None
    exact = torch.promote_types(z.dtype, torch.float32)
    d_decay = None if p.decay is None else z.new_empty(h0.shape, dtype=exact)
    loads = 1 + z.shape[2] + p.c0.shape[1] + p.chain.highway
    size, options = _grid(p, z, loads)
    weight = None if is_by_step(p) else p.weight
    upstream, g_h, g_c, z, states, decay, c0, *others = contiguous(
        grad.output, grad.h, grad.c, z, kept.states, p.decay, p.c0, p.carried, p.mask, p.lengths,
        weight,
    )  # fmt: skip
    if p.weight is not None and _refuses_whole(p) and not is_by_step(p):
        read = upstream, g_h, g_c, z, states, c0, *others
        found = stationary.backward(p, read, (dz, d_carry), _constants(p))
        return found | finish(p, kept, dz, d_carry, None, "x" in requested, transpose=None)
    if is_by_step(p):
        g_h, g_c = to_h.copy_(g_h), to_c.copy_(g_c)  # updated in place
        dz.zero_()
        if d_carry is not None:
            d_carry.zero_()
    for t in _positions(p, len(z), is_backward=True):
        if 0 not in size:
            _backward[size](
                upstream, g_h, g_c, z, states, decay, c0, *others, dz, d_carry, to_h, to_c,
                d_decay, t, *kept.output.shape, **_constants(p), **options,
            )  # fmt: skip
        if t is not None:
            of_h = dz[t, :, p.chain.order] @ p.weight
            to_h += of_h if p.mask is None else p.mask * of_h
    found = finish(p, kept, dz, d_carry, d_decay, "x" in requested, transpose=None)
    if p.decay is not None:
        found["decay"] = found["decay"].to(p.decay.dtype)
    return {"h0": to_h, "c0": to_c} | found
