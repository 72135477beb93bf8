# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""string_scan with a gate on h, in Triton: all steps in one kernel, with the weights on the chip.

A program has 64 rows of the weight in shared memory and computes these units of a group of
sequences. The programs of a group exchange h, or its masked values, after every step, as those of
``rkm_scan/stationary.py`` do, whose parts these kernels use.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.gpu import IS_INTERPRETED
from representer.ops.rkm_scan.on_chip import (
    add_parts,
    arrive,
    edge_of,
    load_tiles,
    multiply,
    place,
    store_parts,
    wait,
)
from representer.ops.rkm_scan.pointwise import load
from representer.ops.rkm_scan.stationary import (
    filled,
    gradient_exchange,
    plan,
    refuses,
    spans,
    wide,
)
from representer.ops.steps import contiguous, load_rows, slope, value
from representer.ops.string_scan.pointwise import advance, joined, of_longer, of_readout, readout
from representer.ops.string_scan.reference import Operands, Results


def refuses_chain(p: Operands) -> str:
    """Return why these kernels do not run a call, or "" if they do."""
    return refuses(_as_cell(p))


def _as_cell(p: Operands) -> Any:
    """Return what the size of a launch depends on, as operands of a cell of one gate."""
    return SimpleNamespace(
        z=p.x, h0=p.h0, weight=p.weight[None], norm=None, reverse=p.reverse, cell=None
    )


@triton.jit
def _lengths(lengths, row, time, batch, ROWS: tl.constexpr):
    length = tl.full((ROWS,), 0, tl.int64) + time
    if lengths is not None:
        length = tl.load(lengths + row, mask=row < batch, other=0).to(tl.int64)
    return length


@triton.jit
def _mask(mask, at, is_there, UNITS: tl.constexpr, ROWS: tl.constexpr):
    if mask is not None:
        return load(mask, at, is_there, tl.float32)
    else:
        return tl.full((UNITS, ROWS), 1.0, tl.float32)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "groups"])
