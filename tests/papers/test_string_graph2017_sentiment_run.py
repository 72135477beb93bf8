"""One run of the sentiment table: vocabulary, word vectors, weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import safetensors.torch
import torch

from representer.data.text import Vocabulary, read_vectors
from representer.estimators import halves
from representer.storage.run import RunFolder
from representer_papers.string_graph2017 import sentiment
from representer_papers.string_graph2017.published import SENTIMENT_CELLS
from representer_papers.string_graph2017.sentiment import (
    SentimentConfig,
    build_classifier,
    locate_treebank,
    read_treebank,
    with_vectors,
)

# of a tiny treebank, some texts have no word of the training
pytestmark = pytest.mark.filterwarnings("ignore:.*nothing that training had")


TINY = SentimentConfig("fine", "gated", seed=0, epochs=1, vectors="tiny.3d", hidden_size=4)


@pytest.fixture
def data(treebank):
    return read_treebank(locate_treebank(treebank, ["fine"])[0])


@pytest.fixture
def vectors(treebank):
    return read_vectors(treebank / "tiny.3d.txt")


def test_frozen_vectors_are_normalized_and_unknown_words_share_a_row_of_zeros(data, vectors):
    chosen, matrix, cover = with_vectors(TINY, data, vectors)
    assert matrix is not None
    assert sorted(chosen.inputs.vocabulary.words[2:]) == ["bad", "dull", "film", "good", "unseen"]
    torch.testing.assert_close(matrix.norm(dim=1), torch.tensor([0.0, 0, 1, 1, 1, 1, 1]))
    (good,) = chosen.inputs.vocabulary.encode(["good"])  # its vector is that of Good
    torch.testing.assert_close(matrix[good], torch.tensor([0.0, 0.6, 0.8]))
    assert chosen.inputs.vocabulary.encode(["rock"]) == [Vocabulary.UNKNOWN]
    # of bad dull weak film the rock good fine cast "," unseen; in two rounds of five texts, and one
    assert cover["types"] == pytest.approx(5 / 11)
    words = [word for text in data.parts["test"].objects for word in text.split()]
    known = [word for word in words if word in chosen.inputs.vocabulary]
    assert cover["running"] == pytest.approx(len(known) / len(words))
    assert 0.3 < cover["running"] < 0.6


def test_every_training_word_has_a_row_if_vectors_are_tuned(data, vectors):
    chosen, matrix, _ = with_vectors(replace(TINY, cell="gated-tuned"), data, vectors)
    assert matrix is not None
    assert {"rock", "the", "weak", "unseen"} <= set(chosen.inputs.vocabulary.words)
    (rock,) = chosen.inputs.vocabulary.encode(["rock"])
    assert 0 < matrix[rock].abs().max() <= 1
    assert not matrix[Vocabulary.UNKNOWN].any()
    model = build_classifier(replace(TINY, cell="gated-tuned"), chosen, matrix)
    assert model.embedding.weight.requires_grad


def test_learned_vectors_cover_only_training_words(data):
    chosen, matrix, cover = with_vectors(replace(TINY, cell="gated-learned"), data, None)
    assert matrix is None
    assert cover == {}
    assert "unseen" not in chosen.inputs.vocabulary
    assert "rock" in chosen.inputs.vocabulary
    model = build_classifier(replace(TINY, cell="gated-learned", embedding_size=7), chosen, None)
    assert model.config.embedding_size == 7


def test_initial_weights_depend_only_on_the_seed(data, vectors):
    chosen, matrix, _ = with_vectors(TINY, data, vectors)
    first, second = build_classifier(TINY, chosen, matrix), build_classifier(TINY, chosen, matrix)
    other = build_classifier(replace(TINY, seed=1), chosen, matrix)
    assert torch.equal(first.output.weight, second.output.weight)
    assert not torch.equal(first.output.weight, other.output.weight)
    assert not first.embedding.weight.requires_grad
    assert torch.equal(first.embedding.weight, other.embedding.weight)


def test_the_test_part_is_predicted_with_the_weights_of_the_best_epoch(
    data, vectors, tmp_path, monkeypatch
):
    seen, accuracies = [], iter((0.9, 0.4))
    make_task, predict = sentiment.training_task, halves.outputs_of

    def task(*given):
        scores = ({"valid_accuracy": a, "valid_loss": 1.0} for a in accuracies)
        return replace(make_task(*given), evaluate=lambda model, check: next(scores))

    def record(model, inputs, texts):
        seen.append((texts, {k: v.clone() for k, v in model.state_dict().items()}))
        return predict(model, inputs, texts)

    monkeypatch.setattr(sentiment, "training_task", task)
    monkeypatch.setattr(halves, "outputs_of", record)
    with RunFolder(tmp_path / "run") as folder:
        sentiment.run_sentiment(1, folder, replace(TINY, epochs=2, max_drop=1.0), (data, vectors))
    ((texts, weights),) = seen
    chosen, _, _ = with_vectors(TINY, data, vectors)
    assert texts == chosen.encoded["test"]
    best, final = (
        safetensors.torch.load_file(tmp_path / f"run/{name}.safetensors")
        for name in ("model", "final")
    )
    assert all(torch.equal(weights[name], best[name]) for name in best)
    assert not torch.equal(best["output.weight"], final["output.weight"])


def test_the_name_of_a_cell_determines_its_decay_and_embedding():
    said = {
        c: (replace(TINY, cell=c).decay, replace(TINY, cell=c).embedding) for c in SENTIMENT_CELLS
    }
    assert set(said.values()) == {
        (d, e) for d in ("state", 0.5) for e in ("frozen", "tuned", "learned")
    }
    assert said["constant-tuned"] == (0.5, "tuned")
    assert TINY.name == "gated-tiny.3d-seed0"
