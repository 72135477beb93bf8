"""The configuration of the sequence classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from representer.models.cells import resolve_cell
from representer.models.config import require_sizes, require_token
from representer.requirements import require, require_choices, require_fractions

POOLINGS = ("mean", "attention", "padded_mean")
PADDINGS = ("causal", "same")
_SIZES = ("vocabulary_size", "embedding_size", "hidden_size", "dilation", "num_layers", "head_size",
          "num_classes")  # fmt: skip


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
