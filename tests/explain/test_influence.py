from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from string_layers import PRODUCT, SIZES, enumerate_layer_ngrams, sequence, string_layer

from looped import looped
from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import (
    frequent_ngrams,
    influence,
    reference_card,
    seed_references,
    top_ngrams,
)
from representer.explain.references import half_life
from representer.functional import ngram_product_definition
from representer.nn import (
    CNN,
    RAN,
    RKM,
    RKMCIFG,
    RKMLSTM,
    GatedCNN,
    LinearKernelRNN,
    NgramLSTM,
    StringKernelRNN,
)

GATED = {
    "RKM-LSTM": RKMLSTM,
    "RKM-CIFG": RKMCIFG,
    "RAN": RAN,
    "Gated CNN": GatedCNN,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True, static_gates=(0.7, 0.4)),
    "learned gates": partial(
        LinearKernelRNN, output_gate=False, output_nonlinearity="identity", static_gates=(0.7, 0.4),
        learn_static_gates=True,
    ),
    "RKM-LSTM, linear output": partial(RKMLSTM, output_nonlinearity="linear"),
    "RKM-LSTM with zoneout": lambda *a, **k: RKMLSTM(*a, zoneout=(0.2, 0.3), **k).eval(),
    "linear RKM": partial(RKM, q="linear"),
    "identity RKM": partial(RKM, q="identity", feedback=False),
}  # fmt: skip


def frozen_gradient_times_input(layer, x):
    """Return the contributions by autograd: x_s . dh_T/dx_s with detached gates."""
    x, cell = x.clone().requires_grad_(), layer.cell
    filters, recurrent, biases = layer.filters(), layer.recurrent(), layer.biases()
    static = layer.static_gates()
    products = {g: ngram_product_definition(x[:, None], w, layer.dilation)[:, 0]
                for g, w in filters.items()}  # fmt: skip
    h = c = torch.zeros(layer.hidden_size, dtype=x.dtype)
    for t in range(len(x)):
        z = {g: p[t] + (recurrent[g] @ h if g in recurrent else 0) for g, p in products.items()}
        gates = {g: torch.sigmoid(z[g] + biases.get(g, 0)).detach() for g in cell.gates}
        i = {"coupled": lambda g=gates: 1 - g["forget"], "dynamic": lambda g=gates: g["input"]}
        i_t = static[0] if cell.input_gate == "static" else i[cell.input_gate]()
        c_new = i_t * z["candidate"]
        if cell.forget_gate != "none":
            f_t = static[1] if cell.forget_gate == "static" else gates["forget"]
            c_new = c_new + f_t * (h if cell.memory == "output" else c)
        h_new = c_new / 2 if cell.output == "linear" else c_new
        h_new = h_new * gates["output"] if cell.output_gate else h_new
        p_c, p_h = layer.zoneout
        c, h = p_c * c + (1 - p_c) * c_new, p_h * h + (1 - p_h) * h_new
    gradients = [torch.autograd.grad(unit, x, retain_graph=True)[0] for unit in h]
    return torch.stack([(gradient * x).sum(1) for gradient in gradients], dim=1).detach()


@pytest.mark.parametrize("make", GATED.values(), ids=GATED.keys())
@looped(("n", "dilation"), [(1, 1), (2, 3), (3, 1), ({1: 2, 3: 2}, 2)])
def test_contributions_match_gradient_times_input_with_detached_gates(make, n, dilation):
    layer = make(3, 4, filter_length=n, dilation=dilation, dtype=torch.float64)
    x = torch.randn(8, 3, dtype=torch.float64)
    contributions = influence(layer, x)
    torch.testing.assert_close(contributions, frozen_gradient_times_input(layer, x))
    torch.testing.assert_close(contributions.sum(0), layer(x)[0][-1])


def test_weight_drop_and_input_dropout_are_disabled():
    layer = RKMLSTM(3, 4, weight_drop=0.5, variational_dropout=0.5, dtype=torch.float64)
    x = torch.randn(5, 3, dtype=torch.float64)
    contributions = influence(layer.train(), x)
    assert layer.training
    torch.testing.assert_close(contributions.sum(0), layer.eval()(x)[0][-1])


def test_contributions_have_the_dtype_of_the_input_and_are_detached():
    contributions = influence(RKMCIFG(3, 4), torch.randn(5, 3, requires_grad=True))
    assert (contributions.dtype, contributions.requires_grad) == (torch.float32, False)


