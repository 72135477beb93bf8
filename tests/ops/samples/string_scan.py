"""Samples of string_scan for tests and benchmarks: every chain, every option, odd sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from representer.functional.strings import StringChain

from . import Sample, normal

CHAINS: dict[str, StringChain] = {
    "first": StringChain(1),
    "first_gated": StringChain(1, "multiply", "paper", "last", "gate", True, "tanh"),
    "second": StringChain(2),
    "second_gated": StringChain(2, "multiply", "paper", "sum", "gate", False, "relu"),
    "second_exact": StringChain(2, "multiply", "exact", "sum", "gate", False, "tanh"),
    "second_seen": StringChain(2, "multiply", "paper", "last", "state_gate", True, "tanh"),
    "second_added": StringChain(2, "add", "paper", "last", "given", True, "linear"),
    "third_added": StringChain(3, "add", "no", "sum", "gate", False, "polynomial"),
    "third_summed": StringChain(3, "add_exact", "exact", "last", "gate", False, "sigmoid"),
    "third_given": StringChain(3, "add_exact", "exact", "sum", "given", True, "identity"),
    "third_seen": StringChain(3, "add_exact", "paper", "sum", "state_gate", False, "tanh"),
    "fourth": StringChain(4, "multiply", "no", "sum", "given", False, "relu"),
    "fifth_exact": StringChain(5, "multiply", "exact", "last", "gate", True, "exponential"),
    "sixth_summed": StringChain(6, "add_exact", "no", "sum", "state_gate", True, "tanh"),
    "first_inverse": StringChain(1, "add", "exact", "last", "gate", False, "inverse"),
    "first_gaussian": StringChain(1, "add_exact", "no", "sum", "given", False, "gaussian"),
}
SIZES = ((1, 1, 1), (2, 1, 17))
LARGE = (5, 3, 4)
ALONE = ("mask", "vector", "input", "lengths")
TOGETHER = ("input carry mask", "input vector mask lengths")


def samples() -> Iterator[Sample]:
    """Yield every chain plain and with all options, and with one size and one option alone."""
    for i, (name, chain) in enumerate(CHAINS.items()):
        sizes, alone = SIZES[i % len(SIZES)], ALONE[i % len(ALONE)]
        yield _sample(f"{name}-{'x'.join(map(str, sizes))}", chain, sizes)
        yield _sample(f"{name}-reverse", chain, LARGE, reverse=True)
        for options in ("", alone, *TOGETHER):
            label = "-".join((name, *options.split()))
            yield _sample(label, chain, LARGE, options)
            if "mask lengths" in options:
                yield _sample(f"{label}-reverse", chain, LARGE, options, reverse=True)


def _sample(
    name: str,
    chain: StringChain,
    sizes: tuple[int, int, int],
    options: str = "",
    *,
    reverse: bool = False,
) -> Sample:
    make = partial(tensors, chain, sizes, options)
    return Sample(name, make, {"chain": chain, "reverse": reverse}, ("mask", "lengths"))


def tensors(
    chain: StringChain, sizes: tuple[int, int, int], options: str, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Return random arguments for a chain.

    ``options`` adds input, carry (beside input), mask, lengths, and a decay that is a vector.
    """
    time, batch, units = sizes
    draw = normal(time * 100 + batch * 10 + units, dtype)
    products, n = len(chain.products), chain.order
    # exponentials and poles of sums need small terms; masses are positive
    scale = 0.1 if chain.activation in ("exponential", "inverse", "gaussian") else 0.7
    c0 = draw(batch, chain.states, units, scale=0.3)
    if chain.has_mass:
        c0 = torch.cat((c0[:, :n], 0.5 + c0[:, n:].abs()), dim=1)
    features = units if chain.highway and "carry" not in options else 2
    x = draw(time, batch, products, units, scale=scale)
    if "input" in options:
        x = draw(time, batch, features)
    arguments = {"x": x, "h0": draw(batch, units, scale=0.3), "c0": c0}
    if "input" in options:
        scale *= features**-0.5
        arguments["input_weight"] = draw(products, units, features, scale=scale)
        arguments["bias"] = draw(max(1, products - n), units)
    if not chain.is_gated:
        arguments["decay"] = torch.sigmoid(draw(units) if "vector" in options else draw())
    if chain.is_state_gated:
        arguments["weight"] = draw(units, units, scale=units**-0.5)
    if chain.highway and ("input" not in options or "carry" in options):
        arguments["carry"] = draw(time, batch, units)
    if "mask" in options:
        arguments["mask"] = 2.0 * (draw(batch, units) > 0).to(dtype)
    if "lengths" in options:
        arguments["lengths"] = torch.tensor([max(time - 3, 0), time, 1] * batch)[:batch]
    return arguments
