"""String-kernel cells as data: their products and their code."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.functional import NONLINEARITIES, StringChain
from representer.functional.strings import Combine, Decay, Normalized, Readout

ANY_CHAIN = st.builds(
    StringChain,
    st.integers(1, 12),
    st.sampled_from(get_args(Combine)),
    st.sampled_from(get_args(Normalized)),
    st.sampled_from(get_args(Readout)),
    st.sampled_from(get_args(Decay)),
    st.booleans(),
    st.sampled_from(list(NONLINEARITIES)),
)


@given(ANY_CHAIN)
def test_parsing_the_code_of_a_chain_returns_the_chain(chain: StringChain):
    assert StringChain.parse(chain.code) == chain


@given(ANY_CHAIN, ANY_CHAIN)
def test_different_chains_have_different_codes(one: StringChain, other: StringChain):
    assert (one == other) == (one.code == other.code)


def test_a_code_lists_all_fields_in_order():
    chain = StringChain(3, "add_exact", "paper", "sum", "state_gate", True, "tanh")
    assert chain.code == "3 add_exact paper sum state_gate 1 tanh"
    assert StringChain(1).code == "1 multiply no last given 0 identity"


@pytest.mark.parametrize("code", ["1 times no last given 0 tanh", "1 add no last given 0", "x"])
def test_invalid_codes_are_rejected(code: str):
    with pytest.raises((AssertionError, ValueError)):
        StringChain.parse(code)


@given(ANY_CHAIN)
def test_there_is_one_product_per_token_and_gate(chain: StringChain):
    gates = (chain.decay != "given") + chain.highway
    assert len(chain.products) == chain.order + gates
    assert chain.products[: chain.order] == tuple(f"token{j + 1}" for j in range(chain.order))
    assert chain.products[chain.order :] == tuple(
        name for name, there in (("decay", chain.is_gated), ("highway", chain.highway)) if there
    )


@given(ANY_CHAIN)
def test_the_state_includes_masses_where_the_recurrence_needs_them(chain: StringChain):
    needs_mass = chain.combine == "add_exact" or chain.normalized == "exact"
    assert chain.states == (2 if needs_mass else 1) * chain.order
    assert chain.is_state_gated == (chain.decay == "state_gate")


def test_a_chain_is_immutable():
    with pytest.raises(FrozenInstanceError):
        StringChain(1).order = 2  # pyright: ignore
