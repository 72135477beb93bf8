"""Samples of walk_rounds for tests and benchmarks: every option, odd sizes, odd graphs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from . import Sample, normal

# N, E, K, d, H, n; edges are drawn with self-loops and several times, and some nodes have none
SIZES = {
    "1x1x1x1x1x2": (1, 1, 1, 1, 1, 2),
    "5x9x3x4x17x2": (5, 9, 3, 4, 17, 2),
    "5x9x3x7x3x3": (5, 9, 3, 7, 3, 3),
}


def samples() -> Iterator[Sample]:
    """Yield every size with and without a gate, all rounds and the last alone."""
    for size, gated in ((size, gated) for size in SIZES for gated in (False, True)):
        yield _sample(size, gated, depth=3, activation="tanh")
    yield _sample("5x9x3x4x17x2", True, depth=3, first=2, activation="tanh", scale=10.0)
    yield _sample("5x9x3x7x3x3", True, depth=1)
    yield _sample("5x9x3x7x3x3", False, depth=3, first=1, activation="relu")


def _sample(size: str, gated: bool, **options: int | float | str) -> Sample:
    name = "-".join(map(str, ("rounds", size, *["gate"] * gated, *options.values())))
    return Sample(name, partial(tensors, SIZES[size], gated), options, ("edge_index",))


def tensors(sizes: tuple[int, ...], gated: bool, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return random arguments."""
    N, E, K, d, H, n = sizes
    generator, unscaled = torch.Generator().manual_seed(E), normal(N * 100 + E, dtype)

    def draw(*shape: int) -> Tensor:
        return unscaled(*shape, scale=max(1, shape[-1]) ** -0.5)

    rows = 2 * d + (n + 2 * gated) * H
    given = {
        "labels": draw(N, d), "edge_index": torch.randint(0, N, (2, E), generator=generator),
        "edge_attr": draw(E, K), "weight": draw(rows, d), "bias": draw(rows),
        "neighbors": draw(d, d), "shift": draw(d, K), "factor": draw(n - 1, H, K),
    }  # fmt: skip
    return given | ({"edge_gate": draw(H, K)} if gated else {})
