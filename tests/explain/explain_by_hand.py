"""Enumeration of all n-grams, and the recurrence of the string chain step by step."""

from __future__ import annotations

from itertools import combinations
from math import prod

import torch
from hypothesis import strategies as st
from torch import Tensor

DECAYS = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(0, 1))


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


def recurrence(p: Tensor, lam: Tensor, w: Tensor, combine: str) -> tuple[Tensor, Tensor]:
    """Return states and masses ``(T, n, H)`` by the recurrence of Table 4."""
    time, order, units = p.shape
    c = m = p.new_zeros(order + 1, units)
    c0 = 1.0 if combine == "multiply" else 0.0
    states, masses = [], []
    for t in range(time):
        c_new, m_new = [c[0] * 0 + c0], [c[0] * 0 + 1]
        below, lighter = [c_new[0], *c[1:]], [m_new[0], *m[1:]]
        for j in range(1, order + 1):
            token = {
                "multiply": below[j - 1] * p[t, j - 1],
                "add": below[j - 1] + p[t, j - 1],
                "add_exact": below[j - 1] + lighter[j - 1] * p[t, j - 1],
            }[combine]
            c_new.append(lam[t] * c[j] + w[t] * token)
            m_new.append(lam[t] * m[j] + w[t] * lighter[j - 1])
        c, m = torch.stack(c_new), torch.stack(m_new)
        states.append(c[1:])
        masses.append(m[1:])
    return torch.stack(states), torch.stack(masses)
