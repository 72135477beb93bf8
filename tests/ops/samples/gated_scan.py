"""Samples of gated_scan for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from . import Sample, normal


def tensors(
    decay: str, sizes: tuple[int, int, int], lengths: bool, dtype: torch.dtype
) -> dict[str, Tensor]:
    time, batch, units = sizes
    draw = normal(time + batch + units, dtype)
    shape = {"scalar": (), "vector": (units,), "full": sizes}[decay]
    tensors = {"u": draw(*sizes), "f": torch.sigmoid(draw(*shape)), "c0": draw(batch, units)}
    return tensors | ({"lengths": torch.tensor([time - 3, time])} if lengths else {})


def samples() -> Iterator[Sample]:
    sizes = ((1, 1, 1), (2, 3, 17), (7, 2, 3))
    for decay, size, reverse in product(("scalar", "vector", "full"), sizes, (False, True)):
        label = f"{decay}-{'x'.join(map(str, size))}-{'reverse' if reverse else 'forward'}"
        options = {"reverse": reverse}
        yield Sample(label, partial(tensors, decay, size, False), options)
        if size[0] > 2:
            make = partial(tensors, decay, size, True)
            yield Sample(f"{label}-ragged", make, options, ("lengths",))
