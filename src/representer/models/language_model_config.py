"""The configuration of the language model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from representer.models.config import require_sizes
from representer.requirements import require, require_fractions

_SIZES = (
    "vocabulary_size",
    "embedding_size",
    "hidden_size",
    "num_layers",
    "filter_length",
    "order",
)
_DROPOUTS = ("embedding_dropout", "input_dropout", "layer_dropout", "output_dropout")
_DROPOUTS += ("rnn_dropout", "weight_dropout")


@dataclass(frozen=True)
class LanguageModelConfig:
    """The configuration of `LanguageModel`; the defaults are L17's 5m model of section 6.1.

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