NOT_DECOMPOSABLE = {
    "tanh on the candidate": (NgramLSTM(3, 4), "The candidate passes through tanh"),
    "tanh on the output": (CNN(3, 4), "The output is tanh of the cell"),
    "another q": (RKM(3, 4, q="exponential"), "The output is exponential of the cell"),
    "Gaussian": (RKM(3, 4, q="gaussian"), "The output is gaussian of the cell"),
    "callable": (RKMLSTM(3, 4, output_nonlinearity=torch.sin), "nonlinearity is learned"),
    "norm": (RAN(3, 4, layer_norm=True), "The layer norm divides"),
    "layers": (RAN(3, 4, 2), "It has several layers"),
    "directions": (RAN(3, 4, bidirectional=True), "It has two directions"),
    "of torch": (torch.nn.LSTM(3, 4), "layer is LSTM; expected a layer of the recurrent kernel"),
}


@pytest.mark.parametrize(
    ("layer", "reason"), NOT_DECOMPOSABLE.values(), ids=NOT_DECOMPOSABLE.keys()
)
def test_a_layer_that_is_not_decomposable_is_rejected_with_the_reason(layer, reason):
    with pytest.raises(KindError, match=reason):
        influence(layer, torch.randn(5, 3))


@pytest.mark.parametrize(("input", "error", "message"), [
    (torch.zeros(5, 2, 3), ShapeError, r"input has shape \(5, 2, 3\); expected one sequence"),
    (torch.zeros(5, 4), ShapeError, r"The last axis is 4, input_size is 3"),
    (torch.zeros(0, 3), ShapeError, "at least one time step"),
    (torch.zeros(5, 3).int(), KindError, r"input is torch.int32"),
    (torch.zeros(5, 3).double(), KindError, r"input is torch.float64"),
    ([[0.0, 0.0, 0.0]], KindError, r"input is list; expected a tensor \(time, 3\)"),
])  # fmt: skip
def test_an_invalid_input_is_rejected(input, error, message):
    with pytest.raises(error, match=message):
        influence(RAN(3, 4), input)


def test_a_layer_with_a_stride_is_rejected():
    layer = RKMLSTM(3, 4, filter_length=2, stride=2)
    with pytest.raises(ArgumentError, match=r"layer\.stride is 2; expected 1"):
        influence(layer, torch.zeros(6, 3))


# References of units as cards and words.


WORDS = ["left", "right", "up", "nothing"]
VECTORS = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])


def layer_with(slots, **options):
    layer = StringKernelRNN(3, 2, order=len(slots), **{"decay": 0.5, **options})
    layer.references()[1] = torch.tensor(slots)
    return layer


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


@pytest.mark.parametrize(("wrong", "error", "message"), [
    ({"layer": RAN(3, 2)}, KindError, "layer is RAN"),
    ({"unit": 2}, ArgumentError, "unit is 2"),
    ({"k": 0}, ArgumentError, "k is 0"),
    ({"words": WORDS[:3]}, ArgumentError, r"len\(words\) is 3; expected 4, one word per vector"),
    ({"vectors": VECTORS[:, :2]}, ShapeError, r"vectors has shape \(4, 2\)"),
    ({"vectors": [1.0]}, KindError, "vectors is list"),
    ({"vectors": VECTORS / 0}, ArgumentError, r"vectors\[0\]"),
])  # fmt: skip
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


def test_frequent_ngrams_are_contiguous_and_ordered_by_frequency():
    documents = [["a", "b", "c", "a", "b"], ["a", "b", "d"], ["b", "c"], ["a"]]
    assert frequent_ngrams(documents, 2, 2) == [("a", "b"), ("b", "c")]
    assert frequent_ngrams([[1, 2, 3]], 3, 5) == [(1, 2, 3)]
    assert frequent_ngrams([[1, 2]], 3, 5) == []


PHRASES = torch.ones(2, 2, 3)


@pytest.mark.parametrize(("wrong", "error", "message"), [
    ({"layer": RAN(3, 2)}, KindError, "layer is RAN"),
    ({"phrases": torch.ones(5, 2, 3)}, ArgumentError, "is 5; expected a number from 1 to 4"),
    ({"phrases": []}, ArgumentError, "is 0"),
    ({"phrases": torch.ones(2, 3, 3)}, ShapeError, r"phrases\[0\] has shape \(3, 3\).*2 token"),
    ({"phrases": [PHRASES[0], "ab"]}, KindError, r"phrases\[1\] is str"),
    ({"phrases": PHRASES / 0}, ArgumentError, r"phrases\[0\]\[0\]"),
    ({"phrases": 0 * PHRASES}, ArgumentError, r"phrases\[0\]\[0\] is 'all zeros'"),
    ({"scale": 0.0}, ArgumentError, "scale is 0.0"),
])  # fmt: skip
def test_invalid_arguments_of_seed_references_are_rejected(wrong, error, message):
    with pytest.raises(error, match=message):
        seed_references(**({"layer": StringKernelRNN(3, 4), "phrases": PHRASES} | wrong))


