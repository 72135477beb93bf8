"""Train and test one fold, with early stopping on its validation subjects."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from representer.data.signals import (
    Recordings,
)
from representer.errors import DataError
from representer.estimators import SignalClassifier, base
from representer.estimators.fitting import (
    Examples,
    trainer_config,
)
from representer.estimators.halves import fit_parts
from representer.estimators.targets import Classes
from representer.storage.files import from_values, parse_json, read_bytes
from representer.storage.run import MODEL, RunFiles, RunFolder, refuse_links
from representer.tasks.options import determining
from representer.tasks.signal.data import (
    Fold,
    SignalData,
    SignalForm,
    is_listed,
    reading_of,
)
from representer.tasks.signal_options import estimator_parameters
from representer.training import generators
from representer.training.config import plain, require_same
from representer.training.state import TrainingResult

# Train and test one fold, with early stopping on its validation subjects.

RESULT = "fold.json"
_MOST = 2**26  # bytes of a model.json

# A run may be resumed with other values of these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data", "out", "folds", "test_subjects", "valid_fraction", "baselines", "jobs", "resume",
    "demo",
)  # fmt: skip


class FoldJob(NamedTuple):
    """One fold to train.

    Attributes:
        config: A `SignalConfig`.
        fold: Subjects of each part.
        folder: Folder of the fold.
    """

    config: Any
    fold: Fold
    folder: Path

    @property
    def seed(self) -> int:
        """The seed of the weights and the order."""
        return generators.derive(self.config.seed, "fold", self.fold.name) % 2**31


@dataclass(frozen=True)
class FoldResult:
    """Result of a finished fold, as in fold.json.

    Attributes:
        fold: Subjects of each part.
        rows: Indices of the test windows.
        probabilities: Class probabilities of the test windows ``(N, classes)``.
        epochs: Number of epochs trained; 0 without a network.
        best_epoch: Epoch of the selected weights.
        valid: Validation metrics of that epoch.
        stopped_by: Reason why the training ended.
        parts: Share and training time of kernel and network, as in metrics.json.
    """

    fold: Fold
    rows: np.ndarray
    probabilities: np.ndarray
    epochs: int
    best_epoch: int
    valid: dict[str, float]
    stopped_by: str
    parts: dict[str, dict[str, float]]

    @property
    def seconds(self) -> float:
        """Training time."""
        return sum(part["seconds"] for part in self.parts.values())

    def accuracy(self, recordings: Recordings) -> float:
        """Return the accuracy on the test windows."""
        return float((self.probabilities.argmax(axis=1) == recordings.labels[self.rows]).mean())

    def line(self, recordings: Recordings) -> str:
        """Return the result as a line for the terminal."""
        epoch = f"epoch {self.best_epoch} of {self.epochs}, " if self.epochs else ""
        tested = f"accuracy {self.accuracy(recordings):.3f} on {len(self.rows)} windows"
        return f"{self.fold.name}: {tested}, {epoch}{self.seconds:.1f} s"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        chances = self.probabilities.round(7).tolist()
        return asdict(self) | {"rows": self.rows.tolist(), "probabilities": chances}

    @classmethod
    def from_dict(cls, described: dict[str, Any]) -> FoldResult:
        """Return the result that `to_dict` described."""
        values = {name: described[name] for name in cls.__dataclass_fields__}
        values["fold"] = from_values(Fold, described["fold"])
        values["rows"] = np.asarray(described["rows"], dtype=np.int64)
        values["probabilities"] = np.asarray(described["probabilities"], dtype=np.float64)
        return cls(**values)


class TrainedFold(NamedTuple):
    """A fitted estimator, the rows of each part, and the training of its network, if any."""

    estimator: SignalClassifier
    rows: dict[str, np.ndarray]
    training: TrainingResult | None


def run_fold(job: FoldJob, data: SignalData) -> FoldResult:
    """Train one fold, or continue it.

    Args:
        job: The fold, its configuration and its folder.
        data: Standardized recordings, with the digest of those as read.

    Raises:
        ArgumentError: If the fold in the folder has other settings.
        DataError: If another version of the library wrote it.
        Interrupted: If a signal arrived; the fold can continue.
        TrainingError: If the training diverges.
    """
    refuse_links(job.folder)
    with RunFolder(job.folder, resume=job.folder.exists()) as run:
        run.remove(RESULT)  # it may be replaced, and a kill may leave the manifest behind it
        estimator, rows, training = train_fold(run, job, data)
        best = (training and training.best) or {}
        epochs = training.epoch if training else 0
        result = FoldResult(
            fold=job.fold,
            rows=rows["test"],
            probabilities=estimator.predict_proba(data.recordings.signals[rows["test"]]),
            epochs=epochs,
            best_epoch=int(best.get("epoch", epochs)),
            valid={k: v for k, v in best.items() if k.startswith("valid_")},
            stopped_by=training.reason if training else "",
            parts={name: dict(part._asdict()) for name, part in estimator.parts_.items()},
        )
        described = {"settings": _settings(job, data), **result.to_dict()}
        run.write_json(RESULT, described)
    return FoldResult.from_dict(described)


def train_fold(run: RunFolder, job: FoldJob, data: SignalData, *, verbose: int = 0) -> TrainedFold:
    """Train the estimator of a fold in an open folder; the test subjects are not used."""
    if run.is_saved:
        refuse_other_versions(run.path)
    rows = job.fold.parts(data.recordings)
    parts = {side: data.recordings.take(rows[side]) for side in ("train", "valid")}
    train = parts["train"]
    estimator = new_estimator(job.config, train, job.seed, verbose=verbose)
    form = SignalForm(
        train.channels, train.signals.shape[2], job.config.standardize == "subject",
        (*job.fold.train, *job.fold.valid), is_listed(job.config.data),
    )  # fmt: skip
    settings = _settings(job, data)
    del settings["trainer"]  # which checks them itself
    training = fit_parts(
        estimator, run, estimator.new_network(job.seed) if estimator.has_network else None,
        {name: (list(own.signals), own.labels) for name, own in parts.items()}, job.seed,
        groups={name: own.subjects for name, own in parts.items()},
        settings=lambda trainer: settings,
        reading=reading_of(job.config) | asdict(form),
    )  # fmt: skip
    return TrainedFold(estimator, rows, training)


def new_estimator(
    config: Any, train: Recordings, seed: int, *, verbose: int = 0
) -> SignalClassifier:
    """Return an estimator that is ready to be trained on recordings.

    Args:
        config: A `SignalConfig`.
        train: Training recordings; its inputs are learned from them.
        seed: Random seed of weights, order and dropout.
        verbose: As of the estimator.

    Raises:
        ArgumentError: If a parameter is out of its range.
    """
    chosen: dict[str, Any] = estimator_parameters(config, train.sampling_rate)
    chosen |= {"random_state": seed, "verbose": verbose}
    estimator = SignalClassifier(**chosen)
    estimator.check()
    estimator.target_ = Classes(train.classes)
    inputs = estimator.learn_inputs(list(train.signals), seed)
    estimator.inputs_ = replace(inputs, names=train.channels)
    return estimator


def finished(job: FoldJob, data: SignalData) -> FoldResult | None:
    """Return the result of a finished fold, or None.

    Raises:
        ArgumentError: If the fold has other settings.
        DataError: If its file is damaged, or another version of the library wrote it.
    """
    path = job.folder / RESULT
    if not path.is_file():
        return None
    refuse_other_versions(job.folder)
    files = RunFiles(job.folder)
    if not files.has(RESULT):  # killed before the manifest listed it
        return None
    try:
        described = files.json(RESULT)
        result, settings = FoldResult.from_dict(described), described["settings"]
    except (ValueError, KeyError, TypeError) as error:
        fix = "Delete the folder of this fold and continue with --resume."
        raise DataError(f"is damaged ({error})", file=path, fix=fix) from None
    require_same(settings, _settings(job, data), job.folder)
    may_go_on = result.stopped_by == "epochs" and result.epochs < job.config.epochs
    return None if may_go_on else result


def refuse_other_versions(folder: Path) -> None:
    """Refuse a folder with a model of another version of the library.

    Raises:
        DataError: It has one.
    """
    try:  # without the manifest, which lists the file only once there are weights
        described = parse_json(read_bytes(folder / MODEL, _MOST))
    except (OSError, ValueError):  # none yet, or a damaged one, which is written again
        return
    base.require_this_version(described, folder)


def _settings(job: FoldJob, data: SignalData) -> dict[str, Any]:
    """Return everything that determines a fold, as plain values."""
    labels, rows = data.recordings.labels, job.fold.parts(data.recordings)
    parameters = estimator_parameters(job.config, data.recordings.sampling_rate)
    train, valid = (
        Examples(rows[side].tolist(), labels[rows[side]]) for side in ("train", "valid")
    )
    target = Classes(data.recordings.classes)
    trainer = trainer_config(SignalClassifier(**parameters), target, train, valid, job.seed)
    chosen = determining(job.config, trainer, _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
    about = {"fold": asdict(job.fold), "data": data.digest, "trainer": trainer.settings()}
    return plain(chosen | about)
