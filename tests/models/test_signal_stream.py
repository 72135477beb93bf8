"""Predictions of a stream match those of whole windows."""

from __future__ import annotations

import pytest
import torch

from looped import looped
from representer.errors import KindError, ShapeError
from representer.models import SignalClassifierConfig, SignalNetwork, SignalStream
from representer.models.signal_classifier import POOLINGS
from representer.nn import TABLE1

CELLS = {"LSTM": "lstm", "RKM-LSTM": "rkm-lstm", "RKM-CIFG": "rkm-cifg", "CNN": "cnn"}


def random_model(cell: str = "rkm-lstm", **changes) -> SignalNetwork:
    torch.manual_seed(0)
    given = {"num_channels": 3, "num_classes": 2, "sampling_rate": 100.0, "cell": cell,
             "hidden_size": 5, "filter_length": 12, "stride": 5} | changes  # fmt: skip
    return SignalNetwork(SignalClassifierConfig(**given)).double()


def streamed(model: SignalNetwork, window: torch.Tensor) -> torch.Tensor:
    stream, stride = SignalStream(model), model.config.stride
    first = window.shape[1] % stride
    predictions = [
        stream.step(window[:, k : k + stride]) for k in range(first, window.shape[1], stride)
    ]
    return predictions[-1]


@pytest.mark.parametrize("cell", [name for label, name in CELLS.items() if label in TABLE1])
@looped("pooling", [name for name in POOLINGS if name != "flatten"])
@looped("stride", [1, 5])
def test_the_prediction_after_a_window_matches_the_classifier(cell, pooling, stride):
    model = random_model(cell, pooling=pooling, stride=stride, channel_dropout=0.5)
    window = torch.randn(3, 43, dtype=torch.float64)
    if model.attention is not None:
        torch.nn.init.normal_(model.attention.weight)
    expected = model.eval()(window[None])[0].softmax(-1)
    assert torch.allclose(streamed(model, window), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "changes", [{"pooling": "flatten", "window_length": 43}, {"cell": "syncnet"}]
)
def test_a_model_that_needs_a_whole_window_is_rejected(changes):
    with pytest.raises(KindError, match="expected one that needs no whole window"):
        SignalStream(random_model(**changes))


def test_a_model_in_training_mode_is_evaluated_without_dropout():
    model, window = (
        random_model(channel_dropout=0.9).train(),
        torch.randn(3, 40, dtype=torch.float64),
    )
    assert torch.equal(streamed(model, window), streamed(model, window))


def test_reset_starts_a_new_signal():
    stream, samples = SignalStream(random_model()), torch.randn(3, 5, dtype=torch.float64)
    first = stream.step(samples)
    assert not torch.allclose(stream.step(samples), first)
    assert stream.steps == 2
    stream.reset()
    assert torch.equal(stream.step(samples), first)


def test_samples_of_another_shape_or_dtype_are_rejected():
    stream = SignalStream(random_model())
    with pytest.raises(ShapeError, match=r"samples has shape \(3, 4\); expected \(3, 5\)"):
        stream.step(torch.zeros(3, 4))
    with pytest.raises(KindError, match=r"samples is torch\.int64; expected a floating-point"):
        stream.step(torch.zeros(3, 5, dtype=torch.int64))
