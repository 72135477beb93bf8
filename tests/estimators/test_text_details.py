from __future__ import annotations

from typing import Any

import pytest
import torch

from representer.data.text import Vocabulary
from representer.estimators import TextClassifier
from representer.estimators.ngram_contributions import with_gaps
from representer.estimators.targets import Classes
from representer.estimators.text import TextInputs, TextModel, evidence_of
from representer.explain import reference_card, stack_readout
from representer.models import (
    SequenceClassifierConfig,
    SequenceNetwork,
    StackedClassifier,
    StackedClassifierConfig,
)

WORDS = ["wave", "tide", "moon", "star", "the", "old"]
TEXT = " ".join(WORDS)


def trained_with(cell: str, pooling: str = "mean", **options) -> TextClassifier:
    """A classifier of random weights: what is explained need not be sensible."""
    config = SequenceClassifierConfig(
        vocabulary_size=8, num_classes=3, cell=cell, embedding_size=5, hidden_size=6, head_size=7,
        pooling=pooling, max_length=20 if pooling == "padded_mean" else None,
        **{"layer_norm": False, **options},
    )  # fmt: skip
    model = SequenceNetwork(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    model.embedding.weight.data[0] = 0
    vocabulary = Vocabulary((*Vocabulary.MARKS, *WORDS))
    return trained_text(model, TextInputs(vocabulary, "words", 400))


def inside(trained: TextClassifier, text: str = TEXT, top: int = 4) -> dict[str, Any]:
    (explanation,) = trained.explain([text], top)
    return trained.explanation_details(text, explanation)


def trained_text(model: TextModel, inputs: TextInputs) -> TextClassifier:
    estimator = TextClassifier()
    estimator.network_, estimator.inputs_ = model.eval(), inputs
    estimator.target_ = Classes(("sea", "sky", "land"))
    return estimator


CASES = {
    "gates": ("string-kernel", {"decay": "input"}),
    "state gates": ("string-kernel", {"decay": "state", "order": 3}),
    "constant": ("string-kernel", {"decay": 1.0, "order": 1}),
    "padded mean": ("string-kernel", {"pooling": "padded_mean"}),
    "attention": ("rkm-cifg", {"pooling": "attention", "bidirectional": True}),
    "CIFG": ("rkm-cifg", {"layer_norm": True, "filter_length": 2}),
    "RAN": ("ran", {"pooling": "padded_mean"}),
    "linear kernel": ("linear-kernel-gated", {}),
    "two layers": ("string-kernel", {"num_layers": 2, "decay": "input"}),
    "two directions": ("string-kernel", {"bidirectional": True}),
    "both": ("string-kernel", {"num_layers": 3, "bidirectional": True, "decay": "state"}),
    "a deep CIFG": ("rkm-cifg", {"num_layers": 2, "bidirectional": True, "layer_norm": True}),
}


@pytest.mark.parametrize(("cell", "options"), CASES.values(), ids=CASES)
def test_shares_and_constant_sum_to_the_logit_above_the_mean(cell, options):
    trained = trained_with(cell, **options)
    words = ["the", "wave", "unheard", "moon", "moon", "old", "tide"]
    entry = inside(trained, " ".join(words))
    (explanation,) = trained.explain([" ".join(words)])
    evidence = sum(entry["by_word"]) + explanation.baseline
    ids = torch.tensor([trained.inputs_.vocabulary.encode(words)])
    logits = trained.network_.double()(ids, torch.tensor([len(words)]))[0]
    label = int(logits.argmax())
    assert explanation.prediction == trained.classes_[label]
    # the model is in float32, the explanation in float64
    assert evidence == pytest.approx((logits[label] - logits.mean()).item(), rel=1e-4)
    assert len(entry["by_word"]) == len(entry["marked"]) == len(words)
    assert max(map(abs, entry["strengths"])) == 1


def test_the_shares_of_a_stack_sum_to_its_logit_above_the_mean():
    torch.manual_seed(0)
    model = StackedClassifier(
        StackedClassifierConfig(8, 3, embedding_size=5, hidden_size=6, num_layers=3)
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
    plain = trained_with("string-kernel")
    trained = trained_text(model, TextInputs(plain.inputs_.vocabulary, "blanks", None))
    entry = inside(trained)
    (explanation,) = trained.explain([TEXT])
    evidence = sum(entry["by_word"]) + explanation.baseline
    ids = torch.tensor([trained.inputs_.vocabulary.encode(WORDS)])
    logits = model(ids, torch.tensor([len(WORDS)]))[0]
    label = int(logits.argmax())
    assert evidence == pytest.approx((logits[label] - logits.mean()).item(), rel=1e-10)
    assert (entry["layers"], explanation.baseline) == (3, 0.0)
    assert explanation.prediction == trained.classes_[label]
    total = sum(line.contribution for line in explanation.lines)
    assert total == pytest.approx(evidence, rel=1e-10)


def test_what_reads_from_the_end_is_shown_in_the_order_of_the_text():
    trained = trained_with("string-kernel", bidirectional=True, order=2, decay="state")
    units = {one["unit"]: one for one in inside(trained)["units"]}
    assert {unit < 6 for unit in units} == {True, False}
    known = {with_gaps(WORDS, [i, j]) for j in range(6) for i in range(j)}
    for one in units.values():
        assert {ngram["text"] for ngram in one["ngrams"]} <= known
    cell, number = trained.network_.cell, max(units)
    marks = len(Vocabulary.MARKS)
    vectors = trained.network_.embedding.weight.detach()[marks:]
    seen = trained.network_.embedding(
        torch.tensor(trained.inputs_.vocabulary.encode(WORDS))
    ).detach()
    part = cell.part(0, reverse=True)
    card = reference_card(part, number - 6, WORDS, vectors, data=[seen.flip(0)])  # as gates saw it
    assert units[number]["half_life"] == pytest.approx(card.half_life, rel=1e-4)


def test_an_ngram_has_one_line_whose_contribution_is_the_sum_over_all_units():
    trained = trained_with("string-kernel", decay="input", bidirectional=True)
    text = "wave the wave tide"
    (explanation,) = trained.explain([text])
    lines = {line.what: line for line in explanation.lines}
    assert len(lines) == len(explanation.lines)
    assert lines["wave … wave"].places == ((0, 2),)
    assert lines["wave … tide"].places == ((0, 3),)
    assert lines["wave tide"].places == ((2, 3),)
    words = text.split()
    vectors = trained.network_.embedding(torch.tensor(trained.inputs_.vocabulary.encode(words)))
    evidence = evidence_of(trained.network_, torch.tensor(trained.inputs_.vocabulary.encode(words)))
    readout = stack_readout([trained.network_.cell], vectors.detach(), evidence.weights)
    every = [one for unit in range(12) for one in readout.ngrams(unit, 1000)]
    for name, positions in (("wave … tide", (0, 3)), ("wave tide", (2, 3))):
        own = [one.contribution for one in every if tuple(sorted(one.positions)) == positions]
        assert len(own) == 12
        assert lines[name].contribution == lines[name].network == pytest.approx(sum(own))


def test_the_same_word_at_two_places_has_one_line():
    trained = trained_with("rkm-cifg")
    (explanation,) = trained.explain(["wave old wave"])
    lines = {line.what: line for line in explanation.lines}
    assert set(lines) == {"wave", "old"}
    assert lines["wave"].places == ((0,), (2,))
    own = sum(one.contribution for one in explanation.contributions if one.what == "wave")
    assert lines["wave"].contribution == pytest.approx(own)


def test_the_strongest_units_come_first_and_marks_are_no_words():
    entry = inside(trained_with("string-kernel"))
    sizes = [abs(unit["contribution"]) for unit in entry["units"]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(entry["units"]) == 5
    assert not any(mark in str(entry["units"]) for mark in Vocabulary.MARKS)


def test_the_words_of_the_listed_lines_are_marked():
    trained = trained_with("string-kernel")
    (explanation,) = trained.explain([TEXT], 2)
    listed = {t for line in explanation.lines[:2] for place in line.places for t in place}
    assert inside(trained, TEXT, 2)["marked"] == [t in listed for t in range(len(WORDS))]
    assert 2 <= len(listed) <= 4


def test_a_text_shorter_than_an_ngram_has_none():
    entry = inside(trained_with("string-kernel", order=3), "wave")
    assert (entry["by_word"], entry["marked"]) == ([0.0], [False])
    assert all(unit["ngrams"] == [] for unit in entry["units"])


def test_a_decay_of_one_has_no_half_life():
    entry = inside(trained_with("string-kernel", decay=1.0))
    assert {unit["half_life"] for unit in entry["units"]} == {None}


def test_a_ledger_names_steps_with_their_words():
    entry = inside(trained_with("rkm-cifg"), TEXT, 3)
    assert len(entry["steps"]) == 3
    for step in entry["steps"]:
        assert step["word"] == WORDS[step["step"]]
        assert entry["marked"][step["step"]]
        assert step["contribution"] == pytest.approx(entry["by_word"][step["step"]])


def test_skipped_words_are_dots():
    assert with_gaps(WORDS, [0, 1, 3, 5]) == "wave tide … star … old"