def _forward(
    z, exchanged, h0, c0, h_last, c_last, weight, carry, mask, lengths, out, states, counters,
    begin, end, time, batch, groups, units, FIRST: tl.constexpr,
    N: tl.constexpr, S: tl.constexpr, P: tl.constexpr, COMBINE: tl.constexpr, PAPER: tl.constexpr,
    EXACT: tl.constexpr, SUMS: tl.constexpr, HIGHWAY: tl.constexpr, SIGMA: tl.constexpr,
    KEEP: tl.constexpr, REVERSE: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr,
    UNITS: tl.constexpr, CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, RESIDENT: tl.constexpr,
    SPINS: tl.constexpr, UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Take some steps, from h0 and c0 or from h_last and c_last: gates in z take their values.

    exchanged[i + 1] is h after step i.
    """
    ACC: tl.constexpr = tl.float32
    WIDTH: tl.constexpr = FIRSTS[-1] + CHUNKS[-1]
    stride = tl.cast(batch, tl.int64) * units
    tiles = load_tiles(
        weight, units, 1, SLOTS, UNITS, CHUNKS, FIRSTS, RESIDENT, 0, RESIDENT, False, UPCAST
    )
    missed = 0.0
    for group in range(tl.program_id(1), groups, tl.num_programs(1)):
        unit, row, is_there, at = place(group, batch, units, ROWS, UNITS)
        is_row, length = (row < batch)[None, :], _lengths(lengths, row, time, batch, ROWS)
        of_z = row[None, :] * (P * units) + unit[:, None]
        of_s = row[None, :] * (S * units) + unit[:, None]
        k_mask = _mask(mask, at, is_there, UNITS, ROWS)
        is_read, counter = (unit < edge_of(units))[:, None] & is_row, counters + group
        h = load(h0 if FIRST else h_last, at, is_there, ACC)
        c = load_rows((c0 if FIRST else c_last) + of_s, S, units, is_there, ACC)
        if FIRST:
            tl.store(exchanged + row[None, :] * WIDTH + unit[:, None], k_mask * h, mask=is_read)
            if SPINS > 0:
                arrive(counter, missed)
        first = tl.cast(time - 1 - begin if REVERSE else begin, tl.int64) * stride * P
        loaded = load_rows(z + of_z + first, P, units, is_there, ACC)
        for i in range(begin, end):
            t = time - 1 - i if REVERSE else i
            to = tl.cast(t, tl.int64) * stride
            before = exchanged + (tl.cast(i, tl.int64) * batch + row[None, :]) * WIDTH
            is_real = is_there & (t < length)[None, :]
            if HIGHWAY:
                x = load(carry, at + to, is_real, ACC)
            if SPINS > 0:
                missed = wait(counter, (i + 1) * tl.num_programs(0), missed, SPINS)
            fed = multiply(
                tiles, weight, before, is_row, units, 1, SLOTS, UNITS, CHUNKS, FIRSTS, ROWS,
                UPCAST, PRECISION,
            )  # fmt: skip
            lam, tokens = tl.sigmoid(loaded[N] + fed + missed), ()
            for j in tl.static_range(N):
                tokens = tokens + (loaded[j],)
            after = advance(tokens, lam, c, N, S, COMBINE, PAPER)
            y = value(readout(after, N, EXACT, SUMS), SIGMA)
            if HIGHWAY:
                gate = tl.sigmoid(loaded[P - 1])
                y = x + gate * (k_mask * y - x)
            h = tl.where(is_real, y, h)
            following = before + unit[:, None] + batch.to(tl.int64) * WIDTH
            tl.store(following, k_mask * h, mask=is_read)
            if SPINS > 0:  # what follows is not read by other programs
                arrive(counter, missed)
            tl.store(out + at + to, tl.where(is_real, y, 0.0), mask=is_there)
            kept = ()
            for j in tl.static_range(S):
                kept = kept + (tl.where(is_real, after[j], c[j]),)
                if KEEP:
                    real = tl.where(is_real, after[j], 0.0)
                    tl.store(states + of_s + j * units + to * S, real, mask=is_there)
            if KEEP:
                tl.store(z + of_z + N * units + to * P, lam, mask=is_real)
                if HIGHWAY:
                    tl.store(z + of_z + (P - 1) * units + to * P, gate, mask=is_real)
            c, ahead = kept, to - stride if REVERSE else to + stride
            is_next = is_there & (row * 0 + i + 1 < end)[None, :]
            loaded = load_rows(z + of_z + ahead * P, P, units, is_next, ACC)
        tl.store(h_last + at, h, mask=is_there)
        for j in tl.static_range(S):
            tl.store(c_last + of_s + j * units, c[j], mask=is_there)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "groups"])
def _backward(
    grad, grad_h, grad_c, z, states, c0, carry, mask, lengths, weight, dz, d_carry, to_h, to_c,
    parts, counters, begin, end, time, batch, groups, units, FIRST: tl.constexpr,
    LAST: tl.constexpr,
    N: tl.constexpr, S: tl.constexpr, P: tl.constexpr, COMBINE: tl.constexpr, PAPER: tl.constexpr,
    EXACT: tl.constexpr, SUMS: tl.constexpr, HIGHWAY: tl.constexpr, SIGMA: tl.constexpr,
    REVERSE: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr, UNITS: tl.constexpr,
    CHUNKS: tl.constexpr, FIRSTS: tl.constexpr, RESIDENT: tl.constexpr, SOURCES: tl.constexpr,
    AT_ONCE: tl.constexpr, SPINS: tl.constexpr, UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Go some steps back: to_h and to_c become the gradients before, at last with all parts."""
    ACC: tl.constexpr = tl.float32
    WIDTH: tl.constexpr = FIRSTS[-1] + CHUNKS[-1]
    stride = tl.cast(batch, tl.int64) * units
    of_row = tl.arange(0, ROWS)[None, :] * WIDTH
    tiles = load_tiles(
        weight, units, 1, SLOTS, UNITS, CHUNKS, FIRSTS, RESIDENT, 0, RESIDENT, True, UPCAST
    )
    missed = 0.0
    for group in range(tl.program_id(1), groups, tl.num_programs(1)):
        unit, row, is_there, at = place(group, batch, units, ROWS, UNITS)
        length = _lengths(lengths, row, time, batch, ROWS)
        of_z = row[None, :] * (P * units) + unit[:, None]
        of_s = row[None, :] * (S * units) + unit[:, None]
        k_mask = _mask(mask, at, is_there, UNITS, ROWS)
        start = load_rows(c0 + of_s, S, units, is_there, ACC)
        h_t = load(grad_h if FIRST else to_h, at, is_there, ACC)
        g = load_rows((grad_c if FIRST else to_c) + of_s, S, units, is_there, ACC)
        for i in range(begin, end):
            t = i if REVERSE else time - 1 - i
            to = tl.cast(t, tl.int64) * stride
            is_real = is_there & (t < length)[None, :]
            is_first = (t == length - 1 if REVERSE else length * 0 + t == 0)[None, :]
            earlier = states + of_s + (to + stride if REVERSE else to - stride) * S
            e = load(grad, at + to, is_real, ACC)
            zs = load_rows(z + of_z + to * P, P, units, is_real, ACC)
            before = load_rows(earlier, S, units, is_real & (is_first == 0), ACC)
            if HIGHWAY:
                x = load(carry, at + to, is_real, ACC)
            if SPINS > 0:
                target = (i - begin) * tl.num_programs(0)
                missed = wait(counters + group, target, missed, SPINS)
            source = (tl.cast((i + 1) % 2, tl.int64) * groups + group) * SOURCES
            of_unit = parts + source * (WIDTH * ROWS) + of_row + unit[:, None]
            fed = add_parts(of_unit, WIDTH * ROWS, SOURCES, AT_ONCE, UNITS, ROWS)
            h_t += k_mask * (fed + missed)
            tokens, c = (), ()
            for j in tl.static_range(N):
                tokens = tokens + (zs[j],)
            for j in tl.static_range(S):
                c = c + (tl.where(is_first, start[j], before[j]),)
            lam = zs[N]
            after = advance(tokens, lam, c, N, S, COMBINE, PAPER)
            s = readout(after, N, EXACT, SUMS)
            y = value(s, SIGMA)
            e += h_t
            h_t = tl.where(is_real, 0.0, h_t)
            if HIGHWAY:
                gate = zs[P - 1]
                of_carry = e * (1 - gate)
                of_gate = e * (k_mask * y - x) * gate * (1 - gate)
                e = e * gate * k_mask
            q = of_readout(e * slope(s, y, SIGMA), g, after, N, S, EXACT, SUMS)
            w = 1 - lam if PAPER else tl.full((UNITS, ROWS), 1.0, ACC)
            d_lam, kept = tl.zeros((UNITS, ROWS), ACC), ()
            for j in tl.static_range(S):
                d_lam += q[j] * c[j]
                if PAPER:
                    d_lam -= q[j] * joined(tokens, c, j, N, COMBINE)
                of_c = lam * q[j] + w * of_longer(tokens, q, j, N, COMBINE)
                kept = kept + (tl.where(is_real, of_c, g[j]),)
            d_lam = tl.where(is_real, d_lam * lam * (1 - lam), 0.0)
            target_parts = (tl.cast(i % 2, tl.int64) * groups + group) * SOURCES + tl.program_id(0)
            part = parts + target_parts * (WIDTH * ROWS) + of_row
            store_parts(
                part, tiles, weight, d_lam, units, 1, SLOTS, UNITS, CHUNKS, FIRSTS, UPCAST,
                PRECISION,
            )  # fmt: skip
            if SPINS > 0:
                arrive(counters + group, missed)
            to_z = dz + of_z + to * P
            for j in tl.static_range(N):
                of_token = w * q[j]
                if j > 0 and COMBINE != "add":
                    of_token *= c[j - 1] if COMBINE == "multiply" else c[N + j - 1]
                tl.store(to_z + j * units, tl.where(is_real, of_token, 0.0), mask=is_there)
            tl.store(to_z + N * units, d_lam, mask=is_there)
            if HIGHWAY:
                tl.store(to_z + (P - 1) * units, tl.where(is_real, of_gate, 0.0), mask=is_there)
                tl.store(d_carry + at + to, tl.where(is_real, of_carry, 0.0), mask=is_there)
            g = kept
        if LAST:
            if SPINS > 0:
                missed = wait(counters + group, end * tl.num_programs(0), missed, SPINS)
            source = (tl.cast((end + 1) % 2, tl.int64) * groups + group) * SOURCES
            of_unit = parts + source * (WIDTH * ROWS) + of_row + unit[:, None]
            fed = add_parts(of_unit, WIDTH * ROWS, SOURCES, AT_ONCE, UNITS, ROWS)
            h_t += k_mask * (fed + missed)
        tl.store(to_h + at, h_t, mask=is_there)
        for j in tl.static_range(S):
            tl.store(to_c + of_s + j * units, g[j], mask=is_there)


def forward(p: Operands, z: Tensor, new: Results, constants: dict[str, Any]) -> Results:
    """Fill in the results; gates in z take their values if they are kept."""
    (time, batch, _, units), (grid, groups, options) = z.shape, _plan(p, constants)
    exchanged = z.new_empty(time + 1, batch, sum(options["CHUNKS"]))
    h, c = wide(new.h), wide(new.c)
    given = (
        contiguous(p.h0, p.c0),
        contiguous(filled(p.weight, options), p.carried, p.mask, p.lengths),
    )
    counters = torch.zeros(groups, dtype=torch.int32, device=z.device)
    for begin, end in spans(time):
        _forward[grid](
            z, exchanged, *given[0], h, c, *given[1], new.output, new.states, counters, begin, end,
            time, batch, groups, units, FIRST=begin == 0, KEEP=p.keep, **options,
        )  # fmt: skip
    return new._replace(h=h.to(z.dtype), c=c.to(z.dtype))


def backward(
    p: Operands, read: tuple[Any, ...], written: tuple[Any, ...], constants: dict[str, Any]
) -> dict[str, Tensor]:
    """Write the gradients of the products and of the carry, and return those of h0 and c0."""
    (*others, weight), (dz, d_carry) = read, written
    grid, groups, options = _plan(p, constants, is_backward=True)
    time, batch, _, units = dz.shape
    counters, parts, counts = gradient_exchange(p.h0, grid[0], groups, options)
    to_h, to_c = (wide(dz.new_empty(x.shape)) for x in (p.h0, p.c0))
    for begin, end in spans(time, is_backward=True):
        _backward[grid](
            *others, filled(weight, options), dz, d_carry, to_h, to_c, parts, counters, begin, end,
            time, batch, groups, units, FIRST=begin == 0,
            LAST=begin == time or not IS_INTERPRETED, **counts, **options,
        )  # fmt: skip
    return {"h0": to_h.to(dz.dtype), "c0": to_c.to(dz.dtype)}


def _plan(
    p: Operands, constants: dict[str, Any], **options: bool
) -> tuple[tuple[int, int, int], int, dict[str, Any]]:
    grid, groups, options = plan(_as_cell(p), **options)
    options = {name: x for name, x in constants.items() if name != "DECAY"} | options
    return grid, groups, options
