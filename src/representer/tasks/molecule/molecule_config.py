"""Options and presets of ``fit molecule``.

Does not import torch: the command line reads its options here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from representer.errors import ArgumentError
from representer.numbers import parse_number
from representer.tasks.options import option

TASKS = ("regression", "classification")
SPLITS = ("random", "scaffold")
NETWORKS = ("wl", "random-walk", "gine")
READOUTS = ("sum", "last")
INITIALS = ("authors", "fan-in")
ANSWERS = ("process", "ensemble")
FEATURES = (62, 82)
MAX_MEMBERS = 100


@dataclass(frozen=True)
class MoleculeReading:
    """Options of reading molecules; the default columns are those of training."""

    smiles: str | None = option(None, "column with the SMILES of molecules", metavar="COLUMN")
    target: str | None = option(
        None, "column(s) with the targets, separated by commas", metavar="COLUMN"
    )
    skip_invalid: bool = option(False, "skip and list invalid molecules")


@dataclass(frozen=True)
class FileOptions:
    """Options of reading the file of a table."""

    delimiter: str | None = option(None, "cell separator (default: detected)", metavar="CHARACTER")
    encoding: str = option("utf-8", "encoding of the file")


@dataclass(frozen=True)
class MoleculeConfig:
    """One run of ``fit molecule``. Each field is an option of the command and of config.yaml.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    data: str | None = option(None, "CSV, TSV, JSONL or Parquet file, also .xz, .gz or .bz2")
    out: str | None = option(None, "run folder (default: runs/NAME-OF-DATA)", metavar="RUN")
    smiles: str | None = option(
        None, "column with the SMILES (default: detected by name)", metavar="COLUMN"
    )
    target: str | None = option(
        None, "column(s) with the targets: A,B; cells may be empty", metavar="COLUMN"
    )
    task: str = option("regression", "whether targets are numbers or classes", choices=TASKS)
    skip_invalid: bool = option(False, "skip and list rows without a valid SMILES")
    delimiter: str | None = option(None, "cell separator (default: detected)", metavar="CHARACTER")
    encoding: str = option("utf-8", "encoding of the files")
    split: str = option("random", "random split, or no scaffold in two parts", choices=SPLITS)
    valid: str | None = option(None, "validation file, instead of a part of DATA", metavar="FILE")
    valid_fraction: float = option(0.1, "fraction of DATA used for validation")
    test: str | None = option(None, "test file, instead of a part of DATA", metavar="FILE")
    test_fraction: float = option(0.1, "fraction of DATA used for testing")
    features: int = option(82, "number of atom features: 62 or 82")
    network: str = option("wl", "kind of network", choices=NETWORKS)
    hidden_size: int = option(64, "units of the network")
    depth: int = option(4, "levels of wl, or layers of gine")
    order: int = option(2, "number of atoms of a walk")
    decay: str = option("gated", "decay of walks: a number, learned or gated", metavar="NAME")
    readout: str = option(
        "last", "readout of wl: sum over its levels, or the last level", choices=READOUTS
    )
    gate_scale: float = option(10.0, "scale of the gates")
    initial: str = option("authors", "initialization of the weights", choices=INITIALS)
    dropout: float = option(0.0, "dropout before the last layer")
    members: int = option(5, "number of ensemble members")
    answers: str = option(
        "process",
        "regression by the ensemble with a Gaussian process on its last layers, or by the ensemble",
        choices=ANSWERS,
    )
    standardize: bool = option(True, "standardize the targets in training")
    balance: float = option(
        0.0, "draw training molecules evenly from bins of the target of this width; 0: no balancing"
    )
    epochs: int = option(40, "passes over the training data")
    max_steps: int = option(0, "maximum number of steps; 0: no limit")
    evaluate_every: int = option(0, "validate every this many steps; 0: once per epoch")
    batch_size: int = option(32, "molecules per step")
    lr: float = option(2e-3, "learning rate of Adam")
    lr_decay: float = option(
        0.93, "factor of the learning rate after every lr-decay-every molecules"
    )
    lr_decay_every: int = option(0, "molecules between two such changes; 0: an epoch")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(0.0, "clip the norm of the gradient; 0: no clipping")
    patience: int = option(0, "stop after this many epochs without improvement; 0: never")
    baselines: bool = option(True, "also train the baselines")
    seed: int = option(0, "random seed of split, weights and order")
    threads: int = option(0, "CPU threads; 0: default of torch")
    preset: str | None = option(
        None,
        "settings of L17 section 6.3; explicit options take precedence",
        choices=("paper", "authors_code"),
    )
    resume: bool = option(False, "continue from the newest checkpoint of the run folder")
    demo: bool = option(False, "no DATA: molecules assembled by RDKit")

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            self._require(name, getattr(self, name) >= 1, "a positive integer")
        for name in _NOT_NEGATIVE:
            self._require(name, 0 <= getattr(self, name) < math.inf, "0 or more")
        for name in ("valid_fraction", "test_fraction"):
            self._require(name, 0 < getattr(self, name) < 1, "a number between 0 and 1")
        if self.valid_fraction + self.test_fraction >= 1:
            total = self.valid_fraction + self.test_fraction
            raise ArgumentError("valid_fraction + test_fraction", total, "less than 1")
        for name in ("lr", "lr_decay", "gate_scale"):
            self._require(name, 0 < getattr(self, name) < math.inf, "a positive number")
        self._require("dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        self._require("members", self.members <= MAX_MEMBERS, f"at most {MAX_MEMBERS}")
        for name, known in _CHOICES.items():
            self._require(name, getattr(self, name) in known, "one of " + ", ".join(known))
        self._require("features", self.features in FEATURES, "62 or 82")
        self._require("decay", _is_decay(self.decay), "a non-negative number, learned or gated")
        for name in ("data", "valid", "test", "smiles", "target"):
            is_fine = not self.demo or getattr(self, name) is None
            self._require(name, is_fine, "nothing with --demo, which has its own data")
        if self.balance and self.task != "regression":
            raise ArgumentError("balance", self.balance, "0 for a classification")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as in config.yaml."""
        return asdict(self)

    def _require(self, name: str, is_fine: bool, expected: str) -> None:
        if not is_fine:
            raise ArgumentError(name, getattr(self, name), expected)


_POSITIVE = ("hidden_size", "depth", "order", "members", "epochs", "batch_size")
_NOT_NEGATIVE = (
    "balance", "max_steps", "evaluate_every", "lr_decay_every", "weight_decay", "clip_norm",
    "patience", "seed", "threads",
)  # fmt: skip
_CHOICES = {
    "task": TASKS, "split": SPLITS, "network": NETWORKS, "readout": READOUTS, "initial": INITIALS,
    "answers": ANSWERS,
}  # fmt: skip

# L17 section 6.3 and its code: 0.26 million parameters; the rate falls by a tenth every 100,000
# molecules until it is 5e-6, which is after 51 times or 255,000 steps; targets as they are, each
# of 0.05 % of efficiency drawn equally often. The code reads out the last relabeling only, and
# scales the gates by ten.
_CODE: dict[str, Any] = {
    "hidden_size": 175, "depth": 4, "order": 2, "decay": "gated", "features": 82, "members": 1,
    "standardize": False, "balance": 0.05, "batch_size": 20, "lr": 1e-3, "lr_decay": 0.9,
    "lr_decay_every": 100_000, "epochs": 100_000, "max_steps": 255_000, "evaluate_every": 5_000,
    "initial": "authors", "patience": 0,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "paper": _CODE | {"readout": "sum", "gate_scale": 1.0},
    "authors_code": _CODE | {"readout": "last", "gate_scale": 10.0},
}

# Sizes with which all models train in half a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 48, "members": 2, "epochs": 25, "batch_size": 16, "lr": 3e-3, "lr_decay": 0.9,
    "threads": 1,
}  # fmt: skip


def defaults(preset: str | None, *, demo: bool, task: str = "regression") -> dict[str, Any]:
    """Return the default values of all options."""
    chosen = {field.name: field.default for field in fields(MoleculeConfig)}
    chosen |= (DEMO if demo else {}) | PRESETS.get(preset or "", {})
    return chosen | ({"balance": 0.0} if task == "classification" else {})


def _is_decay(text: str) -> bool:
    if text in ("learned", "gated"):
        return True
    number = parse_number(text)
    return number is not None and 0 <= number < math.inf
