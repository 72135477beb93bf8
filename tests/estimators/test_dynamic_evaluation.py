"""Dynamic evaluation is the updates as written, and leaves the model as it was."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from language_samples import small_model
from representer.errors import ArgumentError, TrainingError
from representer.estimators import dynamic_evaluation as module
from representer.estimators.dynamic_evaluation import (
    dynamic_evaluation,
    mean_squared_gradients,
)
from representer.estimators.language_predictors import negative_log_likelihood

TOKENS = torch.randint(11, (24,), generator=torch.Generator().manual_seed(1))
LR, DECAY = 0.3, 0.2


def model(**changes):
    return small_model(**{"cell": "rkm-lstm", **changes}).eval()


def pieces(network, tokens: Tensor, segment: int, update) -> float:
    """Score piece after piece with ``log_softmax`` and ``.backward()``; ``update`` after each."""
    state, total = None, 0.0
    for start in range(0, len(tokens) - 1, segment):
        read, wanted = tokens[start : start + segment], tokens[start + 1 : start + 1 + segment]
        read = read[: len(wanted)]
        state = None if state is None else tuple(s.detach() for s in state)
        features, _, state = network(read[:, None], state)
        logits = features[:, 0] @ network.embedding.weight.T + network.output.bias
        loss = -F.log_softmax(logits, -1)[torch.arange(len(wanted)), wanted]
        total += loss.sum().item()
        network.zero_grad()
        loss.mean().backward()
        update(loss)
    return total / (len(tokens) - 1)


@pytest.mark.parametrize("segment", [1, 5, 100])
@pytest.mark.parametrize("decay", [0.0, DECAY])
def test_plain_updates_are_those_of_the_formula(segment, decay):
    naive = model()
    first = [p.detach().clone() for p in naive.parameters()]

    def update(loss):
        with torch.no_grad():
            for p, p0 in zip(naive.parameters(), first, strict=True):
                p.copy_(p - LR * p.grad + decay * (p0 - p))

    wanted = pieces(naive, TOKENS, segment, update)
    found = dynamic_evaluation(model(), TOKENS, lr=LR, decay=decay, segment=segment)
    assert found == pytest.approx(wanted, rel=1e-10)


def test_normalized_updates_are_those_of_the_formula():
    naive = model()
    squares = [torch.rand_like(p) for p in naive.parameters()]
    first = [p.detach().clone() for p in naive.parameters()]
    roots = [s.sqrt() for s in squares]
    mean = torch.cat([r.flatten() for r in roots]).mean()
    epsilon, decay = 0.03, 0.7
    assert max(r.max() for r in roots) / mean * decay > 1  # the bound on the way back is met

    def update(loss):
        with torch.no_grad():
            for p, p0, r in zip(naive.parameters(), first, roots, strict=True):
                back = torch.minimum(decay * r / mean, torch.ones_like(r))
                p.copy_(p - 0.05 * p.grad / (r + epsilon) + back * (p0 - p))

    wanted = pieces(naive, TOKENS, 5, update)
    options = {"lr": 0.05, "decay": decay, "mean_squares": squares, "epsilon": epsilon}
    assert dynamic_evaluation(model(), TOKENS, **options) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("rows", [1, 3])
def test_mean_squares_are_of_the_gradients_of_segments(rows):
    naive, sums, count = model(), None, 0
    state, steps = None, (len(TOKENS) - 1) // rows
    inputs = TOKENS[: steps * rows].view(rows, steps).T
    targets = TOKENS[1 : steps * rows + 1].view(rows, steps).T
    for start in range(0, steps, 4):
        state = None if state is None else tuple(s.detach() for s in state)
        features, _, state = naive(inputs[start : start + 4], state)
        logs = naive.output.log_probabilities(features)
        loss = -logs.gather(2, targets[start : start + 4, :, None]).mean()
        squares = [g**2 for g in torch.autograd.grad(loss, list(naive.parameters()))]
        sums = squares if sums is None else [a + b for a, b in zip(sums, squares, strict=True)]
        count += 1
    assert sums is not None
    network = model()
    found = mean_squared_gradients(network, TOKENS, rows=rows, segment=4)
    for a, b in zip(found, sums, strict=True):
        torch.testing.assert_close(a, b / count, rtol=1e-10, atol=1e-14)
    assert all(p.grad is None for p in network.parameters())


def test_without_a_rate_it_is_plain_evaluation():
    found = dynamic_evaluation(model(), TOKENS, lr=0.0, decay=0.5)
    assert found == pytest.approx(negative_log_likelihood(model(), TOKENS), rel=1e-12)


def test_a_repeating_text_is_predicted_better_than_without():
    tokens = torch.tensor([1, 5, 2, 7]).repeat(30)
    learned = dynamic_evaluation(model(), tokens, lr=0.5)
    assert learned < 0.8 * negative_log_likelihood(model(), tokens)


@pytest.mark.parametrize("cell", ["rkm-lstm", "torch-lstm", "string-kernel"])
@pytest.mark.parametrize("fails", [False, True])
def test_weights_and_gradients_are_afterwards_what_they_were(cell, fails):
    network = model(cell=cell, weight_dropout=0.5)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {name: value.clone() for name, value in network.state_dict().items()}

    def check():
        if fails:
            assert not torch.equal(network.output.bias, before["output.bias"])
            raise KeyboardInterrupt

    if fails:
        with pytest.raises(KeyboardInterrupt):
            dynamic_evaluation(network, TOKENS, lr=LR, check=check)
    else:
        dynamic_evaluation(network, TOKENS, lr=LR, check=check)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all((p.grad == 1).all() for p in network.parameters())
    assert not network.training


def test_parameters_that_are_not_trained_are_not_changed():
    network = model()
    network.embedding.weight.requires_grad_(False)
    dynamic_evaluation(network, TOKENS, lr=LR)
    assert len(mean_squared_gradients(network, TOKENS, rows=1)) == len([*network.parameters()]) - 1


def test_it_may_run_where_gradients_are_off():
    with torch.no_grad():
        inside = dynamic_evaluation(model(), TOKENS, lr=LR)
    assert inside == dynamic_evaluation(model(), TOKENS, lr=LR)


def test_weights_that_diverge_are_reported_and_put_back():
    network = model()
    before = network.output.bias.detach().clone()
    with pytest.raises(TrainingError, match=r"The loss is .* tokens of .* at lr 1e\+300. Lower"):
        dynamic_evaluation(network, TOKENS, lr=1e300)
    assert torch.equal(network.output.bias, before)


def test_check_is_called_after_every_segment():
    calls = []
    dynamic_evaluation(model(), TOKENS, lr=LR, segment=5, check=lambda: calls.append(1))
    assert len(calls) == 5  # 23 predicted tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "lr is -1.0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"lr": 1.0, "decay": 1.5}, "decay is 1.5; expected a number from 0 to 1"),
        ({"lr": 1.0, "epsilon": 0.0}, "epsilon is 0.0"),
        ({"lr": 1.0, "segment": 0}, "unroll is 0"),
    ],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        module.dynamic_evaluation(model(), TOKENS, **options)
