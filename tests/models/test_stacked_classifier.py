"""The stacked classifier: its equation, padding, dropout, overfitting one batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from representer.errors import ArgumentError, ShapeError
from representer.models import StackedClassifier, StackedClassifierConfig
from representer.nn import StringKernelRNN

SMALL = StackedClassifierConfig(
    vocabulary_size=20, num_classes=3, embedding_size=5, hidden_size=6, dropout=0.0, rnn_dropout=0.0
)
DECAYS = ["state", "input", "learned", 0.5]


def small(**changes: object) -> StackedClassifier:
    torch.manual_seed(0)
    return StackedClassifier(replace(SMALL, **changes)).double().eval()


def string_layer(module: torch.nn.Module) -> StringKernelRNN:
    assert isinstance(module, StringKernelRNN)
    return module


def batch(time: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, 20, (4, time), generator=generator), torch.tensor([time, 3, 1, 0])


def test_the_logits_are_a_linear_function_of_the_means_of_all_layers() -> None:
    """The equation, with the layers of L17 (4) by hand: relu(c_1 + c_2), gate on x and h."""
    model = small(num_layers=2)
    tokens = torch.tensor([[3, 7, 7, 2]])
    x = model.embedding.weight[tokens[0]]
    means = []
    for layer in map(string_layer, model.layers):
        first, second = layer.references().unbind(1)
        gate = layer.decay_gate()
        assert isinstance(gate, dict)
        c1 = c2 = h = torch.zeros(6, dtype=torch.float64)
        outputs = []
        for x_t in x:
            lam = torch.sigmoid(gate["input"] @ x_t + gate["state"] @ h + gate["bias"])
            c2 = lam * c2 + (1 - lam) * (c1 * (second @ x_t))
            c1 = lam * c1 + (1 - lam) * (first @ x_t)
            h = torch.relu(c1 + c2)
            outputs.append(h)
        x = torch.stack(outputs)
        means.append(x.mean(0))
    expected = model.output.weight @ torch.cat(means)
    torch.testing.assert_close(model(tokens, torch.tensor([4]))[0], expected)


@pytest.mark.parametrize("decay", DECAYS)
def test_padding_does_not_affect_the_result(decay: object) -> None:
    model = small(decay=decay)
    tokens, lengths = batch()
    logits = model(tokens, lengths)
    garbage = tokens.clone()
    for row, length in enumerate(lengths):
        garbage[row, length:] = 17
    wider = F.pad(garbage, (0, 6), value=3)
    torch.testing.assert_close(model(garbage, lengths), logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(wider, lengths), logits, rtol=0, atol=1e-12)


def test_a_single_row_matches_its_result_in_a_batch_and_an_empty_one_is_zero() -> None:
    model = small()
    tokens, lengths = batch()
    logits = model(tokens, lengths)
    for row, length in enumerate(lengths[:-1]):
        alone = model(tokens[row : row + 1, :length], length[None])
        torch.testing.assert_close(alone[0], logits[row], rtol=0, atol=1e-12)
    assert not logits[3].any()
    assert logits[:3].any(1).all()


@pytest.mark.parametrize("decay", DECAYS)
def test_it_overfits_one_batch(decay: object) -> None:
    model = small(decay=decay, dropout=0.1).float().train()
    torch.manual_seed(3)
    tokens, lengths = batch()
    labels = torch.tensor([0, 1, 2])
    optimizer = torch.optim.Adam(model.parameters(), 0.04)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[:3], lengths[:3]), labels).backward()
        optimizer.step()
    model.eval()
    assert F.cross_entropy(model(tokens[:3], lengths[:3]), labels).item() < 0.02


def test_the_means_are_of_outputs_without_dropout() -> None:
    model = small(num_layers=1, dropout=0.6).train()
    model.embedding.weight.data.fill_(1)
    string_layer(model.layers[0]).references().abs_()  # so that relu leaves no unit at 0
    means = model.encode(*batch())[:3]
    assert (means > 0).double().mean() > 0.9
    assert not torch.equal(means, model.encode(*batch())[:3])  # dropout on the inputs


def test_dropout_is_applied_to_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(dropout=0.5).train()
    means = torch.ones(4, 18, dtype=torch.float64)
    monkeypatch.setattr(model, "encode", lambda tokens, lengths: means)
    assert not torch.equal(model(*batch()), model(*batch()))


def test_dropout_is_disabled_in_evaluation() -> None:
    model = small(dropout=0.5, rnn_dropout=0.5)
    torch.testing.assert_close(model(*batch()), small()(*batch()), rtol=0, atol=0)
    model.train()
    assert not torch.equal(model(*batch()), model(*batch()))


def test_rnn_dropout_is_on_the_input_and_on_the_state_of_gates() -> None:
    for decay, hidden in (("state", 0.3), ("input", 0.0), (0.5, 0.0)):
        for layer in map(string_layer, small(decay=decay, rnn_dropout=0.3).layers):
            assert (layer.variational_dropout, layer.hidden_dropout) == (0.3, hidden)
            assert layer.dropout == 0


def test_the_number_of_parameters_is_that_of_the_paper() -> None:
    """L17 prints 540k for five classes, without the embedding."""
    counts = {
        classes: sum(
            p.numel()
            for name, p in StackedClassifier(
                StackedClassifierConfig(vocabulary_size=9, num_classes=classes)
            ).named_parameters()
            if not name.startswith("embedding")
        )
        for classes in (5, 2)
    }
    assert counts == {5: 543_600, 2: 541_800}


def test_weights_are_initialized_uniformly_by_their_fan_in() -> None:
    model = StackedClassifier(StackedClassifierConfig(50, 3, embedding_size=75, hidden_size=48))
    assert model.embedding.weight[0].abs().max() == 0
    for weight, inputs in ((model.embedding.weight, 75), (model.output.weight, 3 * 48)):
        bound = (3 / inputs) ** 0.5
        assert 0.95 * bound < weight.abs().max().item() <= bound


def test_vectors_can_be_set_and_frozen() -> None:
    model = small()
    model.set_vectors(torch.ones(20, 5, dtype=torch.float64), freeze=True)
    assert model.embedding.weight.sum().item() == 95
    model(*batch()).sum().backward()
    assert model.embedding.weight.grad is None
    with pytest.raises(ShapeError, match="vectors"):
        model.set_vectors(torch.ones(20, 6))


def test_invalid_layer_options_are_rejected() -> None:
    with pytest.raises(ArgumentError, match="decay"):
        StackedClassifier(replace(SMALL, decay=1.5))
