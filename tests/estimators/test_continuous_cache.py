"""The continuous cache is the sum as written, in the memory of its window."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from language_samples import small_model
from representer.errors import ArgumentError
from representer.estimators import continuous_cache
from representer.estimators.continuous_cache import (
    ContinuousCache,
    cached_negative_log_likelihood,
)
from representer.estimators.language_predictors import negative_log_likelihood

STEPS, SIZE, WORDS = 20, 5, 7


def example(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    features = torch.randn(STEPS, SIZE, generator=draw, dtype=torch.float64)
    logs = torch.randn(STEPS, WORDS, generator=draw, dtype=torch.float64).log_softmax(-1)
    return features, logs, torch.randint(WORDS, (STEPS,), generator=draw)


def by_hand(features, logs, words, theta: float, share: float, window: int) -> Tensor:
    """Every step and word on its own."""
    mixed = []
    for t in range(len(features)):
        seen = range(max(0, t - window), t)
        if not seen:
            mixed.append(logs[t].exp())
            continue
        likeness = [math.exp(theta * float(features[t] @ features[i])) for i in seen]
        recent = [0.0] * WORDS
        for i, value in zip(seen, likeness, strict=True):
            recent[int(words[i])] += value / sum(likeness)
        mixed.append(
            (1 - share) * logs[t].exp() + share * torch.tensor(recent, dtype=torch.float64)
        )
    return torch.stack(mixed).log()


@pytest.mark.parametrize("window", [1, 4, 100])
@pytest.mark.parametrize(("theta", "share"), [(0.7, 0.3), (-0.5, 0.01), (0.0, 0.9)])
def test_the_mixture_is_the_definition(window, theta, share):
    features, logs, words = example()
    found = ContinuousCache(theta, share, window).read(features, logs, words)
    wanted = by_hand(features, logs, words, theta, share, window)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(STEPS, dtype=torch.float64))


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("window", [2, 5, 100])
def test_pieces_are_read_as_the_whole_is(size, window):
    features, logs, words = example()
    whole = ContinuousCache(0.7, 0.3, window).read(features, logs, words)
    cache = ContinuousCache(0.7, 0.3, window)
    parts = [
        cache.read(*(x[start : start + size] for x in (features, logs, words)))
        for start in range(0, STEPS, size)
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-12, atol=1e-12)
    assert cache.remembered == min(window, STEPS)
    held = cache._features.untyped_storage().nbytes()  # type: ignore[union-attr]
    assert held == 8 * SIZE * min(window, STEPS)


def test_a_step_does_not_see_the_word_that_comes_after_it():
    features, logs, words = example()
    other = words.clone()
    other[-1] = (other[-1] + 1) % WORDS
    first, second = (ContinuousCache().read(features, logs, w) for w in (words, other))
    assert torch.equal(first, second)


def test_without_a_share_the_model_speaks_alone_and_with_all_of_it_the_cache():
    features, logs, words = example()
    torch.testing.assert_close(ContinuousCache(share=0.0).read(features, logs, words), logs)
    alone = ContinuousCache(share=1.0).read(features, logs, words)
    assert torch.equal(alone[0], logs[0])
    never = words[0] != torch.arange(WORDS)
    assert (alone[1][never] == -math.inf).all()
    assert alone[1][words[0]].item() == pytest.approx(0, abs=1e-12)


def model():
    return small_model(cell="rkm-lstm").eval()


def test_a_text_is_evaluated_with_its_mixture():
    tokens = torch.randint(11, (150,), generator=torch.Generator().manual_seed(2))
    network = model()
    with torch.no_grad():
        features = network(tokens[:-1, None]).features[:, 0]
        logs = network.output.log_probabilities(features)
    mixed = ContinuousCache(2.0, 0.2, 30).read(features, logs, tokens[1:])
    wanted = -mixed.gather(1, tokens[1:, None]).mean().item()
    found = cached_negative_log_likelihood(network, tokens, ContinuousCache(2.0, 0.2, 30))
    assert found == pytest.approx(wanted, rel=1e-10)
    plain = cached_negative_log_likelihood(network, tokens, ContinuousCache(share=0.0))
    assert plain == pytest.approx(negative_log_likelihood(network, tokens), rel=1e-12)


def test_a_word_that_is_repeated_is_expected():
    tokens = torch.tensor([3, 4]).repeat(50)
    cached = cached_negative_log_likelihood(model(), tokens, ContinuousCache(1.0, 0.5, 20))
    assert cached < 0.7 * negative_log_likelihood(model(), tokens)


def test_no_more_is_kept_than_the_window(monkeypatch):
    monkeypatch.setattr(continuous_cache, "_SEGMENT", 8)
    cache, sizes = ContinuousCache(window=6), []
    cached_negative_log_likelihood(
        model(), torch.randint(11, (60,)), cache, lambda: sizes.append(cache.remembered)
    )
    assert sizes == [6] * 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 1.5}, "share is 1.5; expected a number from 0 to 1"),
        ({"window": 0}, "window is 0; expected a positive integer"),
        ({"theta": float("inf")}, "theta is inf; expected a finite number"),
    ],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        ContinuousCache(**options)
