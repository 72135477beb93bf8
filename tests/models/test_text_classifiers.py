"""Classifiers of texts, of one cell and of a stack of layers: equations, padding, learning."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError, KindError, ShapeError
from representer.models import (
    CELLS,
    SequenceClassifierConfig,
    SequenceNetwork,
    StackedClassifier,
    StackedClassifierConfig,
)
from representer.nn import NgramLSTM, StringKernelRNN

SMALL = SequenceClassifierConfig(
    vocabulary_size=20, num_classes=3, embedding_size=5, hidden_size=6, head_size=7, dropout=0.0
)


def small(cell: str, **changes: object) -> SequenceNetwork:
    has_norm = cell not in ("torch-lstm", "string-kernel")
    config = replace(SMALL, cell=cell, layer_norm=has_norm, **changes)
    return SequenceNetwork(config).double().eval()


def batch(time: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, 20, (4, time), generator=generator), torch.tensor([time, 3, 1, 0])


def attention_of(model: SequenceNetwork) -> torch.Tensor:
    assert model.attention is not None
    return model.attention.weight[0]


def test_a_row_of_length_0_has_the_output_of_a_zero_mean() -> None:
    model = small("rkm-lstm")
    tokens, lengths = batch()
    zero = torch.zeros(1, 6, dtype=torch.float64)
    torch.testing.assert_close(model(tokens, lengths)[3:], model.head(zero))


def test_attention_starts_as_the_mean_and_is_a_weighted_mean() -> None:
    model, mean = small("rkm-cifg", pooling="attention"), small("rkm-cifg")
    mean.load_state_dict({k: v for k, v in model.state_dict().items() if "attention" not in k})
    tokens, lengths = batch()
    torch.testing.assert_close(model(tokens, lengths), mean(tokens, lengths), rtol=1e-12, atol=0)
    torch.nn.init.normal_(attention_of(model).detach())
    for row, length in enumerate(lengths[:-1]):
        outputs, _ = model.read(tokens[row, None, :length], length[None])
        steps = list(outputs.detach()[0])
        weights = [(attention_of(model) @ h.tanh()).exp().item() for h in steps]
        wanted = sum(a * h for a, h in zip(weights, steps, strict=True)) / sum(weights)
        torch.testing.assert_close(model.encode(tokens, lengths)[row], wanted)


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_padding_gets_no_gradient(pooling: str) -> None:
    model = small("rkm-lstm", pooling=pooling).train()
    tokens, lengths = batch()
    tokens[0, 0] = 18
    tokens[tokens == 19] = 1
    tokens[1, 3:] = 19  # now only in padding
    model(tokens, lengths).sum().backward()
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad[19].abs().sum() == 0
    assert model.embedding.weight.grad[18].abs().sum() > 0
    for parameter in model.parameters():  # the last row is empty
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


def test_options_are_passed_to_the_cell_and_the_head() -> None:
    config = replace(
        SMALL, num_layers=2, cell_dropout=0.3, forget_bias=1.5, dilation=2, filter_length=3,
        dropout=0.4,
    )  # fmt: skip
    torch.manual_seed(0)
    model = SequenceNetwork(replace(config, cell="lstm"))
    assert isinstance(model.cell, NgramLSTM)
    assert (model.cell.num_layers, model.cell.dropout, model.cell.dilation) == (2, 0.3, 2)
    torch.manual_seed(0)
    plain = SequenceNetwork(replace(config, cell="lstm", forget_bias=0.0))
    forget = [m.cell.biases()["forget"].mean() for m in (model, plain)]
    assert float(forget[0] - forget[1]) == pytest.approx(1.5)
    assert [m.p for m in model.head if isinstance(m, torch.nn.Dropout)] == [0.4, 0.4]
    string = SequenceNetwork(
        replace(SMALL, cell="string-kernel", layer_norm=False, order=3, decay=0.25)
    ).cell
    assert (string.order, string.decay) == (3, 0.25)
    kernels = [
        SequenceNetwork(replace(SMALL, cell="linear-kernel", learn_static_gates=learned))
        for learned in (True, False)
    ]
    assert len(list(kernels[0].parameters())) > len(list(kernels[1].parameters()))


def test_the_head_is_initialized_as_in_the_authors_code() -> None:
    torch.manual_seed(0)
    wide = replace(SMALL, hidden_size=40, head_size=60)
    for layer in SequenceNetwork(wide).head:
        if isinstance(layer, torch.nn.Linear):
            torch.testing.assert_close(layer.bias, torch.full_like(layer.bias, 0.001))
            bound = (6 / sum(layer.weight.shape)) ** 0.5
            assert 0.95 * bound < layer.weight.abs().max() <= bound


def test_mean_pooling_is_the_mean_over_the_true_length() -> None:
    model = small("lstm")
    tokens, lengths = batch()
    outputs, _ = model.cell(model.embedding(tokens[1:2, :3]))
    torch.testing.assert_close(model.encode(tokens, lengths)[1], outputs[0].mean(0))


def test_padded_mean_divides_by_max_length() -> None:
    mean, padded = small("lstm"), small("lstm", pooling="padded_mean", max_length=128)
    padded.load_state_dict(mean.state_dict())
    tokens, lengths = batch()
    expected = mean.encode(tokens, lengths) * lengths[:, None] / 128
    torch.testing.assert_close(padded.encode(tokens, lengths), expected)


CENTERED = [name for name in CELLS if name not in ("torch-lstm", "string-kernel", "rkm")]


@pytest.mark.parametrize(("length", "dilation"), [(2, 1), (3, 1), (4, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("cell", CENTERED)
def test_a_centered_filter_multiplies_a_window_around_the_step(cell, length, dilation) -> None:
    """The same cell with filters of length 1 on windows as TensorFlow's "same" pads them."""
    model = small(cell, filter_length=length, dilation=dilation, filter_padding="same")
    tokens = batch()[0]
    outputs, _ = model.read(tokens, torch.full((len(tokens),), tokens.shape[1]))
    after = length // 2 * dilation
    padded = F.pad(model.embedding(tokens), (0, 0, length * dilation, after))
    starts = [padded.shape[1] - tokens.shape[1] - slot * dilation for slot in range(length)]
    windows = [padded[:, start : start + tokens.shape[1]] for start in starts]  # latest slot first
    plain = small(cell, embedding_size=length * SMALL.embedding_size).cell
    plain.load_state_dict(model.cell.state_dict())
    torch.testing.assert_close(outputs, plain(torch.cat(windows, dim=2))[0])


