"""Samples of walk_rounds for tests and benchmarks: every option, odd sizes, odd graphs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from representer.ops.op import Sample

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
    generator = torch.Generator().manual_seed(N * 100 + E)

    def normal(*shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return (drawn / max(1, shape[-1]) ** 0.5).to(dtype)

    rows = 2 * d + (n + 2 * gated) * H
    given = {
        "labels": normal(N, d),
        "edge_index": torch.randint(0, N, (2, E), generator=generator),
        "edge_attr": normal(E, K),
        "weight": normal(rows, d),
        "bias": normal(rows),
        "neighbors": normal(d, d),
        "shift": normal(d, K),
        "factor": normal(n - 1, H, K),
    }
    return given | ({"edge_gate": normal(H, K)} if gated else {})