def test_drift_rejects_a_layer_of_another_shape():
    seeds = seed_references(StringKernelRNN(3, 4), PHRASES)
    with pytest.raises(ShapeError, match="the shape of the seeds"):
        seeds.drift(StringKernelRNN(3, 4, order=3))
    with pytest.raises(ArgumentError, match="n is 0"):
        frequent_ngrams([], 0, 1)


# .


@settings(deadline=None, max_examples=20)
@given(kind=PRODUCT, **SIZES, k=st.integers(1, 30), data=st.data())
def test_the_top_ngrams_match_an_enumeration(kind, time, order, seed, k, data):
    """L17 (3), (4), section 4: products of matches times the gates of the skipped steps."""
    layer = string_layer(kind, order, seed)
    x, read = sequence(time, seed), data.draw(st.integers(1, order))
    ngrams = enumerate_layer_ngrams(layer, x, 1, read)
    result = top_ngrams(layer, x, 1, k, order=read)
    assert len({term.positions for term in result}) == len(result) == min(k, len(ngrams))
    for positions, contribution in result:
        assert contribution == pytest.approx(ngrams[positions], rel=1e-10, abs=1e-300)
    largest = sorted(map(abs, ngrams.values()), reverse=True)[:k]
    assert [abs(term.contribution) for term in result] == pytest.approx(largest, rel=1e-10)


@settings(deadline=None, max_examples=12)
@given(kind=PRODUCT, **SIZES)
def test_all_ngrams_sum_to_the_state(kind, time, order, seed):
    layer, x = string_layer(kind, order, seed), sequence(time, seed)
    contributions = [c for _, c in top_ngrams(layer, x, 2, 10**6)]
    state = layer.cell_states(x)[-1, -1, 2].item()
    assert sum(contributions) == pytest.approx(
        state, rel=1e-10, abs=1e-12 * sum(map(abs, contributions))
    )


def test_the_first_layer_and_direction_of_several_is_explained():
    layer = string_layer(
        ("multiply", False, "state"), 2, 0, num_layers=2, bidirectional=True, highway=True
    )
    x = sequence(6, 0)
    total = sum(c for _, c in top_ngrams(layer, x, 1, 100))
    assert total == pytest.approx(layer.cell_states(x)[-1, -1, 1].item(), rel=1e-10)


def explain(layer=None, x=None, unit=0, k=1, order=None):
    layer = StringKernelRNN(3, 3) if layer is None else layer
    top_ngrams(layer, torch.zeros(5, 3) if x is None else x, unit, k, order)


WITH_NAN = torch.tensor([[0.0, 1.0, 2.0], [0.0, float("nan"), 0.0]])


@pytest.mark.parametrize(("wrong", "error", "message"), [
    ({"layer": RAN(3, 3)}, KindError, "layer is RAN; expected a StringKernelRNN"),
    ({"layer": StringKernelRNN(3, 3, combine="add")}, KindError, "use token_slots"),
    ({"layer": StringKernelRNN(3, 3, combine="add_exact")}, KindError, "use token_slots"),
    ({"x": "abc"}, KindError, r"input is str; expected a tensor \(time, 3\)"),
    ({"x": WITH_NAN}, ArgumentError, r"input\[1\] is \[0.0, nan, 0.0\]; expected finite"),
    ({"unit": 3}, ArgumentError, "unit is 3; expected an integer from 0 to 2"),
    ({"unit": -1}, ArgumentError, "unit is -1"),
    ({"unit": True}, ArgumentError, "unit is True"),
    ({"k": 0}, ArgumentError, "k is 0; expected a positive integer"),
    ({"k": 2.0}, ArgumentError, "k is 2.0"),
    ({"order": 3}, ArgumentError, "order is 3; expected an integer from 1 to 2"),
    ({"order": 0}, ArgumentError, "order is 0"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(wrong, error, message):
    with pytest.raises(error, match=message):
        explain(**wrong)
