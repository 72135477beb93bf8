"""Random string-kernel layers of all options, and sequences for them."""

from __future__ import annotations

from itertools import product

import torch
from explain_by_hand import enumerate_ngrams
from hypothesis import example
from hypothesis import strategies as st
from torch import Tensor

from representer.nn import StringKernelRNN

DECAYS = [0.0, 1.0, 0.7, "learned", "input", "state"]
KINDS = list(product(["multiply", "add", "add_exact"], [False, True, "exact"], DECAYS))
KINDS = [kind for kind in KINDS if kind[0] != "add_exact" or kind[1] != "exact"]
KIND = st.sampled_from(KINDS)
PRODUCT = st.sampled_from([kind for kind in KINDS if kind[0] == "multiply"])
SIZES = {"time": st.integers(1, 8), "order": st.integers(1, 4), "seed": st.integers(0, 2**16)}
EXACT = {"rtol": 1e-10, "atol": 1e-13}


def all_forms(**fixed):
    """Add an example for each value of combine and normalized to a hypothesis test."""

    def add(test):
        for kind in KINDS:
            if kind[2] == "input":
                test = example(kind=kind, **fixed)(test)
        return test

    return add


def string_layer(kind, order, seed, **options) -> StringKernelRNN:
    """Return a layer of three inputs and three units, with normal gate parameters."""
    combine, normalized, decay = kind
    decay = 0.99 if normalized is True and decay == 1 else decay  # with 1, every term would be 0
    torch.manual_seed(seed)
    layer = StringKernelRNN(
        3, 3, order=order, combine=combine, normalized=normalized, decay=decay,
        dtype=torch.float64, **options,
    )  # fmt: skip
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "bias" in name or "logit" in name:
                parameter.normal_()
    return layer


def sequence(time: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randn(time, 3, generator=generator, dtype=torch.float64)


def decays_of(layer: StringKernelRNN, x: Tensor) -> Tensor:
    """Return lam_t ``(T, H)`` from the public methods of the layer."""
    gate = layer.decay_gate()
    if isinstance(gate, Tensor):
        return gate.expand(len(x), layer.hidden_size)
    a = x @ gate["input"].T + gate["bias"]
    if "state" in gate:
        h = layer(x)[0].detach()
        a = a + torch.cat((torch.zeros_like(h[:1]), h[:-1])) @ gate["state"].T
    return torch.sigmoid(a)


def enumerate_layer_ngrams(
    layer: StringKernelRNN, x: Tensor, unit: int, order: int
) -> dict[tuple[int, ...], float]:
    """Return every n-gram of a state of a layer with its contribution."""
    p = torch.stack([x @ layer.references()[unit, j] for j in range(order)], dim=1)
    lam, read = decays_of(layer, x)[:, unit], torch.zeros(len(x), dtype=torch.float64)
    read[-1] = 1
    w = 1 - lam if layer.normalized is True else torch.ones_like(lam)
    ngrams = enumerate_ngrams(p, lam, w, read)
    if layer.normalized != "exact":
        return ngrams
    mass = sum(enumerate_ngrams(torch.ones_like(p), lam, w, read).values())
    return {i: contribution / mass if mass else 0.0 for i, contribution in ngrams.items()}
