"""The string kernels of L17 by enumeration of all n-grams, and its networks step by step.

Nothing here uses the library. Sequences are ``(T, d)``, references ``(n, d)``; positions count
from 1, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import torch
from hypothesis import settings
from hypothesis import strategies as st
from small_oracles import outer
from torch import Tensor

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
Weight = Callable[[tuple[int, ...], int], float]

decays = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.01, 0.99))
sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 7), "d": st.integers(1, 3), "n": st.integers(1, 4),
        "H": st.integers(1, 3), "seed": st.integers(0, 2**16),
    }
)  # fmt: skip
theorem = settings(deadline=None, max_examples=10)


def random_sequence(length: int, d: int, generator: torch.Generator) -> Tensor:
    return torch.randn(length, d, dtype=torch.float64, generator=generator)


def one_hot(text: str, alphabet: str = "abc") -> Tensor:
    return torch.tensor([[float(a == b) for b in alphabet] for a in text], dtype=torch.float64)


def ngrams(length: int, n: int) -> Iterator[tuple[int, ...]]:
    """All i_1 < ... < i_n of a sequence."""
    return combinations(range(1, length + 1), n)


def printed(lam: float) -> Weight:
    """The weight of appendix B, lambda^(|x| - i_1 - n + 1), with 0^0 = 1."""
    return lambda i, length: lam ** (length - i[0] - len(i) + 1)


def gaps_only(lam: float) -> Weight:
    """Without what trails behind the n-gram."""
    return lambda i, length: lam ** (i[-1] - i[0] - len(i) + 1)


def lodhi(lam: float) -> Weight:
    """Lodhi et al. 2002: the length of the span."""
    return lambda i, length: lam ** (i[-1] - i[0] + 1)


def mass(length: int, n: int, weight: Weight) -> float:
    """Z' of Table 5: the weights of all n-grams, summed."""
    return sum(weight(i, length) for i in ngrams(length, n))


def kernel(x: Tensor, y: Tensor, n: int, weight: Weight, *, add: bool = False) -> float:
    """K_n(x, y), the double sum of (3) and Table 5 over the n-grams of both, unnormalized."""
    total = 0.0
    for i in ngrams(len(x), n):
        for k in ngrams(len(y), n):
            shares = [float(x[a - 1] @ y[b - 1]) for a, b in zip(i, k, strict=True)]
            joined = sum(shares) if add else math.prod(shares)
            total += weight(i, len(x)) * weight(k, len(y)) * joined
    return total


def normalized_kernel(x: Tensor, y: Tensor, n: int, weight: Weight, *, add: bool = False) -> float:
    """Table 5 (b) and (c): divided by Z = Z'(x) Z'(y); 0 where there is no n-gram."""
    z = mass(len(x), n, weight) * mass(len(y), n, weight)
    return kernel(x, y, n, weight, add=add) / z if z else 0.0


def features(x: Tensor, n: int, weight: Weight, *, add: bool = False) -> Tensor:
    """phi_n(x): the sum of outer products, flat; or, for Table 5 (c), of concatenations."""
    tokens = x.shape[1]
    total = x.new_zeros(n * tokens if add else tokens**n)
    for i in ngrams(len(x), n):
        rows = [x[a - 1] for a in i]
        total = total + weight(i, len(x)) * (torch.cat(rows) if add else outer(rows))
    return total


def distinct(x: str, n: int, weight: Weight) -> dict[str, float]:
    """The n-grams that occur, each once, with its largest weight: presence, (1), for lambda = 1."""
    best: dict[str, float] = {}
    for i in ngrams(len(x), n):
        s = "".join(x[a - 1] for a in i)
        best[s] = max(best.get(s, 0.0), weight(i, len(x)))
    return best
