"""`TextClassifier` and `TextRegressor`: fitting, predicting, explaining, saving."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from fitted_examples import LABELS, NUMBERS, TEXTS, fitted
from fitted_examples import TEXT as SMALL

from both_halves import assert_sums
from representer import estimators
from representer.data.text import Vocabulary, cooccurrence_vectors, tokenize
from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import TextClassifier, TextRegressor
from representer.estimators.fitting import validation_fraction
from representer.estimators.targets import Classes, splits_of
from representer.estimators.text import TextInputs, TextModel, Tokenizer, evidence_of
from representer.explain import reference_card, stack_readout
from representer.explain.stacks import with_gaps
from representer.models import (
    SequenceClassifierConfig,
    SequenceNetwork,
    StackedClassifier,
    StackedClassifierConfig,
)


@pytest.fixture
def classifier() -> TextClassifier:
    return fitted("TextClassifier")


def test_texts_of_unknown_words_only_get_a_note(classifier):
    texts = ["good film", "xylophone zebra", "bad xylophone", "quark", "", " "]
    nothing = r"4 of 6 texts have nothing .*: X\[1\], X\[3\], X\[4\], X\[5\]\."
    with pytest.warns(UserWarning, match=nothing):
        classifier.predict(texts)


@pytest.mark.filterwarnings("ignore:.* texts have nothing that training had")
def test_an_empty_text_is_predicted_by_the_constants_alone(classifier):
    (explanation,) = classifier.explain([""])
    assert explanation.contributions == ()
    assert explanation.score == explanation.baseline
    chances = classifier.predict_proba(["", " ", "good film today"])
    np.testing.assert_array_equal(chances[0], chances[1])
    assert explanation.prediction == classifier.classes_[chances[0].argmax()]
    network = classifier.part("network")
    (explanation,) = network.explain([""])
    logs = np.log(network.predict_proba([""])[0])
    assert explanation.score == pytest.approx(logs.max() - logs.mean(), abs=1e-6)
    TextClassifier(**SMALL, epochs=1).fit(["", *TEXTS], ["-", *LABELS])


@pytest.mark.parametrize("answer", ["kernel", "both"])
def test_labels_in_a_column_are_those_of_a_list(answer):
    options = SMALL | {"answer": answer, "epochs": 1}
    plain = TextClassifier(**options).fit(TEXTS, LABELS)
    column = np.array(LABELS)[:, None]
    for y in (column, column.tolist()):
        model = TextClassifier(**options).fit(TEXTS, y)
        np.testing.assert_array_equal(model.predict_proba(TEXTS), plain.predict_proba(TEXTS))
        assert model.predict(TEXTS[:2]).shape == (2,)
        assert model.score(TEXTS, y) == plain.score(TEXTS, LABELS)


@pytest.mark.parametrize("answer", ["kernel", "both"])
def test_a_class_with_one_example_is_trained_on(answer):
    model = TextClassifier(**SMALL, epochs=1, answer=answer).fit(
        [*TEXTS, "strange tale yesterday"], [*LABELS, "rare"]
    )
    assert model.classes_.tolist() == ["+", "-", "rare"]
    assert model.predict_proba(TEXTS).shape == (40, 3)
    if answer == "kernel":
        assert model.predict(["strange tale yesterday"]) == ["rare"]


def test_word_vectors_start_from_the_words_that_stand_together_in_the_training_texts():
    model = TextClassifier(**SMALL, epochs=1, answer="network", lr=1e-12).fit(TEXTS, LABELS)
    assert model.inputs_.documents is None  # not kept
    documents = model.inputs_.encode(TEXTS)
    share = validation_fraction(None, len(LABELS))
    values = model.target_.encode(LABELS)
    rows, _ = splits_of(model.target_, values, None, model.digests(TEXTS)).held_out(share, 0)
    train = [documents[row] for row in rows]
    weight = model.network_.embedding.weight.detach().numpy()
    found = cooccurrence_vectors(train, *weight.shape, seed=0)
    np.testing.assert_allclose(weight @ weight.T, found @ found.T, atol=1e-4)
    random = TextClassifier(**SMALL, epochs=1, answer="network", vectors="random")
    random.fit(TEXTS, LABELS)
    assert np.abs(random.network_.embedding.weight.detach().numpy() - weight).max() > 0.1


def test_pretrained_vectors_are_in_both_halves_and_every_contribution_is_exact(tmp_path):
    words = ("wave", "tide", "moon", "old", "sea", "Bright")
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(len(words), 3)).astype(np.float32)
    np.savez(tmp_path / "v.npz", words=words, vectors=matrix)
    texts = ["wave tide", "moon old", "old sea wave", "bright moon"] * 10
    model = TextClassifier(**SMALL, epochs=1, vectors=str(tmp_path / "v.npz"))
    model.fit(texts, [0, 1] * 20)
    (tmp_path / "v.npz").unlink()
    assert model.network_.embedding.weight.shape[1] == 3
    model.save(tmp_path / "run")
    again = TextClassifier.load(tmp_path / "run")
    asked = ["wave sea", "moon bright and unknown", "unknown"]
    np.testing.assert_array_equal(again.predict_proba(asked), model.predict_proba(asked))
    for text, one in zip(asked[:2], again.explain(asked[:2]), strict=True):
        assert_sums(one, abs=1e-6)
        named = [part for part in one.contributions if part.what.endswith("(vectors)")]
        assert {text.split()[t] for part in named for t in part.where} <= {
            "wave", "sea", "moon", "bright"
        }  # fmt: skip
        assert named


@pytest.mark.parametrize("options", [{"vectors": "random"}, {"embedding_size": 5}])
def test_estimators_with_the_same_inputs_start_from_word_vectors_of_their_own(options):
    shared = TextClassifier(**SMALL).learn_inputs(TEXTS, 0)
    networks = []
    for inputs in (shared, TextClassifier(**{**SMALL, **options}).learn_inputs(TEXTS, 0)):
        model = TextClassifier(**{**SMALL, **options})
        model.target_, model.inputs_ = model.find_target(LABELS), inputs
        networks.append(model.new_network(0))
    one, other = (network.embedding.weight for network in networks)
    assert torch.equal(one, other)
    assert one.shape[1] == options.get("embedding_size", 8)
    assert shared.documents is not None


def test_an_ngram_of_characters_belongs_to_its_word_in_a_text_of_any_length():
    model = TextClassifier(answer="kernel", random_state=0, verbose=0).fit(TEXTS, LABELS)
    words = (TEXTS[0] + " ").split() * 100
    (explained,) = model.explain([" ".join(words)])
    characters = [one for one in explained.contributions if one.what[0] == "'"]
    assert len(characters) > len(words)
    for one in characters:
        (place,) = one.where
        assert one.what[1:-1] in f" {words[place]} "


def test_the_strongest_contributions_are_listed_and_the_others_summed(classifier):
    (one,) = classifier.explain(TEXTS[:1], k=2)
    assert one.contributions[0].what in ("good", "good film", "film today")
    assert " other word" in str(one)


def test_folders_of_other_versions_and_other_estimators_are_refused(classifier, tmp_path):
    classifier.save(tmp_path / "run")
    with pytest.raises(DataError, match="holds a TextClassifier, not a TextRegressor"):
        TextRegressor.load(tmp_path / "run")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "model.json").write_text(json.dumps({"task": "text"}))
    with pytest.raises(DataError, match=r"was written by version 0\.1\.0"):
        estimators.load(tmp_path / "old")


def test_a_class_that_json_cannot_hold_is_named(tmp_path):
    labels = [(label,) for label in LABELS]
    model = TextClassifier(**SMALL, epochs=1).fit(TEXTS, np.array([*labels, None], object)[:-1])
    with pytest.raises(DataError, match=r"the class \('\+',\) cannot be saved"):
        model.save(tmp_path / "run")


@pytest.mark.parametrize(("X", "y", "message"), [
    (TEXTS[:3], LABELS[:2], "X has 3 rows and y has 2"),
    ([*TEXTS[:4], 7], LABELS[:5], r"X\[4\] is 7 of type int; expected a string"),
    ([*TEXTS[:4], None], LABELS[:5], r"X\[4\] is None .*Leave it out\.$"),
    ("a text", LABELS, "X is one string"),
    ([], [], "X has 0 sample"),
    (TEXTS, ["+"] * 40, "one class, '\\+'"),
    (TEXTS, [*LABELS[:39], float("nan")], r"y\[39\] is nan: a missing label"),
    (TEXTS, [*LABELS[:39], []], r"y\[39\] is a list; expected a label"),
])  # fmt: skip
def test_errors_name_the_row(X, y, message):
    with pytest.raises(DataError, match=message):
        TextClassifier(**SMALL).fit(X, y)


@pytest.mark.parametrize(("y", "message"), [
    ([*NUMBERS[:39], np.inf], r"y\[39\] is infinity"),
    ([*NUMBERS[:39], "x"], r"y\[39\] is 'x'; expected a number"),
    ([1.0] * 40, "y has the one value 1"),
    (np.zeros((40, 1, 1)), "expected \\(N,\\) or \\(N, K\\)"),
])  # fmt: skip
def test_errors_of_numbers_name_the_row(y, message):
    with pytest.raises(DataError, match=message):
        TextRegressor(**SMALL).fit(TEXTS, y)


def test_whole_groups_are_held_out_for_validation():
    seen: list[dict] = []
    groups = [i % 4 for i in range(40)]
    model = TextClassifier(**SMALL, epochs=2, callbacks=[seen.append], valid_fraction=0.25)
    model.fit(TEXTS, LABELS, groups=groups)
    assert [row["epoch"] for row in seen] == [1, 2]
    with pytest.raises(DataError, match="one group"):
        model.fit(TEXTS, LABELS, groups=[1] * 40)


def test_training_ends_by_a_callback_and_by_time():
    rows: list[dict] = []

    def stop(row: dict) -> bool:
        rows.append(row)
        return True

    TextClassifier(**SMALL, epochs=50, callbacks=[stop]).fit(TEXTS, LABELS)
    assert len(rows) == 1
    timed = TextClassifier(**SMALL, epochs=10_000, patience=0, time_limit=0.05)
    assert len(timed.fit(TEXTS, LABELS).history_) < 1000


def test_the_package_is_lazy_and_parameters_are_free_of_torch():
    code = (
        "import sys; import representer.estimators\n"
        "assert not [m for m in sys.modules if m.startswith('representer.estimators.')]\n"
        "import representer.options.task\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_numbers_of_numpy_are_saved_as_those_of_python(tmp_path):
    chosen = {"hidden_size": np.int64(8), "layer_norm": np.bool_(False), "lr": np.float32(0.5)}
    grid = {**chosen, "max_steps": np.int32(2), "filter_length": np.int64(2)}
    model = TextClassifier(random_state=np.int64(3), verbose=0, **grid).fit(TEXTS, LABELS)
    model.save(tmp_path / "run")
    saved = json.loads((tmp_path / "run" / "model.json").read_text())["parameters"]
    assert saved == {name: value.item() for name, value in grid.items()} | {"random_state": 3}
    loaded = estimators.load(tmp_path / "run")
    assert loaded.predict(TEXTS[:5]).tolist() == model.predict(TEXTS[:5]).tolist()


@pytest.mark.parametrize(("options", "layer"), [
    ({"combine": "add"}, ("add", "no", "last")),
    ({"normalized": "paper"}, ("multiply", "paper", "last")),
    ({"normalized": "exact", "readout": "sum"}, ("multiply", "exact", "sum")),
])  # fmt: skip
def test_options_of_a_string_kernel_reach_the_layer_and_its_explanations(options, layer):
    texts = ["so good a film", "so bad a film", "good", "bad film"] * 6
    sizes = {"hidden_size": 4, "embedding_size": 4, "epochs": 2, "min_count": 1, "verbose": 0}
    model = TextClassifier(cell="string-kernel", **sizes, **options, random_state=0)
    model.fit(texts, ["+", "-"] * 12)
    chain = model.network_.cell.chain
    assert (chain.combine, chain.normalized, chain.readout) == layer
    for one in model.explain(texts[:2]):
        assert_sums(one, abs=1e-6)


def test_several_filter_lengths_share_the_units_and_are_explained():
    model = TextClassifier(**SMALL, epochs=1, filter_lengths=(1, 2, 3)).fit(TEXTS, LABELS)
    assert model.network_.cell.filter_length == {1: 3, 2: 3, 3: 2}
    (explanation,) = model.explain([TEXTS[0]])
    assert_sums(explanation, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"filter_lengths": (1, 1)}, {"filter_lengths": (0,)}, {"filter_lengths": (1, 2.0)},
        {"filter_lengths": tuple(range(1, 10))},
    ],
    ids=str,
)  # fmt: skip
def test_filter_lengths_that_cannot_share_the_units_are_refused(options):
    with pytest.raises(ArgumentError, match=r"^filter_lengths is .*; expected different positive"):
        TextClassifier(**SMALL, **options).fit(TEXTS, LABELS)


def test_filters_that_look_ahead_predict_but_have_no_contributions(tmp_path):
    options = {"filter_padding": "same", "candidate_bias": True, "filter_length": 3}
    model = TextClassifier(**SMALL, epochs=1, answer="network", **options).fit(TEXTS, LABELS)
    assert model.network_.lookahead == 1
    model.save(tmp_path / "run")
    again = TextClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))
    with pytest.raises(KindError, match="filter_padding is same; expected 'causal'"):
        model.explain(TEXTS[:1])


def test_dilation_reaches_the_layer_and_is_refused_where_there_are_no_filters():
    sizes = {"hidden_size": 4, "embedding_size": 4, "epochs": 1, "min_count": 1, "verbose": 0}
    texts, labels = ["a good film", "a bad film"] * 9, ["+", "-"] * 9
    model = TextClassifier(**sizes, filter_length=2, dilation=3).fit(texts, labels)
    assert model.network_.cell.dilation == 3
    with pytest.raises(ArgumentError, match="dilation is 2; expected 1"):
        TextClassifier(cell="string-kernel", **sizes, dilation=2).fit(texts, labels)
    with pytest.raises(ArgumentError, match="combine is 'divide'"):
        TextClassifier(cell="string-kernel", **sizes, combine="divide").fit(texts, labels)


@pytest.mark.parametrize("scheme", ["words", "blanks", "leam"])
def test_numbered_words_are_those_of_each_text(scheme):
    texts = ["Don't  stop-now.", "", "a library\u2003e.g., a\u0301 stop", " ", "now 3.5 3.5"]
    words, ids, lengths = Tokenizer(scheme).numbered(iter(texts))
    ends = np.cumsum(lengths)
    found = [[words[i] for i in ids[a:b]] for a, b in zip(ends - lengths, ends, strict=True)]
    assert found == [tokenize(text, scheme) for text in texts]
    assert len({*words}) == len(words)


# .


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
