"""Training a language model: carried state, rates by segment, and going on to the bit."""

from __future__ import annotations

import json
import math
import shutil
import signal
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from language_samples import made_up_text, small_config
from representer.data.language import cut, fold, read_corpus
from representer.errors import CheckpointError, DataError, Interrupted
from representer.estimators.perplexity import negative_log_likelihood
from representer.storage.run_folder import RunFolder
from representer.tasks.language.kneser_ney import kneser_ney
from representer.tasks.language.language_data import LanguageData
from representer.tasks.language.language_fit import train
from representer.tasks.language.language_results import EXCERPT, metrics_of, surprisals
from representer.tasks.language.language_training import build_model, training_task
from representer.training import trainer
from representer.training.training_result import TrainingResult

FILES = ("metrics.jsonl", "metrics.csv", "final.safetensors", "model.safetensors")


def small_data() -> LanguageData:
    parts = cut(made_up_text(30).splitlines(), 0.1, 0.1)
    return LanguageData(read_corpus(parts), "made up", {})


def without_dropout(**changes):
    return small_config(input_dropout=0.0, output_dropout=0.0, **changes)


def run_losses(config, data, model):
    task = training_task(config, data, model)
    return task, [task.loss(model, task.load(batch)) for batch in task.batches(0)]


@pytest.mark.parametrize("unroll", [1, 7, 1000])
def test_segments_have_the_loss_of_the_whole_text_in_one(unroll):
    config, data = without_dropout(unroll=unroll), small_data()
    model = build_model(config, len(data.corpus.vocabulary)).double()
    _, losses = run_losses(config, data, model)
    inputs, targets = fold(data.corpus.train, config.batch_size)
    logs = model.output.log_probabilities(model(inputs).features)
    whole = F.nll_loss(logs.flatten(0, 1), targets.flatten())
    total = sum(loss.objective * loss.examples for loss in losses) / targets.numel()
    torch.testing.assert_close(total, whole, rtol=1e-12, atol=0)


def test_an_epoch_starts_from_zeros():
    config, data = without_dropout(), small_data()
    model = build_model(config, len(data.corpus.vocabulary))
    task, first = run_losses(config, data, model)
    again = [task.loss(model, task.load(batch)) for batch in task.batches(1)]
    assert [x.objective.item() for x in first] == [x.objective.item() for x in again]


def test_gradients_end_where_a_segment_begins():
    config, data = without_dropout(), small_data()
    model = build_model(config, len(data.corpus.vocabulary))
    task, losses = run_losses(config, data, model)
    losses[0].objective.backward()  # would fail on the second if the first were part of it
    losses[1].objective.backward()
    assert task.carried is not None


def test_the_rate_of_a_segment_is_its_share_of_the_usual_length():
    config, data = small_config(variable_unroll=True, unroll=12), small_data()
    model = build_model(config, len(data.corpus.vocabulary))
    task = training_task(config, data, model)
    batches = task.batches(0)
    assert len({batch[0][2] for batch in batches}) > 2
    assert task.lr_scale is not None
    assert all(task.lr_scale(batch) == batch[0][2] / 12 for batch in batches)
    assert batches != task.batches(1)


def test_penalties_are_trained_on_and_not_shown():
    data = small_data()
    plain, weighed = without_dropout(), without_dropout(activation_penalty=2.0)
    slow = without_dropout(slowness_penalty=3.0)
    model = build_model(plain, len(data.corpus.vocabulary)).double()
    read, wanted, _ = training_task(plain, data, model).load(
        training_task(plain, data, model).batches(0)[0]
    )
    raw = model(read).raw
    expected = {
        plain: 0.0,
        weighed: 2 * raw.pow(2).mean().item(),
        slow: 3 * (raw[1:] - raw[:-1]).pow(2).mean().item(),
    }
    for config, penalty in expected.items():
        loss = training_task(config, data, model).loss(model, (read, wanted, True))
        assert loss.shown is not None
        assert loss.objective.item() - loss.shown.item() == pytest.approx(penalty, abs=1e-12)
        assert loss.shown.item() == pytest.approx(
            training_task(plain, data, model).loss(model, (read, wanted, True)).objective.item()
        )


def fit(path, config, data, *, resume=False):
    with RunFolder(path, resume=resume) as folder:
        train(folder, config, data)


