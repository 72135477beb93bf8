"""The samples of string_scan reach every field of a chain and every option."""

from __future__ import annotations

from typing import get_args

import torch

from ops.cases import pairwise_chains
from ops.samples.string_scan import CHAINS, samples
from representer.functional import NONLINEARITIES
from representer.functional.strings import Combine, Decay, Normalized, Readout

OPERANDS = {"x", "h0", "c0", "input_weight", "bias", "decay", "weight", "carry", "mask", "lengths"}


def test_every_value_of_every_field_is_sampled():
    chains = list(CHAINS.values())
    assert {c.combine for c in chains} == set(get_args(Combine))
    assert {c.normalized for c in chains} == set(get_args(Normalized))
    assert {c.readout for c in chains} == set(get_args(Readout)) - {"weighted"}  # no operand
    assert {c.decay for c in chains} == set(get_args(Decay))
    assert {c.activation for c in chains} == set(NONLINEARITIES)
    assert {c.highway for c in chains} == {True, False}
    assert {c.order for c in chains} >= {1, 2, 3, 4, 5, 6}


def test_every_option_is_sampled_in_both_directions():
    met: set[tuple[str, bool]] = set()
    shapes: set[int] = set()
    for sample in samples():
        operands = sample.make(torch.float64)
        met |= {(name, sample.options["reverse"]) for name in operands}
        shapes |= {operands["decay"].dim()} if "decay" in operands else set()
    assert met == {(name, reverse) for name in OPERANDS for reverse in (True, False)}
    assert shapes == {0, 1}


def test_pairwise_chains_cover_every_pair_of_values():
    chains = list(pairwise_chains(2))
    assert len(set(chains)) == len(chains)
    for one, other in (("combine", "normalized"), ("readout", "decay"), ("decay", "highway")):
        pairs = {(getattr(c, one), getattr(c, other)) for c in chains}
        assert len(pairs) == len({a for a, _ in pairs}) * len({b for _, b in pairs})
