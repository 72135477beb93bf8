"""Training a language model: carried state, rates by segment, penalties, and the weights kept."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from language_samples import made_up_text
from representer.data.language import count_tokens, fold
from representer.estimators import LanguageModel
from representer.estimators.language_training import negative_log_likelihood, training_task
from representer.storage.run import UnsavedRun

LINES = made_up_text(30).splitlines()


def estimator(**changes):
    values = {
        "hidden_size": 6, "batch_size": 4, "unroll": 7, "epochs": 2, "lr": 0.02, "n_jobs": 1,
        "evaluation_rows": 2, "input_dropout": 0.0, "output_dropout": 0.0, "verbose": 0,
        "patience": 0,
    }  # fmt: skip
    own = LanguageModel(**{**values, **changes})
    own.inputs_ = own.learn_inputs(count_tokens(LINES, "word"))
    return own


def texts(own):
    """The tokens of the first 24 lines and of the last 6."""
    return own.inputs_.encode(LINES[:24]), own.inputs_.encode(LINES[24:])


def task_of(own, model):
    return training_task(own, *texts(own), model, 0)


def run_losses(own, model):
    task = task_of(own, model)
    return task, [task.loss(model, task.load(batch)) for batch in task.batches(0)]


@pytest.mark.parametrize("unroll", [1, 7, 1000])
def test_segments_have_the_loss_of_the_whole_text_in_one(unroll):
    own = estimator(unroll=unroll)
    model = own.new_network(0).double()
    _, losses = run_losses(own, model)
    inputs, targets = fold(texts(own)[0], 4)
    logs = model.output.log_probabilities(model(inputs).features)
    whole = F.nll_loss(logs.flatten(0, 1), targets.flatten())
    total = sum(loss.objective * loss.examples for loss in losses) / targets.numel()
    torch.testing.assert_close(total, whole, rtol=1e-12, atol=0)


def test_an_epoch_starts_from_zeros():
    own = estimator()
    model = own.new_network(0)
    task, first = run_losses(own, model)
    again = [task.loss(model, task.load(batch)) for batch in task.batches(1)]
    assert [x.objective.item() for x in first] == [x.objective.item() for x in again]


def test_gradients_end_where_a_segment_begins():
    own = estimator()
    model = own.new_network(0)
    task, losses = run_losses(own, model)
    losses[0].objective.backward()  # would fail on the second if the first were part of it
    losses[1].objective.backward()
    assert task.carried is not None


def test_the_rate_of_a_segment_is_its_share_of_the_usual_length():
    own = estimator(variable_unroll=True, unroll=12)
    model = own.new_network(0)
    task = task_of(own, model)
    batches = task.batches(0)
    assert len({batch[0][2] for batch in batches}) > 2
    assert task.lr_scale is not None
    assert all(task.lr_scale(batch) == batch[0][2] / 12 for batch in batches)
    assert batches != task.batches(1)


def test_penalties_are_trained_on_and_not_shown():
    plain, weighed = estimator(), estimator(activation_penalty=2.0)
    slow = estimator(slowness_penalty=3.0)
    model = plain.new_network(0).double()
    read, wanted, _ = task_of(plain, model).load(task_of(plain, model).batches(0)[0])
    raw = model(read).raw
    expected = (
        (plain, 0.0),
        (weighed, 2 * raw.pow(2).mean().item()),
        (slow, 3 * (raw[1:] - raw[:-1]).pow(2).mean().item()),
    )
    for own, penalty in expected:
        loss = task_of(own, model).loss(model, (read, wanted, True))
        assert loss.shown is not None
        assert loss.objective.item() - loss.shown.item() == pytest.approx(penalty, abs=1e-12)
        assert loss.shown.item() == pytest.approx(
            task_of(plain, model).loss(model, (read, wanted, True)).objective.item()
        )


def test_the_seed_determines_the_first_weights():
    one, same, other = (estimator().new_network(seed).embedding.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_best_weights_are_kept_and_not_the_last():
    own = estimator(lr=0.1, epochs=6)
    train, valid = texts(own)
    # in another order, which training on the text makes less likely from some epoch on
    valid = valid[torch.randperm(len(valid), generator=torch.Generator().manual_seed(0))]
    result = own.fit_parts(UnsavedRun(), own.new_network(0), {"train": train, "valid": valid}, 0)
    assert result.best is not None
    assert result.best["epoch"] < result.epoch
    nats = negative_log_likelihood(own.network_, valid, 2)
    assert nats == pytest.approx(result.best["valid_loss"], rel=1e-6)
    task = training_task(own, train, valid, own.network_, 0)
    assert task.evaluate(own.network_, lambda: None)["valid_loss"] == nats
