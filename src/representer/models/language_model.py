"""Language model: embedding, recurrent layers, and a softmax that shares the embedding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from representer.checks import require, require_fractions
from representer.errors import KindError, ShapeError
from representer.models.cells import build_cell
from representer.models.config import require_sizes
from representer.models.hub import HubModel
from representer.models.softmax import TiedAdaptiveSoftmax, TiedSoftmax
from representer.nn import EmbeddingDropout, LockedDropout, drop_connect

# The configuration of the language model.

_SIZES = (
    "vocabulary_size", "embedding_size", "hidden_size", "num_layers", "filter_length", "order",
)  # fmt: skip
_DROPOUTS = ("embedding_dropout", "input_dropout", "layer_dropout", "output_dropout")
_DROPOUTS += ("rnn_dropout", "weight_dropout")


@dataclass(frozen=True)
class LanguageModelConfig:
    """The configuration of `LanguageNetwork`; the defaults are L17's 5m model of section 6.1.

    Args:
        vocabulary_size: V.
        embedding_size: E, features of a token and units of the last layer, since the output matrix
            is the embedding.
        hidden_size: H, units of the other layers.
        num_layers: L.
        cell: A key of `CELLS`.
        order: n of a string kernel.
        combine: Operation of a string kernel on tokens: ``"multiply"`` or ``"add"``.
        decay: λ of a string kernel: a number, ``"learned"``, ``"input"`` or ``"state"``.
        highway: Mix the input of string-kernel layers with their output.
        activation: σ of string-kernel layers.
        filter_length: n of the filters of the other cells.
        layer_norm: Normalize the memory cells of the other cells.
        embedding_dropout: Probability of dropping a word, with all its occurrences in a batch.
        input_dropout: Dropout on the embeddings.
        layer_dropout: Dropout between layers.
        output_dropout: Dropout on the last layer's output.
        is_locked: Use one mask for all steps of a segment in input, layer and output dropout.
        rnn_dropout: Dropout inside string-kernel layers, with one mask for all steps: on the input
            and on the state of the gates.
        weight_dropout: Dropout on the entries of recurrent matrices (DropConnect).
        cutoffs: Cutoffs of the adaptive softmax: tokens below the first are predicted directly, the
            others through their cluster. Empty for a single softmax.
        initial: Initial weights: ``"string"`` as in L17's code, ``"uniform"`` as in the AWD models.

    Raises:
        ArgumentError: If a value is out of range.
    """

    vocabulary_size: int
    embedding_size: int = 355
    hidden_size: int = 355
    num_layers: int = 3
    cell: str = "string-kernel"
    order: int = 1
    combine: Literal["multiply", "add"] = "multiply"
    decay: float | Literal["learned", "input", "state"] = "state"
    highway: bool = True
    activation: Literal["tanh", "relu", "sigmoid"] | None = None
    filter_length: int = 1
    layer_norm: bool = False
    embedding_dropout: float = 0.0
    input_dropout: float = 0.5
    layer_dropout: float = 0.0
    output_dropout: float = 0.5
    is_locked: bool = False
    rnn_dropout: float = 0.0
    weight_dropout: float = 0.0
    cutoffs: tuple[int, ...] = ()
    initial: Literal["string", "uniform"] = "string"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))  # JSON has only lists
        require_sizes(self, *_SIZES)
        require_fractions(self, *_DROPOUTS)
        bounds = (0, *self.cutoffs, self.vocabulary_size)
        is_ascending = all(a < b for a, b in pairwise(bounds))
        require(
            self, "cutoffs", is_ascending, f"ascending, above 0 and below {self.vocabulary_size}"
        )
        require(self, "initial", self.initial in ("string", "uniform"), "'string' or 'uniform'")

    @property
    def layer_sizes(self) -> list[tuple[int, int]]:
        """Return inputs and units of each layer."""
        sizes = [self.embedding_size, *[self.hidden_size] * (self.num_layers - 1)]
        return list(zip(sizes, [*sizes[1:], self.embedding_size], strict=True))


class LanguageFeatures(NamedTuple):
    """The features of a segment, before the softmax.

    Attributes:
        features: The last layer's output with dropout ``(T, B, E)``.
        raw: The last layer's output without dropout ``(T, B, E)``.
        state: The state of every layer, to continue with the next segment.
    """

    features: Tensor
    raw: Tensor
    state: tuple[Any, ...]


class LanguageNetwork(HubModel):
    r"""Predicts the next token of a text from all previous tokens.

    .. math::
        p(x_{t+1} \mid x_1 \dots x_t) = \mathrm{softmax}(E h^{(L)}_t + b), \qquad
        h^{(l)} = \mathrm{layer}_l(h^{(l-1)}), \quad h^{(0)}_t = E_{x_t}

    with the embedding :math:`E` for both input and output.

    Args:
        config: The configuration.

    Shape:
        - tokens ``(T, B)`` int64
        - features ``(T, B, E)``, the input of ``output.loss`` and ``output.log_probabilities``

    References:
        Lei et al., ICML 2017, section 6.1; Liang et al., 2019, section 5.3; Press and Wolf, Using
        the Output Embedding to Improve Language Models, EACL 2017.
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary_size, config.embedding_size)
        self.layers = nn.ModuleList(_layer(config, *sizes) for sizes in config.layer_sizes)
        self.output: TiedSoftmax | TiedAdaptiveSoftmax = (
            TiedAdaptiveSoftmax(self.embedding, config.cutoffs)
            if config.cutoffs
            else TiedSoftmax(self.embedding)
        )
        dropout = LockedDropout if config.is_locked else nn.Dropout
        self.drop_words = EmbeddingDropout(config.embedding_dropout)
        self.drop_input = dropout(config.input_dropout)
        self.drop_layers = dropout(config.layer_dropout)
        self.drop_output = dropout(config.output_dropout)
        bound = math.sqrt(3 / config.embedding_size) if config.initial == "string" else 0.1
        nn.init.uniform_(self.embedding.weight, -bound, bound)

    def forward(self, tokens: Tensor, state: tuple[Any, ...] | None = None) -> LanguageFeatures:
        """Process a segment of parallel streams.

        Args:
            tokens: ``(T, B)``.
            state: The state that the call for the previous segment returned; zeros by default.

        Raises:
            KindError: If the tokens are not an int64 tensor.
            ShapeError: If their shape is wrong.
        """
        _check(tokens, 2, "(T, B)")
        x, states = self.drop_input(self.drop_words(self.embedding.weight, tokens)), []
        for k, layer in enumerate(self.layers):
            x = self.drop_layers(x) if k else x
            x, new_state = layer(x, None if state is None else state[k])
            states.append(new_state)
        return LanguageFeatures(self.drop_output(x), x, tuple(states))

    def step(
        self, tokens: Tensor, state: tuple[Any, ...] | None = None
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Process one token of each stream; time and memory do not grow with the text.

        Args:
            tokens: ``(B,)``.
            state: The state that the previous call returned; zeros by default.

        Returns:
            Log-probabilities of the next token ``(B, V)``, and the new state.
        """
        _check(tokens, 1, "(B,)")
        x, states = self.embedding(tokens), []
        for k, layer in enumerate(self.layers):
            x, new_state = _step(layer, x, None if state is None else state[k])
            states.append(new_state)
        return self.output.log_probabilities(x), tuple(states)


def _layer(config: LanguageModelConfig, inputs: int, units: int) -> nn.Module:
    options = {name: getattr(config, name) for name in ("filter_length", "layer_norm")}
    options |= {"initialization": "paper"}
    if config.cell == "string-kernel":
        highway = config.highway and inputs == units
        has_gate = highway or config.decay == "state"
        names = ("order", "combine", "decay", "activation")
        options |= {name: getattr(config, name) for name in names}
        options |= {
            "normalized": True,
            "highway": highway,
            "variational_dropout": config.rnn_dropout,
        }
        options |= {"hidden_dropout": config.rnn_dropout if has_gate else 0.0}
    layer = build_cell(config.cell, inputs, units, options, batch_first=False)
    return drop_connect(layer, config.weight_dropout) if config.weight_dropout else layer


def _step(layer: nn.Module, x: Tensor, state: Any) -> tuple[Tensor, Any]:
    if hasattr(layer, "step"):
        return layer.step(x, state)  # type: ignore[operator]
    output, new_state = layer(x[None], state)  # layers of torch
    return output[0], new_state


def _check(tokens: Any, axes: int, expected: str) -> None:
    if not isinstance(tokens, Tensor) or tokens.dtype != torch.int64:
        got = str(getattr(tokens, "dtype", type(tokens).__name__))
        raise KindError("tokens", got, f"an int64 tensor {expected}")
    if tokens.dim() != axes:
        raise ShapeError("tokens", tuple(tokens.shape), expected)
