"""References of units as cards and words."""

from __future__ import annotations

import math

import pytest
import torch

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import frequent_ngrams, reference_card, seed_references
from representer.explain.references import half_life
from representer.nn import RAN, StringKernelRNN

WORDS = ["left", "right", "up", "nothing"]
VECTORS = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])


def layer_with(slots, **options):
    layer = StringKernelRNN(3, 2, order=len(slots), **{"decay": 0.5, **options})
    layer.references()[1] = torch.tensor(slots)
    return layer


def test_a_slot_lists_the_words_of_largest_cosine_whatever_their_norm():
    card = reference_card(layer_with([[3.0, 4.0, 0.0], [-5.0, 0.0, 0.0]]), 1, WORDS, VECTORS, k=2)
    (first, second), (nearest, _) = card.slots
    assert first == ("up", pytest.approx(0.8))
    assert second == ("left", pytest.approx(0.6))
    assert nearest == ("right", pytest.approx(1.0))


def test_k_may_exceed_the_number_of_words():
    card = reference_card(layer_with([[1.0, 0.0, 0.0]]), 1, WORDS, VECTORS, k=50)
    assert [len(slot) for slot in card.slots] == [4]
    assert dict(card.slots[0])["nothing"] == 0


@pytest.mark.parametrize(("decay", "steps"), [(0.5, 1.0), (0.0, 0.0), (1.0, math.inf)])
def test_half_life_of_a_constant_decay(decay, steps):
    card = reference_card(layer_with([[1.0, 0.0, 0.0]], decay=decay), 1, WORDS, VECTORS)
    assert (card.decay, card.half_life) == (decay, steps)
    assert 0.9 ** half_life(0.9) == pytest.approx(0.5)


def test_a_gated_decay_is_summarized_by_mean_and_median_over_the_data():
    layer = layer_with([[1.0, 0.0, 0.0]], decay="input")
    data = [torch.randn(4, 3), torch.randn(5, 3)]
    gate = layer.decay_gate()
    values = torch.sigmoid(torch.cat(data) @ gate["input"][1] + gate["bias"][1])
    card = reference_card(layer, 1, WORDS, VECTORS, data=data)
    assert card.decay == pytest.approx(values.mean().item())
    assert card.half_life == pytest.approx(half_life(values.median().item()))
    without = reference_card(layer, 1, WORDS, VECTORS)
    assert (without.decay, without.half_life) == (None, None)
    assert "decay" not in str(without)


