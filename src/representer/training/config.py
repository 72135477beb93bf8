"""Configuration and state of a trainer, with its stopping rules and its log of metrics."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from representer.checks import LIMITS, require, require_choices
from representer.errors import ArgumentError, CheckpointError, DataError, KindError
from representer.machine import EXPECTED, is_device_name
from representer.storage.run import RunFolder

# These change no result, except for the bits that `generators` tracks.
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
        cuda_graph: Replay training steps from CUDA graphs, see `CapturedSteps`; without effect
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


# The task-specific part of training: four functions and two optional ones.


class Loss(NamedTuple):
    """The loss of a batch."""

    objective: Tensor  # the quantity to minimize, a mean over the examples
    examples: int  # number of examples
    # the mean to log if it differs from the objective, for example without penalties
    shown: Tensor | None = None


class Carried(Protocol):
    """State that a task carries from batch to batch, such as a recurrent state."""

    def state_dict(self) -> Any:
        """Return the state in a form that a checkpoint can store."""
        ...

    def load_state_dict(self, saved: Any) -> None:
        """Restore the result of `state_dict`."""
        ...


@dataclass(frozen=True)
class TrainingTask:
    """The task-specific part of a training run.

    Args:
        batches: ``batches(epoch)`` returns the descriptions of the batches of an epoch, in order.
            It must be a pure function: a checkpoint stores only the position in this sequence. A
            description is a sequence of examples, such as their indices; with several processes,
            each loads its part of it.
        load: ``load(description)`` creates the batch: tensors, alone or in tuples, lists and dicts.
            The trainer moves them to the model's device.
        loss: ``loss(model, batch)`` returns a `Loss`, or a tuple of its first two fields.
        evaluate: ``evaluate(model, check)`` returns metrics by name. It calls ``check()`` after
            every batch, so that a signal takes effect before the evaluation ends. The model is in
            evaluation mode and gradients are off; random states are restored afterwards.
        carried: State that the batches of an epoch pass on; each process has its own.
        lr_scale: ``lr_scale(description)`` is a factor of the learning rate for this batch only.
    """

    batches: Callable[[int], Sequence[Sequence[Any]]]
    load: Callable[[Sequence[Any]], Any]
    loss: Callable[[nn.Module, Any], Loss | tuple[Tensor, int]]
    evaluate: Callable[[nn.Module, Callable[[], None]], Mapping[str, Any]]
    carried: Carried | None = None
    lr_scale: Callable[[Sequence[Any]], float] | None = None


# Find the best evaluation and decide when to stop.


def best_index(values: Sequence[float | None], direction: Literal["max", "min"]) -> int | None:
    """Return the index of the best value, the first of equal ones.

    A value is None where it was not a number; so is the index if none is.
    """
    sign = 1 if direction == "max" else -1
    numbers = [(sign * value, -i) for i, value in enumerate(values) if value is not None]
    return -max(numbers)[1] if numbers else None


def is_exhausted(
    values: Sequence[float | None], direction: Literal["max", "min"], patience: int | None
) -> bool:
    """Return True if none of the last `patience` evaluations is a new best."""
    best = best_index(values, direction)
    since_best = len(values) if best is None else len(values) - 1 - best
    return patience is not None and since_best >= patience


def has_collapsed(
    values: Sequence[float | None], direction: Literal["max", "min"], max_drop: float | None
) -> bool:
    """Return True if the last evaluation is at least `max_drop` worse than the best."""
    best = best_index(values, direction)
    if max_drop is None or best is None or values[-1] is None:
        return False
    highest = values[best]
    assert highest is not None
    return (highest - values[-1]) * (1 if direction == "max" else -1) >= max_drop


def is_above_older(
    values: Sequence[float | None], direction: Literal["max", "min"], recent: int | None
) -> bool:
    """Return True if the last evaluation is worse than the best of all but the most recent ones.

    ``recent`` evaluations before the last are ignored; None: never True.
    """
    if recent is None:
        return False
    older = values[: max(0, len(values) - 1 - recent)]
    best = best_index(older, direction)
    if best is None or values[-1] is None:
        return False
    lowest = older[best]
    assert lowest is not None
    return values[-1] > lowest if direction == "min" else values[-1] < lowest


def stopping_reason(
    values: Sequence[float | None], config: TrainerConfig
) -> Literal["patience", "nonmonotone", "max_drop"] | None:
    """Return the early stopping rule that ends training now, or None."""
    if is_exhausted(values, config.direction, config.patience):
        return "patience"
    if is_above_older(values, config.direction, config.nonmonotone):
        return "nonmonotone"
    return "max_drop" if has_collapsed(values, config.direction, config.max_drop) else None


# The settings that determine a run, and their comparison when it is resumed.

_GROWS = "trainer.epochs"  # a longer run starts with the steps of a shorter one


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings after a JSON round trip: tuples become lists, keys become strings."""
    try:
        return json.loads(json.dumps(dict(settings)))
    except (TypeError, ValueError) as error:
        raise KindError(
            "settings", f"not plain ({error})", "numbers, strings, lists, dicts"
        ) from None


