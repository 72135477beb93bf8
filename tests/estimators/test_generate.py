"""Drawing tokens: by their probabilities, repeatably, in constant memory."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
import torch

from language_samples import small_model
from representer.errors import ArgumentError
from representer.estimators import language_training
from representer.estimators.language_training import NetworkPredictor

MODEL = small_model().eval()
generate = partial(language_training.generate, NetworkPredictor(MODEL), size=11)


@torch.no_grad()
def chances(prompt):
    state, logs = None, torch.zeros(0)
    for token in prompt:
        logs, state = MODEL.step(torch.tensor([token]), state)
    return logs[0].exp()


def test_no_temperature_takes_the_likeliest_at_every_step():
    drawn = list(generate([0, 3], 6, temperature=0))
    for n, token in enumerate(drawn):
        assert token == int(chances([0, 3, *drawn[:n]]).argmax())


def test_tokens_are_drawn_by_their_probabilities():
    many = 500
    found = Counter(next(generate([0, 3], 1, seed=seed)) for seed in range(many))
    expected = chances([0, 3])
    deviation = (expected * (1 - expected) / many).sqrt()
    share = torch.tensor([found[token] / many for token in range(11)])
    assert ((share - expected).abs() < 4.5 * deviation).all()  # 1 in 10,000 for 11 tokens


def test_top_p_draws_from_the_likeliest_that_reach_it():
    ordered, tokens = chances([0, 3]).sort(descending=True)
    reach = float(ordered[:3].sum()) - 1e-9  # the third is needed, the fourth is not
    found = {next(generate([0, 3], 1, top_p=reach, seed=s)) for s in range(100)}
    assert found == set(tokens[:3].tolist())
    tiny = {next(generate([0, 3], 1, top_p=1e-9, seed=s)) for s in range(20)}
    assert tiny == {int(tokens[0])}


def test_a_low_temperature_sharpens():
    first = int(chances([0, 3]).argmax())
    hits = [
        sum(next(generate([0, 3], 1, temperature=t, seed=s)) == first for s in range(60))
        for t in (1e-3, 1.0)
    ]
    assert hits[0] == 60 > hits[1]


def test_some_tokens_are_never_drawn():
    never = [int(t) for t in chances([0]).sort(descending=True).indices[:10]]
    assert set(generate([0], 30, never=never)) == set(range(11)) - set(never)


def test_a_seed_draws_the_same_and_another_draws_others():
    texts = [list(generate([0], 40, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    list(generate([0], 3))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": []}, "prompt is \\[\\]; expected at least one token"),
        ({"count": 0}, "tokens is 0; expected 1 or more"),
        ({"temperature": -1}, "temperature is -1; expected 0 or more"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0}, "top_p is 0; expected above 0 and up to 1"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"never": range(11)}, "not all tokens"),
    ],
)
def test_invalid_options_are_rejected_before_sampling(options, message):
    with pytest.raises(ArgumentError, match=message):
        generate(**{"prompt": [0], "count": 1, **options})
