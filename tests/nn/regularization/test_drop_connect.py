"""DropConnect acts on hidden-to-hidden weights in training, with one mask per call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from representer import nn as layers
from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import influence, stack_readout, top_ngrams
from representer.nn import EmbeddingDropout, LockedDropout, drop_connect
from representer.nn.recurrent.core_calls import core_call

INPUT, H, T, B = 3, 4, 5, 2
KINDS: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: nn.LSTM(INPUT, H),
    "LSTM deep": lambda: nn.LSTM(INPUT, H, 2, bidirectional=True, batch_first=True),
    "LSTM without biases": lambda: nn.LSTM(INPUT, H, bias=False),
    "LSTM projected": lambda: nn.LSTM(INPUT, H, proj_size=2), "GRU": lambda: nn.GRU(INPUT, H, 2),
    "RNN": lambda: nn.RNN(INPUT, H), "RKM-LSTM": lambda: layers.RKMLSTM(INPUT, H),
    "RKM-LSTM deep": lambda: layers.RKMLSTM(INPUT, H, 2, bidirectional=True, batch_first=True),
    "n-gram LSTM": lambda: layers.NgramLSTM(INPUT, H, filter_length=2),
    "RKM-CIFG": lambda: layers.RKMCIFG(INPUT, H, layer_norm=True),
    "linear kernel": lambda: layers.LinearKernelRNN(INPUT, H, output_gate=True),
    "RAN": lambda: layers.RAN(INPUT, H), "RKM": lambda: layers.RKM(INPUT, H, q="tanh"),
    "string kernel of one layer": lambda: layers.StringKernelRNN(INPUT, H, decay="state"),
    "string kernel": lambda: layers.StringKernelRNN(INPUT, H, 2, decay="state", highway=True),
}  # fmt: skip
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def build(kind: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return KINDS[kind]().double(), torch.randn(T, B, INPUT, dtype=torch.float64)


def recurrent(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the hidden-to-hidden matrices by their names without DropConnect."""
    found = {}
    for name, parameter in module.named_parameters():
        plain = name.replace("parametrizations.", "").replace(".original", "")
        if "weight_hh" in plain:
            found[plain] = parameter
    return found


def thinned(kind: str, seed: int, p: float) -> nn.Module:
    """Return the layer without DropConnect, with weights masked by seed in layer order."""
    plain, _ = build(kind)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in recurrent(plain).values():
            weight.copy_(F.dropout(weight, p))
    return plain


def run(module: nn.Module, x: Tensor) -> Tensor:
    return module(x)[0]


@EVERY_KIND
def test_in_training_only_recurrent_weights_are_dropped(kind) -> None:
    """A mask that changed between steps, or of other weights, would give other outputs."""
    layer, x = build(kind)
    drop_connect(layer, 0.5)
    for seed in (1, 2):
        torch.manual_seed(seed)
        torch.testing.assert_close(run(layer, x), run(thinned(kind, seed, 0.5), x))
        assert not torch.allclose(run(layer, x), run(thinned(kind, seed, 0.5), x))  # a new mask


@EVERY_KIND
def test_training_updates_the_stored_weights(kind) -> None:
    layer, x = build(kind)
    drop_connect(layer, 0.5)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    before = {name: weight.detach().clone() for name, weight in recurrent(layer).items()}
    for _ in range(3):
        optimizer.zero_grad()
        run(layer, x).square().sum().backward()
        optimizer.step()
    for name, weight in recurrent(layer).items():
        assert not torch.equal(weight, before[name])
    trained = run(layer.eval(), x)
    plain, _ = build(kind)
    state = {
        name.replace("parametrizations.", "").replace(".original", ""): value
        for name, value in layer.state_dict().items()
    }
    plain.load_state_dict(state)
    torch.testing.assert_close(run(plain.eval(), x), trained)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] if place % 12 else [])
        for place, kind in enumerate(KINDS)
    ],
)
def test_it_compiles(kind) -> None:
    layer, x = build(kind)
    drop_connect(layer, 1.0)  # the mask does not depend on random numbers
    own = not isinstance(
        layer, nn.RNNBase
    )  # torch's compiler leaves torch's own layers as they are
    compiled: Any = torch.compile(layer, backend="aot_eager", fullgraph=own)
    torch.testing.assert_close(run(compiled, x), run(thinned(kind, 0, 1.0), x))
    torch._dynamo.reset()


