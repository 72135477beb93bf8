# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""The arithmetic of one step of a string-kernel chain and of its gradient, for Triton kernels.

``reference.py`` has the equations. Tuples hold the n states and, in chains with masses, these
after them: c before the step, ``after`` after it, and q their gradients.
"""

from __future__ import annotations

import triton
import triton.language as tl


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
