"""Language model: embedding, recurrent layers, and a softmax that shares the embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import require, require_fractions
from representer.errors import ArgumentError, KindError, ShapeError
from representer.models.base import HubModel, require_sizes
from representer.models.cells import build_cell
from representer.nn import EmbeddingDropout, LockedDropout, drop_connect
from representer.ops.common import full_width_products

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


# The softmax over words, with the embedding as its weight matrix.

# The cross entropy of a softmax over a large vocabulary, computed in chunks.

_CHUNK = 512  # rows, whose logits over 10,000 words fit in the cache
_OPTIONS: Any = None
if hasattr(torch.nn, "LinearCrossEntropyOptions"):  # torch 2.13
    _OPTIONS = torch.nn.LinearCrossEntropyOptions(
        allow_retain_graph=True, batch_chunk_size=_CHUNK, chunking_method=None
    )


def linear_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> Tensor:
    r"""Return :math:`-\sum_i \log \operatorname{softmax}(W x_i + b)_{y_i}`, in nats.

    On the CPU, ``F.linear_cross_entropy`` computes it in chunks, with the gradients in the same
    pass. At N = 1120, E = 355, V = 10000 it takes a sixth less time than ``F.linear`` and
    ``F.cross_entropy``.

    Args:
        features: x ``(N, E)``.
        weight: W ``(V, E)``.
        bias: b ``(V,)``, or None.
        targets: y ``(N,)``, int64, from 0 to V − 1.
    """
    if _use_chunks(features, weight):
        with full_width_products(features.shape[0] * weight.numel()):
            return F.linear_cross_entropy(
                features, weight, targets, linear_bias=bias, reduction="sum", options=_OPTIONS
            )
    return F.cross_entropy(F.linear(features, weight, bias), targets, reduction="sum")


def _use_chunks(features: Tensor, weight: Tensor) -> bool:
    """Return True if the chunked operator supports the call and is faster."""
    if _OPTIONS is None or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    is_plain = features.device.type == "cpu" and features.dtype in (torch.float32, torch.float64)
    needs_gradient = torch.is_grad_enabled() and (features.requires_grad or weight.requires_grad)
    words, size = weight.shape  # few rows are faster in one chunk: 12 instead of 18 ms for 5 of 355
    return is_plain and needs_gradient and words > size and len(features) >= size


class TiedSoftmax(nn.Module):
    r"""Predicts the next word by comparing a feature vector with the vectors of all words.

    .. math::
        p(w \mid h) = \operatorname{softmax}(E h + b)_w

    with the embedding :math:`E` of the input words (Press & Wolf 2017, Inan et al. 2017). The
    embedding is not a parameter of this module, whose ``state_dict`` contains only the bias.

    Args:
        embedding: The embedding, with weight ``(V, E)``.
        bias: Add a bias, initially 0.

    Shape:
        - features ``(…, E)``, targets ``(…)`` int64

    Raises:
        ShapeError: If features or targets have another shape.

    References:
        Press & Wolf, Using the Output Embedding to Improve Language Models, EACL 2017.
    """

    def __init__(self, embedding: nn.Embedding, bias: bool = True) -> None:
        super().__init__()
        self._tied = (embedding,)  # in a tuple, so that torch does not register it
        like = embedding.weight
        zeros = torch.zeros(len(like), device=like.device, dtype=like.dtype)
        self.bias = nn.Parameter(zeros) if bias else None

    @property
    def weight(self) -> Tensor:
        """Return the embedding's weight ``(V, E)``."""
        return self._tied[0].weight

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits ``(…, V)``."""
        check_features(features, self.weight)
        return F.linear(features, self.weight, self.bias)

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Return log p of every word ``(…, V)``.

        Args:
            features: ``(…, E)``.

        Raises:
            ShapeError: If the last axis is not E.
        """
        return F.log_softmax(self(features), dim=-1)

    def loss(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return the negative log likelihood, in nats, summed over all targets.

        Args:
            features: ``(…, E)``.
            targets: The words, ``(…)`` int64, from 0 to V − 1; −100 is ignored.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If the targets are not int64.
        """
        check_features(features, self.weight, targets)
        rows = features.flatten(0, -2) if features.dim() > 1 else features[None]
        return linear_cross_entropy(rows, self.weight, self.bias, targets.flatten())

    def extra_repr(self) -> str:
        """Return the sizes."""
        words, size = self.weight.shape
        return f"{size}, {words}, bias={self.bias is not None}"


def check_features(features: Tensor, weight: Tensor, targets: Tensor | None = None) -> None:
    """Check features and targets against a weight matrix of words."""
    size = weight.shape[1]
    if features.dim() < 1 or features.shape[-1] != size:
        raise ShapeError("features", tuple(features.shape), f"(…, {size})")
    if targets is None:
        return
    if targets.shape != features.shape[:-1]:
        raise ShapeError("targets", tuple(targets.shape), f"{tuple(features.shape[:-1])}")
    if targets.dtype != torch.int64:
        raise KindError("targets", str(targets.dtype), "int64", hint="Use .long().")


# The adaptive softmax over words, with the embedding as its weight matrix.


class TiedAdaptiveSoftmax(nn.Module):
    r"""Adaptive softmax: predicts frequent words directly, and rare words through their group.

    Words are numbered from the most to the least frequent, and split into groups :math:`G_0, G_1,
    \dots, G_K`. With the embedding's rows :math:`E_w` and a vector :math:`u_k` of each rare group

    .. math::
        p(w \mid h) &= \operatorname{softmax}\big([E_{G_0}; u_1; \dots; u_K]\, h + b\big)_w,
            \qquad w \in G_0 \\
        p(w \mid h) &= p(k \mid h) \operatorname{softmax}(E_{G_k} h + b_{G_k})_w,
            \qquad w \in G_k

    where :math:`p(k \mid h)` is the entry of :math:`u_k` in the first softmax. The softmax of a
    rare group is computed only for rows whose target is in it. The vectors of all groups have full
    width, that of the embedding; Grave et al. use narrower vectors for rare groups.

    Args:
        embedding: The embedding, with weight ``(V, E)``.
        cutoffs: The first word of each rare group, ascending, from 1 to V − 1.
        bias: Add biases of words and groups, initially 0.

    Shape:
        - features ``(…, E)``, targets ``(…)`` int64

    Raises:
        ArgumentError: If the cutoffs are not ascending, or out of range.

    References:
        Grave et al., Efficient softmax approximation for GPUs, ICML 2017.
    """

    def __init__(self, embedding: nn.Embedding, cutoffs: Sequence[int], bias: bool = True) -> None:
        super().__init__()
        self._tied = (embedding,)  # in a tuple, so that torch does not register it
        like = embedding.weight
        words = len(like)
        self.cutoffs = _check_cutoffs(cutoffs, words)
        options = {"device": like.device, "dtype": like.dtype}
        groups = len(self.cutoffs)
        self.group_weight = nn.Parameter(torch.empty(groups, like.shape[1], **options))
        self.bias = nn.Parameter(torch.zeros(words, **options)) if bias else None
        self.group_bias = nn.Parameter(torch.zeros(groups, **options)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors of groups from U(−0.1, 0.1), and set biases to 0."""
        nn.init.uniform_(self.group_weight, -0.1, 0.1)
        for bias in (self.bias, self.group_bias):
            if bias is not None:
                nn.init.zeros_(bias)

    @property
    def weight(self) -> Tensor:
        """Return the embedding's weight ``(V, E)``."""
        return self._tied[0].weight

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Return log p of every word ``(…, V)``.

        Args:
            features: ``(…, E)``.

        Raises:
            ShapeError: If the last axis is not E.
        """
        check_features(features, self.weight)
        first = F.log_softmax(F.linear(features, *self._head()), dim=-1)
        frequent, groups = first.split([self.cutoffs[0], len(self.cutoffs)], dim=-1)
        parts = [frequent]
        for k in range(len(self.cutoffs)):
            in_group_log_p = F.log_softmax(F.linear(features, *self._group(k)), dim=-1)
            parts.append(groups[..., k, None] + in_group_log_p)
        return torch.cat(parts, dim=-1)

    def loss(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return the negative log likelihood, in nats, summed over all targets.

        Args:
            features: ``(…, E)``.
            targets: The words, ``(…)`` int64, from 0 to V − 1; −100 is ignored.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If the targets are not int64.
        """
        check_features(features, self.weight, targets)
        rows = features.flatten(0, -2) if features.dim() > 1 else features[None]
        words = targets.flatten()
        frequent = self.cutoffs[0]
        starts = torch.tensor(self.cutoffs, device=words.device)
        group = torch.bucketize(words, starts, right=True) - 1  # −1: a frequent word
        in_head = torch.where(group < 0, words, frequent + group)
        total = linear_cross_entropy(rows, *self._head(), in_head)
        for k, start in enumerate(self.cutoffs):
            in_group = (group == k).nonzero()[:, 0]
            if len(in_group):
                total = total + linear_cross_entropy(
                    rows[in_group], *self._group(k), words[in_group] - start
                )
        return total

    def extra_repr(self) -> str:
        """Return the sizes."""
        words, size = self.weight.shape
        return f"{size}, {words}, cutoffs={self.cutoffs}, bias={self.bias is not None}"

    def _head(self) -> tuple[Tensor, Tensor | None]:
        """Return matrix and bias of the softmax over frequent words and groups."""
        frequent = self.cutoffs[0]
        weight = torch.cat((self.weight[:frequent], self.group_weight))
        if self.bias is None:
            return weight, None
        return weight, torch.cat((self.bias[:frequent], cast(Tensor, self.group_bias)))

    def _group(self, k: int) -> tuple[Tensor, Tensor | None]:
        """Return matrix and bias of the softmax over the words of a rare group."""
        rows = slice(self.cutoffs[k], (*self.cutoffs, len(self.weight))[k + 1])
        return self.weight[rows], None if self.bias is None else self.bias[rows]


def _check_cutoffs(cutoffs: Sequence[int], words: int) -> tuple[int, ...]:
    result = tuple(cutoffs)
    is_valid = bool(result) and all(type(c) is int for c in result)
    bounds = (0, *result, words)
    if not is_valid or any(a >= b for a, b in pairwise(bounds)):
        raise ArgumentError(
            "cutoffs", cutoffs, f"ascending integers from 1 to {words - 1}, at least one",
            hint="Each is the first word of a rarer group.",
        )  # fmt: skip
    return result
