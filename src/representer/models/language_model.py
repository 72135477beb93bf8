"""Language model: embedding, recurrent layers, and a softmax that shares the embedding."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from representer.errors import KindError, ShapeError
from representer.models.cells import build_cell
from representer.models.hub import HubModel
from representer.models.language_model_config import LanguageModelConfig
from representer.models.tied_adaptive_softmax import TiedAdaptiveSoftmax
from representer.models.tied_softmax import TiedSoftmax
from representer.nn import EmbeddingDropout, LockedDropout, drop_connect


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


class LanguageModel(HubModel):
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
    options: dict[str, Any] = {
        "filter_length": config.filter_length,
        "layer_norm": config.layer_norm,
        "initialization": "paper",
    }
    if config.cell == "string-kernel":
        highway = config.highway and inputs == units
        has_gate = highway or config.decay == "state"
        options |= {
            "order": config.order,
            "combine": config.combine,
            "decay": config.decay,
            "normalized": True,
            "activation": config.activation,
            "highway": highway,
            "variational_dropout": config.rnn_dropout,
            "hidden_dropout": config.rnn_dropout if has_gate else 0.0,
        }
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
