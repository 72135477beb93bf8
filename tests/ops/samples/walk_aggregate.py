"""Samples of walk_aggregate for tests and benchmarks: every option, odd sizes, odd graphs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from . import Sample, normal

# N, E, K, H; edges are drawn with self-loops and several times, and some nodes have none
SIZES = {"1x1x1x1": (1, 1, 1, 1), "2x3x1x1": (2, 3, 1, 1), "5x9x3x17": (5, 9, 3, 17)}
LARGE = "7x16x6x70"
SIZES[LARGE] = (7, 16, 6, 70)
PARTS = ("", "shift", "factor", "gate", "gate edge", "shift factor", "shift factor gate edge")


def samples() -> Iterator[Sample]:
    """Yield every part alone and together at every size."""
    for size in SIZES:
        for parts in PARTS:
            yield _sample(size, parts, "tanh" if "shift" in parts else "identity")
    yield _sample(LARGE, "shift factor gate edge", "relu", scale=10.0)


def _sample(size: str, parts: str, activation: str, **options: float) -> Sample:
    name = "-".join(("graph", size, *parts.split(), activation, *options))
    return Sample(
        name, partial(tensors, SIZES[size], parts), {"activation": activation, **options},
        ("edge_index",),
    )  # fmt: skip


def tensors(sizes: tuple[int, int, int, int], parts: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return random arguments; ``parts`` are of shift, factor, gate, and edge of the gate."""
    nodes, edges, features, units = sizes
    draw, generator = normal(nodes * 100 + edges, dtype), torch.Generator().manual_seed(edges)
    # exponentials and poles need small arguments
    arguments = {
        "nodes": draw(nodes, units, scale=0.5),
        "edge_index": torch.randint(0, nodes, (2, edges), generator=generator),
    }
    if set(parts.split()) - {"gate"}:
        arguments["edge_attr"] = draw(edges, features)
    for name in ("shift", "factor"):
        if name in parts.split():
            arguments[name] = draw(units, features, scale=0.3 / max(features, 1) ** 0.5)
    if "gate" in parts.split():
        arguments["source_gate"] = draw(nodes, units)
        arguments["target_gate"] = draw(nodes, units)
    if "edge" in parts.split():
        arguments["edge_gate"] = draw(units, features)
    return arguments
