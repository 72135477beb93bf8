# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""kbrn_scan in Triton: all steps in one kernel a direction; sums over all steps in parallel.

A program computes all units of some sequences, some rows at a time. Its threads exchange the
vectors of a step in memory, which the first cache holds. Programs that normalize by the batch
exchange counts, means and squared deviations of their rows, or sums of gradients, once a step, and
combine them in the same order, so that two runs give the same bits. They run at the same time,
which a cooperative launch guarantees; where programs run one after another, as in Triton's
interpreter, the end of a step and the beginning of the next are a launch.

In the gradient, the slopes of all steps are known before the loop, so the loop is a product and the
normalization. They are computed from activations in 32 bits: rounded once more, some would be on
the other side of a center.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.gpu import IS_INTERPRETED, ceil_div, power_of_2
from representer.ops.kbrn_scan import Operands, Results
from representer.ops.kbrn_scan import backward as reference_backward
from representer.ops.kernel_activation import triton as expansion
from representer.ops.kernel_activation.triton import green, weight_of
from representer.ops.rkm_scan import stationary
from representer.ops.rkm_scan.stationary import arrive, wait
from representer.ops.steps import accumulator

_ROWS = 16  # fewest sequences of a program
_PROGRAMS = 32  # most of them that normalize by the batch together
_ENTRIES = 2048  # of a step at a time
_LANES = 128  # entries of a warp


@triton.jit
def _rows(first, lengths, time, batch, unit, units, ROWS: tl.constexpr):
    """Return some rows and their lengths, 0 for a row that does not exist; entries and a mask."""
    row = first + tl.arange(0, ROWS)
    length = tl.where(row < batch, time, 0)
    if lengths is not None:
        length = tl.load(lengths + row, mask=row < batch, other=0).to(tl.int32)
    is_there = (row < batch)[:, None] & (unit < units)[None, :]
    return row, length, row[:, None] * units + unit[None, :], is_there


@triton.jit
def _product(x, weight, row, unit, batch, units, total):
    """Return ``total`` plus some rows of x (batch, units) times weight (units, units)."""
    for j in tl.range(0, units, loop_unroll_factor=4):
        left = tl.load(x + row * units + j, mask=row < batch, other=0.0)
        right = tl.load(weight + j * units + unit, mask=unit < units, other=0.0)
        total += left[:, None] * right.to(left.dtype)[None, :]
    return total


@triton.jit
def _pair(x, unit, first, second, is_unit, ACC: tl.constexpr):
    """Return two rows of a table, or 1 and 0 without one."""
    one, other = tl.full(unit.shape, 1.0, ACC), tl.zeros(unit.shape, ACC)
    if x is not None:
        one = tl.load(x + first, mask=is_unit, other=0.0).to(ACC)
        other = tl.load(x + second, mask=is_unit, other=0.0).to(ACC)
    return one, other


@triton.jit
def _publish(sums, turn, first, second, third, unit, units):
    """Write three vectors of this program for all others, at one of two places in turn."""
    to = sums + (turn % 2 * tl.num_programs(0) + tl.program_id(0)) * 3 * units + unit
    tl.store(to, first, mask=unit < units)
    tl.store(to + units, second, mask=unit < units)
    tl.store(to + 2 * units, third, mask=unit < units)


@triton.jit
def _published(sums, turn, unit, units, PROGRAMS: tl.constexpr):
    """Return the three vectors of each program."""
    program = tl.arange(0, PROGRAMS)
    to = sums + (turn % 2 * tl.num_programs(0) + program)[:, None] * 3 * units + unit[None, :]
    is_there = (program < tl.num_programs(0))[:, None] & (unit < units)[None, :]
    first = tl.load(to, mask=is_there, other=0.0, cache_modifier=".cg")
    second = tl.load(to + units, mask=is_there, other=0.0, cache_modifier=".cg")
    third = tl.load(to + 2 * units, mask=is_there, other=0.0, cache_modifier=".cg")
    return first, second, third


