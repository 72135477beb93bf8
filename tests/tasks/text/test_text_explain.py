from __future__ import annotations

import pytest
import torch

from representer.data.text import Vocabulary
from representer.estimators import TextClassifier
from representer.estimators.classes import Classes
from representer.estimators.text import TextInputs
from representer.estimators.text_explanation import TextModel
from representer.explain import reference_card
from representer.models import (
    SequenceClassifier,
    SequenceClassifierConfig,
    StackedClassifier,
    StackedClassifierConfig,
)
from representer.tasks.text.text_explain import explained, with_gaps

WORDS = ["wave", "tide", "moon", "star", "the", "old"]
TEXT = " ".join(WORDS)


def trained_with(cell: str, pooling: str = "mean", **options) -> TextClassifier:
    """A classifier of random weights: what is explained need not be sensible."""
    config = SequenceClassifierConfig(
        vocabulary_size=8, num_classes=3, cell=cell, embedding_size=5, hidden_size=6, head_size=7,
        pooling=pooling, max_length=20 if pooling == "padded_mean" else None,
        **{"layer_norm": False, **options},
    )  # fmt: skip
    model = SequenceClassifier(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    model.embedding.weight.data[0] = 0
    vocabulary = Vocabulary((*Vocabulary.MARKS, *WORDS))
    return trained_text(model, TextInputs(vocabulary, "words", 400))


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
    entry = explained(trained, " ".join(words), 4)
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
    entry = explained(trained, TEXT, 4)
    (explanation,) = trained.explain([TEXT])
    evidence = sum(entry["by_word"]) + explanation.baseline
    ids = torch.tensor([trained.inputs_.vocabulary.encode(WORDS)])
    logits = model(ids, torch.tensor([len(WORDS)]))[0]
    label = int(logits.argmax())
    assert evidence == pytest.approx((logits[label] - logits.mean()).item(), rel=1e-10)
    assert (entry["layers"], explanation.baseline) == (3, 0.0)
    assert explanation.prediction == trained.classes_[label]
    every = explained(trained, TEXT, 1000)["ngrams"]
    assert sum(n["contribution"] for n in every) == pytest.approx(evidence, rel=1e-10)


def test_what_reads_from_the_end_is_shown_in_the_order_of_the_text():
    trained = trained_with("string-kernel", bidirectional=True, order=2, decay="state")
    entry = explained(trained, TEXT, 1000)
    assert {ngram["unit"] < 6 for ngram in entry["ngrams"]} == {True, False}
    for ngram in entry["ngrams"]:
        assert ngram["positions"] == sorted(ngram["positions"])
        assert ngram["text"] == with_gaps(WORDS, ngram["positions"])
        card = entry["units"][str(ngram["unit"])]["text"]
        assert card.endswith("(from the end)") == (ngram["unit"] >= 6)
    cell = trained.network_.cell
    marks = len(Vocabulary.MARKS)
    vectors = trained.network_.embedding.weight.detach()[marks:]
    seen = trained.network_.embedding(
        torch.tensor(trained.inputs_.vocabulary.encode(WORDS))
    ).detach()
    part = cell.part(0, reverse=True)
    card = reference_card(part, 2, WORDS, vectors, data=[seen.flip(0)])  # as the gates saw them
    assert entry["units"]["8"]["half_life"] == pytest.approx(card.half_life, rel=1e-4)
    last, first = cell.references(0, reverse=True)[2] @ torch.nn.functional.normalize(vectors).T
    near = [WORDS[int(cosines.argmax())] for cosines in (first, last)]
    shown = entry["units"]["8"]["text"].removesuffix(" (from the end)").split(" · ")
    assert [slot.split("/")[0] for slot in shown] == near


def test_the_ngrams_of_all_units_sum_to_the_words():
    entry = explained(trained_with("string-kernel", decay="input"), TEXT, 1000)
    assert sum(n["contribution"] for n in entry["ngrams"]) == pytest.approx(sum(entry["by_word"]))
    sizes = [abs(ngram["contribution"]) for ngram in entry["ngrams"]]
    assert sizes == sorted(sizes, reverse=True)
    few = explained(trained_with("string-kernel"), TEXT, 2)
    assert few["marked"] == [
        any(t in ngram["positions"] for ngram in few["ngrams"]) for t in range(len(WORDS))
    ]
    assert len(few["ngrams"]) == 2


def test_the_strongest_units_speak_for_the_answer():
    entry = explained(trained_with("string-kernel"), TEXT, 2)
    effects = [unit["effect"] for unit in entry["strongest"]]
    assert effects == sorted(effects, reverse=True)
    named = {str(unit["unit"]) for unit in entry["strongest"]}
    assert set(entry["units"]) >= named | {str(ngram["unit"]) for ngram in entry["ngrams"]}
    assert not any(mark in str(entry["units"]) for mark in Vocabulary.MARKS)


def test_a_text_shorter_than_an_ngram_has_none():
    entry = explained(trained_with("string-kernel", order=3), "wave", 5)
    assert (entry["ngrams"], entry["by_word"], entry["marked"]) == ([], [0.0], [False])


def test_a_decay_of_one_has_no_half_life():
    entry = explained(trained_with("string-kernel", decay=1.0), TEXT, 1)
    assert {unit["half_life"] for unit in entry["units"].values()} == {None}


def test_a_ledger_names_steps_with_their_words():
    entry = explained(trained_with("rkm-cifg"), TEXT, 3)
    assert len(entry["steps"]) == 3
    for step in entry["steps"]:
        assert step["word"] == WORDS[step["step"]]
        assert entry["marked"][step["step"]]
        assert step["contribution"] == entry["by_word"][step["step"]]


def test_skipped_words_are_dots():
    assert with_gaps(WORDS, [0, 1, 3, 5]) == "wave tide … star … old"
