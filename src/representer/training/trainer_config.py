"""The configuration of a trainer."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from representer.devices import EXPECTED, is_device_name
from representer.limits import LIMITS
from representer.requirements import require, require_choices

# These change no result, except for the bits that `fingerprint` tracks.
EXECUTION = ("device", "cuda_graph", "log_with")
_WITHOUT_EFFECT = (
    *EXECUTION, "checkpoint_every_steps", "checkpoint_every_seconds", "keep_checkpoints", "threads",
    "show_progress", "save_every_epochs", "time_limit",
)  # fmt: skip


@dataclass(frozen=True)
class TrainerConfig:
    """The settings of `Trainer`.

    Args:
        epochs: Passes over the data.
        max_steps: Maximum number of optimization steps.
        lr: Learning rate of the default optimizer (Adam).
        lr_decay: Factor of the learning rate per epoch.
        lr_decay_from: Number of epochs at the initial learning rate before the decay begins.
        weight_decay: L2 penalty of the default optimizer.
        clip_norm: Maximum total norm of the gradients.
        clip_value: Maximum absolute value of each gradient entry.
        average_weights: Evaluate and save averages of the last steps' weights, see `WeightAverage`.
        evaluate_every: Steps between evaluations, in addition to those at the end of each epoch.
        checkpoint_every_steps: Steps between checkpoints, in addition to the regular ones.
        checkpoint_every_seconds: Maximum seconds between two checkpoints.
        save_every_epochs: Epochs between writing the checkpoint, metrics and best weights; raise it
            for models whose epochs take no longer than writing the files.
        keep_checkpoints: Number of most recent checkpoints to keep.
        patience: Stop after this many consecutive evaluations without a new best.
        nonmonotone: Stop when an evaluation is worse than the best one, ignoring this many
            evaluations just before it.
        max_drop: Stop when the monitored metric is worse than its best by this much.
        monitor: Metric that selects the best weights.
        direction: ``"max"`` if larger values of the metric are better.
        time_limit: Stop at the first evaluation or end of a step after this many seconds.
        seed: Seed of all random numbers, see `training.generators`.
        threads: Number of CPU threads; None uses torch's default.
        device: Its name; ``"auto"`` is a CUDA device if there is one, else the CPU.
        mixed_precision: As in Accelerate.
        cuda_graph: Replay loss and gradients from CUDA graphs, see `CapturedLosses`; without effect
            on a CPU, in several processes and in float16.
        log_with: Experiment tracker that gets the metrics, too, see `Tracker`.
        show_progress: Show the progress bar and the metrics.

    Raises:
        ArgumentError: A value is out of range.
    """

    epochs: int = 10
    max_steps: int | None = None
    lr: float = 1e-3
    lr_decay: float | None = None
    lr_decay_from: int = 1
    weight_decay: float = 0.0
    clip_norm: float | None = None
    clip_value: float | None = None
    average_weights: bool = False
    evaluate_every: int | None = None
    checkpoint_every_steps: int | None = None
    checkpoint_every_seconds: float | None = 60.0
    save_every_epochs: int = 1
    keep_checkpoints: int = 2
    patience: int | None = None
    nonmonotone: int | None = None
    max_drop: float | None = None
    monitor: str = "accuracy"
    direction: Literal["max", "min"] = "max"
    time_limit: float | None = None
    seed: int = 0
    threads: int | None = None
    device: str = "auto"
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    cuda_graph: bool = False
    log_with: str | None = None
    show_progress: bool = True

    def __post_init__(self) -> None:
        for name in ("epochs", "keep_checkpoints", "lr_decay_from", "save_every_epochs"):
            require(self, name, getattr(self, name) >= 1, "at least 1")
        for name in (
            "max_steps", "evaluate_every", "checkpoint_every_steps", "patience", "nonmonotone",
            "threads",
        ):  # fmt: skip
            value = getattr(self, name)
            require(self, name, value is None or value >= 1, "at least 1, or none")
        most = LIMITS["threads"]
        require(self, "threads", (self.threads or 1) <= most, f"at most {most}")
        for name in (
            "clip_norm", "clip_value", "checkpoint_every_seconds", "lr_decay", "max_drop",
            "time_limit",
        ):  # fmt: skip
            value = getattr(self, name)
            is_fine = value is None or 0 < value < math.inf
            require(self, name, is_fine, "above 0 and finite, or none")
        require(self, "lr", self.lr > 0 and math.isfinite(self.lr), "a finite number above 0")
        require(self, "weight_decay", self.weight_decay >= 0, "at least 0")
        require(self, "direction", self.direction in ("max", "min"), "'max' or 'min'")
        require(self, "device", is_device_name(self.device), EXPECTED)
        require_choices(self, mixed_precision=("no", "bf16", "fp16"))

    def settings(self) -> dict[str, Any]:
        """Return the settings that a resumed run must not change."""
        return {name: value for name, value in asdict(self).items() if name not in _WITHOUT_EFFECT}
