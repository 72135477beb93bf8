"""A run of ``fit language``: resumed to the bit, fine-tuned, and measured on the right text."""

from __future__ import annotations

import json
import math
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from language_samples import made_up_text, small_config
from representer.errors import DataError, Interrupted
from representer.estimators import LanguageModel
from representer.estimators.language import EXCERPT, surprisals
from representer.estimators.language_training import negative_log_likelihood
from representer.kernels.token_counts import KneserNey
from representer.storage.run import MODEL
from representer.tasks.language import FLOW
from representer.training import trainer

FILES = ("metrics.jsonl", "metrics.csv", "final.safetensors", "model.safetensors")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(made_up_text(30), encoding="utf-8")
    return str(path)


def fit(path, config, *, resume=False):
    return FLOW.fit(replace(config, out=str(path), resume=resume))


ANSWERS = {"both": ("kernel", "network"), "kernel": ("kernel",), "network": ("network",)}
AWD = {
    "locked": True, "embedding_dropout": 0.1, "weight_dropout": 0.3, "activation_penalty": 2.0,
    "slowness_penalty": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(("optimizer", "options"), [
    ("adam", {"rnn_dropout": 0.1}),
    ("sgd", {"rnn_dropout": 0.1}),
    ("asgd", {**AWD, "cell": "rkm-lstm"}),
    ("asgd", {**AWD, "cell": "torch-lstm"}),
])  # fmt: skip
def test_a_run_stopped_at_any_step_continues_bit_for_bit(
    text, tmp_path, monkeypatch, optimizer, options
):
    config = small_config(
        data=text, optimizer=optimizer, lr=0.1, lr_decay=0.5, unroll=11, variable_unroll=True,
        **options,
    )  # fmt: skip
    metrics = fit(tmp_path / "whole", config)
    assert metrics["steps"] >= 8
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
            fit(tmp_path / "parts", config, resume=(tmp_path / "parts").exists())
            break
        except Interrupted:
            stops += 1
    assert stops >= metrics["steps"] - 1
    for name in FILES:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_fine_tuning_begins_with_the_best_weights_and_their_means_are_kept(text, tmp_path):
    first = small_config(data=text, cell="rkm-lstm", weight_dropout=0.3, locked=True)
    fit(tmp_path / "first", first)
    second = replace(
        first, optimizer="asgd", lr=1e-9, warm_start=str(tmp_path / "first"), input_dropout=0.0
    )
    fit(tmp_path / "second", second)
    best, tuned = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    for name in best:  # so small a rate leaves them where they were
        torch.testing.assert_close(tuned[name], best[name], rtol=0, atol=1e-6)
    rows = (tmp_path / "second" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["averaged_steps"] == json.loads(rows[-1])["step"]
    shutil.rmtree(tmp_path / "first")  # needed for the start alone
    fit(tmp_path / "second", replace(second, epochs=3), resume=True)


def test_a_run_of_the_first_version_is_refused_with_its_version(text, tmp_path):
    fit(tmp_path / "run", small_config(data=text))
    old = {"task": "language", "model": {}, "level": "word", "encoding": "utf-8"}
    (tmp_path / "run" / MODEL).write_text(json.dumps(old))
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"was written by version 0\.1\.0; this is version"):
        LanguageModel.load(tmp_path / "run")


@pytest.mark.parametrize("answer", ["both", "kernel", "network"])
def test_each_metric_is_that_of_its_part(text, tmp_path, answer):
    config = small_config(data=text, baselines="simple", answer=answer)
    metrics = fit(tmp_path / "run", config)
    own = LanguageModel.load(tmp_path / "run")
    data = FLOW.prepare(config)
    train, valid, test = (data.parts[part] for part in ("train", "valid", "test"))
    assert sorted(valid.tolist()) != sorted(test.tolist())
    if own.network_ is not None:
        expected = negative_log_likelihood(own.network_, valid, config.evaluation_rows)
        assert metrics["valid"]["valid_loss"] == pytest.approx(expected)
        nats = negative_log_likelihood(own.network_, test)
        assert metrics["parts"]["network"]["loss"] == pytest.approx(nats)
    if own.machine_ is not None:
        nats = -own.machine_.likelihoods(test.numpy()).mean()
        assert metrics["parts"]["kernel"]["loss"] == pytest.approx(nats)
    assert tuple(metrics["parts"]) == ANSWERS[answer]
    assert sum(part["share"] for part in metrics["parts"].values()) == pytest.approx(1)
    nats = -own.log_likelihood(test)
    assert metrics["test"]["loss"] == nats
    words = len(data.inputs.vocabulary)
    for order, row in zip((1, 3), metrics["baselines"], strict=True):
        counts = KneserNey(order).fit(train.numpy(), words)
        counted = counts.probabilities(test.numpy())[1:]
        assert row["loss"] == pytest.approx(-np.log(counted).mean())
    assert len(test) - 1 <= EXCERPT
    bits = [row["bits"] for row in surprisals(own, data.parts["test"])]
    assert sum(bits) / len(bits) == pytest.approx(nats / math.log(2), abs=0.005)  # two digits
