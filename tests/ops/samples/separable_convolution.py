"""Samples of separable_convolution for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from . import Sample, normal


def tensors(
    samples: int, batch: int, channels: int, filters: int, n: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    draw = normal(samples + batch + channels + filters + n, dtype)
    return {
        "x": draw(samples, batch, channels),
        "mix": draw(2, filters, channels),
        "taps": draw(2, filters, n),
    }


def samples() -> Iterator[Sample]:
    steps = ((1, 1), (3, 1), (2, 2), (2, 3), (3, 2), (5, 1))
    sizes = ((1, 1, 1, 1, 1), (29, 2, 2, 5, 4), (45, 2, 13, 37, 14))
    for (stride, dilation), size in product(steps, sizes):
        name = f"{'x'.join(map(str, size))}-stride{stride}-dilation{dilation}"
        options = {"stride": stride, "dilation": dilation}
        yield Sample(name, partial(tensors, *size), options)
    # more steps than the core has in a chunk
    yield Sample("1200x1x3x9x15", partial(tensors, 1200, 1, 3, 9, 15), {"stride": 2})
