"""Contributions of inputs have their shape, and sum to the score without its constant."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from representer import models, nn
from representer.errors import ArgumentError, KindError
from representer.explain import ExactAttribution, influence

OPTIONS = {"batch_first": True, "dtype": torch.float64}
LAYERS = {
    "rkm-cifg": lambda: nn.RKMCIFG(3, 4, **OPTIONS, layer_norm=True),
    "rkm-lstm, deep": lambda: nn.RKMLSTM(3, 4, 2, **OPTIONS, bidirectional=True, filter_length=2),
    "linear kernel": lambda: nn.LinearKernelRNN(3, 4, **OPTIONS, output_gate=True),
    "string kernel": lambda: nn.StringKernelRNN(3, 4, 2, **OPTIONS, order=2, decay="state"),
    "sequence last": lambda: nn.RKMCIFG(3, 4, dtype=torch.float64),
}
TEXT = {"vocabulary_size": 9, "num_classes": 3, "embedding_size": 3, "hidden_size": 4}
TOKENS, LENGTHS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]]), torch.tensor([5, 3])


class Scores(torch.nn.Module):
    """A layer, the mean over time, a hidden layer with relu, and scores."""

    def __init__(self, layer: torch.nn.Module, hidden: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.layer = layer
        width = layer.hidden_size * layer.num_directions
        head = torch.nn.Linear(width, 5), hidden or torch.nn.ReLU(), torch.nn.Linear(5, 2)
        self.head = torch.nn.Sequential(*head).double()

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        x = x if shift is None else x + shift
        x = x if self.layer.batch_first else x.transpose(0, 1)
        output = self.layer(x)[0]
        return self.head(output.mean(1 if self.layer.batch_first else 0))


def batch(count: int = 2) -> Tensor:
    return torch.randn(count, 6, 3, dtype=torch.float64)


@pytest.mark.parametrize("kind", LAYERS)
def test_contributions_sum_to_each_score_without_the_constant(kind):
    model, x = Scores(LAYERS[kind]()), batch()
    method = ExactAttribution(model)
    contributions, delta = method.attribute(x, target=[0, 1], return_convergence_delta=True)
    assert contributions.shape == x.shape
    assert contributions.dtype == x.dtype
    assert delta.abs().max() < 1e-12
    scores = model.eval()(x)[torch.arange(2), torch.tensor([0, 1])]
    constant = method.constant(x, target=torch.tensor([0, 1]))
    torch.testing.assert_close(contributions.sum((1, 2)) + constant, scores)
    with torch.no_grad():
        first = method.attribute(x[1:], target=1)  # alone as in the batch
    torch.testing.assert_close(first[0], contributions[1])


@pytest.mark.parametrize("pooling", ["mean", "attention"])
@pytest.mark.parametrize(
    "options", [{"cell": "rkm-lstm"},
                {"cell": "string-kernel", "num_layers": 2, "layer_norm": False},
                {"cell": "rkm-cifg", "bidirectional": True, "filter_length": 2}],
)  # fmt: skip
def test_tokens_of_padded_texts_have_contributions(pooling, options):
    config = models.SequenceClassifierConfig(**TEXT, **options, head_size=5, pooling=pooling)
    model = models.SequenceNetwork(config).double().eval()
    for weight in [*model.cell.parameters(), *model.head.parameters()]:
        torch.nn.init.normal_(weight, std=0.5)  # no bias is 0, so that padding would have effects
    if model.attention is not None:
        torch.nn.init.normal_(model.attention.weight)
    method = ExactAttribution(model)
    contributions = method.attribute(TOKENS, 2, LENGTHS)
    assert contributions.shape == TOKENS.shape
    constant = method.constant(TOKENS, 2, LENGTHS)
    torch.testing.assert_close(contributions.sum(1) + constant, model(TOKENS, LENGTHS)[:, 2])
    assert contributions[1, 3:].tolist() == [0, 0]
    assert (contributions[0] != 0).all()


def test_every_layer_of_a_stacked_classifier_is_read():
    config = models.StackedClassifierConfig(**TEXT, num_layers=3)
    model = models.StackedClassifier(config).double().eval()
    contributions, delta = ExactAttribution(model).attribute(TOKENS, 0, LENGTHS, True)
    assert delta.abs().max() < 1e-12
    torch.testing.assert_close(contributions.sum(1), model(TOKENS, LENGTHS)[:, 0])


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_samples_of_signals_have_contributions(pooling):
    config = models.SignalClassifierConfig(
        2, 3, sampling_rate=50, hidden_size=4, cell="rkm-cifg", stride=3, pooling=pooling
    )
    model, signal = models.SignalNetwork(config).eval(), torch.randn(2, 2, 13)
    method = ExactAttribution(model)
    contributions = method.attribute(signal, 1)
    assert contributions.shape == signal.shape
    assert contributions.dtype == torch.float32
    assert (contributions[:, :, 0] == 0).all()  # it does not fill a stride
    total = contributions.sum((1, 2)) + method.constant(signal, 1)
    torch.testing.assert_close(total, model(signal)[:, 1], check_dtype=False)


def test_a_layer_alone_has_the_contributions_of_influence():
    layer, x = nn.RKMCIFG(3, 4, **OPTIONS), batch()
    contributions = ExactAttribution(layer).attribute(x, target=(5, 2))  # step and unit
    for one, own in zip(x, contributions, strict=True):
        torch.testing.assert_close(own.sum(1), influence(layer, one)[:, 2])


def test_without_a_token_a_state_loses_its_share_of_each_bigram_twice():
    """A bigram's contribution is divided between two tokens, and vanishes without either."""
    layer = nn.StringKernelRNN(3, 4, **OPTIONS, order=2, decay=0.6, activation=None)
    x = batch(1)
    contributions = ExactAttribution(layer).attribute(x, target=(5, 1)).sum(2)[0]
    for t in range(6):
        without = x.clone()
        without[0, t] = 0
        lost = layer(x)[0][0, 5, 1] - layer(without)[0][0, 5, 1]
        torch.testing.assert_close(2 * contributions[t], lost)


