from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.functional import ngram_product, ngram_product_definition

sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 9),
        "n": st.integers(1, 4),
        "dilation": st.integers(1, 3),
        "seed": st.integers(0, 2**16),
    }
)
claim = settings(deadline=None, max_examples=40)


def draw(size):
    torch.manual_seed(size["seed"])
    x = torch.randn(size["T"], 2, 3, dtype=torch.float64)
    filters = torch.randn(4, 3, size["n"], dtype=torch.float64)
    reach = (size["n"] - 1) * size["dilation"]
    return x, filters, size["dilation"], torch.zeros(reach, 2, 3, dtype=torch.float64)


@claim
@given(size=sizes)
def test_the_product_matches_the_definition(size):
    x, filters, d, zeros = draw(size)
    product = ngram_product(torch.cat((zeros, x)), filters, d)
    torch.testing.assert_close(product, ngram_product_definition(x, filters, d))


@claim
@given(size=sizes)
def test_the_definition_is_a_causal_convolution(size):
    x, filters, d, zeros = draw(size)
    padded = torch.cat((zeros, x)).permute(1, 2, 0)
    expected = F.conv1d(padded, filters.flip(2), dilation=d).permute(2, 0, 1)
    torch.testing.assert_close(ngram_product_definition(x, filters, d), expected)


@claim
@given(size=sizes)
def test_reverse_gives_the_product_of_the_reversed_sequence(size):
    x, filters, d, zeros = draw(size)
    product = ngram_product(torch.cat((x, zeros)), filters, d, reverse=True)
    torch.testing.assert_close(product.flip(0), ngram_product_definition(x.flip(0), filters, d))


def test_steps_before_the_sequence_are_included():
    x, filters = torch.randn(6, 1, 2, dtype=torch.float64), torch.randn(3, 2, 3).double()
    whole = ngram_product_definition(x, filters)
    torch.testing.assert_close(ngram_product(x[2:], filters), whole[4:])


def test_gradients_match_numerical_gradients():
    x = torch.randn(5, 1, 2, dtype=torch.float64, requires_grad=True)
    filters = torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: ngram_product(x, w, 2), (x, filters))
