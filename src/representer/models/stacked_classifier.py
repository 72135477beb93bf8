"""Stacked classifier: string-kernel layers, the mean over time of each, one product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import require_fractions
from representer.models.config import check_tokens, require_sizes, require_token
from representer.models.hub import TokenModel
from representer.nn import StringKernelRNN

# The configuration of the stacked classifier.

_SIZES = ("vocabulary_size", "embedding_size", "hidden_size", "num_layers", "order")
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
        require_sizes(self, *_SIZES)
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
