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
from representer.ops.steps import (
    clear,
    grid,
    load_each,
    load_rows,
    load_steps,
    place,
    slope,
    span,
    step,
    value,
)
from representer.ops.string_scan.reference import Operands, Results, finish

# The arithmetic of one step of a string-kernel chain and of its gradient, for Triton kernels.
#
# ``reference.py`` has the equations. Tuples hold the n states and, in chains with masses, these
# after them: c before the step, ``after`` after it, and q their gradients.


@triton.jit
def joined(tokens, c, j: tl.constexpr, N: tl.constexpr, COMBINE: tl.constexpr):
    """Return the term that a step adds to the j-th state, or mass from the n-th on."""
    if j < N:
        joined = tokens[j]
        if j > 0:
            if COMBINE == "multiply":
                joined = joined * c[j - 1]
            elif COMBINE == "add":
                joined = joined + c[j - 1]
            else:
                joined = joined * c[N + j - 1] + c[j - 1]
    elif j > N:
        joined = c[j - 1]
    else:
        joined = tl.full(c[0].shape, 1.0, c[0].dtype)
    return joined


@triton.jit
def advance(
    tokens, lam, c, N: tl.constexpr, S: tl.constexpr, COMBINE: tl.constexpr, PAPER: tl.constexpr
):
    """Return states and masses of step t from those of step t - 1."""
    new = ()
    for j in tl.static_range(S):
        term = joined(tokens, c, j, N, COMBINE)
        new = new + (lam * c[j] + (term * (1 - lam) if PAPER else term),)
    return new


@triton.jit
def inverse(mass):
    """Return 1 / m, or 0 for no mass."""
    return tl.where(mass == 0, 0.0, 1 / tl.where(mass == 0, 1.0, mass))


@triton.jit
def readout(c, N: tl.constexpr, EXACT: tl.constexpr, SUMS: tl.constexpr):
    """Return c_n, or the sum of all c_j, divided by their masses if ``EXACT``."""
    s = c[N - 1] * inverse(c[2 * N - 1]) if EXACT else c[N - 1]
    if SUMS:
        for j in tl.static_range(N - 1):
            s = s + (c[j] * inverse(c[N + j]) if EXACT else c[j])
    return s


@triton.jit
def of_readout(
    d, g, after, N: tl.constexpr, S: tl.constexpr, EXACT: tl.constexpr, SUMS: tl.constexpr
):
    """Add the gradient d of the readout to those of states and masses."""
    q = ()
    for j in tl.static_range(S):
        grown = g[j]
        if SUMS or j % N == N - 1:
            if EXACT:
                part = d * inverse(after[N + j % N])
                grown += part if j < N else -part * after[j - N] * inverse(after[j])
            elif j < N:
                grown += d
        q = q + (grown,)
    return q


@triton.jit
def of_longer(tokens, q, j: tl.constexpr, N: tl.constexpr, COMBINE: tl.constexpr):
    """Return the gradient of the j-th state or mass through the next longer ones, but for w."""
    found = tl.zeros_like(q[j])
    if j % N < N - 1:
        found = q[j + 1]
        if j >= N and COMBINE == "add_exact":
            found += q[j + 1 - N] * tokens[j + 1 - N]
        elif j < N and COMBINE == "multiply":
            found *= tokens[j + 1]
    return found


@triton.jit(do_not_specialize=["time", "position"])
def _forward(
    z, decay, h0, c0, carry, mask, lengths, out, h_last, c_last, states, position, time, batch,
    units,
    N: tl.constexpr, S: tl.constexpr, P: tl.constexpr, COMBINE: tl.constexpr, PAPER: tl.constexpr,
    EXACT: tl.constexpr, SUMS: tl.constexpr, DECAY: tl.constexpr, HIGHWAY: tl.constexpr,
    SIGMA: tl.constexpr, KEEP: tl.constexpr, REVERSE: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    row, unit, steps, length = place(lengths, time, units, BLOCK)
    at, stride, is_unit = row * units + unit, batch * units, unit < units
    z_at, s_at = z + row * P * units + unit, row * S * units + unit
    c = load_rows(c0 + s_at, S, units, is_unit, ACC)
    h = tl.load(h0 + at, mask=is_unit, other=0.0).to(ACC)
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
                lam = tl.sigmoid(zs[N][k])
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


@triton.jit(do_not_specialize=["time", "position"])
def _backward(
    grad, grad_h, grad_c, z, states, decay, c0, carry, mask, lengths, dz, d_carry, dh0, dc0,
    d_decay, position, time, batch, units,
    N: tl.constexpr, S: tl.constexpr, P: tl.constexpr, COMBINE: tl.constexpr, PAPER: tl.constexpr,
    EXACT: tl.constexpr, SUMS: tl.constexpr, DECAY: tl.constexpr, HIGHWAY: tl.constexpr,
    SIGMA: tl.constexpr, REVERSE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    row, unit, steps, length = place(lengths, time, units, BLOCK)
    at, stride, is_unit = row * units + unit, batch * units, unit < units
    z_at, s_at = row * P * units + unit, row * S * units + unit
    BACK: tl.constexpr = not REVERSE  # gradients flow against the recurrence
    start = load_rows(c0 + s_at, S, units, is_unit, ACC)
    g = load_rows(grad_c + s_at, S, units, is_unit, ACC)
    to_h = tl.load(grad_h + at, mask=is_unit, other=0.0).to(ACC)
    if DECAY < 2:
        lam = tl.load(decay + unit * DECAY, mask=is_unit, other=0.0).to(ACC)
        total = tl.zeros((BLOCK,), ACC)
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
                tl.store(to_z + N * units, d_lam * lam * (1 - lam), mask=is_real)
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


def _contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if x is None else x.contiguous() for x in tensors]


def _grid(p: Operands, z: Tensor, loads: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid of a launch: over all steps, or over one where h is multiplied in between."""
    time, batch, _, units = z.shape
    return grid((1 if p.chain.is_state_gated else time, batch, units), z.dtype, loads)


def _positions(p: Operands, time: int, *, is_backward: bool) -> Iterable[int | None]:
    """Return None for one launch over all steps, or the steps of launches between products."""
    if not p.chain.is_state_gated:
        return (None,)
    return reversed(range(time)) if p.reverse != is_backward else range(time)


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    z = p.x.contiguous()
    if p.input_weight is not None:
        z = input_products(p.x, p.input_weight, None)
        if p.bias is not None:
            z[:, :, -len(p.bias) :] += p.bias
    elif p.keep or p.chain.is_state_gated:
        z = p.x.clone(memory_format=torch.contiguous_format)  # gates are written to it
    size, options = _grid(p, z, z.shape[2] + p.chain.highway)
    decay, h, c, *others = _contiguous(p.decay, p.h0, p.c0, p.carried, p.mask, p.lengths)
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
    if p.chain.is_state_gated:
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
    upstream, g_h, g_c, z, states, decay, c0, *others = _contiguous(
        grad.output, grad.h, grad.c, z, kept.states, p.decay, p.c0, p.carried, p.mask, p.lengths
    )
    if p.chain.is_state_gated:
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
    found = finish(p, kept, dz, d_carry, d_decay, "x" in requested)
    if p.decay is not None:
        found["decay"] = found["decay"].to(p.decay.dtype)
    return {"h0": to_h, "c0": to_c} | found
