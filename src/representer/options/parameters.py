"""Parameters of the estimators: each declared once, with its default and its help.

An estimator inherits its constructor from these dataclasses, and the command line offers the same
fields as options. Free of torch and numpy, since the command line reads its options here.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

from representer.checks import (
    LIMITS,
    is_integer,
    is_number,
    parse_number,
    require,
    require_choices,
    require_integers,
    require_numbers,
)
from representer.errors import ArgumentError, MissingExtraError
from representer.machine import EXPECTED, is_device_name

AUTO = "auto"
MONITORS = (AUTO, "accuracy", "loss")
ANSWERS = ("both", "kernel", "network")
PRECISIONS = ("no", "bf16", "fp16")
TRACKERS = {"tensorboard": "tensorboard", "mlflow": "mlflow-skinny"}  # module and package
DECAYS = ("learned", "input", "state")


def option(default: Any, help_text: str, **metadata: Any) -> Any:
    """Return a field with its help; ``metavar`` and ``choices`` may be named too."""
    return field(default=default, metadata={"help": help_text, **metadata})


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingParameters:
    """Parameters that every estimator has; ``check`` is called by ``fit``."""

    _is_validation_required = True  # else valid_fraction may be 0
    save_every_epochs = 1  # more where writing files takes as long as an epoch
    epochs: int | None = option(None, "passes over the training data (default: by their number)")
    max_steps: int = option(0, "maximum number of steps; 0: no limit")
    evaluate_every: int = option(0, "validate every this many steps; 0: once per epoch")
    batch_size: int | None = option(None, "examples per step (default: by their number)")
    lr: float = option(1e-3, "learning rate of Adam")
    lr_decay: float = option(1.0, "factor of the learning rate after every epoch")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(0.0, "clip the norm of the gradient; 0: no clipping")
    clip_value: float = option(0.0, "clip the entries of the gradient; 0: no clipping")
    average_weights: bool = option(False, "keep the average of the weights of the last steps")
    patience: int | None = option(
        None, "stop after this many epochs without improvement; 0: never (default: by the data)"
    )
    valid_fraction: float | None = option(0.1, "fraction of the training data used for validation")
    monitor: str = option(
        AUTO,
        "validation metric that selects the best epoch (auto: accuracy from 1000 examples on)",
        choices=MONITORS,
    )
    time_limit: float | None = option(None, "seconds after which training ends", metavar="SECONDS")
    warm_start: str | None = option(
        None, "saved run whose weights and inputs training starts from", metavar="RUN"
    )
    random_state: Any = option(None, "random seed of split, weights, order and dropout")
    n_jobs: int | None = option(None, "CPU threads (default: torch's)")
    device: str = option(
        AUTO,
        "device to train on: cpu, cuda, cuda:1, mps; auto: CUDA if there is one",
        metavar="DEVICE",
    )
    mixed_precision: str = option(
        "no",
        "precision of products while training; recurrences stay in float32",
        choices=PRECISIONS,
    )
    cuda_graph: bool = option(False, "replay training steps from CUDA graphs, on one CUDA device")
    log_with: str | None = option(
        None, "log the metrics of the network with tensorboard or mlflow, too", metavar="NAME"
    )
    verbose: int = option(1, "0: silent; 1: progress")
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] | None = option(
        None, "functions of the metrics of each evaluation; training ends when one returns True"
    )

    def check(self) -> None:
        """Check every value.

        Raises:
            ArgumentError: A value is out of its range.
        """
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.type == "float" or (entry.type == "float | None" and value is not None):
                require(self, entry.name, is_number(value), "a number")
        require_integers(self, 1, "epochs", "batch_size", "n_jobs", is_none_allowed=True)
        require_integers(self, 0, "max_steps", "evaluate_every")
        is_flag = type(self.verbose).__name__ in ("bool", "bool_")  # of Python or NumPy
        require(self, "verbose", is_flag or is_integer(self.verbose, 0), "0 or more")
        require_integers(self, 0, "patience", is_none_allowed=True)
        most = LIMITS["threads"]
        if (self.n_jobs or 1) > most:
            raise ArgumentError("n_jobs", self.n_jobs, f"at most {most}")
        require_numbers(self, "weight_decay", "clip_norm", "clip_value")
        require(self, "lr", 0 < self.lr < math.inf, "a positive number")
        require(self, "lr_decay", 0 < self.lr_decay < math.inf, "a positive number")
        share = 0.1 if self.valid_fraction is None else self.valid_fraction
        is_fraction, expected = 0 < share < 1, "a number between 0 and 1"
        if not self._is_validation_required:
            is_fraction, expected = 0 <= share < 1, "a number in [0, 1)"
        require(self, "valid_fraction", is_fraction, expected)
        is_time = self.time_limit is None or 0 < self.time_limit < math.inf
        require(self, "time_limit", is_time, "a positive number of seconds, or None")
        require(self, "device", is_device_name(self.device), EXPECTED)
        require_choices(self, mixed_precision=PRECISIONS, monitor=MONITORS)
        is_tracker = self.log_with is None or self.log_with in TRACKERS
        require(self, "log_with", is_tracker, f"{' or '.join(TRACKERS)}, or None")
        if self.log_with and importlib.util.find_spec(self.log_with) is None:
            raise MissingExtraError("log_with", TRACKERS[self.log_with], "track")


@dataclass(kw_only=True, eq=False, repr=False)
class TargetParameters(TrainingParameters):
    """Parameters of estimators of objects and their targets."""

    conformal: float | None = option(
        None,
        "add sets of classes or intervals of numbers that contain the truth with this probability, "
        "such as 0.9",
        metavar="LEVEL",
    )
    conformal_by: str | None = option(
        None, "let them do so for each class, not in the mean over all", choices=("class",)
    )
    calibration: str = option("split", "set rows aside for this, or use each row once by folds")
    class_weight: str | dict[Any, float] | None = option(
        None, "weight classes in inverse proportion to their number of examples", metavar="balanced"
    )
    answer: str = option(
        "both", "predict with the exact kernel, the network, or both", choices=ANSWERS
    )

    def check(self) -> None:
        super().check()
        require_choices(self, answer=ANSWERS)
        is_level = self.conformal is None or 0 < self.conformal < 1
        require(self, "conformal", is_level, "a number between 0 and 1, or None")
        require_choices(self, calibration=("split", "cross"), conformal_by=(None, "class", "group"))
        weights = self.class_weight
        is_fine = weights in (None, "balanced")
        if isinstance(weights, dict):
            is_fine = all(is_number(w) and 0 <= w < math.inf for w in weights.values())
        expected = "'balanced', non-negative numbers by class, or None"
        require(self, "class_weight", is_fine, expected)


def in_common(parameters: Any, configuration: type[Any]) -> dict[str, Any]:
    """Return the values of the parameters that a configuration has under the same names."""
    names = [entry.name for entry in fields(configuration)]
    return {name: getattr(parameters, name) for name in names if hasattr(parameters, name)}


def require_decay(parameters: Any) -> None:
    """Require a decay of a string kernel: a number in [0, 1], or one of `DECAYS`."""
    expected = f"a number in [0, 1], {', '.join(DECAYS[:-1])} or {DECAYS[-1]}"
    is_fine = parameters.decay in DECAYS or _is_fraction(parameters.decay)
    require(parameters, "decay", is_fine, expected)


def _is_fraction(value: float | str) -> bool:
    number = parse_number(value) if isinstance(value, str) else value
    return isinstance(number, Real) and 0 <= number <= 1
