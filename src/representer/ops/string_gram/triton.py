# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""The Gram matrix of the string kernel in Triton: the recurrences of all pairs in one kernel.

A lane has one of the sequences y, and a program the recurrence of ``csrc/string_gram.hpp`` for one
x and all its lanes, some steps of x at a time, whose states stay in registers. Those of the last of
them, of all steps of y, are in memory, which a program reuses for its next x. The y of a group of
lanes are sorted by length, and padded at their beginning once, so that all of them end together.

Tokens are compared in the kernel. Similarities of vectors are computed first, one product of
matrices for a block of pairs, or one call of their kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from representer.ops.gpu import ceil_div
from representer.ops.string_gram import Similarities

MOST_SIMILARITIES = 2**27  # of a block of pairs
_MOST_STATES = 2**26  # of all programs, in memory
_PROGRAMS = 1056  # eight for each multiprocessor of an H100
_FEW_PAIRS = 2**18  # which small programs share among more multiprocessors
_LANES = 32, 128  # of a program, for few pairs and for many; a thread has one
_STEPS = 4  # of y, whose operands are loaded before the first is used
_MOST_ROWS = 8  # of x at a time, for orders 1 and 2; for others fewer, as registers allow


@triton.jit(do_not_specialize=["first_row", "rows", "first_group", "groups", "columns", "wide",
                               "most_steps"])  # fmt: skip