@EVERY_KIND
def test_new_masks_are_drawn_after_a_failed_call(kind) -> None:
    layer, x = build(kind)
    drop_connect(layer, 0.5)
    with pytest.raises((ValueError, RuntimeError)):
        layer(x[..., :1])
    copy.deepcopy(layer)  # nothing of the failed call's graph is left in it
    torch.manual_seed(6)
    torch.testing.assert_close(run(layer, x), run(thinned(kind, 6, 0.5), x))


def test_p_of_0_changes_nothing() -> None:
    layer, x = build("LSTM")
    wanted = run(layer, x)
    assert torch.equal(run(drop_connect(layer, 0.0), x), wanted)


@pytest.mark.parametrize("kind", ["RKM-LSTM", "RKM-CIFG", "linear kernel", "string kernel"])
def test_a_step_in_evaluation_matches_the_layer_without_dropconnect(kind) -> None:
    plain, x = build(kind)
    layer = drop_connect(copy.deepcopy(plain), 0.5).eval()
    state = expected = None
    with torch.no_grad():
        for x_t in x:
            wanted, expected = plain.eval().step(x_t, expected)
            found, state = layer.step(x_t, state)
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("kind", ["RKM-LSTM", "string kernel of one layer"])
def test_the_streaming_step_supports_dropconnect(kind: str) -> None:
    """Evaluation uses the fast path, also with DropConnect; in training it drops, too."""
    plain, x = build(kind)
    layer = drop_connect(copy.deepcopy(plain), 0.5)
    with torch.no_grad():
        _, state = layer.eval()(x)
        if core_call(plain, x[0], state) is None:
            pytest.skip("the C++ core is not built")
        quick = core_call(layer, x[0], state)
        assert quick is not None
        torch.testing.assert_close(quick[0], layer(x[:1], state)[0][0])
        layer.train()
        torch.manual_seed(8)
        quick = core_call(layer, x[0], state)
        assert quick is not None
        torch.testing.assert_close(quick[0], thinned(kind, 8, 0.5)(x[:1], state)[0][0])


@pytest.mark.parametrize("mode", [True, False])
def test_inspection_and_explanations_use_undropped_weights(mode: bool) -> None:
    plain, x = build("RKM-LSTM")
    layer = drop_connect(copy.deepcopy(plain), 0.5).train(mode)
    for gate, weight in plain.recurrent().items():
        assert torch.equal(layer.recurrent()[gate], weight)
    torch.testing.assert_close(influence(layer, x[:, 0]), influence(plain, x[:, 0]))
    plain, x = build("string kernel")
    layer = drop_connect(copy.deepcopy(plain), 0.5).train(mode)
    assert torch.equal(layer.decay_gate()["state"], plain.decay_gate()["state"])
    torch.testing.assert_close(layer.cell_states(x), plain.cell_states(x))
    assert top_ngrams(layer, x[:, 0], 0, 3) == top_ngrams(plain, x[:, 0], 0, 3)


@pytest.mark.parametrize("kind", ["RKM-LSTM deep", "string kernel"])
def test_parts_of_a_layer_have_their_own_weights_and_can_be_explained(kind) -> None:
    plain, x = build(kind)
    layer = drop_connect(copy.deepcopy(plain), 0.5).eval()
    part = layer.part(1)
    assert {name for name, _ in part.named_parameters() if "weight_hh" in name} == {
        "parametrizations.weight_hh_l1.original"
    }
    inner = torch.randn(1, T, part.input_size, dtype=torch.float64)
    torch.testing.assert_close(run(part, inner), run(plain.eval().part(1), inner))
    weights = torch.randn(T, H * layer.num_directions, dtype=torch.float64)
    found, expected = (stack_readout(own, x[:, 0], weights).steps() for own in (layer, plain))
    torch.testing.assert_close(found, expected)


@EVERY_KIND
def test_weights_can_be_reinitialized_in_training(kind) -> None:
    layer, _ = build(kind)
    drop_connect(layer, 0.5)
    with torch.no_grad():
        for weight in recurrent(layer).values():
            weight.zero_()
    layer.reset_parameters()
    assert all(weight.ne(0).all() for weight in recurrent(layer).values())


def test_dropconnect_can_be_removed() -> None:
    layer, x = build("RKM-LSTM")
    wanted = run(layer, x)
    drop_connect(layer, 0.5)
    parametrize.remove_parametrizations(layer, "weight_hh_l0", leave_parametrized=False)
    torch.testing.assert_close(run(layer, x), wanted)


