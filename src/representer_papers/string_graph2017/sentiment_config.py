"""The configuration of a run of the sentiment table, with the presets of paper and code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

DECAYS: dict[str, float | str] = {"gated": "state", "constant": 0.5}
EMBEDDINGS = ("frozen", "tuned", "learned")

# The paper's two rows, with frozen word vectors, come first. "tuned" fine-tunes them, "learned"
# uses none. The constant is that of a command of the authors' earlier code; the paper prints none.
CELLS = ("gated", "constant", "gated-tuned", "constant-tuned", "gated-learned", "constant-learned")

EPOCHS = 200  # maximum; early stopping ends most runs long before


@dataclass(frozen=True)
class SentimentConfig:
    """The settings that determine a run, apart from the data files.

    Attributes:
        dataset: A key of ``treebank.DATASETS``.
        cell: One of `CELLS`.
        seed: Seed of weights, order and dropout.
        epochs: Maximum number of epochs.
        vectors: Name of the word vectors; None if they are learned.
        preset: Settings of the paper or of the authors' code.
        readout: Reads out c_n alone, or the sum over c_1 to c_n.
        rnn_dropout: Dropout inside the layers.
        embedding_size: Size of learned word vectors.
        hidden_size: Units of a layer.
        batch_size: Maximum number of texts in a batch, all of one length.
        dropout: Dropout on the embeddings, between layers, and before the softmax.
        lr: Initial learning rate of Adam.
        lr_decay: Factor of the learning rate after every epoch.
        penalty: Factor of the sum of all squared weights.
        patience: Number of epochs without improvement in validation after which a run ends.
        max_drop: Drop in validation accuracy at which a run ends.
    """

    dataset: str
    cell: str
    seed: int
    epochs: int
    vectors: str | None
    preset: str = "paper"
    readout: Literal["last", "sum"] = "sum"
    rnn_dropout: float = 0.2
    embedding_size: int = 300
    hidden_size: int = 200
    batch_size: int = 32
    dropout: float = 0.35
    lr: float = 1e-3
    lr_decay: float = 0.95
    penalty: float = 1e-6
    patience: int = 20
    max_drop: float = 0.05

    @property
    def decay(self) -> float | str:
        """λ: a number, or the name of a gate."""
        return DECAYS[self.cell.partition("-")[0]]

    @property
    def embedding(self) -> str:
        """Treatment of the word vectors, one of `EMBEDDINGS`."""
        return self.cell.partition("-")[2] or "frozen"

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return "-".join((self.cell, *([self.vectors] if self.vectors else []), f"seed{self.seed}"))


def preset(name: str, task: str) -> dict[str, Any]:
    """Return the settings of a preset.

    The paper reads out c_n and mentions no dropout inside the layers; the authors' code sums the
    states and has such dropout. Where the paper is silent, both presets follow the code: batches of
    at most 32 texts of one length, learning rate, penalty, early stopping.

    Args:
        name: ``"paper"`` or ``"authors_code"``.
        task: ``"fine"`` or ``"binary"``.
    """
    if name == "paper":
        return {"preset": name, "readout": "last", "rnn_dropout": 0.0}
    return {"preset": name, "readout": "sum", "rnn_dropout": 0.2 if task == "fine" else 0.1}