AWD = {
    "locked": True, "embedding_dropout": 0.1, "weight_dropout": 0.3, "activation_penalty": 2.0,
    "slowness_penalty": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("adam", {"rnn_dropout": 0.1}),
        ("sgd", {"rnn_dropout": 0.1}),
        ("asgd", {**AWD, "cell": "rkm-lstm"}),
        ("asgd", {**AWD, "cell": "torch-lstm"}),
    ],
)
def test_a_run_stopped_at_any_step_continues_bit_for_bit(tmp_path, monkeypatch, optimizer, options):
    data = small_data()
    config = small_config(
        optimizer=optimizer, lr=0.1, lr_decay=0.5, unroll=11, variable_unroll=True, **options
    )
    fit(tmp_path / "whole", config, data)
    steps = len(training_task(config, data, build_model(config, 6)).batches(0)) * 2
    assert steps >= 8
    take = trainer.TrainingStep.__call__
    taken = 0

    def stopping(self, description):
        nonlocal taken
        outcome = take(self, description)
        taken += 1
        if taken == 1:
            signal.raise_signal(signal.SIGTERM)
        return outcome

    monkeypatch.setattr(trainer.TrainingStep, "__call__", stopping)
    stops = 0
    while True:  # every process takes one step, and is stopped
        taken = 0
        try:
            fit(tmp_path / "parts", config, data, resume=(tmp_path / "parts").exists())
            break
        except Interrupted:
            stops += 1
    assert stops >= steps - 1
    for name in FILES:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_the_seed_decides_the_first_weights():
    config = small_config()
    one, same, other = (
        build_model(replace(config, seed=seed), 9).embedding.weight for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_fine_tuning_begins_with_the_best_weights_and_their_means_are_kept(tmp_path):
    data = small_data()
    first = small_config(cell="rkm-lstm", weight_dropout=0.3, locked=True)
    fit(tmp_path / "first", first, data)
    second = replace(
        first, optimizer="asgd", lr=1e-9, start_from=str(tmp_path / "first"), input_dropout=0.0
    )
    fit(tmp_path / "second", second, data)
    best, tuned = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    for name in best:  # so small a rate leaves them where they were
        torch.testing.assert_close(tuned[name], best[name], rtol=0, atol=1e-6)
    rows = (tmp_path / "second" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["averaged_steps"] == json.loads(rows[-1])["step"]
    shutil.rmtree(tmp_path / "first")  # needed for the start alone
    fit(tmp_path / "second", replace(second, epochs=3), data, resume=True)


def test_fine_tuning_of_what_does_not_fit_is_refused(tmp_path):
    data = small_data()
    fit(tmp_path / "first", small_config(), data)
    start = small_config(start_from=str(tmp_path / "first"))
    with pytest.raises(CheckpointError, match="does not hold this model's weights"):
        fit(tmp_path / "larger", replace(start, hidden_size=8), data)
    other = LanguageData(read_corpus(cut(["x y z"] * 20, 0.1, 0.1)), "other", {})
    with pytest.raises(DataError, match=r"knows 6 other tokens than the data, which have 5"):
        fit(tmp_path / "other", start, other)
    with pytest.raises(DataError, match="there is no such run folder"):
        fit(tmp_path / "none", replace(start, start_from=str(tmp_path / "nothing")), data)


def test_the_best_weights_are_tested_and_not_the_last(tmp_path):
    config, data = without_dropout(lr=0.5, epochs=6), small_data()
    with RunFolder(tmp_path / "run") as run:
        trained = train(run, config, data)
    best = trained.training.best
    assert best is not None
    assert best["epoch"] < trained.training.epoch
    nats = negative_log_likelihood(trained.model, data.corpus.valid, config.evaluation_rows)
    assert nats == pytest.approx(best["valid_loss"], rel=1e-6)


def test_surprisals_are_the_bits_of_the_first_tokens():
    config, data = without_dropout(), small_data()
    model = build_model(config, len(data.corpus.vocabulary)).eval()
    tokens = data.corpus.test
    assert len(tokens) - 1 <= EXCERPT
    bits = [row["bits"] for row in surprisals(data, model)]
    nats = negative_log_likelihood(model, tokens)
    assert sum(bits) / len(bits) == pytest.approx(nats / math.log(2), abs=0.005)  # two digits


def test_each_metric_is_that_of_its_part():
    config, data = without_dropout(baselines=True), small_data()
    model = build_model(config, len(data.corpus.vocabulary)).eval()
    corpus = data.corpus
    assert sorted(corpus.valid.tolist()) != sorted(corpus.test.tolist())
    valid = training_task(config, data, model).evaluate(model, lambda: None)
    expected = negative_log_likelihood(model, corpus.valid, config.evaluation_rows)
    assert valid["valid_loss"] == pytest.approx(expected)
    metrics = metrics_of(config, data, model, TrainingResult(0, 0, [], None, "epochs", 0.0))
    assert metrics["test"]["loss"] == pytest.approx(negative_log_likelihood(model, corpus.test))
    for order, row in zip((1, 3), metrics["baselines"], strict=True):
        nats = kneser_ney(corpus.train.numpy(), corpus.test.numpy(), len(corpus.vocabulary), order)
        assert row["loss"] == pytest.approx(nats)
