from __future__ import annotations

import math

import pytest
import torch

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import reference_card
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