def test_the_card_is_printed_as_text():
    weights = {"sea": torch.tensor([1.0, 2.0]), "sky": torch.tensor([0.0, -0.5])}
    layer = layer_with([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    card = reference_card(layer, 1, WORDS, VECTORS, k=1, weights=weights)
    assert card.weights == {"sea": 2.0, "sky": -0.5}
    assert str(card).splitlines() == [
        "unit 1", "  slot 1  left 1.00", "  slot 2  up 1.00",
        "  decay   0.5, half-life 1 tokens", "  sea  +2", "  sky  -0.5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"layer": RAN(3, 2)}, KindError, "layer is RAN"),
        ({"unit": 2}, ArgumentError, "unit is 2"),
        ({"k": 0}, ArgumentError, "k is 0"),
        (
            {"words": WORDS[:3]},
            ArgumentError,
            r"len\(words\) is 3; expected 4, one word per vector",
        ),
        ({"vectors": VECTORS[:, :2]}, ShapeError, r"vectors has shape \(4, 2\)"),
        ({"vectors": [1.0]}, KindError, "vectors is list"),
        ({"vectors": VECTORS / 0}, ArgumentError, r"vectors\[0\]"),
    ],
)
def test_invalid_arguments_of_reference_card_are_rejected(wrong, error, message):
    valid = {"layer": StringKernelRNN(3, 2), "unit": 0, "words": WORDS, "vectors": VECTORS}
    with pytest.raises(error, match=message):
        reference_card(**(valid | wrong))


def test_only_the_first_units_are_initialized_from_the_phrases():
    layer, phrases = StringKernelRNN(3, 4), torch.randn(2, 2, 3)
    before = layer.references().clone()
    seeds = seed_references(layer, phrases)
    assert torch.equal(layer.references()[:2], phrases)
    assert torch.equal(layer.references()[2:], before[2:])
    assert all(d.cosine == pytest.approx(1) and d.distance == 0 for d in seeds.drift(layer))


def test_a_seeded_unit_responds_to_its_phrase():
    layer = StringKernelRNN(3, 4, decay=0.0)
    phrase = torch.eye(3)[:2]
    seed_references(layer, [phrase])
    assert layer.cell_states(phrase)[-1, -1, 0].item() == 1


def test_scale_changes_only_the_norms():
    layer, phrases = StringKernelRNN(3, 4), torch.randn(2, 2, 3)
    seeds = seed_references(layer, phrases, scale=0.3)
    assert torch.allclose(seeds.vectors.norm(dim=-1), torch.tensor(0.3))
    cosines = torch.cosine_similarity(layer.references()[:2], phrases, dim=-1)
    assert torch.allclose(cosines, torch.ones(2, 2))


def test_drift_is_the_cosine_and_relative_distance_of_each_slot():
    layer = StringKernelRNN(2, 2, order=2)
    seeds = seed_references(layer, torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]))
    layer.references()[0, 1] = torch.tensor([1.0, 0.0])
    layer.references()[0, 0] = torch.tensor([4.0, 0.0])
    stretched, rotated = seeds.drift(layer)
    assert stretched == (0, 0, pytest.approx(1.0), pytest.approx(1.0))
    assert rotated == (0, 1, pytest.approx(0.0), pytest.approx(2**0.5))


def test_training_changes_the_drift():
    layer = StringKernelRNN(3, 2)
    seeds = seed_references(layer, torch.randn(1, 2, 3))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.randn(6, 3))[0].sum().backward()
    optimizer.step()
    assert all(drift.distance > 0 for drift in seeds.drift(layer))


def test_frequent_ngrams_are_contiguous_and_ordered_by_frequency():
    documents = [["a", "b", "c", "a", "b"], ["a", "b", "d"], ["b", "c"], ["a"]]
    assert frequent_ngrams(documents, 2, 2) == [("a", "b"), ("b", "c")]
    assert frequent_ngrams([[1, 2, 3]], 3, 5) == [(1, 2, 3)]
    assert frequent_ngrams([[1, 2]], 3, 5) == []


PHRASES = torch.ones(2, 2, 3)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"layer": RAN(3, 2)}, KindError, "layer is RAN"),
        ({"phrases": torch.ones(5, 2, 3)}, ArgumentError, "is 5; expected a number from 1 to 4"),
        ({"phrases": []}, ArgumentError, "is 0"),
        ({"phrases": torch.ones(2, 3, 3)}, ShapeError, r"phrases\[0\] has shape \(3, 3\).*2 token"),
        ({"phrases": [PHRASES[0], "ab"]}, KindError, r"phrases\[1\] is str"),
        ({"phrases": PHRASES / 0}, ArgumentError, r"phrases\[0\]\[0\]"),
        ({"phrases": 0 * PHRASES}, ArgumentError, r"phrases\[0\]\[0\] is 'all zeros'"),
        ({"scale": 0.0}, ArgumentError, "scale is 0.0"),
    ],
)
def test_invalid_arguments_of_seed_references_are_rejected(wrong, error, message):
    with pytest.raises(error, match=message):
        seed_references(**({"layer": StringKernelRNN(3, 4), "phrases": PHRASES} | wrong))


def test_drift_rejects_a_layer_of_another_shape():
    seeds = seed_references(StringKernelRNN(3, 4), PHRASES)
    with pytest.raises(ShapeError, match="the shape of the seeds"):
        seeds.drift(StringKernelRNN(3, 4, order=3))
    with pytest.raises(ArgumentError, match="n is 0"):
        frequent_ngrams([], 0, 1)
