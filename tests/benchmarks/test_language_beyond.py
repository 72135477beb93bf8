"""Dynamic evaluation and mixtures of language models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from representer.estimators.language import LanguageModel

LINES = ["the cat sat on the mat", "a dog sat on a log"] * 20


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(
        answer="network", hidden_size=8, embedding_size=8, num_layers=1, max_steps=3, min_count=1,
        batch_size=2, verbose=False, random_state=0,
    ).fit(LINES, validation=LINES)  # fmt: skip


def test_without_steps_the_network_is_as_it_was(bench, model):
    tokens = model.encode_text(LINES)
    values = bench("language_beyond").adapted(model.network_, tokens, 0.0)
    np.testing.assert_allclose(values, model.log_likelihoods(tokens), rtol=1e-5, atol=1e-6)


def test_a_step_follows_the_tokens_whose_loss_it_lowers(bench, model):
    beyond, tokens = bench("language_beyond"), model.encode_text(LINES)
    before = [weight.clone() for weight in model.network_.parameters()]
    plain, values = (beyond.adapted(model.network_, tokens, rate) for rate in (0.0, 1.0))
    assert values[200:].mean() > plain[200:].mean() + 0.1  # the text repeats itself
    np.testing.assert_array_equal(values[: beyond.SEGMENT], plain[: beyond.SEGMENT])
    changed = tokens.clone()
    changed[-1] = tokens[-2]  # what comes last changes its own probability alone
    other = beyond.adapted(model.network_, changed, 1.0)
    np.testing.assert_array_equal(other[:-1], values[:-1])
    assert other[-1] != values[-1]
    for weight, old in zip(model.network_.parameters(), before, strict=True):
        torch.testing.assert_close(weight, old, rtol=0, atol=0)


def test_the_weights_of_a_mixture_have_the_smallest_loss(bench):
    p = np.random.default_rng(0).uniform(0.05, 1, (2, 500))
    weights = bench("language_beyond").weights_of([*np.log(p)], 1000)
    grid = np.linspace(0, 1, 1001)
    losses = [-np.log(w * p[0] + (1 - w) * p[1]).mean() for w in grid]
    assert weights.sum() == pytest.approx(1)
    assert weights[0] == pytest.approx(grid[np.argmin(losses)], abs=2e-3)
