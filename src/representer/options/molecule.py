"""The task ``molecule``: numbers or classes of molecules.

Does not import torch: the command line reads its options here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.checks import require, require_choices, require_integers, require_numbers
from representer.options.graph import GRAPH_READOUTS, INITIALS, NETWORKS, GraphParameters
from representer.options.task import (
    READ,
    GroupReading,
    RunConfig,
    Task,
    config_of,
    defaults,
    functions_in,
    grouped,
    option,
)

FEATURES = (62, 82)


@dataclass(kw_only=True, eq=False, repr=False)
class MoleculeParameters(GraphParameters):
    """Parameters of the networks for molecules."""

    features: int = option(82, "number of atom features: 62 or 82")
    network: str = option("wl", "kind of network", choices=NETWORKS)
    initial: str = option("authors", "initialization of the weights", choices=INITIALS)
    readout: str = option(
        "last", "readout of wl: its levels side by side, their sum, or the last",
        choices=GRAPH_READOUTS,
    )  # fmt: skip
    normalize: bool = option(False, "standardize the labels of each level of wl, and the readout")
    gate_scale: float = option(10.0, "scale of the gates")
    members: int = option(5, "number of ensemble members")
    lr_decay: float = option(
        0.93, "factor of the learning rate after every lr-decay-every molecules"
    )
    lr_decay_every: int = option(0, "molecules between two such changes; 0: an epoch")

    def check(self) -> None:
        super().check()
        require(self, "features", self.features in FEATURES, "62 or 82")
        require_integers(self, 0, "lr_decay_every")


@dataclass(kw_only=True, eq=False, repr=False)
class MoleculeRegressorParameters(MoleculeParameters):
    """Parameters of `MoleculeRegressor`."""

    standardize: bool = option(True, "standardize the targets in training")
    balance: float = option(
        0.0, "draw training molecules evenly from bins of the target of this width; 0: no balancing"
    )

    def check(self) -> None:
        super().check()
        require_numbers(self, "balance")


TASKS = ("auto", "regression", "classification")
SPLITS = ("random", "scaffold")
EPOCHS, TIME_LIMIT = 40, 80.0  # of the network, beside which the kernel machine takes a minute


@dataclass(frozen=True)
class MoleculeReading:
    """Options of reading molecules; the default columns are those of training."""

    smiles: str | None = option(
        None, "column with the SMILES (default: detected by name)", metavar="COLUMN"
    )
    target: str | None = option(
        None,
        "column(s) with the targets: A,B; cells may be empty (default: detected)",
        metavar="COLUMN",
    )
    skip_invalid: bool = option(False, "skip and list rows without a valid SMILES")
    delimiter: str | None = option(None, "cell separator (default: detected)", metavar="CHARACTER")
    encoding: str = option("utf-8", "encoding of the file")


@dataclass(frozen=True)
class MoleculeOptions:
    """Options of the task, and its defaults where they are not those of the estimator."""

    data: str | None = option(None, "CSV, TSV, JSONL, Parquet, .xlsx, SDF or .smi file")
    task: str = option(
        "auto", "what targets are (auto: classes if texts or 0 and 1, else numbers)", choices=TASKS
    )
    split: str = option("random", "random split, or no scaffold in two parts", choices=SPLITS)
    preset: str | None = option(
        None,
        "settings of L17 section 6.3; explicit options take precedence",
        choices=("paper", "authors_code"),
    )
    demo: bool = option(False, "no DATA: molecules assembled by RDKit")
    epochs: int = option(EPOCHS, "passes over the training data")
    batch_size: int = option(32, "molecules per step")
    time_limit: float | None = option(
        TIME_LIMIT,
        "seconds after which the network's training ends; no limit if --epochs is given",
        metavar="SECONDS",
    )
    patience: int = option(0, "stop after this many epochs without improvement; 0: never")
    monitor: str = option(
        "loss",
        "validation metric that selects the best epoch (auto: accuracy from 1000 examples on)",
        choices=("auto", "accuracy", "loss"),
    )


_Options: Any = config_of(
    "_Options", __name__, MoleculeReading, GroupReading, MoleculeOptions,
    MoleculeRegressorParameters, base=RunConfig,
)  # fmt: skip


@dataclass(frozen=True)
class MoleculeConfig(_Options):
    """One run of ``fit molecule``. Each field is an option of the command and of config.yaml.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choices(self, task=TASKS, split=SPLITS)
        is_alone = self.split == "random" or not self.groups
        require(self, "groups", is_alone, "nothing with --split scaffold, which has its groups")
        for name in ("smiles", "target"):
            is_fine = not self.demo or getattr(self, name) is None
            require(self, name, is_fine, "nothing with --demo, which has its own data")

    @property
    def kind(self) -> str:
        """Kind of the labels, the name that other tasks use."""
        return self.task


# L17 section 6.3 and its code: 0.26 million parameters; the rate falls by a tenth every 100,000
# molecules until it is 5e-6, which is after 51 times or 255,000 steps; targets as they are, each
# of 0.05 % of efficiency drawn equally often. The code reads out the last relabeling only, with the
# same references at all levels, and scales the gates by ten.
_CODE: dict[str, Any] = {
    "answer": "network", "hidden_size": 175, "depth": 4, "order": 2, "decay": "gated",
    "features": 82, "members": 1,
    "standardize": False, "balance": 0.05, "batch_size": 20, "lr": 1e-3, "lr_decay": 0.9,
    "lr_decay_every": 100_000, "epochs": 100_000, "max_steps": 255_000, "evaluate_every": 5_000,
    "initial": "authors", "patience": 0,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "paper": _CODE | {"readout": "sum", "gate_scale": 1.0, "share_references": False},
    "authors_code": _CODE | {"readout": "last", "gate_scale": 10.0},
}

# Sizes with which all models train in half a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 48, "members": 2, "epochs": 25, "batch_size": 16, "lr": 3e-3, "lr_decay": 0.9,
    "threads": 1,
}  # fmt: skip

_OF_NUMBERS = ("balance", "standardize")  # options that a classification does not have


def defaults_of(given: Any) -> dict[str, Any]:
    """Return the defaults of all options, given the preset, the demo and the task."""
    chosen = (DEMO if given.demo else {}) | PRESETS.get(given.preset or "", {})
    if given.epochs != EPOCHS or given.preset:
        chosen["time_limit"] = None
    if given.network != "wl":  # which alone has levels
        chosen.pop("share_references", None)
    if given.task == "classification":
        chosen = {name: value for name, value in chosen.items() if name not in _OF_NUMBERS}
    return defaults(MoleculeConfig, chosen)


TASK = Task(
    name="molecule",
    summary="Train a model of molecules on a table of SMILES and values.",
    noun="molecules",
    config=MoleculeConfig,
    defaults=defaults_of,
    options=grouped(dict.fromkeys((*READ, "suggest", "drift"), (MoleculeReading,))),
    estimators=(
        "representer.estimators.molecule:MoleculeClassifier",
        "representer.estimators.molecule:MoleculeRegressor",
    ),
    functions=functions_in("representer.tasks.molecule", "suggest"),
    packages=(
        "accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2", "torch_geometric",
        "rdkit",
    ),
    takes_strings=True,
)  # fmt: skip
