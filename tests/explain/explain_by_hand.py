"""Enumeration of all n-grams, and the recurrence of the string chain step by step."""

from __future__ import annotations

from itertools import combinations
from math import prod

import torch
from torch import Tensor


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_decays(time: int, units: int, seed: int) -> Tensor:
    """Return decays of every step, a third of them 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(time, units, generator=generator, dtype=torch.float64) * 1.5 - 0.25
    return drawn.clamp(0, 1)


def enumerate_ngrams(
    p: Tensor, lam: Tensor, w: Tensor, read: Tensor
) -> dict[tuple[int, ...], float]:
    """Return every n-gram of one unit with its contribution to sum_t read_t c_n[t]."""
    time, order = p.shape
    result = {}
    for i in combinations(range(time), order):
        tokens = prod(float(w[i_j] * p[i_j, j]) for j, i_j in enumerate(i))
        skipped = prod(float(lam[s]) for s in range(i[0], i[-1]) if s not in i)
        tail = sum(
            float(read[t]) * prod(float(lam[s]) for s in range(i[-1] + 1, t + 1))
            for t in range(i[-1], time)
        )
        result[i] = tokens * skipped * tail
    return result
