"""Samples of kbrn_scan for tests and benchmarks: every Green function, every option."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from representer.functional.activations import GREENS

from . import Sample, normal

SIZES = ((1, 1, 1), (2, 1, 17), (6, 3, 4), (3, 2, 5))  # T, B, H
OPTIONS = ("", "line norm", "batch", "norm lengths", "line batch lengths")


def samples() -> Iterator[Sample]:
    """Yield every Green function with every set of options, and sizes in turn."""
    for i, green in enumerate(GREENS):
        options: dict[str, Any] = {"green": green, "bandwidth": 0.7 if i == 2 else 1.0}
        for k, words in enumerate(OPTIONS):
            sizes = (5, 3, 4) if "lengths" in words else SIZES[(i + k) % len(SIZES)]
            has_batch = "batch" in words
            name = "-".join((green, *words.split(), "x".join(map(str, sizes))))
            # cubes of cubes run away from any rounding unless they are small
            make = partial(tensors, sizes, words, scale=0.02 if green == "cubic" else 0.3)
            given = options | {"batch_statistics": True} if has_batch else options
            yield Sample(name, make, given, ("statistics", "lengths"))


def tensors(
    sizes: tuple[int, int, int], words: str, dtype: torch.dtype, *, scale: float = 0.3
) -> dict[str, Tensor]:
    """Return random arguments; ``words`` adds line, norm, batch (norm too) and lengths."""
    time, batch, units = sizes
    draw = normal(time * 100 + batch * 10 + units, dtype)
    count = 7
    centers = draw(units, count)
    centers[:, 2] = centers[:, 0]  # two at one place
    arguments = {
        "z": draw(time, batch, units), "h0": draw(batch, units, scale=0.3), "centers": centers,
        "coefficients": draw(units, count, scale=scale),
        "weight": draw(units, units, scale=0.5 * units**-0.5),
    }  # fmt: skip
    if "line" in words:
        arguments["line"] = draw(units, 2, scale=0.3)
    if "norm" in words or "batch" in words:
        arguments["norm"] = 1 + draw(2, units, scale=0.3)
        mean, var = draw(time, batch, units), 0.5 + draw(time, batch, units).square()
        arguments["statistics"] = torch.stack((mean, var))
    if "lengths" in words:
        arguments["lengths"] = torch.tensor([(time - 2, time, 1, 0)[i % 4] for i in range(batch)])
    return arguments
