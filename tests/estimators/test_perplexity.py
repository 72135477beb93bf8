"""Perplexity: the mean over a text read as a whole, whatever the segments."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from language_samples import small_model
from representer.estimators import language_training
from representer.estimators.language_training import figures, negative_log_likelihood

TOKENS = torch.randint(11, (50,), generator=torch.Generator().manual_seed(0))


def word_by_word(model, tokens):
    total, state = 0.0, None
    for now, later in pairwise(tokens):
        logs, state = model.step(now[None], state)
        total -= logs[0, later].item()
    return total / (len(tokens) - 1)


@pytest.mark.parametrize("segment", [1, 7, 256])
def test_the_state_is_carried_through_the_whole_text(monkeypatch, segment):
    monkeypatch.setattr(language_training, "SEGMENT", segment)
    model = small_model().eval()
    found = negative_log_likelihood(model, TOKENS)
    assert found == pytest.approx(word_by_word(model, TOKENS), rel=1e-12)


def test_streams_start_anew_each():
    model = small_model().eval()
    halves = [word_by_word(model, TOKENS[:25]), word_by_word(model, TOKENS[24:49])]
    found = negative_log_likelihood(model, TOKENS, rows=2)
    assert found == pytest.approx(sum(halves) / 2, rel=1e-12)


def test_a_signal_is_looked_for_after_every_segment(monkeypatch):
    monkeypatch.setattr(language_training, "SEGMENT", 10)
    asked = []
    negative_log_likelihood(small_model().eval(), TOKENS, check=lambda: asked.append(1))
    assert len(asked) == 5


def test_more_streams_than_tokens_are_as_many_as_there_can_be():
    model = small_model().eval()
    assert negative_log_likelihood(model, TOKENS[:3], rows=10) > 0


def test_the_figures_of_words_and_of_characters():
    assert figures(math.log(8), 9, "word") == {
        "tokens": 9, "loss": math.log(8), "perplexity": pytest.approx(8),
    }  # fmt: skip
    assert figures(math.log(8), 9, "char")["bits_per_character"] == pytest.approx(3)
