"""The signal classifier: its equation, channel dropout, errors, learning from phases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from looped import looped
from representer.data.signals import synthetic_recordings
from representer.errors import ArgumentError, KindError, ShapeError
from representer.models import (
    SeriesNetwork,
    SeriesNetworkConfig,
    SignalClassifierConfig,
    SignalNetwork,
    SignalStream,
)
from representer.models.signal_classifier import POOLINGS
from representer.nn import TABLE1

SMALL = SignalClassifierConfig(
    num_channels=3, num_classes=2, sampling_rate=50.0, hidden_size=4, filter_length=6, stride=3
)


def small(**changes: object) -> SignalNetwork:
    torch.manual_seed(0)
    return SignalNetwork(replace(SMALL, **changes)).double().eval()


def signal(samples: int = 12) -> torch.Tensor:
    return torch.randn(2, 3, samples, dtype=torch.float64)


def features(outputs: torch.Tensor, pooling: str, attention: torch.Tensor) -> torch.Tensor:
    """The definition of each pooling, for four steps and parts of two."""
    first, second, third, fourth = outputs
    if pooling == "last":
        return fourth
    if pooling == "max":
        return torch.maximum(torch.maximum(first, second), torch.maximum(third, fourth))
    if pooling == "flatten":
        parts = torch.maximum(first, second), torch.maximum(third, fourth)
        return torch.stack(parts, dim=2).flatten(1)
    if pooling == "attention":
        chances = [(h.tanh() @ attention).exp()[:, None] for h in outputs]
        return sum(c * h for c, h in zip(chances, outputs, strict=True)) / sum(chances)
    mean = sum(outputs) / 4
    return mean if pooling == "mean" else torch.cat(
        [mean, (sum(h**2 for h in outputs) / 4 + 1e-4).log()], dim=1
    )  # fmt: skip


@looped("pooling", POOLINGS)
@pytest.mark.parametrize("cell", ["rkm-lstm", "cnn", "syncnet"])
def test_the_logits_are_a_linear_function_of_the_pooled_states(pooling: str, cell: str):
    model, x = small(pooling=pooling, cell=cell, window_length=12), signal()
    attention = torch.randn(4, dtype=torch.float64)
    if model.attention is not None:
        model.attention.weight.data.copy_(attention)
    outputs, _ = model.cell(x.permute(2, 0, 1))
    assert len(outputs) == 4
    expected = features(outputs, pooling, attention) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("stride", [1, 3])
def test_syncnet_is_relu_of_centered_wavelets(stride: int):
    cell, x = small(cell="syncnet", stride=stride, free_phase=True).cell, torch.zeros(12, 2, 3)
    cell.bias.data.uniform_(-0.1, 0.1)
    x = torch.randn(12, 2, 3, dtype=torch.float64)
    amplitude, frequency, phase, decay = (p[0] for p in cell.convolution.parts())
    found, _ = cell(x)
    for row, end in enumerate(range(stride - 1, 12, stride)):
        total = cell.bias.expand(2, -1)
        for s in range(-3, 3):
            if 0 <= end + s < 12:
                wave = (frequency[:, None] * s + phase).cos() * (-decay * s**2).exp()[:, None]
                total = total + x[end + s] @ (amplitude * wave).T
        torch.testing.assert_close(found[row], total.clamp(min=0))
    with pytest.raises(ArgumentError, match="filters is 'dense'; expected 'wavelet' for SyncNet"):
        small(cell="syncnet", filters="dense")


def test_flattened_windows_have_the_length_of_the_training():
    model = small(pooling="flatten", window_length=13, pool_length=7)
    assert model.head.in_features == 2 * 4
    with pytest.raises(ShapeError, match=r"expected \(batch, 3, 13\), as in training"):
        model(signal(12))


def test_the_typical_power_is_a_running_mean_of_training_that_no_output_depends_on():
    model, x = small(pooling="power"), signal()
    before, powers = model(x), model.encode(x)[:, SMALL.hidden_size :]
    assert not model.typical.any()
    model.train()(x)
    torch.testing.assert_close(model.typical, 0.1 * powers.mean(0))
    assert torch.equal(model.eval()(x), before)


def test_samples_at_the_start_that_do_not_fill_a_stride_are_skipped():
    model, x = small(), signal(14)
    torch.testing.assert_close(model(x), model(x[:, :, 2:]))
    changed = x.clone()
    changed[:, :, -1] += 1
    assert not torch.allclose(model(changed), model(x))


def test_whole_channels_are_dropped_and_the_others_scaled():
    model, x = small(channel_dropout=0.5).train(), signal()
    seen: list[torch.Tensor] = []
    model.cell.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for _ in range(20):
        model(x)
    factors = [(inputs / x.permute(2, 0, 1)) for inputs in seen]
    for factor in factors:
        torch.testing.assert_close(factor, factor[:1].expand_as(factor))  # equal for all samples
    values = {round(v, 6) for factor in factors for v in factor[0].flatten().tolist()}
    assert values == {0.0, 2.0}
    model.eval()
    torch.testing.assert_close(model(x), small()(x))


def test_dropout_acts_before_the_last_layer():
    model, x = small(dropout=0.5).train(), signal()
    torch.manual_seed(1)
    logits = model(x)
    torch.manual_seed(1)
    pooled = model.eval().encode(x)
    torch.testing.assert_close(logits, model.head(F.dropout(pooled, 0.5, True)))


@pytest.mark.parametrize(("changes", "message"), [
    ({"stride": 0}, "stride is 0; expected a positive integer"),
    ({"num_classes": 1}, "num_classes is 1; expected an integer of at least 2"),
    ({"channel_dropout": 1.0}, "channel_dropout is 1.0"),
    ({"sampling_rate": 0.0}, "sampling_rate is 0.0; expected a positive number of Hz"),
    ({"filters": "fourier"}, "filters is 'fourier'"),
    ({"pooling": "sum"}, "pooling is 'sum'; expected one of power, mean, last, max"),
    ({"pooling": "flatten"}, "window_length is None; expected the samples of a window"),
    ({"pool_length": 2}, "pool_length is 2; expected None, or an integer of at least 3"),
    ({"cell": "rkm-lstn"}, "Did you mean 'rkm-lstm'"),
    ({"cell": "torch-lstm"}, "The cell 'torch-lstm' has no such option"),
    ({"filters": "dense", "free_phase": True}, "free_phase is True; expected False"),
])  # fmt: skip
def test_invalid_configurations_are_rejected(changes: dict[str, object], message: str):
    with pytest.raises(ArgumentError, match=message):
        small(**changes)


@pytest.mark.parametrize("shape", [(2, 4, 12), (3, 12), (2, 3, 2)])
def test_signals_of_another_shape_are_rejected(shape: tuple[int, ...]):
    expected = r"expected \(batch, 3, samples\) with at least 3 samples"
    with pytest.raises(ShapeError, match=expected):
        small()(torch.zeros(shape, dtype=torch.float64))


def test_integer_signals_are_rejected():
    with pytest.raises(KindError, match=r"signal is torch\.int64; expected a floating-point"):
        small()(torch.zeros(2, 3, 12, dtype=torch.int64))


def test_options_are_passed_to_the_cell():
    config = SignalClassifierConfig(3, 2, 100.0, num_layers=2, free_phase=True, layer_norm=True)
    cell = SignalNetwork(config).cell
    assert (cell.num_layers, cell.layer_norm, cell.stride) == (2, True, 20)
    assert cell.bank.sampling_rate == 100.0
    fixed = SignalNetwork(SignalClassifierConfig(3, 2, 100.0, num_layers=2, layer_norm=True))
    assert cell.bank.free_phase
    assert not fixed.cell.bank.free_phase
    dense = SignalNetwork(SignalClassifierConfig(3, 2, 100.0, filters="dense"))
    assert dense.cell.bank.filters == "dense"


def test_it_generalizes_to_new_subjects_from_phases_alone():
    recordings = synthetic_recordings(subjects=8, windows=60, seed=0)
    held_out = torch.as_tensor(np.isin(recordings.subjects, ["subject 6", "subject 7"]))
    x, y = torch.as_tensor(recordings.signals), torch.as_tensor(recordings.labels)
    torch.manual_seed(0)
    model = SignalNetwork(
        SignalClassifierConfig(4, 2, recordings.sampling_rate, hidden_size=10, stride=10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    order = torch.Generator().manual_seed(0)
    for _ in range(12):
        rows = torch.nonzero(~held_out)[:, 0]
        for part in rows[torch.randperm(len(rows), generator=order)].split(32):
            optimizer.zero_grad()
            F.cross_entropy(model(x[part]), y[part]).backward()
            optimizer.step()
    model.eval()
    accuracy = (model(x[held_out]).argmax(1) == y[held_out]).double().mean()
    assert accuracy > 0.85  # 120 windows; chance is 0.5


# Predictions of a stream match those of whole windows.


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


# The network of series: a mean over the true length.


def test_padding_has_no_influence():
    torch.manual_seed(0)
    network = SeriesNetwork(SeriesNetworkConfig(2, 3, hidden_size=4)).double().eval()
    x = torch.randn(1, 7, 2).double()
    padded = torch.cat([x, torch.randn(1, 5, 2).double()], 1)
    lengths = torch.tensor([7])
    torch.testing.assert_close(network(padded, lengths), network(x, lengths))


def test_wrong_channels_and_sizes_are_refused():
    network = SeriesNetwork(SeriesNetworkConfig(2, 3, hidden_size=4))
    with pytest.raises(ShapeError, match="series"):
        network(torch.zeros(1, 7, 3), torch.tensor([7]))
    with pytest.raises(ArgumentError, match="hidden_size"):
        SeriesNetworkConfig(2, 3, hidden_size=0)