def test_a_candidate_bias_is_that_of_the_layer() -> None:
    models = [small("rkm-lstm", candidate_bias=flag) for flag in (False, True)]
    assert ["candidate" in model.cell.biases() for model in models] == [False, True]
    with pytest.raises(ArgumentError, match="candidate_bias is True; expected False"):
        small("string-kernel", candidate_bias=True)


@settings(deadline=None, max_examples=10)
@given(time=st.integers(1, 6), extra=st.integers(0, 4), seed=st.integers(0, 1000))
def test_logits_of_any_shape_are_finite_and_independent_of_padding(
    time: int, extra: int, seed: int
) -> None:
    model = small("linear-kernel-gated", filter_length=2)
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, time + 1, (3,), generator=generator)
    tokens = torch.randint(0, 20, (3, time), generator=generator)
    logits = model(tokens, lengths)
    assert torch.isfinite(logits).all()
    padded = F.pad(tokens, (0, extra), value=5)
    torch.testing.assert_close(model(padded, lengths), logits, rtol=0, atol=1e-12)


def test_the_head_has_the_parameters_of_the_paper() -> None:
    config = SequenceClassifierConfig(vocabulary_size=10, num_classes=4)
    head = SequenceNetwork(config).head
    assert sum(p.numel() for p in head.parameters()) == 91_504  # AG News


