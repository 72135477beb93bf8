"""Captum explains our layers and models, and uses our exact contributions as a method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from representer import nn
from representer.explain import ExactAttribution
from representer.models import SequenceClassifierConfig, SequenceNetwork

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:Setting (forward|backward).* hooks:UserWarning"),
    pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already require:UserWarning"),
]
OPTIONS = {"batch_first": True, "dtype": torch.float64}
LAYERS = {
    "RKM-LSTM": lambda: nn.RKMLSTM(3, 4, **OPTIONS),
    "RKM-CIFG": lambda: nn.RKMCIFG(3, 4, 2, **OPTIONS, bidirectional=True, layer_norm=True),
    "n-grams": lambda: nn.RKMLSTM(3, 4, **OPTIONS, filter_length=2),
    "linear kernel": lambda: nn.LinearKernelRNN(3, 4, **OPTIONS, output_gate=True),
    "RAN": lambda: nn.RAN(3, 4, **OPTIONS),
    "gated CNN": lambda: nn.GatedCNN(3, 4, **OPTIONS, filter_length=2),
    "string kernel": lambda: nn.StringKernelRNN(3, 4, **OPTIONS, decay="state"),
    "KBRN": lambda: nn.KBRN(3, 4, **OPTIONS),
}
TOKENS, LENGTHS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]]), torch.tensor([5, 3])


class Scores(torch.nn.Module):
    """Scores from the last output of a layer."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.head = torch.nn.Linear(layer.hidden_size * layer.num_directions, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 3, dtype=torch.float64)


@pytest.mark.parametrize("layer", LAYERS)
def test_methods_of_gradients_are_those_of_autograd(layer, x):
    from captum.attr import InputXGradient, IntegratedGradients, Saliency

    model = Scores(LAYERS[layer]()).eval()
    copy = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(copy)[:, 1].sum(), copy)
    torch.testing.assert_close(Saliency(model).attribute(x, target=1), gradient.abs())
    torch.testing.assert_close(InputXGradient(model).attribute(x, target=1), x * gradient)
    baseline = torch.ones_like(x)  # a layer norm is steep near 0
    integrated = IntegratedGradients(model).attribute(x, baseline, target=1, n_steps=200)
    difference = (model(x) - model(baseline))[:, 1]
    torch.testing.assert_close(integrated.sum((1, 2)), difference, rtol=0.01, atol=1e-3)  # of steps


@pytest.mark.parametrize("layer", LAYERS)
def test_methods_of_perturbations_are_differences_of_scores(layer, x):
    from captum.attr import FeatureAblation, Occlusion

    model = Scores(LAYERS[layer]()).eval()
    steps = torch.arange(5)[None, :, None].expand(1, 5, 3)
    ablated = FeatureAblation(model).attribute(x, target=0, feature_mask=steps)
    occluded = Occlusion(model).attribute(x, (1, 3), target=0)
    for t in range(5):
        without = x.clone()
        without[:, t] = 0
        lost = (model(x) - model(without))[:, 0]
        torch.testing.assert_close(ablated[:, t, 0], lost, check_dtype=False)
        torch.testing.assert_close(occluded[:, t, 0], lost, check_dtype=False)


@pytest.mark.parametrize("cell", ["rkm-cifg", "rkm-lstm"])
def test_methods_of_layers_explain_the_embedding_of_a_classifier(cell):
    from captum.attr import LayerDeepLift, LayerGradientXActivation, LayerIntegratedGradients

    config = SequenceClassifierConfig(9, 2, cell, 3, 4, head_size=5, layer_norm=False)
    model = SequenceNetwork(config).double().eval()
    embedded = model.embedding(TOKENS)
    baseline = torch.zeros_like(TOKENS)  # the embedding of padding is 0
    method = LayerIntegratedGradients(model, model.embedding)
    found = method.attribute(TOKENS, baseline, 1, (LENGTHS,), n_steps=100)
    difference = (model(TOKENS, LENGTHS) - model(baseline, LENGTHS))[:, 1]
    torch.testing.assert_close(found.sum((1, 2)), difference, rtol=0.02, atol=1e-3)  # of steps
    product = LayerGradientXActivation(model, model.embedding)
    found = product.attribute(TOKENS, 1, (LENGTHS,))
    assert found.shape == embedded.shape
    assert (found[1, 3:] == 0).all()  # padding
    lifted = LayerDeepLift(model, model.head).attribute(TOKENS, baseline, 1, (LENGTHS,))
    assert lifted.shape == (2, 2)
    torch.testing.assert_close(lifted[:, 1], difference)


@pytest.mark.parametrize("filter_length", [1, 2])
def test_all_methods_agree_where_the_score_is_linear_in_the_input(filter_length, x):
    from captum.attr import DeepLift, FeatureAblation, InputXGradient, IntegratedGradients

    model = Scores(
        nn.CNN(3, 4, **OPTIONS, filter_length=filter_length, output_nonlinearity="identity")
    )
    exact = ExactAttribution(model).attribute(x, 1)
    for method in (DeepLift, FeatureAblation, InputXGradient, IntegratedGradients):
        torch.testing.assert_close(method(model).attribute(x, target=1), exact, check_dtype=False)


def test_metrics_of_captum_take_our_contributions(x):
    from captum.metrics import infidelity, sensitivity_max

    linear = Scores(nn.CNN(3, 4, **OPTIONS, output_nonlinearity="identity"))
    contributions = ExactAttribution(linear).attribute(x, 1)

    def remove(inputs: Tensor) -> tuple[Tensor, Tensor]:
        mask = (torch.rand_like(inputs) < 0.5).double()
        return mask, inputs * (1 - mask)

    wrong = infidelity(linear, remove, x, contributions, target=1)
    assert wrong.max() < 1e-12  # what is lost without entries is the sum of their contributions
    assert infidelity(linear, remove, x, 2 * contributions, target=1).max() > 1e-6
    method = ExactAttribution(Scores(LAYERS["RKM-CIFG"]()))
    sensitivity = sensitivity_max(
        method.attribute, x, perturb_radius=0.01, n_perturb_samples=3, target=1
    )
    assert 0 < sensitivity.max() < 1  # small changes of the input change contributions little


def test_contributions_of_tokens_are_shown_by_captum():
    from captum.attr import visualization

    config = SequenceClassifierConfig(9, 2, "rkm-cifg", 3, 4, head_size=5)
    model = SequenceNetwork(config).eval()
    contributions = ExactAttribution(model).attribute(TOKENS, 1, LENGTHS)[0]
    words = ["a", "very", "good", "film", "today"]
    record = visualization.VisualizationDataRecord(
        contributions, 0.9, "+", "+", "+", contributions.sum(), words, 0.0
    )
    page = visualization.format_word_importances(words, contributions)
    assert all(word in page for word in words)
    assert record.attr_score == contributions.sum()
    assert np.isfinite(np.asarray(contributions)).all()