@triton.jit(do_not_specialize=["first_turn", "turns", "time", "each", "batch"])
def _forward(
    z, weight, h0, centers, coefficients, line, norm, statistics, lengths, output, last, used,
    normed, exchange, sums, counter, first_turn, turns, time, each, batch, units, count, kind,
    each_step, each_row, each_unit, EPSILON: tl.constexpr, WEIGHT: tl.constexpr,
    GREEN: tl.constexpr, OF_BATCH: tl.constexpr, PROGRAMS: tl.constexpr, SPINS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Take some turns: end the step before, normalized, and begin the next one, up to its sums."""
    unit, entries, begin = (
        tl.arange(0, BLOCK),
        tl.cast(batch, tl.int64) * units,
        tl.program_id(0) * each,
    )
    is_unit, end, kept = unit < units, tl.minimum(begin + each, batch), exchange + 2 * entries
    gain, offset = _pair(norm, unit, unit, units + unit, is_unit, ACC)
    theta, nu = _pair(line, unit, 2 * unit, 2 * unit + 1, is_unit, ACC)
    missed = 0.0
    if first_turn == 0:
        for first in range(begin, end, ROWS):
            row, length, at, is_there = _rows(first, lengths, time, batch, unit, units, ROWS)
            h = tl.load(h0 + at, mask=is_there, other=0.0)
            tl.store(last + at, h, mask=is_there)
            tl.store(exchange + at, h.to(ACC), mask=is_there)
    for turn in range(first_turn if OF_BATCH else 1, turns):
        tl.debug_barrier()
        if (turn > 0) | (not OF_BATCH):  # which the compiler then knows
            t = turn - 1
            step = tl.cast(t, tl.int64)
            here, before = step * entries, exchange + t % 2 * entries
            several = tl.zeros((BLOCK,), ACC)
            own, spread = several, several
            if OF_BATCH:
                if SPINS > 0:
                    missed = wait(counter, turn * tl.num_programs(0), missed, SPINS)
                counts, means, spreads = _published(sums, t, unit, units, PROGRAMS)
                several = tl.sum(counts, 0)
                own = tl.sum(counts * means, 0) / tl.maximum(several, 1.0) + missed
                means -= own[None, :]
                spread = tl.sum(spreads + counts * means * means, 0) / tl.maximum(several, 1.0)
                if tl.program_id(0) == 0:
                    to = used + step * units + unit
                    tl.store(to, tl.where(several > 1.5, own, 0.0), mask=is_unit)
                    of_var = tl.cast(time, tl.int64) * units
                    tl.store(to + of_var, tl.where(several > 1.5, spread, 0.0), mask=is_unit)
            for first in range(begin, end, ROWS):
                row, length, at, is_there = _rows(first, lengths, time, batch, unit, units, ROWS)
                is_real = is_there & (length > t)[:, None]
                if OF_BATCH:
                    a = tl.load(kept + at, mask=is_real, other=0.0)
                else:
                    a = tl.load(z + here + at, mask=is_real, other=0.0).to(ACC)
                    a = _product(before, weight, row, unit, batch, units, a)
                if norm is not None:
                    given = statistics + step * each_step
                    of_given = row[:, None] * each_row + unit[None, :] * each_unit
                    mean = tl.load(given + of_given, mask=is_real, other=0.0).to(ACC)
                    var = tl.load(given + kind + of_given, mask=is_real, other=0.0).to(ACC)
                    if OF_BATCH:
                        mean = tl.where(several[None, :] > 1.5, own[None, :], mean)
                        var = tl.where(several[None, :] > 1.5, spread[None, :], var)
                    a = (a - mean) / tl.sqrt(var + EPSILON)
                a = tl.where(is_real, a, 0.0)
                if normed is not None:
                    to_normed = normed + step * entries + unit[None, :] * batch + row[:, None]
                    tl.store(to_normed, a, mask=is_there)
                a = gain[None, :] * a + offset[None, :]
                fresh = tl.zeros((ROWS, BLOCK), ACC)
                if line is not None:
                    fresh = theta[None, :] * a + nu[None, :]
                for k in tl.range(0, count, loop_unroll_factor=4):
                    c = tl.load(centers + k * units + unit, mask=is_unit, other=0.0).to(ACC)
                    chi = tl.load(coefficients + k * units + unit, mask=is_unit, other=0.0).to(ACC)
                    fresh += chi[None, :] * green(a - c[None, :], WEIGHT, GREEN)
                fresh = tl.where(is_real, fresh, 0.0)
                tl.store(exchange + (t + 1) % 2 * entries + at, fresh, mask=is_there)
                tl.store(output + here + at, fresh, mask=is_there)
                tl.store(last + at, fresh, mask=is_there & (length == t + 1)[:, None])
        if OF_BATCH:
            tl.debug_barrier()
            if turn < time:
                here = tl.cast(turn, tl.int64) * entries
                before = exchange + turn % 2 * entries
                several = tl.zeros((BLOCK,), ACC)
                own, spread = several, several
                for first in range(begin, end, ROWS):
                    row, length, at, is_there = _rows(
                        first, lengths, time, batch, unit, units, ROWS
                    )
                    is_real = is_there & (length > turn)[:, None]
                    a = tl.load(z + here + at, mask=is_real, other=0.0).to(ACC)
                    a = _product(before, weight, row, unit, batch, units, a)
                    a = tl.where(is_real, a, 0.0)
                    tl.store(kept + at, a, mask=is_there)
                    own += tl.sum(a, 0)
                    several += tl.sum((length > turn).to(ACC), 0)
                own = own / tl.maximum(several, 1.0)
                tl.debug_barrier()
                for first in range(begin, end, ROWS):
                    row, length, at, is_there = _rows(
                        first, lengths, time, batch, unit, units, ROWS
                    )
                    is_real = is_there & (length > turn)[:, None]
                    a = tl.load(kept + at, mask=is_real, other=0.0) - own[None, :]
                    spread += tl.sum(tl.where(is_real, a * a, 0.0), 0)
                _publish(sums, turn, several, own, spread, unit, units)
                if SPINS > 0:
                    arrive(counter, missed)


@triton.jit(do_not_specialize=["first_turn", "turns", "time", "each", "batch"])
def _backward(
    grad, grad_last, slopes, normed, used, weight, norm, statistics, lengths, d_output, dz, dh0,
    exchange, sums, counter, first_turn, turns, time, each, batch, units, kind, each_step, each_row,
    each_unit, EPSILON: tl.constexpr, OF_BATCH: tl.constexpr, PROGRAMS: tl.constexpr,
    SPINS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Take some turns: end the step after, normalized, and begin the one before, up to its sums."""
    unit, entries, begin = (
        tl.arange(0, BLOCK),
        tl.cast(batch, tl.int64) * units,
        tl.program_id(0) * each,
    )
    is_unit, end, kept = unit < units, tl.minimum(begin + each, batch), exchange + 2 * entries
    gain, _ = _pair(norm, unit, unit, units + unit, is_unit, ACC)
    missed = 0.0
    if first_turn == 0:
        for first in range(begin, end, ROWS):
            row, length, at, is_there = _rows(first, lengths, time, batch, unit, units, ROWS)
            dh = tl.load(grad_last + at, mask=is_there, other=0.0).to(ACC)
            tl.store(kept + at, dh, mask=is_there)
    for turn in range(first_turn, turns):
        tl.debug_barrier()
        if turn > 0:
            t = time - turn
            step = tl.cast(t, tl.int64)
            here = step * entries
            several = tl.zeros((BLOCK,), ACC)
            mean, slope, own = several, several, several
            if OF_BATCH:
                if SPINS > 0:
                    missed = wait(counter, turn * tl.num_programs(0), missed, SPINS)
                counts, of_mean, of_slope = _published(sums, turn - 1, unit, units, PROGRAMS)
                several = tl.sum(counts, 0)
                mean = tl.sum(of_mean, 0) / tl.maximum(several, 1.0) + missed
                slope = tl.sum(of_slope, 0) / tl.maximum(several, 1.0)
                of_var = (tl.cast(time, tl.int64) + step) * units
                own = tl.load(used + of_var + unit, mask=is_unit, other=0.0).to(ACC)
            if norm is not None:
                for first in range(begin, end, ROWS):
                    row, length, at, is_there = _rows(
                        first, lengths, time, batch, unit, units, ROWS
                    )
                    is_real = is_there & (length > t)[:, None]
                    da = tl.load(exchange + at, mask=is_real, other=0.0)
                    given = statistics + kind + step * each_step
                    of_given = row[:, None] * each_row + unit[None, :] * each_unit
                    var = tl.load(given + of_given, mask=is_real, other=0.0).to(ACC)
                    if OF_BATCH:
                        of_normed = unit[None, :] * batch + row[:, None]
                        n = tl.load(normed + here + of_normed, mask=is_real, other=0.0).to(ACC)
                        through = da - mean[None, :] - n * slope[None, :]
                        da = tl.where(several[None, :] > 1.5, through, da)
                        var = tl.where(several[None, :] > 1.5, own[None, :], var)
                    da = tl.where(is_real, da / tl.sqrt(var + EPSILON), 0.0)
                    tl.store(exchange + at, da, mask=is_there)
                tl.debug_barrier()
            for first in range(begin, end, ROWS):
                row, length, at, is_there = _rows(first, lengths, time, batch, unit, units, ROWS)
                da = tl.load(exchange + at, mask=is_there, other=0.0)
                tl.store(dz + here + at, da, mask=is_there)
                dh = tl.load(kept + at, mask=is_there, other=0.0)
                dh = tl.where((length > t)[:, None], 0.0, dh)
                dh = _product(exchange, weight, row, unit, batch, units, dh)
                tl.store(kept + at, dh, mask=is_there)
                tl.store(dh0 + at, dh, mask=is_there)
            tl.debug_barrier()
        if turn < time:
            t = time - 1 - turn
            here = tl.cast(t, tl.int64) * entries
            several = tl.zeros((BLOCK,), ACC)
            mean, slope = several, several
            for first in range(begin, end, ROWS):
                row, length, at, is_there = _rows(first, lengths, time, batch, unit, units, ROWS)
                is_real = is_there & (length > t)[:, None]
                d = tl.load(grad + here + at, mask=is_real, other=0.0).to(ACC)
                d = tl.where(is_real, d + tl.load(kept + at, mask=is_there, other=0.0), 0.0)
                tl.store(d_output + here + at, d, mask=is_there)
                da = d * tl.load(slopes + here + at, mask=is_real, other=0.0) * gain[None, :]
                if OF_BATCH:
                    of_normed = unit[None, :] * batch + row[:, None]
                    n = tl.load(normed + here + of_normed, mask=is_real, other=0.0).to(ACC)
                    mean += tl.sum(da, 0)
                    slope += tl.sum(da * n, 0)
                    several += tl.sum((length > t).to(ACC), 0)
                tl.store(exchange + at, da, mask=is_there)
            if OF_BATCH:
                _publish(sums, turn, several, mean, slope, unit, units)
                if SPINS > 0:
                    arrive(counter, missed)


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    tables = p.centers.mT.contiguous(), p.coefficients.mT.contiguous()
    kept = [x if x.numel() else None for x in (new.used, new.normed)]
    given = [_contiguous(x) for x in (p.z, p.weight.mT, p.h0, *tables, p.line, p.norm)]
    _launch(
        p, _forward, *given, p.statistics, p.lengths, new.output, new.h, *kept,
        count=p.centers.shape[1], WEIGHT=weight_of(p.bandwidth), GREEN=p.green,
    )  # fmt: skip
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    return reference_backward(
        p, kept, grad, requested, expansion.input_gradient, expansion.table_gradients,
        partial(_through_steps, p, kept, grad), accumulator(p.h0.dtype)[0],
    )  # fmt: skip


def _through_steps(
    p: Operands, kept: Results, grad: Results, slopes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of every output, of z and of h0."""
    d_output, dz = slopes.new_empty(slopes.shape), p.h0.new_empty(slopes.shape)
    dh0 = p.h0.new_empty(p.h0.shape)
    given = [_contiguous(x) for x in (grad.output, grad.h, slopes, kept.normed, kept.used)]
    _launch(
        p, _backward, *given, _contiguous(p.weight), _contiguous(p.norm), p.statistics, p.lengths,
        d_output, dz, dh0,
    )  # fmt: skip
    return d_output, dz, dh0


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _launch(p: Operands, kernel: Any, *arguments: Any, **options: Any) -> None:
    """Launch a kernel, with one program for a batch where a driver runs no more at once."""
    try:
        _launch_once(p, kernel, *arguments, **options)
    except RuntimeError as error:
        if "cooperative" not in str(error) or p.h0.device in stationary.crowded:
            raise
        stationary.crowded.add(p.h0.device)
        _launch_once(p, kernel, *arguments, **options)


def _launch_once(p: Operands, kernel: Any, *arguments: Any, **options: Any) -> None:
    (batch, units), time, device = p.h0.shape, len(arguments[0]), p.h0.device
    block, each = max(16, power_of_2(units)), _ROWS
    if p.uses_batch:
        most = 1 if device in stationary.crowded else _PROGRAMS
        each *= max(1, ceil_div(batch, _ROWS * most))  # an empty batch, too, has a size
    programs, rows = ceil_div(batch, each), min(power_of_2(each), max(_ROWS, _ENTRIES // block))
    count = [options.pop("count")] if "count" in options else []
    strides = (0, 0, 0, 0) if p.statistics is None else p.statistics.stride()
    wide, common = accumulator(p.h0.dtype)
    exchange = p.h0.new_empty(3, batch, units, dtype=wide)
    sums = p.h0.new_empty(2, programs, 3, units, dtype=wide) if p.uses_batch else exchange
    counter = torch.zeros(1, dtype=torch.int32, device=device) if p.uses_batch else None
    is_together = p.uses_batch and programs > 1 and not IS_INTERPRETED
    spans = [(0, time + 1)]
    if p.uses_batch and IS_INTERPRETED:
        spans = [(turn, turn + 1) for turn in range(time + 1)]
    for span in spans if batch and units else []:
        kernel[(programs,)](
            *arguments, exchange, sums, counter, *span, time, each, batch, units, *count, *strides,
            EPSILON=p.epsilon, OF_BATCH=p.uses_batch, PROGRAMS=power_of_2(programs),
            SPINS=stationary.SPINS if is_together else 0, ROWS=rows, BLOCK=block,
            num_warps=min(max(1, rows * block // _LANES), 8), launch_cooperative_grid=is_together,
            **options, **common,
        )  # fmt: skip
