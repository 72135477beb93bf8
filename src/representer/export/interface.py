"""The tensors that an exported model takes and returns, by kind of model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from representer.errors import KindError
from representer.models import (
    GraphEnsemble,
    GraphRegressor,
    LanguageModel,
    SequenceClassifier,
    SignalClassifier,
)
from representer.models.gine import GINE
from representer.models.stacked_classifier import StackedClassifier
from representer.nn import KernelActivation
from representer.nn.recurrent.sequence_layer import SequenceLayer

Axes = tuple[str | int, ...]  # a name is a size that may differ from call to call
Sizes = Mapping[str, int]
TRACED = {"time": 6, "batch": 3}  # no size of a model, and not 1, which torch would take as fixed
_KNOWN = "a recurrent or graph layer of representer.nn, a KernelActivation, or the network of a run"


@dataclass(frozen=True)
class Interface:
    """A model for inference, as a function of tensors.

    Attributes:
        module: It takes the inputs in order, and returns the outputs in a flat tuple.
        inputs: The axes of each input.
        outputs: Names of the outputs.
        draw: From the sizes of named axes and a generator to inputs.
        step: The time must be a multiple of it.
        time: The only time, or None if it may differ.
    """

    module: nn.Module
    inputs: dict[str, Axes]
    outputs: tuple[str, ...]
    draw: Callable[[Sizes, torch.Generator], tuple[Tensor, ...]]
    step: int = 1
    time: int | None = None

    def steps(self, sizes: Sizes) -> int:
        """Return the time of an example: that of ``sizes`` times `step`, if it may differ."""
        return self.time or sizes["time"] * self.step

    def example(self, sizes: Sizes = TRACED, seed: int = 0) -> tuple[Tensor, ...]:
        """Return random inputs of given sizes; the time is `steps`."""
        rounded = dict(sizes) | {"time": self.steps(sizes)}
        return self.draw(rounded, torch.Generator().manual_seed(seed))

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs, without gradients."""
        with torch.no_grad():
            return self.module(*inputs)


def interface(model: nn.Module) -> Interface:
    """Return how a model of this library is exported.

    Raises:
        KindError: It is of a kind that cannot be exported, or in training mode.
    """
    for kind, describe in _kinds(model).items():
        if isinstance(model, kind):
            if model.training:
                raise KindError("model", "in training mode", "one after model.eval()")
            for part in model.modules():
                if isinstance(part, nn.RNNBase | GINE):
                    raise KindError("model", f"one with the baseline {type(part).__name__}", _KNOWN)
            return describe(model)
    raise KindError("model", type(model).__name__, _KNOWN)


