"""Samples of tree_scan for tests and benchmarks: every option, odd sizes, several trees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from . import Sample, normal

# N, roots, n, H; the parent of a node is drawn from those before it
SIZES = {
    "2x1x1x1": (2, 1, 1, 1), "7x1x1x17": (7, 1, 1, 17), "9x2x3x5": (9, 2, 3, 5),
}  # fmt: skip
PARTS = ("", "vector", "factor", "gate", "state", "gate state factor")


def samples() -> Iterator[Sample]:
    """Yield every size with every kind of decay, with and without factors of edges."""
    cases = ((size, parts) for size in SIZES for parts in PARTS)
    for size, parts in cases:
        if "factor" in parts and SIZES[size][2] == 1:  # without steps
            continue
        options = {"scale": 1.5, "activation": "tanh"} if "state" in parts else {}
        name = "-".join(("trees", size, *parts.split()))
        made = partial(tensors, SIZES[size], parts)
        yield Sample(name, made, options, ("edge_index",))


def tensors(sizes: tuple[int, ...], parts: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return random arguments."""
    N, roots, n, H = sizes
    generator, draw = torch.Generator().manual_seed(N), normal(N * 100 + H, dtype)
    above = [int(torch.randint(0, v, (), generator=generator)) for v in range(roots, N)]
    places = torch.randperm(N, generator=generator)
    edges = places[torch.tensor([list(range(roots, N)), above], dtype=torch.int64)]
    given = {"products": draw(N, n, H), "edge_index": edges.flip(1)}
    if "gate" in parts or "state" in parts:
        given["target_gate"] = draw(N, H)
    else:
        given["decay"] = draw(*((H,) if "vector" in parts else ())).sigmoid()
    if "gate" in parts:
        given["source_gate"] = draw(N, H)
    if "state" in parts:
        given["state_gate"] = draw(H, H, scale=H**-0.5)
    if "factor" in parts:
        given["factor"] = draw(N - roots, n - 1, H)
    return given
