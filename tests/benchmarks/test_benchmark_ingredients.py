"""Ingredients of the network for texts: what each changes, and the table of hand-made scores."""

from __future__ import annotations

import pytest
import torch

TEXTS = [f"a {word} film with {other}" for word in ("good", "bad") for other in "abcdefghij"]
LABELS = ["+"] * 10 + ["-"] * 10
TINY = {"hidden_size": 3, "embedding_size": 4, "epochs": 1, "batch_size": 5, "answer": "network",
        "min_count": 1, "verbose": 0, "random_state": 0}  # fmt: skip


@pytest.fixture
def ingredients(bench):
    return bench("ingredients")


def test_an_ingredient_is_ahead_behind_or_level_by_its_interval(ingredients):
    done = {}
    for seed, gain in enumerate((1.0, 1.1, 0.9)):
        for name, own in (("default", 0), ("words", gain), ("decay", -gain), ("mean", gain - 1)):
            done["yahoo", seed, name] = 80.0 + own
    rows = {line.split("|")[1].strip(): line for line in ingredients.differences(done).splitlines()
            if line.startswith("| ")}  # fmt: skip
    half = ingredients.half_width(torch.tensor([1.0, 1.1, 0.9]).double().numpy())
    assert half == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-6)
    for name, verdict in (("words", "ahead"), ("decay", "behind"), ("mean", "level")):
        assert f"| {verdict} |" in rows[ingredients.INGREDIENTS[name].title]
    assert "| +1.00 ± 0.25 | 3 | ahead |" in rows[ingredients.INGREDIENTS["words"].title]


def test_finished_trainings_are_read_and_a_line_cut_off_is_not(ingredients, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"set": "a", "seed": 1, "ingredient": "b", "accuracy": 2.0}\n{"set": "a"')
    assert ingredients.read(path) == {("a", 1, "b"): 2.0}


@pytest.mark.parametrize("name", ["words", "embedding"])
def test_dropout_changes_training_and_not_prediction(ingredients, name):
    torch.manual_seed(0)
    found = ingredients.INGREDIENTS[name]
    model = found.kind(**TINY).fit(TEXTS, LABELS)
    embedding = model.network_.embedding
    tokens = torch.randint(2, len(model.inputs_.vocabulary), (40, 50))
    plain = torch.nn.functional.embedding(tokens, embedding.weight)
    assert torch.equal(embedding.eval()(tokens), plain)
    drawn = embedding.train()(tokens).detach()
    is_dropped = (drawn != plain).any(dim=2) if name == "words" else drawn == 0
    share = 0.1 if name == "words" else 0.3
    # at least 2,000 draws: four deviations
    assert float(is_dropped.double().mean()) == pytest.approx(share, abs=0.03)


def test_smoothing_and_the_maximum_change_what_they_say(ingredients):
    scores, values = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    expected = torch.nn.functional.cross_entropy(scores, values, label_smoothing=0.1)
    assert torch.equal(ingredients.Smoothed(("a", "b")).loss(scores, values), expected)
    network = ingredients.MaximumText(**TINY).fit(TEXTS, LABELS).network_
    tokens, lengths = torch.tensor([[2, 3, 4], [2, 0, 0]]), torch.tensor([3, 1])
    outputs, _ = network.read(tokens, lengths)
    assert torch.equal(network.encode(tokens, lengths)[0], outputs[0].amax(0))
    assert torch.equal(network.encode(tokens, lengths)[1], outputs[1, 0])


def test_references_start_at_the_most_telling_bigrams(ingredients, monkeypatch):
    telling = ingredients.telling_bigrams(TEXTS, LABELS, "words")
    assert sorted(map(tuple, telling[:4])) == [("a", "bad"), ("a", "good"), ("bad", "film"),
                                               ("good", "film")]  # fmt: skip
    seeded = []
    monkeypatch.setattr(ingredients, "seed_references", lambda cell, own: seeded.append(own))
    ingredients.SeededText(**TINY, cell="string-kernel").fit(TEXTS, LABELS)
    assert seeded[0].shape == (3, 2, 4)
