"""The estimator of a run: its first weights, its order of documents, its predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from representer.data.text import WordVectors
from representer.estimators import fitting
from representer.tasks.text.text_config import TextConfig
from representer.tasks.text.text_data import TextData, prepare
from representer.tasks.text.text_model import estimator_of, examples_of
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask

TINY = TextConfig(hidden_size=4, embedding_size=3, min_count=1, batch_size=4)


def build_model(config, data, vectors):
    estimator = estimator_of(config, data, vectors)
    return estimator.new_network(config.seed), getattr(estimator, "coverage_", None)


def training_task(config, data) -> TrainingTask:
    estimator = estimator_of(config, data)
    parts = examples_of(data, data.train), examples_of(data, data.valid)
    target = estimator.target_
    return fitting.training_task(estimator.inputs_, target, *parts, config.batch_size, config.seed)


def probabilities(model, documents, data) -> np.ndarray:
    estimator = estimator_of(TINY, data)
    outputs = fitting.outputs_of(model, estimator.inputs_, documents)
    return estimator.target_.probabilities(outputs)


def trainer_config(config, data) -> TrainerConfig:
    estimator = estimator_of(config, data)
    parts = examples_of(data, data.train), examples_of(data, data.valid)
    return fitting.trainer_config(estimator, estimator.target_, *parts, config.seed)


@pytest.fixture
def data(tmp_path) -> TextData:
    path = tmp_path / "data.csv"
    rows = [f"{'wave tide' if i % 2 else 'moon'} {'old ' * (i % 5)},{i % 2}" for i in range(30)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return prepare(replace(TINY, data=str(path)))


def test_the_first_weights_depend_on_the_seed_alone(data):
    first, _ = build_model(TINY, data, None)
    torch.rand(7)
    second, _ = build_model(TINY, data, None)
    other, _ = build_model(replace(TINY, seed=1), data, None)
    assert torch.equal(first.head[1].weight, second.head[1].weight)
    assert not torch.equal(first.head[1].weight, other.head[1].weight)


def test_vectors_bring_their_size_and_may_be_frozen(data):
    vectors = WordVectors(("wave",), np.full((1, 5), 0.5, dtype=np.float32))
    model, coverage = build_model(replace(TINY, freeze_embeddings=True), data, vectors)
    assert model.config.embedding_size == 5
    assert not model.embedding.weight.requires_grad
    assert coverage is not None
    assert coverage.found == 1


def test_padded_mean_divides_by_the_greatest_length(data):
    model, _ = build_model(replace(TINY, pooling="padded_mean", max_length=50), data, None)
    assert (model.config.pooling, model.config.max_length) == ("padded_mean", 50)


def test_an_epoch_has_every_document_once_and_its_order_is_a_function(data):
    task = training_task(TINY, data)
    batches = task.batches(3)
    assert sorted(i for batch in batches for i in batch) == list(range(len(data.train)))
    assert batches == training_task(TINY, data).batches(3)
    assert batches != task.batches(4)
    assert batches != training_task(replace(TINY, seed=1), data).batches(3)


def test_predictions_are_in_the_order_of_the_documents_for_all_lengths(data):
    model, _ = build_model(TINY, data, None)
    model.eval()
    documents = [[2], [3, 4, 5], [], [2, 3]]
    together = probabilities(model, documents, data)
    alone = np.concatenate([probabilities(model, [document], data) for document in documents])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(together.sum(axis=1), 1, atol=1e-12)


def test_evaluation_is_without_dropout_and_polls_after_every_batch(data):
    model, _ = build_model(replace(TINY, dropout=0.9), data, None)
    task, polls = training_task(TINY, data), []
    model.eval()
    first = task.evaluate(model, lambda: polls.append(1))
    assert first == task.evaluate(model, lambda: None)
    assert polls
    assert 0 <= first["valid_accuracy"] <= 1


def test_the_validation_part_is_evaluated(data):
    model, _ = build_model(TINY, data, None)
    predicted = probabilities(model.eval(), examples_of(data, data.valid).objects, data)
    of_truth = predicted[np.arange(len(data.valid)), data.valid.labels]
    metrics = training_task(TINY, data).evaluate(model, lambda: None)
    assert metrics["valid_loss"] == pytest.approx(-np.log(of_truth).mean())
    right = predicted.argmax(axis=1) == np.asarray(data.valid.labels)
    assert metrics["valid_accuracy"] == right.mean()
    # the parts differ, so that no other one passes
    assert sorted(data.valid.tokens) != sorted(data.test.tokens)


def test_zeros_of_the_options_mean_none_to_the_trainer(data):
    config = trainer_config(replace(TINY, patience=0), data)
    assert (config.patience, config.clip_norm, config.max_steps, config.threads) == (None,) * 4
    assert config.monitor == "valid_accuracy"