def require_same(before: Mapping[str, Any], now: Mapping[str, Any], run: object) -> None:
    """Refuse to continue a run with different settings, except for more epochs."""
    old, new = _dotted(before), _dotted(now)
    levels = (now, before), [each.get("trainer", {}) for each in (now, before)]
    if missing := [name for level, other in levels for name in level if name not in other]:
        problem = f"an older version of representer started this run, without {', '.join(missing)}"
        fix = "Train again, with another --out, or continue with the version that started it."
        raise DataError(problem, file=str(run), fix=fix)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    epochs = old.get(_GROWS, 0), new.get(_GROWS, 0)
    if _GROWS in changed and all(type(n) is int for n in epochs) and epochs[0] < epochs[1]:
        changed.remove(_GROWS)
    if not changed:
        return
    first, *others = [
        (name.removeprefix("trainer."), _option(name, new), _option(name, old)) for name in changed
    ]
    also = ", ".join(f"{name} {then!r} → {value!r}" for name, value, then in others)
    hint = "Resume with the old values, or choose another --out."
    if (file := Path(str(run), "config.yaml")).is_file():
        hint += f" The old values: --config {file} --resume."
    then = "no value" if first[2] is None else repr(first[2])
    expected = f"{then}, with which the run in {run} was started"
    raise ArgumentError(
        *first[:2], expected, hint=f"Also different: {also}. {hint}" if also else hint
    )


def _option(name: str, settings: Mapping[str, Any]) -> Any:
    """Return a setting as an option, in which the trainer's none is 0."""
    value = settings.get(name)
    return 0 if value is None and name.startswith("trainer.") else value