def test_the_model_is_left_as_it_was():
    model = Scores(LAYERS["rkm-cifg"]()).train()
    ExactAttribution(model).attribute(batch(), 0)
    assert model.training
    assert model.layer._forward_hooks == {}
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_scores_that_are_no_such_sums_are_refused():
    method = ExactAttribution(Scores(LAYERS["rkm-cifg"](), torch.nn.Tanh()))
    with pytest.raises(KindError, match=r"only linear functions and relus .* terms sum to"):
        method.attribute(batch(), 0)
    method = ExactAttribution(Scores(LAYERS["rkm-cifg"]()))
    with pytest.raises(KindError, match="no bias or nonlinearity comes before"):
        method.attribute(batch(), 0, torch.ones(2, 6, 3))
    layer = nn.StringKernelRNN(3, 4, **OPTIONS, activation="sigmoid")
    with pytest.raises(KindError, match="sigmoid is not 0 at 0"):
        ExactAttribution(Scores(layer)).attribute(batch(), 0)


def test_wrong_arguments_name_what_is_expected():
    with pytest.raises(KindError, match="Linear; expected a model with a StringKernelRNN"):
        ExactAttribution(torch.nn.Linear(3, 2))
    with pytest.raises(ArgumentError, match="batch_first"):
        ExactAttribution(nn.RKMCIFG(3, 4))
    method = ExactAttribution(Scores(LAYERS["rkm-cifg"]()))
    for target in (None, 2, (0, 0)):
        with pytest.raises(ArgumentError, match=r"one score among those of shape \(2,\)"):
            method.attribute(batch(), target)
    with pytest.raises(ArgumentError, match="as additional_forward_args"):
        method.attribute((batch(), batch()), 0)
    with pytest.raises(ArgumentError, match="1 or 2, the number of examples"):
        method.attribute(batch(), [0, 1, 0])
