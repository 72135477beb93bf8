"""What a run of the sentiment table is made with, by the paper and by the authors' code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from representer.errors import ArgumentError

DECAYS: dict[str, float | str] = {"gated": "state", "constant": 0.5}
EMBEDDINGS = ("frozen", "tuned", "learned")

# The paper's two rows first: word vectors stay as they are. "tuned" trains them on, "learned" does
# without. The constant is that of the command of the authors' earlier code; the paper prints none.
CELLS = ("gated", "constant", "gated-tuned", "constant-tuned", "gated-learned", "constant-learned")

EPOCHS = 200  # at most; early stopping ends most runs long before


@dataclass(frozen=True)
class SentimentConfig:
    """One run; all that determines it, but for the files.

    Attributes:
        dataset: A key of ``treebank.DATASETS``.
        cell: One of `CELLS`.
        seed: Of weights, order and dropout.
        epochs: At most so many.
        vectors: Name of the word vectors; None where they are learned.
        preset: Whose settings these are.
        readout: c_n alone, or the sum.
        rnn_dropout: Inside the layers.
        embedding_size: Where no vectors say it.
        hidden_size: Units of a layer.
        batch_size: The most texts of one length in a batch.
        dropout: On the embeddings, between layers, before the softmax.
        lr: Of Adam, at the start.
        lr_decay: Its factor after every epoch.
        penalty: Factor of the sum of all squared weights.
        patience: Epochs without a gain on the validation part, after which the run ends.
        max_drop: Loss of validation accuracy at which it ends.
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
        """λ: a number, or which gate."""
        return DECAYS[self.cell.partition("-")[0]]

    @property
    def embedding(self) -> str:
        """What becomes of the word vectors, one of `EMBEDDINGS`."""
        return self.cell.partition("-")[2] or "frozen"

    @property
    def name(self) -> str:
        """What its folder is called."""
        return "-".join((self.cell, *([self.vectors] if self.vectors else []), f"seed{self.seed}"))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, to be written as config.json."""
        return asdict(self)


def preset(name: str, task: str) -> dict[str, Any]:
    """Return what a preset says about the model.

    The paper reads out c_n and names no dropout inside the layers. The authors' code sums the
    states and has it. Where the paper says nothing, both presets are the code's: batches of at most
    32 texts of one length, learning rate, penalty, early stopping.

    Args:
        name: ``"paper"`` or ``"authors_code"``.
        task: ``"fine"`` or ``"binary"``.

    Raises:
        ArgumentError: If there is no such preset.
    """
    if name == "paper":
        return {"preset": name, "readout": "last", "rnn_dropout": 0.0}
    if name == "authors_code":
        rnn_dropout = 0.2 if task == "fine" else 0.1
        return {"preset": name, "readout": "sum", "rnn_dropout": rnn_dropout}
    raise ArgumentError("preset", name, "one of paper, authors_code")