class _Flat(nn.Module):
    """A model whose outputs are a flat tuple."""

    def __init__(self, model: nn.Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.run = model, run

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(tree_leaves(self.run(self.model, *inputs)))


def _layer(model: Any) -> Interface:
    first = ("batch", "time") if model.batch_first else ("time", "batch")
    axes: Axes = (*first, model.input_size)
    windows = [f"window{k}" for k in range(len(model.suffixes))]
    fields = [name for name in model.layout.type._fields if name != "window"]
    has_window = "window" in model.layout.type._fields

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = [sizes.get(str(axis), axis) for axis in axes]
        dtype = next(model.parameters()).dtype
        x = torch.randn(shape, generator=generator, dtype=dtype)  # type: ignore[arg-type]
        return x, _lengths(sizes, generator, model.stride)

    return Interface(
        _Flat(model, lambda layer, x, lengths: layer(x, lengths=lengths)),
        {"input": axes, "lengths": ("batch",)},
        ("output", *fields, *(windows if has_window else ())),
        draw,
        model.stride,
    )


def _activation(model: Any) -> Interface:
    axes: Axes = ("batch", "time", model.centers.shape[0])

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = sizes["batch"], sizes["time"], model.centers.shape[0]
        return (2 * torch.randn(shape, generator=generator, dtype=model.centers.dtype),)

    return Interface(_Flat(model, lambda f, x: f(x)), {"input": axes}, ("output",), draw)


def _texts(model: Any) -> Interface:
    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape, words = (sizes["batch"], sizes["time"]), model.embedding.num_embeddings
        return (
            torch.randint(words, shape, generator=generator),
            _lengths(sizes, generator),
        )

    inputs: dict[str, Axes] = {"tokens": ("batch", "time"), "lengths": ("batch",)}
    run = _Flat(model, lambda network, tokens, lengths: network(tokens, lengths))
    return Interface(run, inputs, ("scores",), draw)


def _signals(model: Any) -> Interface:
    channels = model.config.num_channels
    only = model.config.window_length if model.config.pooling == "flatten" else None
    axes: Axes = ("batch", channels, only or "time")

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = sizes["batch"], channels, sizes["time"]
        return (torch.randn(shape, generator=generator),)

    run = _Flat(model, lambda network, signal: network(signal))
    return Interface(run, {"signal": axes}, ("scores",), draw, model.config.stride, only)


def _language(model: Any) -> Interface:
    """Return log-probabilities of the next token at every step, and the state after the last."""

    def read(network: Any, tokens: Tensor, *state: Tensor) -> Any:
        features, _, after = network(tokens, unflatten(state))
        return network.output.log_probabilities(features), after

    def start(batch: int) -> Any:
        with torch.no_grad():
            return model(torch.zeros(1, batch, dtype=torch.int64)).state

    leaves, spec = tree_flatten(start(2))

    def unflatten(state: tuple[Tensor, ...]) -> Any:
        return tree_unflatten(list(state), spec)

    names = [f"state{k}" for k in range(len(leaves))]
    axes = {
        name: tuple(a if a == b else "batch" for a, b in zip(two.shape, three.shape, strict=True))
        for name, two, three in zip(names, leaves, tree_leaves(start(3)), strict=True)
    }

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        words, shape = model.config.vocabulary_size, (sizes["time"], sizes["batch"])
        tokens = torch.randint(words, shape, generator=generator)
        state = tree_leaves(start(sizes["batch"]))
        return tokens, *state

    inputs: dict[str, Axes] = {"tokens": ("time", "batch"), **axes}
    outputs = ("log_probabilities", *(f"new_{name}" for name in names))
    return Interface(_Flat(model, read), inputs, outputs, draw)


def _graphs(model: Any) -> Interface:
    """Return the outputs of each graph of a batch, whose graphs are numbered without gaps."""
    layer = model
    while not hasattr(layer, "in_channels"):  # of an ensemble or of a network with a head
        layer = layer.members[0] if hasattr(layer, "members") else layer.network
    nodes, edges = layer.in_channels, layer.edge_dim
    inputs: dict[str, Axes] = {"x": ("nodes", nodes), "edge_index": (2, "edges")}
    inputs |= {} if edges is None else {"edge_attr": ("edges", edges)}

    def run(network: Any, x: Tensor, edge_index: Tensor, *rest: Tensor) -> Tensor:
        *edge_attr, batch = rest
        graphs: Any = batch.max().item() + 1
        torch._check(graphs >= 1)
        return network(x, edge_index, *(edge_attr or (None,)), batch, graphs)

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return graphs of `time` nodes with random edges, the number of which differs."""
        own, graphs, dtype = sizes["time"], sizes["batch"], next(model.parameters()).dtype
        x = torch.randn(graphs * own, nodes, generator=generator, dtype=dtype)
        first = own * torch.arange(graphs).repeat_interleave(2 * own + 1)
        ends = torch.randint(own, (2, len(first)), generator=generator) + first
        features = torch.randn(len(first), edges or 0, generator=generator, dtype=dtype)
        batch = torch.arange(graphs).repeat_interleave(own)
        return x, ends, *(() if edges is None else (features,)), batch

    return Interface(_Flat(model, run), inputs | {"batch": ("nodes",)}, ("output",), draw)


def _lengths(sizes: Sizes, generator: torch.Generator, stride: int = 1) -> Tensor:
    """Return random lengths; one is that of the padded sequence."""
    most = sizes["time"] // stride
    lengths = torch.randint(1, most + 1, (sizes["batch"],), generator=generator)
    lengths[-1] = most
    return lengths * stride


def _kinds(model: nn.Module) -> dict[type[nn.Module], Callable[[Any], Interface]]:
    """Return the description of each kind of model; graph layers are imported if one is given."""
    kinds: dict[type[nn.Module], Callable[[Any], Interface]] = {
        SequenceLayer: _layer,
        KernelActivation: _activation,
        SequenceClassifier: _texts,
        StackedClassifier: _texts,
        SignalClassifier: _signals,
        LanguageModel: _language,
        GraphRegressor: _graphs,
        GraphEnsemble: _graphs,
    }
    if type(model).__module__.startswith("representer.nn.graph"):
        from representer.nn.graph.graph_network import GraphNetwork

        kinds[GraphNetwork] = _graphs
    return kinds