def test_layers_without_recurrent_matrices_are_rejected() -> None:
    with pytest.raises(KindError, match=r"module is Linear; expected a layer of representer.nn"):
        drop_connect(nn.Linear(2, 2))
    for layer in (layers.CNN(INPUT, H), layers.StringKernelRNN(INPUT, H, decay="input")):
        with pytest.raises(ArgumentError, match="expected a layer with recurrent matrices"):
            drop_connect(layer)
    with pytest.raises(ArgumentError, match="expected a layer whose recurrent weights are plain"):
        drop_connect(drop_connect(nn.GRU(INPUT, H)))
    with pytest.raises(ArgumentError, match="p is 2; expected a number from 0 to 1"):
        drop_connect(nn.GRU(INPUT, H), 2)


# Embedding dropout drops all occurrences of a word.


V, E = 40, 6


def test_all_occurrences_of_a_word_are_dropped_or_all_scaled() -> None:
    torch.manual_seed(0)
    weight = torch.randn(V, E).abs() + 1
    tokens = torch.arange(V).repeat(3, 1)
    vectors = EmbeddingDropout(0.3)(weight, tokens)
    factor = vectors / weight[tokens]
    assert (factor == factor[:1, :, :1]).logical_or((factor - factor[:1, :, :1]).abs() < 1e-6).all()
    kept = factor[0, :, 0] > 0
    torch.testing.assert_close(factor[0, kept, 0], torch.full((int(kept.sum()),), 1 / 0.7))
    assert 0 < int(kept.sum()) < V


def test_a_tied_weight_gets_gradients_from_both_uses_and_none_from_dropped_words() -> None:
    embedding = nn.Embedding(V, E)
    tokens = torch.randint(V, (5, 2))
    x = EmbeddingDropout(0.5)(embedding.weight, tokens)
    dropped = {
        int(w) for w, v in zip(tokens.flatten(), x.flatten(0, 1), strict=True) if not v.any()
    }
    (gradient,) = torch.autograd.grad(x.sum(), embedding.weight, retain_graph=True)
    assert dropped
    assert not gradient[list(dropped)].any()
    (tied,) = torch.autograd.grad((x @ embedding.weight.T).sum(), embedding.weight)
    assert tied.ne(0).any(1).all()  # the softmax uses all words


def test_evaluation_and_p_of_0_are_plain_lookups() -> None:
    weight, tokens = torch.randn(V, E), torch.randint(V, (5, 2))
    assert torch.equal(EmbeddingDropout(0.5).eval()(weight, tokens), weight[tokens])
    assert torch.equal(EmbeddingDropout(0.0)(weight, tokens), weight[tokens])


def test_a_probability_out_of_range_is_rejected() -> None:
    with pytest.raises(ArgumentError, match="p is -1; expected a number from 0 to 1"):
        EmbeddingDropout(-1)
    assert repr(EmbeddingDropout(0.5)) == "EmbeddingDropout(p=0.5)"


# Locked dropout: one mask per call and sequence in training.


def test_a_feature_is_dropped_at_every_step_or_at_none() -> None:
    y = LockedDropout(0.4)(torch.ones(7, 50, 20))
    assert (y == y[:1]).all()
    assert y.unique().tolist() == [0, pytest.approx(1 / 0.6)]
    # 1000 draws: the fraction is within 4 standard deviations of 0.4
    assert (y[0] == 0).double().mean().item() == pytest.approx(0.4, abs=0.062)


def test_masks_differ_between_sequences_and_calls() -> None:
    layer, x = LockedDropout(0.5), torch.ones(2, 5, 64)
    first, second = layer(x), layer(x)
    assert not (first[:, 0] == first[:, 1]).all()
    assert not (first == second).all()


def test_evaluation_and_p_of_0_change_nothing() -> None:
    x = torch.randn(3, 4, 5)
    assert LockedDropout(0.5).eval()(x) is x
    assert LockedDropout(0.0)(x) is x


def test_invalid_inputs_and_probabilities_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"x has shape \(2, 3\); expected \(time, batch, features"):
        LockedDropout(0.5)(torch.ones(2, 3))
    with pytest.raises(ArgumentError, match=r"p is 1.5; expected a number from 0 to 1"):
        LockedDropout(1.5)
    assert repr(LockedDropout(0.5)) == "LockedDropout(p=0.5)"
