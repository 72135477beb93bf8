"""The configuration of the stacked classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from representer.models.config import require_sizes, require_token
from representer.requirements import require_fractions

_SIZES = ("vocabulary_size", "embedding_size", "hidden_size", "num_layers", "order")


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
