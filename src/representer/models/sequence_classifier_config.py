"""The configuration of the sequence classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from representer.errors import ArgumentError
from representer.models.cells import resolve_cell

POOLINGS = ("mean", "attention", "padded_mean")
PADDINGS = ("causal", "same")
_SIZES = ("vocabulary_size", "embedding_size", "hidden_size", "dilation", "num_layers", "head_size")


@dataclass(frozen=True)
class SequenceClassifierConfig:
    """The configuration of `SequenceClassifier`; the defaults are those of L19 section 5.1.

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
        for name in _SIZES:
            self._require(name, _is_integer(getattr(self, name), 1), "a positive integer")
        self._require("num_classes", _is_integer(self.num_classes, 1), "a positive integer")
        for name in ("dropout", "cell_dropout"):
            self._require(name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        self._require("pooling", self.pooling in POOLINGS, f"one of {', '.join(POOLINGS)}")
        known = f"one of {', '.join(PADDINGS)}"
        self._require("filter_padding", self.filter_padding in PADDINGS, known)
        is_single = self.num_layers == 1 and not self.bidirectional
        can_center = self.filter_length == 1 or (is_single and isinstance(self.filter_length, int))
        expected = "'causal', unless there is one layer, one direction and one filter length"
        self._require("filter_padding", can_center or self.filter_padding == "causal", expected)
        needs_length = self.pooling == "padded_mean"
        is_length = _is_integer(self.max_length, 1) if needs_length else self.max_length is None
        expected = "a positive integer" if needs_length else "None without pooling='padded_mean'"
        self._require("max_length", is_length, expected)
        is_token = _is_integer(self.padding_index, 0) and self.padding_index < self.vocabulary_size
        self._require("padding_index", is_token, f"a token id below {self.vocabulary_size}")

    def _require(self, name: str, is_valid: bool, expected: str) -> None:
        if not is_valid:
            raise ArgumentError(name, getattr(self, name), expected)


def _is_integer(value: Any, minimum: int) -> bool:
    return type(value) is int and value >= minimum