@pytest.mark.parametrize(("tokens", "lengths", "error", "message"), [
    (torch.ones(3), torch.ones(3).long(), ShapeError, r"tokens has shape \(3,\)"),
    (torch.ones(3, 0).long(), torch.zeros(3).long(), ShapeError, "at least 1"),
    (torch.ones(3, 2).long(), torch.ones(2).long(), ShapeError, r"lengths .* expected \(3,\)"),
    (torch.ones(3, 2), torch.ones(3).long(), KindError, "tokens is torch.float32"),
    (torch.ones(3, 2).long(), torch.ones(3), KindError, "lengths is torch.float32"),
    (torch.ones(3, 2).long(), torch.tensor([1, 3, 2]), ArgumentError, r"lengths\[1\] is 3"),
    (torch.ones(3, 2).long(), torch.tensor([1, 2, -1]), ArgumentError, r"lengths\[2\] is -1"),
])  # fmt: skip
def test_errors_name_the_invalid_value(
    tokens: torch.Tensor, lengths: torch.Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        small("lstm")(tokens, lengths)


# The stacked classifier: its equation and dropout.


STACKED = StackedClassifierConfig(
    vocabulary_size=20, num_classes=3, embedding_size=5, hidden_size=6, dropout=0.0, rnn_dropout=0.0
)
DECAYS = ["state", "input", "learned", 0.5]


def stacked(**changes: object) -> StackedClassifier:
    torch.manual_seed(0)
    return StackedClassifier(replace(STACKED, **changes)).double().eval()


def string_layer(module: torch.nn.Module) -> StringKernelRNN:
    assert isinstance(module, StringKernelRNN)
    return module


def test_the_logits_are_a_linear_function_of_the_means_of_all_layers() -> None:
    """The equation, with the layers of L17 (4) by hand: relu(c_1 + c_2), gate on x and h."""
    model = stacked(num_layers=2)
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


def test_the_means_are_of_outputs_without_dropout() -> None:
    model = stacked(num_layers=1, dropout=0.6).train()
    model.embedding.weight.data.fill_(1)
    string_layer(model.layers[0]).references().abs_()  # so that relu leaves no unit at 0
    means = model.encode(*batch())[:3]
    assert (means > 0).double().mean() > 0.9
    assert not torch.equal(means, model.encode(*batch())[:3])  # dropout on the inputs


def test_dropout_is_applied_to_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    model = stacked(dropout=0.5).train()
    means = torch.ones(4, 18, dtype=torch.float64)
    monkeypatch.setattr(model, "encode", lambda tokens, lengths: means)
    assert not torch.equal(model(*batch()), model(*batch()))


def test_dropout_is_disabled_in_evaluation() -> None:
    model = stacked(dropout=0.5, rnn_dropout=0.5)
    torch.testing.assert_close(model(*batch()), stacked()(*batch()), rtol=0, atol=0)
    model.train()
    assert not torch.equal(model(*batch()), model(*batch()))


def test_rnn_dropout_is_on_the_input_and_on_the_state_of_gates() -> None:
    for decay, hidden in (("state", 0.3), ("input", 0.0), (0.5, 0.0)):
        for layer in map(string_layer, stacked(decay=decay, rnn_dropout=0.3).layers):
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
    model = stacked()
    model.set_vectors(torch.ones(20, 5, dtype=torch.float64), freeze=True)
    assert model.embedding.weight.sum().item() == 95
    model(*batch()).sum().backward()
    assert model.embedding.weight.grad is None
    with pytest.raises(ShapeError, match="vectors"):
        model.set_vectors(torch.ones(20, 6))


def test_invalid_layer_options_are_rejected() -> None:
    with pytest.raises(ArgumentError, match="decay"):
        StackedClassifier(replace(STACKED, decay=1.5))


# What holds for both kinds of classifiers: padding, rows by themselves, and that they learn.


def with_attention(cell: str, **changes: object) -> SequenceNetwork:
    model = small(cell, num_layers=2, pooling="attention", **changes)
    torch.nn.init.normal_(attention_of(model).detach())
    return model


PADDED = {
    f"{cell}, {'two directions' if both else 'one direction'}": partial(
        with_attention, cell, bidirectional=both
    )
    for cell in CELLS
    for both in (False, True)
} | {f"stacked, {decay}": partial(stacked, decay=decay) for decay in DECAYS}


@pytest.mark.parametrize("make", PADDED.values(), ids=PADDED)
def test_padding_does_not_affect_the_result(make) -> None:
    model, (tokens, lengths) = make(), batch()
    logits = model(tokens, lengths)
    garbage = tokens.clone()
    for row, length in enumerate(lengths):
        garbage[row, length:] = 17
    wider = F.pad(garbage, (0, 6), value=3)
    torch.testing.assert_close(model(garbage, lengths), logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(wider, lengths), logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("make", "masked"), [
    (partial(small, "rkm-cifg", filter_length=3), False),
    (partial(small, "rkm-cifg", filter_length=3, bidirectional=True), False),
    (partial(small, "rkm-lstm", filter_length=5, filter_padding="same"), True),  # or is longer
    (lambda: stacked(), False),
])  # fmt: skip
def test_a_single_row_matches_its_result_in_a_batch(make, masked) -> None:
    model, (tokens, lengths) = make(), batch()
    if masked:
        tokens = tokens.masked_fill(torch.arange(9) >= lengths[:, None], 0)
    logits = model(tokens, lengths)
    for row, length in enumerate(lengths[:-1]):
        alone = model(tokens[row : row + 1, :length], length[None])
        torch.testing.assert_close(alone[0], logits[row], rtol=0, atol=1e-12)
    if isinstance(model, StackedClassifier):
        assert not logits[3].any()
        assert logits[:3].any(1).all()


LEARNING = {cell: (partial(small, cell), 0.06, 40) for cell in CELLS} | {
    f"stacked, {decay}": (partial(stacked, decay=decay, dropout=0.1), 0.04, 60) for decay in DECAYS
}


@pytest.mark.parametrize(("make", "rate", "steps"), LEARNING.values(), ids=LEARNING)
def test_one_batch_can_be_overfitted(make, rate, steps) -> None:
    model, (tokens, lengths), labels = make().float().train(), batch(), torch.tensor([0, 1, 2, 0])
    lengths[3] = 5
    if isinstance(model, StackedClassifier):
        torch.manual_seed(3)
        tokens, lengths, labels = tokens[:3], lengths[:3], labels[:3]
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(tokens, lengths), labels).backward()
        optimizer.step()
    logits = model.eval()(tokens, lengths)
    assert (logits.argmax(1) == labels).all()
    if isinstance(model, StackedClassifier):
        assert F.cross_entropy(logits, labels).item() < 0.02