def _dotted(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _dotted(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


# The metrics of each evaluation, in files that a resumed run continues exactly.

METRICS_JSONL, METRICS_CSV, TIMINGS = "metrics.jsonl", "metrics.csv", "timings.jsonl"

Row = dict[str, Any]


class MetricsLog:
    """Metrics by evaluation, and separately the timings, which differ between runs.

    ``metrics.jsonl`` and ``metrics.csv`` are rewritten completely from the rows, so that each row
    occurs once even after a crash.

    Attributes:
        rows: ``step``, ``epoch``, ``train_loss`` and the metrics; None if not finite.
        timings: ``step``, ``seconds`` of training up to it, without interruptions, and the peak
            memory of this process, ``peak_mib``: of CUDA devices where they are used.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.timings: list[Row] = []

    def append(
        self, step: int, epoch: int, train_loss: float, metrics: Mapping[str, Any], seconds: float
    ) -> Row:
        """Add the row of an evaluation and return it.

        Raises:
            KindError: A metric is not a number.
        """
        numbers = {name: _number(name, value) for name, value in metrics.items()}
        row = {"step": step, "epoch": epoch, "train_loss": _number("train_loss", train_loss)}
        self.rows.append({**row, **numbers})
        self.timings.append({"step": step, "seconds": round(seconds, 3), "peak_mib": peak_memory()})
        return self.rows[-1]

    def values(self, name: str) -> list[float | None]:
        """Return the values of one metric, by evaluation."""
        return [row.get(name) for row in self.rows]

    def write(self, run: RunFolder) -> None:
        """Write the files, or remove them if there are no rows."""
        for name, text in (
            (METRICS_JSONL, as_jsonl(self.rows)),
            (METRICS_CSV, _as_csv(self.rows)),
            (TIMINGS, as_jsonl(self.timings)),
        ):
            if self.rows:
                run.write_text(name, text)
            else:
                run.remove(name)


def peak_memory() -> int:
    """Return the most memory that this process has had so far, in MiB.

    It is what tensors took on CUDA devices if there are any in use, else all memory of the process.
    """
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        return sum(map(torch.cuda.max_memory_allocated, devices)) // 2**20
    try:
        import resource
    except ImportError:  # Windows does not tell
        return 0
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


def _number(name: str, value: Any) -> float | int | None:
    if type(value) is int:
        return value
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise KindError(f"metric {name!r}", type(value).__name__, "a number")
    return float(value) if math.isfinite(float(value)) else None


def as_jsonl(rows: list[Row]) -> str:
    """Return rows as lines of JSON."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def _as_csv(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# Training state besides model and optimizer: counters, metrics and best weights.

_COUNTERS = ("step", "epoch", "batch", "evaluated_at", "loss_sum", "loss_count", "seconds")


@dataclass
class TrainingState:
    """The part of a run that is neither model nor optimizer."""

    step: int = 0  # completed optimization steps, which is the position in the data order
    epoch: int = 0  # completed epochs
    batch: int = 0  # completed batches of the current epoch
    evaluated_at: int = 0  # step of the last evaluation
    loss_sum: float = 0.0  # training loss since the last evaluation, summed over examples
    loss_count: int = 0  # number of examples in ``loss_sum``
    seconds: float = 0.0  # training time, without interruptions
    is_stopped: bool = False  # a callback ended training
    log: MetricsLog = field(default_factory=MetricsLog)  # the metrics
    # weights of the best evaluation, on the CPU; None before the first evaluation
    best_weights: dict[str, Tensor] | None = None
    best_row: Row | None = None  # metrics of the best evaluation

    @property
    def position(self) -> tuple[int, ...]:
        """The position, unique to each state of a run."""
        return self.step, self.epoch, self.batch, self.evaluated_at

    def count_loss(self, loss_sum: float, count: int) -> None:
        """Record the loss of an optimization step."""
        self.loss_sum, self.loss_count = self.loss_sum + loss_sum, self.loss_count + count

    def count_evaluation(self, metrics: Mapping[str, Any]) -> Row:
        """Record an evaluation, and return its row."""
        train_loss = self.loss_sum / self.loss_count
        self.evaluated_at, self.loss_sum, self.loss_count = self.step, 0.0, 0
        return self.log.append(self.step, self.epoch + 1, train_loss, metrics, self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the state in a form that a checkpoint can store."""
        return {
            **{name: getattr(self, name) for name in _COUNTERS},
            "is_stopped": self.is_stopped,
            "rows": self.log.rows,
            "timings": self.log.timings,
            "best_weights": self.best_weights,
            "best_row": self.best_row,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> TrainingState:
        """Create a state from the result of `to_dict`."""
        state = cls(**{name: saved[name] for name in _COUNTERS})
        state.is_stopped = saved.get("is_stopped", False)  # earlier versions did not save it
        state.log.rows, state.log.timings = list(saved["rows"]), list(saved["timings"])
        state.best_weights, state.best_row = saved["best_weights"], saved["best_row"]
        return state


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's weights and buffers on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set a model's weights and buffers, refusing those of a different model."""
    ours = model.state_dict()
    for name in [*ours, *(name for name in weights if name not in ours)]:
        expected, got = _describe(ours.get(name)), _describe(weights.get(name))
        if got != expected:
            raise CheckpointError(
                f"the weights do not fit the model: {name} is {got}; expected {expected}"
            )
    model.load_state_dict(dict(weights))


def _describe(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"
