"""The public function string_scan."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from ops.cases import pairwise_chains
from ops.samples.string_scan import CHAINS, samples, tensors
from representer.errors import ArgumentError, KindError
from representer.functional import NONLINEARITIES, StringChain
from representer.functional.strings import Combine, Decay, Normalized, Readout
from representer.ops import OPS, string_scan

from ..cases import differentiable

T, B, H = 5, 3, 4
BACKENDS = [name for name, b in OPS["string_scan"].backends.items() if not b.missing]
DEFINE = OPS["string_scan"].definition
ANY_CHAIN = st.builds(
    StringChain, st.integers(1, 5), st.sampled_from(get_args(Combine)),
    st.sampled_from(get_args(Normalized)), st.sampled_from(["last", "sum"]),
    st.sampled_from(get_args(Decay)), st.booleans(),
    st.sampled_from(["identity", "tanh", "relu", "sigmoid"]),
)  # fmt: skip
OPTIONS = st.lists(st.sampled_from(["input", "carry", "mask", "vector", "lengths"]), unique=True)
WAYS = [chain for order in (1, 2, 3, 4) for chain in pairwise_chains(order)]


def _compare(
    chain: StringChain, options: str, reverse: bool, backend: str | None = None, **changes: Any
) -> None:
    operands = {**tensors(chain, (T, B, H), options, torch.float64), **changes}
    marked = [operands[n].requires_grad_() for n in differentiable("string_scan") if n in operands]
    found = string_scan(**operands, chain=chain, reverse=reverse, backend=backend)
    exact = DEFINE(**operands, chain=chain, reverse=reverse)
    torch.testing.assert_close(found, exact, rtol=1e-10, atol=1e-10)
    slopes = [torch.randn_like(result) for result in exact]
    torch.testing.assert_close(
        *(torch.autograd.grad(r, marked, slopes, materialize_grads=True) for r in (found, exact)),
        rtol=1e-9,
        atol=1e-9,
    )


@settings(deadline=None, max_examples=30)
@given(chain=ANY_CHAIN, options=OPTIONS.map(" ".join), reverse=st.booleans())
def test_any_chain_matches_the_definition(chain: StringChain, options: str, reverse: bool):
    if "input" not in options:  # there a carry is given anyway
        options = options.replace("carry", "")
    _compare(chain, options, reverse)


def test_weights_of_a_readout_are_no_operand():
    x, zeros = torch.randn(3, 2, 1, 4), torch.zeros(2, 1, 4)
    with pytest.raises(ArgumentError, match="'last' or 'sum'"):
        string_scan(
            x, zeros[:, 0], zeros, chain=StringChain(1, readout="weighted"), decay=torch.tensor(0.5)
        )


@looped("chain", WAYS)
def test_pairs_of_options_match_the_definition(chain: StringChain):
    _compare(chain, "input mask lengths", chain.order % 2 == 0)


@pytest.mark.parametrize("backend", BACKENDS)
@looped("name", CHAINS)
def test_chains_match_the_definition_from_an_empty_state(name: str, backend: str):
    chain = CHAINS[name]
    empty = torch.zeros(B, chain.states, H, dtype=torch.float64)
    _compare(chain, "lengths", False, backend, c0=empty)


@pytest.mark.parametrize("backend", BACKENDS)
def test_chains_match_the_definition_with_a_bias_of_every_product(backend: str):
    for name in ("second_gated", "third_given", "fourth"):
        bias = torch.randn(len(CHAINS[name].products), H, dtype=torch.float64)
        _compare(CHAINS[name], "input", False, backend, bias=bias)


def _operands(chain: StringChain, options: str = "mask lengths", **changes: Any) -> dict[str, Any]:
    return {**tensors(chain, (T, B, H), options, torch.float32), "chain": chain, **changes}


GATED, GIVEN, SEEN = CHAINS["first_gated"], CHAINS["second_added"], CHAINS["second_seen"]


@pytest.mark.parametrize(("chain", "changes", "message"), [
    (GATED, {"decay": torch.ones(H)}, r"decay is a tensor \(4,\); expected None"),
    (GIVEN, {"decay": None}, r"decay is None; expected a tensor \(4,\) or \(\) in this call"),
    (SEEN, {"weight": None}, r"weight is None; expected a tensor \(4, 4\) in this call"),
    (GATED, {"weight": torch.ones(H, H)}, r"weight is a tensor \(4, 4\); expected None"),
    (GATED, {"carry": None}, r"carry is None; expected a tensor \(5, 3, 4\)"),
    (CHAINS["second"], {"carry": torch.ones(T, B, H)}, r"carry is a tensor .*; expected None"),
    (GATED, {"bias": torch.ones(2, H)}, r"bias is a tensor \(2, 4\); expected None"),
])  # fmt: skip
def test_a_chain_requires_exactly_the_operands_that_it_uses(
    chain: StringChain, changes: dict[str, Any], message: str
):
    with pytest.raises(KindError, match=message):
        string_scan(**_operands(chain, **changes))


def test_a_bias_covers_the_gates_or_all_products():
    operands = _operands(GATED, "input")
    of_gates = operands["bias"]
    whole = torch.cat((torch.zeros(1, H), of_gates))
    results = [string_scan(**{**operands, "bias": bias}) for bias in (of_gates, whole)]
    torch.testing.assert_close(*results)


def test_a_highway_carries_the_input_unless_carry_is_given():
    operands = _operands(GATED, "input mask")
    results = [string_scan(**{**operands, "carry": carry}) for carry in (None, operands["x"])]
    torch.testing.assert_close(*results)


def test_nothing_is_kept_without_gradients():
    operands = _operands(SEEN)
    tensors_of = [operands.get(n) for n in ("x", "input_weight", "bias", "decay", "weight")]
    rest = [operands.get(n) for n in ("h0", "c0", "carry", "mask", "lengths")]
    for keep, numbers in ((False, [0, 0]), (True, [T * B * 4 * H, T * B * 2 * H])):
        arguments = (*tensors_of, *rest, SEEN.code, False, keep, "reference")
        *_, products, states = torch.ops.representer.string_scan(*arguments)
        assert [products.numel(), states.numel()] == numbers


# The samples of string_scan reach every field of a chain and every option.


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
