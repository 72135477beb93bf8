"""The sequence classifier: padding, pooling, errors, overfitting one batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError, KindError, ShapeError
from representer.models import CELLS, SequenceClassifierConfig, SequenceNetwork
from representer.nn import NgramLSTM

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


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_padding_does_not_affect_the_result(cell: str, bidirectional: bool) -> None:
    model = small(cell, bidirectional=bidirectional, num_layers=2, pooling="attention")
    torch.nn.init.normal_(attention_of(model).detach())
    tokens, lengths = batch()
    logits = model(tokens, lengths)
    garbage = tokens.clone()
    for row, length in enumerate(lengths):
        garbage[row, length:] = 17
    wider = torch.nn.functional.pad(garbage, (0, 6), value=3)
    torch.testing.assert_close(model(garbage, lengths), logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(wider, lengths), logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_single_row_matches_its_result_in_a_batch(bidirectional: bool) -> None:
    model = small("rkm-cifg", bidirectional=bidirectional, filter_length=3)
    tokens, lengths = batch()
    logits = model(tokens, lengths)
    for row, length in enumerate(lengths[:-1]):
        alone = model(tokens[row : row + 1, :length], length[None])
        torch.testing.assert_close(alone[0], logits[row], rtol=0, atol=1e-12)


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
    padded = torch.nn.functional.pad(model.embedding(tokens), (0, 0, length * dilation, after))
    starts = [padded.shape[1] - tokens.shape[1] - slot * dilation for slot in range(length)]
    windows = [padded[:, start : start + tokens.shape[1]] for start in starts]  # latest slot first
    plain = small(cell, embedding_size=length * SMALL.embedding_size).cell
    plain.load_state_dict(model.cell.state_dict())
    torch.testing.assert_close(outputs, plain(torch.cat(windows, dim=2))[0])


def test_centered_filters_need_no_padding_and_may_be_longer_than_the_text() -> None:
    model = small("rkm-lstm", filter_length=5, filter_padding="same")
    tokens, lengths = batch()
    tokens = tokens.masked_fill(torch.arange(9) >= lengths[:, None], 0)
    logits = model(tokens, lengths)
    for row, length in enumerate(lengths[:-1]):
        alone = model(tokens[row : row + 1, :length], length[None])
        torch.testing.assert_close(alone[0], logits[row], rtol=0, atol=1e-12)


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
    padded = torch.nn.functional.pad(tokens, (0, extra), value=5)
    torch.testing.assert_close(model(padded, lengths), logits, rtol=0, atol=1e-12)


def test_the_head_has_the_parameters_of_the_paper() -> None:
    config = SequenceClassifierConfig(vocabulary_size=10, num_classes=4)
    head = SequenceNetwork(config).head
    assert sum(p.numel() for p in head.parameters()) == 91_504  # AG News


@pytest.mark.parametrize("cell", CELLS)
def test_one_batch_can_be_overfitted(cell: str) -> None:
    model = small(cell).float().train()
    tokens, lengths = batch()
    lengths[3] = 5
    labels = torch.tensor([0, 1, 2, 0])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.06)
    for _ in range(40):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(tokens, lengths), labels).backward()
        optimizer.step()
    assert (model.eval()(tokens, lengths).argmax(1) == labels).all()


def test_word_vectors_are_copied_except_padding() -> None:
    model = small("cnn")
    vectors = torch.randn(20, 5, dtype=torch.float64)
    model.set_vectors(vectors, freeze=True)
    assert torch.equal(model.embedding.weight[1:], vectors[1:])
    assert model.embedding.weight[0].abs().sum() == 0
    assert not model.embedding.weight.requires_grad


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
