"""Embedding dropout drops all occurrences of a word."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from representer.errors import ArgumentError
from representer.nn import EmbeddingDropout

V, E = 40, 6


def test_all_occurrences_of_a_word_are_dropped_or_all_scaled() -> None:
    torch.manual_seed(0)
    weight = torch.randn(V, E).abs() + 1
    tokens = torch.arange(V).repeat(3, 1)
    vectors = EmbeddingDropout(0.3)(weight, tokens)
    factor = vectors / weight[tokens]
    assert (factor == factor[:1, :, :1]).logical_or((factor - factor[:1, :, :1]).abs() < 1e-6).all()
    kept = factor[0, :, 0] > 0
    torch.testing.assert_close(factor[0, kept, 0], torch.full((int(kept.sum()),), 1 / 0.7))
    assert 0 < int(kept.sum()) < V


def test_the_expectation_is_the_embedding() -> None:
    torch.manual_seed(0)
    drop, weight = EmbeddingDropout(0.5), torch.ones(20000, 1)
    # 20000 words of variance 1: the mean is within 4/√20000 of 1
    assert drop(weight, torch.arange(20000)).mean().item() == pytest.approx(1, abs=0.029)


def test_two_calls_drop_different_words() -> None:
    drop, weight, tokens = EmbeddingDropout(0.5), torch.ones(V, E), torch.arange(V)
    assert not torch.equal(drop(weight, tokens), drop(weight, tokens))


def test_a_tied_weight_gets_gradients_from_both_uses_and_none_from_dropped_words() -> None:
    embedding = nn.Embedding(V, E)
    tokens = torch.randint(V, (5, 2))
    x = EmbeddingDropout(0.5)(embedding.weight, tokens)
    dropped = {
        int(w) for w, v in zip(tokens.flatten(), x.flatten(0, 1), strict=True) if not v.any()
    }
    (gradient,) = torch.autograd.grad(x.sum(), embedding.weight, retain_graph=True)
    assert dropped
    assert not gradient[list(dropped)].any()
    (tied,) = torch.autograd.grad((x @ embedding.weight.T).sum(), embedding.weight)
    assert tied.ne(0).any(1).all()  # the softmax uses all words


def test_evaluation_and_p_of_0_are_plain_lookups() -> None:
    weight, tokens = torch.randn(V, E), torch.randint(V, (5, 2))
    assert torch.equal(EmbeddingDropout(0.5).eval()(weight, tokens), weight[tokens])
    assert torch.equal(EmbeddingDropout(0.0)(weight, tokens), weight[tokens])


def test_a_probability_out_of_range_is_rejected() -> None:
    with pytest.raises(ArgumentError, match="p is -1; expected a number from 0 to 1"):
        EmbeddingDropout(-1)
    assert repr(EmbeddingDropout(0.5)) == "EmbeddingDropout(p=0.5)"
