"""What a language model is made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from representer.errors import ArgumentError

_SIZES = (
    "vocabulary_size",
    "embedding_size",
    "hidden_size",
    "num_layers",
    "filter_length",
    "order",
)
_SHARES = ("embedding_dropout", "input_dropout", "layer_dropout", "output_dropout")
_SHARES += ("rnn_dropout", "weight_dropout")


@dataclass(frozen=True)
class LanguageModelConfig:
    """The configuration of `LanguageModel`; the defaults are L17's 5m model of section 6.1.

    Args:
        vocabulary_size: V.
        embedding_size: E, features of a token; the last layer has as many units, since the output
            matrix is the embedding.
        hidden_size: H, units of the other layers.
        num_layers: L.
        cell: A key of `CELLS`.
        order: n of a string kernel.
        combine: How its tokens join: ``"multiply"`` or ``"add"``.
        decay: λ of a string kernel: a number, ``"learned"``, ``"input"`` or ``"state"``.
        highway: Whether string-kernel layers mix their input with their output.
        activation: σ of string-kernel layers.
        filter_length: n of the filters of the other cells.
        layer_norm: Whether their memory cell is normalized.
        embedding_dropout: Share of the words that a batch does not see at all, all their
            occurrences alike.
        input_dropout: Dropout on the embeddings.
        layer_dropout: Dropout between layers.
        output_dropout: Dropout on the last layer's output.
        is_locked: Whether those three have one mask for all steps of a segment.
        rnn_dropout: Dropout inside string-kernel layers, with one mask for all steps: on a layer's
            input and on the state that its gates see.
        weight_dropout: Dropout on the entries of recurrent matrices (DropConnect).
        cutoffs: Tokens below the first are predicted directly, the others cluster by cluster
            (adaptive softmax); empty for one softmax.
        initial: Whose first weights: ``"string"`` are those of L17's code, ``"uniform"`` those of
            the AWD models.

    Raises:
        ArgumentError: A value is out of its range.
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
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))  # JSON has lists only
        for name in _SIZES:
            self._require(name, _is_whole(getattr(self, name)), "a whole number from 1 on")
        for name in _SHARES:
            self._require(name, 0 <= getattr(self, name) < 1, "a number from 0 up to, not at, 1")
        borders = (0, *self.cutoffs, self.vocabulary_size)
        is_rising = all(a < b for a, b in pairwise(borders))
        self._require("cutoffs", is_rising, f"rising, above 0 and below {self.vocabulary_size}")
        self._require("initial", self.initial in ("string", "uniform"), "'string' or 'uniform'")

    @property
    def layer_sizes(self) -> list[tuple[int, int]]:
        """Inputs and units of each layer."""
        sizes = [self.embedding_size, *[self.hidden_size] * (self.num_layers - 1)]
        return list(zip(sizes, [*sizes[1:], self.embedding_size], strict=True))

    def _require(self, name: str, is_fine: bool, expected: str) -> None:
        if not is_fine:
            raise ArgumentError(name, getattr(self, name), expected)


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 1
