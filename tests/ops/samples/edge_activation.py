"""Samples of edge_activation for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from representer.functional.activations import GREENS

from . import Sample, kernel_activation, normal


def tensors(
    rows: int, features: int, outputs: int, count: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    tensors = kernel_activation.tensors(rows, features, count, dtype)
    draw = normal(rows + features + count + outputs, torch.float64)
    return tensors | {"coefficients": draw(features, outputs, count).to(dtype)}


def samples() -> Iterator[Sample]:
    sizes = ((1, 1, 1, 1), (5, 2, 3, 3), (9, 3, 70, 20), (40, 2, 5, 3))
    for green, shape in product(GREENS, sizes):
        options = {"green": green, "bandwidth": 0.7 if green == "gaussian" else 1.0}
        name = f"{green}-{'x'.join(map(str, shape))}"
        yield Sample(name, partial(tensors, *shape), options)
