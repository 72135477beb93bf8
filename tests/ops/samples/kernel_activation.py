"""Samples of kernel_activation for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from representer.functional.activations import GREENS

from . import Sample, normal


def tensors(rows: int, features: int, count: int, dtype: torch.dtype) -> dict[str, Tensor]:
    draw = normal(rows + features + count, torch.float64)
    # on a grid and farther out than the centers; no input is at a center, where g has a corner
    inputs = draw(rows, features, scale=4.0).round(decimals=2) + 0.005
    centers = draw(features, count, scale=2.0).round(decimals=2)
    if count > 2:
        centers[:, 2] = centers[:, 0]  # two at one place
    tensors = {"input": inputs, "centers": centers, "coefficients": draw(features, count)}
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def samples() -> Iterator[Sample]:
    for green, shape in product(GREENS, ((1, 1, 1), (5, 2, 3), (70, 3, 20))):
        options = {"green": green, "bandwidth": 0.7 if green == "gaussian" else 1.0}
        name = f"{green}-{'x'.join(map(str, shape))}"
        yield Sample(name, partial(tensors, *shape), options)
