"""The tensors of every kind of model."""

from __future__ import annotations

import pytest
import torch
from torch import nn as torch_nn

from representer import nn
from representer.errors import KindError
from representer.export.programs import interface
from representer.models import (
    GraphEnsemble,
    GraphRegressorConfig,
    LanguageModelConfig,
    LanguageNetwork,
    SequenceClassifierConfig,
    SequenceNetwork,
    SignalClassifierConfig,
    SignalNetwork,
    StackedClassifier,
    StackedClassifierConfig,
)

GRAPH = GraphRegressorConfig(in_channels=4, hidden_size=6, outputs=2, edge_dim=3)
SMALL = {"embedding_size": 6, "hidden_size": 8}
MODELS: dict[str, torch_nn.Module] = {
    "layer": nn.RKMCIFG(3, 4, batch_first=True, filter_length=2),
    "activation": nn.KernelActivation(3),
    "texts": SequenceNetwork(
        SequenceClassifierConfig(vocabulary_size=30, num_classes=3, bidirectional=True, **SMALL)
    ),
    "stacked": StackedClassifier(
        StackedClassifierConfig(vocabulary_size=30, num_classes=3, **SMALL)
    ),
    "signals": SignalNetwork(
        SignalClassifierConfig(num_channels=3, num_classes=2, stride=3, sampling_rate=100.0)
    ),
    "graph layer": nn.RandomWalkKernelNN(4, 6, order=3, nonlinear=True),
    "graphs": GraphEnsemble(GRAPH, 2),
    "language": LanguageNetwork(LanguageModelConfig(vocabulary_size=30, **SMALL)),
}


@pytest.mark.parametrize("name", MODELS)
def test_random_inputs_have_the_axes_of_the_interface(name: str):
    described = interface(MODELS[name].eval())
    inputs = described.example({"time": 4, "batch": 5}, seed=1)
    sizes = {"time": 4 * described.step, "batch": 5, "nodes": 20, "edges": 45}
    shapes = [tuple(sizes.get(str(axis), axis) for axis in axes)
              for axes in described.inputs.values()]  # fmt: skip
    assert [tuple(x.shape) for x in inputs] == shapes
    results = described(*inputs)
    assert len(results) == len(described.outputs)
    assert not any(x.requires_grad for x in results)


def test_random_lengths_are_multiples_of_the_stride_and_fill_the_batch():
    described = interface(nn.CNN(3, 4, stride=3, filter_length=2).eval())
    for seed in range(5):
        x, lengths = described.example({"time": 4, "batch": 5}, seed)
        assert int(lengths.max()) == len(x) == 12
        assert not (lengths % 3).any()
        assert int(lengths.min()) >= 3


def test_the_state_of_a_language_model_continues_a_text():
    described = interface(MODELS["language"].eval())
    tokens, *state = described.example({"time": 6, "batch": 2})
    whole = described(tokens, *state)
    first, *between = described(tokens[:4], *state)
    second, *after = described(tokens[4:], *between)
    torch.testing.assert_close((torch.cat((first, second)), *after), whole)


def test_a_baseline_with_a_layer_of_torch_is_refused():
    config = SequenceClassifierConfig(
        vocabulary_size=9, num_classes=2, cell="torch-lstm", layer_norm=False, **SMALL
    )
    with pytest.raises(
        KindError, match=r"one with the baseline LSTM; expected a recurrent or graph layer"
    ):
        interface(SequenceNetwork(config).eval())
