"""Sequence and series classifiers: embedding, recurrent cell, (weighted) mean, two layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from representer.checks import require, require_choices, require_fractions
from representer.errors import ShapeError
from representer.models.base import HubModel, TokenModel, check_tokens, require_sizes, require_token
from representer.models.cells import build_cell, resolve_cell
from representer.nn import StringKernelRNN
from representer.nn.recurrent.sequence_layer import SequenceLayer

# The configuration of the sequence classifier.

POOLINGS = ("mean", "attention", "padded_mean")
PADDINGS = ("causal", "same")
_SIZES = ("vocabulary_size", "embedding_size", "hidden_size", "dilation", "num_layers", "head_size",
          "num_classes")  # fmt: skip
_OF_CELL = (
    "num_layers", "bidirectional", "filter_length", "dilation", "layer_norm", "forget_bias",
    "candidate_bias", "learn_static_gates", "order", "decay", "combine", "normalized", "readout",
    "initialization",
)  # fmt: skip


@dataclass(frozen=True)
class SequenceClassifierConfig:
    """The configuration of `SequenceNetwork`; the defaults are those of L19 section 6.

    Args:
        vocabulary_size: V, number of token ids, including padding.
        num_classes: C; 1 for a regression.
        cell: A key of ``models.CELLS``.
        embedding_size: Features of a token.
        hidden_size: Units of the cell, in each direction.
        filter_length: n of the n-gram, or a dict ``{length: units}``.
        dilation: Steps between the slots of a filter.
        filter_padding: ``"causal"``: the window of a filter ends with the current step;
            ``"same"``: it is centered there, and looks ahead n // 2 slots, as in the authors' code,
            which contradicts (12)-(14).
        num_layers: Layers of the cell.
        bidirectional: Add a reverse direction.
        layer_norm: Normalize the cell state.
        forget_bias: Initial bias of the forget gate.
        candidate_bias: Add a bias to the candidate, as in the authors' code, which contradicts
            (8).
        learn_static_gates: Learn the gates of a linear kernel.
        order: n of a string kernel's n-grams.
        decay: λ of a string kernel: a number in [0, 1], ``"learned"``, ``"input"`` or ``"state"``.
        combine: As in `nn.StringKernelRNN`.
        normalized: As in `nn.StringKernelRNN`.
        readout: As in `nn.StringKernelRNN`.
        initialization: Of the cell, ``"unit"`` or ``"paper"``.
        cell_dropout: Dropout between layers of the cell.
        dropout: Dropout before both layers of the head.
        head_size: Units of the head's hidden layer.
        pooling: ``"mean"`` over the true length, ``"attention"``: a weighted mean, whose weights
            are learned, or ``"padded_mean"``: the sum over `max_length`, as in the authors' code.
        max_length: The divisor of ``"padded_mean"``.
        padding_index: The id of padding, whose embedding stays 0.

    Raises:
        ArgumentError: If a value is out of range.
    """

    vocabulary_size: int
    num_classes: int
    cell: str = "rkm-cifg"
    embedding_size: int = 300
    hidden_size: int = 300
    filter_length: int | dict[int, int] = 1
    dilation: int = 1
    filter_padding: Literal["causal", "same"] = "causal"
    num_layers: int = 1
    bidirectional: bool = False
    layer_norm: bool = True
    forget_bias: float = 0.0
    candidate_bias: bool = False
    learn_static_gates: bool = False
    order: int = 2
    decay: float | str = 0.5
    combine: Literal["multiply", "add", "add_exact"] = "multiply"
    normalized: bool | Literal["exact"] = False
    readout: Literal["last", "sum"] = "last"
    initialization: Literal["unit", "paper"] = "unit"
    cell_dropout: float = 0.0
    dropout: float = 0.5
    head_size: int = 300
    pooling: Literal["mean", "attention", "padded_mean"] = "mean"
    max_length: int | None = None
    padding_index: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.filter_length, Mapping):  # JSON converts the lengths to strings
            lengths = {int(length): units for length, units in self.filter_length.items()}
            object.__setattr__(self, "filter_length", lengths)
        resolve_cell(self.cell)
        require_sizes(self, *_SIZES)
        require_fractions(self, "dropout", "cell_dropout")
        require_choices(self, pooling=POOLINGS, filter_padding=PADDINGS)
        is_single = self.num_layers == 1 and not self.bidirectional
        can_center = self.filter_length == 1 or (is_single and isinstance(self.filter_length, int))
        expected = "'causal', unless there is one layer, one direction and one filter length"
        require(self, "filter_padding", can_center or self.filter_padding == "causal", expected)
        if self.pooling == "padded_mean":
            require_sizes(self, "max_length")
        else:
            require(
                self, "max_length", self.max_length is None, "None without pooling='padded_mean'"
            )
        require_token(self, "padding_index")


class SequenceNetwork(TokenModel):
    r"""Classifies token sequences by the mean of a recurrent cell's outputs.

    .. math::
        y = W_2\, \mathrm{relu}(W_1 \bar h + b_1) + b_2, \qquad
        \bar h = \frac1T \sum_{t=1}^T h_t, \quad h_{1:T} = \mathrm{cell}(E x_{1:T})

    with dropout on :math:`\bar h` and on the hidden layer. Padded positions do not affect
    the result. The mean of an empty sequence is 0. With ``pooling="attention"``, it is weighted:

    .. math::
        \bar h = \sum_t a_t h_t, \qquad
        a_t = \frac{\exp(v^\top \tanh(h_t))}{\sum_s \exp(v^\top \tanh(h_s))}

    with v = 0 at the start, which is the mean.

    Args:
        config: The configuration.

    Shape:
        - tokens ``(B, T)`` int64, lengths ``(B,)`` integers from 0 to T
        - output ``(B, C)``

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 6. The attention is that of Yang et al., Hierarchical Attention Networks for
        Document Classification, NAACL 2016, eqs. 5-7, with the identity in place of W.
    """

    def __init__(self, config: SequenceClassifierConfig) -> None:
        super().__init__()
        self.config = config
        c = config
        self.embedding = nn.Embedding(c.vocabulary_size, c.embedding_size, c.padding_index)
        options = {name: getattr(c, name) for name in _OF_CELL} | {"dropout": c.cell_dropout}
        self.cell = build_cell(c.cell, c.embedding_size, c.hidden_size, options)
        width = c.hidden_size * (1 + c.bidirectional)
        self.attention = nn.Linear(width, 1, bias=False) if c.pooling == "attention" else None
        if self.attention is not None:
            nn.init.zeros_(self.attention.weight)
        self.head = nn.Sequential(
            nn.Dropout(c.dropout), nn.Linear(width, c.head_size), nn.ReLU(), nn.Dropout(c.dropout),
            nn.Linear(c.head_size, c.num_classes),
        )  # fmt: skip
        for layer in self.head:
            if isinstance(layer, nn.Linear):  # as in the authors' code, not in the paper
                nn.init.xavier_uniform_(layer.weight)
                nn.init.constant_(layer.bias, 0.001)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits of each class.

        Args:
            tokens: Token ids, padded at the end.
            lengths: Number of tokens of each row before the padding.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If a dtype is wrong.
            ArgumentError: If a length is outside [0, T].
        """
        return self.head(self.encode(tokens, lengths))

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean of the cell's outputs ``(B, D·H)``, see `forward`."""
        outputs, is_step = self.read(tokens, lengths)
        if self.attention is not None:
            return torch.einsum("bt,bth->bh", self.step_weights(outputs, is_step), outputs)
        total = outputs.masked_fill(~is_step[..., None], 0).sum(1)
        return total / (self.config.max_length or lengths.clamp(min=1)[:, None])

    def read(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cell's outputs ``(B, T, D·H)``, and True at steps that are no padding."""
        check_tokens(tokens, lengths)
        embedded = self.embedding(tokens)
        if ahead := self.lookahead:
            outputs = self._read_ahead(embedded, ahead)
        elif not self.config.bidirectional:  # causal: padding does not affect earlier outputs
            outputs, _ = self.cell(embedded)
        elif isinstance(self.cell, SequenceLayer):  # the reverse direction starts at the true end
            outputs, _ = self.cell(embedded, lengths=lengths.clamp(min=1))
        else:
            packed = pack_padded_sequence(
                embedded, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
            )
            total = tokens.shape[1]
            outputs, _ = pad_packed_sequence(self.cell(packed)[0], True, total_length=total)
        is_step = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        return outputs if outputs.dtype == torch.float64 else outputs.float(), is_step

    @property
    def lookahead(self) -> int:
        """Number of steps after the current one in the window of a filter."""
        c = self.config
        if c.filter_padding == "causal" or not isinstance(c.filter_length, int):
            return 0
        return c.filter_length // 2 * c.dilation

    def _read_ahead(self, embedded: Tensor, ahead: int) -> Tensor:
        """Return the outputs for windows that end ``ahead`` steps later; padding is zero.

        They are those of the causal layer on the later steps, which starts with the first steps in
        its window.
        """
        cell = cast(SequenceLayer, self.cell)
        reach = cell.layout.reaches[0]
        extended = F.pad(embedded, (0, 0, reach - ahead, ahead))
        memory = embedded.new_zeros(1, embedded.shape[0], cell.hidden_size)
        state = (*(memory for _ in cell.layout.inner), (extended[:, :reach],))
        return cell(extended[:, reach:], state)[0]

    def step_weights(self, outputs: Tensor, is_step: Tensor) -> Tensor:
        """Return the weight of every step in the mean ``(B, T)``, 0 for padding; see `read`."""
        if self.attention is None:
            count = self.config.max_length or is_step.sum(1, keepdim=True).clamp(min=1)
            return is_step.to(outputs) / count
        scores = self.attention(outputs.tanh())[..., 0].masked_fill(~is_step, -torch.inf)
        return scores.softmax(1).masked_fill(~is_step, 0)  # an empty row has NaN before


# The network of series: a cell on the values of the channels, and the mean of its outputs.


@dataclass(frozen=True)
class SeriesNetworkConfig:
    """The configuration of `SeriesNetwork`.

    Args:
        num_channels: C.
        outputs: Number of outputs.
        cell: A key of ``models.CELLS``.
        hidden_size: Units of the cell.
        filter_length: Slots of a filter.
        dilation: Steps between two slots.
        num_layers: Layers of the cell.
        dropout: Before the last layer.

    Raises:
        ArgumentError: If a value is out of range.
    """

    num_channels: int
    outputs: int
    cell: str = "gated-cnn"
    hidden_size: int = 64
    filter_length: int = 9
    dilation: int = 1
    num_layers: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        resolve_cell(self.cell)
        require_sizes(
            self, "num_channels", "outputs", "hidden_size", "filter_length", "dilation",
            "num_layers",
        )  # fmt: skip
        require_fractions(self, "dropout")


class SeriesNetwork(HubModel):
    r"""Predicts numbers for a series from the mean of a cell's outputs over its true length.

    .. math:: y = W \frac1T \sum_{t=1}^T h_t + b, \qquad h_{1:T} = \mathrm{cell}(x_{1:T})

    Args:
        config: The configuration.

    Shape:
        - series ``(B, T, C)``, padded at the end; lengths ``(B,)``
        - output ``(B, outputs)``
    """

    def __init__(self, config: SeriesNetworkConfig) -> None:
        super().__init__()
        self.config = c = config
        options = {"num_layers": c.num_layers}
        if c.filter_length > 1 or c.dilation > 1:
            options |= {"filter_length": c.filter_length, "dilation": c.dilation}
        self.cell = build_cell(c.cell, c.num_channels, c.hidden_size, options)
        self.head = nn.Linear(c.hidden_size, c.outputs)

    def forward(self, series: Tensor, lengths: Tensor) -> Tensor:
        """Return the outputs.

        Raises:
            ShapeError: If a shape is wrong.
        """
        if series.dim() != 3 or series.shape[2] != self.config.num_channels:
            raise ShapeError("series", series.shape, f"(batch, time, {self.config.num_channels})")
        outputs, _ = self.cell(series)  # causal: padding does not affect earlier outputs
        is_step = torch.arange(series.shape[1], device=series.device) < lengths[:, None]
        mean = (outputs * is_step[..., None]).sum(1) / lengths[:, None]
        return self.head(F.dropout(mean, self.config.dropout, self.training))


# Stacked classifier: string-kernel layers, the mean over time of each, one product.

# The configuration of the stacked classifier.

_STACKED_SIZES = ("vocabulary_size", "embedding_size", "hidden_size", "num_layers", "order")
_OF_LAYER = ("order", "decay", "combine", "normalized", "readout", "activation")


@dataclass(frozen=True)
class StackedClassifierConfig:
    """The configuration of `StackedClassifier`; the defaults are those of L17 section 6.2.

    Args:
        vocabulary_size: V, number of token ids, including padding.
        num_classes: C.
        embedding_size: E, features of a token.
        hidden_size: H, units of each layer.
        num_layers: L.
        order: n, tokens of the longest n-gram.
        decay: As in `nn.StringKernelRNN`: a number, ``"learned"``, ``"input"`` or ``"state"``.
        combine: As in `nn.StringKernelRNN`.
        normalized: As in `nn.StringKernelRNN`.
        readout: As in `nn.StringKernelRNN`.
        activation: As in `nn.StringKernelRNN`.
        dropout: Dropout on the embeddings, between layers and before the last product.
        rnn_dropout: Dropout inside the layers, with one mask for all steps of a sequence: on the
            input and on the h of the gate.
        padding_index: The id of padding, whose embedding stays 0.

    Raises:
        ArgumentError: If a value is out of range.
    """

    vocabulary_size: int
    num_classes: int
    embedding_size: int = 300
    hidden_size: int = 200
    num_layers: int = 3
    order: int = 2
    decay: float | Literal["learned", "input", "state"] = "state"
    combine: Literal["multiply", "add", "add_exact"] = "multiply"
    normalized: bool | Literal["exact"] = True
    readout: Literal["last", "sum"] = "sum"
    activation: Literal["tanh", "relu", "sigmoid"] | None = "relu"
    dropout: float = 0.35
    rnn_dropout: float = 0.2
    padding_index: int = 0

    def __post_init__(self) -> None:
        require_sizes(self, *_STACKED_SIZES)
        require_sizes(self, "num_classes", least=2)
        require_fractions(self, "dropout", "rnn_dropout")
        require_token(self, "padding_index")


class StackedClassifier(TokenModel):
    r"""Classifies token sequences by the means of the outputs of every layer.

    .. math::
        y = W\,[\bar h^{(1)}; \dots; \bar h^{(L)}], \qquad
        \bar h^{(l)} = \frac1T \sum_{t=1}^T h_t^{(l)}, \quad
        h^{(l)}_{1:T} = \mathrm{layer}_l(h^{(l-1)}_{1:T}), \quad h^{(0)}_t = E x_t

    with dropout on the inputs of layers and on the means, but not on the averaged outputs. Padded
    positions do not affect the result. The mean of an empty sequence is 0.

    All weights are drawn uniformly from :math:`\pm\sqrt{3 / \text{inputs}}` and biases are 0, as in
    the authors' code; the paper does not specify the initialization.

    Args:
        config: The configuration.

    Shape:
        - tokens ``(B, T)`` int64, lengths ``(B,)`` integers from 0 to T
        - output ``(B, C)``

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.2.
    """

    def __init__(self, config: StackedClassifierConfig) -> None:
        super().__init__()
        self.config = config
        c = config
        self.embedding = nn.Embedding(c.vocabulary_size, c.embedding_size, c.padding_index)
        self.layers = nn.ModuleList(
            StringKernelRNN(
                size, c.hidden_size, initialization="paper", variational_dropout=c.rnn_dropout,
                hidden_dropout=c.rnn_dropout if c.decay == "state" else 0.0,
                **{name: getattr(c, name) for name in _OF_LAYER},
            )
            for size in (c.embedding_size, *[c.hidden_size] * (c.num_layers - 1))
        )  # fmt: skip
        self.output = nn.Linear(c.num_layers * c.hidden_size, c.num_classes, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        with torch.no_grad():
            _uniform(self.embedding.weight, self.config.embedding_size)
            self.embedding.weight[self.config.padding_index] = 0
            _uniform(self.output.weight, self.output.in_features)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits of each class.

        Args:
            tokens: Token ids, padded at the end.
            lengths: Number of tokens of each row before the padding.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If a dtype is wrong.
            ArgumentError: If a length is outside [0, T].
        """
        return self.output(self._drop(self.encode(tokens, lengths)))

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the means of the outputs of all layers ``(B, L·H)``, see `forward`."""
        check_tokens(tokens, lengths)
        x = self.embedding(tokens.T)  # time first, as in the recurrence
        is_padding = torch.arange(x.shape[0], device=tokens.device)[:, None] >= lengths
        means = []
        for layer in self.layers:  # causal: padding does not affect earlier outputs
            x, _ = layer(self._drop(x))
            total = x.masked_fill(is_padding[..., None], 0).sum(0)
            means.append(total / lengths.clamp(min=1)[:, None])
        return torch.cat(means, dim=-1)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training)


def _uniform(weight: Tensor, inputs: int) -> None:
    bound = math.sqrt(3 / inputs)
    nn.init.uniform_(weight, -bound, bound)
