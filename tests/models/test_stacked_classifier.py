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