def _recurrences(
    x, y, similar, states, starts_x, starts_y, lengths_y, decay, gram, first_row, rows, first_group,
    groups, columns, wide, most_steps, ORDER: tl.constexpr, TRAILING: tl.constexpr,
    SYMMETRIC: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Write K_n of some rows with some groups of columns, or of the upper triangle alone."""
    lam, zero = tl.load(decay), tl.zeros((LANES,), ACC)
    last = lam
    if not TRAILING:
        last = tl.full((), 1.0, ACC)
    lane = tl.arange(0, LANES)
    kept = states + tl.program_id(0).to(tl.int64) * ((ORDER - 1) * most_steps * LANES) + lane
    of_block = tl.load(starts_x + first_row)
    of_part = tl.load(starts_y + first_group)
    for task in range(tl.program_id(0), rows * groups, tl.num_programs(0)):
        group, row = first_group + task % groups, first_row + task // groups
        column, at = group * LANES + lane, tl.load(starts_y + group)
        size = ((tl.load(starts_y + group + 1) - at) // LANES).to(tl.int32)
        # padding before the first step of y
        begin = size - tl.load(lengths_y + column, mask=column < columns, other=0).to(tl.int32)
        of_row = tl.load(starts_x + row)
        length = (tl.load(starts_x + row + 1) - of_row).to(tl.int32)
        if SYMMETRIC:
            length = tl.where(row < (group + 1) * LANES, length, 0)
        total, turns = zero, tl.cdiv(length, ROWS)
        for turn in range(turns):
            tl.debug_barrier()  # after the states of the turn before
            s = length - (turns - turn) * ROWS  # below 0 before the first step of x
            tokens, firsts = (), ()
            for r in tl.static_range(ROWS):
                firsts = firsts + (begin + tl.where(s + r < 0, size, 0),)
                if similar is None:
                    tokens = tokens + (tl.load(x + of_row + tl.maximum(s + r, 0)),)
            sums, before = (), ()
            for r in tl.static_range(ROWS * ORDER):
                sums = sums + (zero,)
                before = before + ((zero + 1.0) if r % ORDER == 0 else zero,)
            for t in range(0, size, STEPS):
                loaded, above = (), ()
                for k in tl.static_range(STEPS):
                    step = t + k
                    if similar is None:
                        token = tl.load(y + at + step * LANES + lane)
                    for r in tl.static_range(ROWS):
                        is_there = step >= firsts[r]
                        if similar is None:
                            value = tl.where(is_there & (token == tokens[r]), 1.0, 0.0).to(ACC)
                        else:
                            here = (of_row - of_block + s + r) * wide + at - of_part
                            here += step * LANES + lane
                            value = tl.load(similar + here, mask=is_there, other=0.0)
                        loaded = loaded + (value,)
                    for j in tl.static_range(ORDER - 1):
                        place = kept + (step * (ORDER - 1) + j) * LANES
                        is_first = tl.where(turn > 0, 0, size) + lane * 0
                        state = tl.load(place, mask=step >= is_first, other=0.0)
                        above = above + (state,)
                for k in tl.static_range(STEPS):
                    upper = ()  # K_j of the row above
                    for j in tl.static_range(ORDER - 1):
                        upper = upper + (above[k * (ORDER - 1) + j],)
                    new_sums, new_before = (), ()
                    for r in tl.static_range(ROWS):
                        lower = ()
                        for j in tl.static_range(ORDER):
                            rate = last if j == ORDER - 1 else lam
                            product = loaded[k * ROWS + r] * before[r * ORDER + j]
                            sum_j = sums[r * ORDER + j] * rate + product
                            new_sums = new_sums + (sum_j,)
                            if j < ORDER - 1:
                                lower = lower + (upper[j] * lam + sum_j,)
                            new_before = new_before + (before[0] if j == 0 else upper[j - 1],)
                        upper = lower
                    sums, before = new_sums, new_before
                    for j in tl.static_range(ORDER - 1):
                        tl.store(kept + ((t + k) * (ORDER - 1) + j) * LANES, upper[j])
            for r in tl.static_range(ROWS):
                total = total * last + sums[r * ORDER + ORDER - 1]
        tl.store(gram + row.to(tl.int64) * columns + column, total, mask=column < columns)


def _inner_products(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.mT


class Groups(NamedTuple):
    """Sequences side by side, some in a group, padded at their beginning to the same length."""

    packed: Tensor  # tokens or vectors, step by step, of a group after the other ``(C, …)``
    starts: Tensor  # of each group in it, and its end ``(G + 1,)``
    lengths: Tensor  # of the sequences ``(M,)``
    ends: list[int]  # the starts on the host


def _pack(flat: Tensor, lengths: np.ndarray, lanes: int) -> Groups:
    """Pack concatenated sequences; what stands before one is some vector, which is ignored."""
    first = np.cumsum(lengths) - lengths
    ends, positions = [0], [np.zeros(0, np.int64)]
    for group in range(0, len(lengths), lanes):
        of_group = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        for whole, some in zip(of_group, (lengths, first), strict=True):
            whole[: len(lengths) - group] = some[group : group + lanes]
        steps = ceil_div(int(of_group[0].max()), _STEPS) * _STEPS
        at = np.arange(steps)[:, None] - steps + of_group[0]
        positions.append(np.where(at < 0, 0, at + of_group[1]).ravel())
        ends.append(ends[-1] + steps * lanes)
    chosen, starts, sizes = (
        torch.as_tensor(x, device=flat.device)
        for x in (np.concatenate(positions), np.array(ends), lengths)
    )
    return Groups(flat[chosen], starts, sizes, ends)


def _blocks(
    starts: np.ndarray, ends: list[int], lanes: int, most: int, *, symmetric: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Yield first and end of rows and of groups, at most so many similarities if possible."""
    groups, rows, first = len(ends) - 1, len(starts) - 1, 0
    longest = max(1, int(np.diff(starts).max()))
    while first < groups:
        after = first + 1
        while after < groups and (ends[after + 1] - ends[first]) * longest <= most:
            after += 1
        width, row = max(1, ends[after] - ends[first]), 0
        last = min(rows, after * lanes) if symmetric else rows
        while row < last:
            fitting = int(np.searchsorted(starts, starts[row] + most // width, "right")) - 1
            until = min(last, max(fitting, row + 1))
            yield row, until, max(first, row // lanes if symmetric else 0), after
            row = until
        first = after


def string_gram(
    x: Sequence[Tensor], y: Sequence[Tensor] | None, order: int, decay: float | Tensor, *,
    trailing: bool = True, similarities: Similarities | None = None,
) -> Tensor:  # fmt: skip
    """Return K_n of every x with every y ``(N, M)``, or the upper triangle of every two x.

    The sequences y, or x alone, are sorted by length.
    """
    columns, dtype = x if y is None else y, x[0].dtype
    if x[0].dim() == 1:
        dtype = torch.float64
    elif similarities is None:
        similarities = _inner_products
    lam = torch.as_tensor(decay, dtype=dtype, device=x[0].device).detach().reshape(1)
    gram = lam.new_zeros(len(x), len(columns))
    sizes_x, sizes_y = (np.array([*map(len, items)], np.int64) for items in (x, columns))
    if not sizes_x.any() or not sizes_y.any():
        return gram
    lanes = _LANES[len(x) * len(columns) >= _FEW_PAIRS]
    flat = torch.cat([*x])
    groups = _pack(flat if y is None else torch.cat([*y]), sizes_y, lanes)
    starts = np.concatenate(([0], np.cumsum(sizes_x)))
    on_device = torch.as_tensor(starts, device=flat.device)
    most_steps = int(np.diff(groups.ends).max()) // lanes
    programs = max(1, min(_PROGRAMS, _MOST_STATES // max(1, (order - 1) * most_steps * lanes)))
    states = lam.new_empty(max(1, programs * (order - 1) * most_steps * lanes))
    most = MOST_SIMILARITIES if similarities else 2**62  # of tokens, none is in memory
    rows_at_once = max(1, min(_MOST_ROWS, 16 // order))
    for row, until, first, after in _blocks(
        starts, groups.ends, lanes, most, symmetric=y is None
    ):  # fmt: skip
        begin, end, similar = groups.ends[first], groups.ends[after], None
        if similarities:
            similar = similarities(flat[starts[row] : starts[until]], groups.packed[begin:end])
            similar = similar.contiguous()
        tasks = (until - row) * (after - first)
        _recurrences[(min(tasks, programs),)](
            flat, groups.packed, similar, states, on_device, groups.starts, groups.lengths,
            lam, gram, row, until - row, first, after - first, len(columns),
            end - begin, most_steps, ORDER=order, TRAILING=trailing, SYMMETRIC=y is None,
            LANES=lanes, ROWS=rows_at_once, STEPS=_STEPS, ACC=_TYPES[dtype],
            num_warps=lanes // 32,
        )  # fmt: skip
    return gram


_TYPES: dict[torch.dtype, Any] = {torch.float32: tl.float32, torch.float64: tl.float64}
