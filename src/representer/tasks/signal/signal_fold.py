"""Train and test one fold, with early stopping on its validation subjects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings, Standardization
from representer.errors import DataError
from representer.models import SignalClassifier, to_dict
from representer.storage import checkpoint
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder, refuse_links
from representer.tasks.options import determining
from representer.tasks.signal.signal_config import SignalConfig
from representer.tasks.signal.signal_folds import Fold
from representer.tasks.signal.signal_model import (
    build_model,
    probabilities_of,
    trainer_config,
    training_task,
)
from representer.training import generators
from representer.training.settings import plain, require_same
from representer.training.trainer import Trainer
from representer.training.training_result import TrainingResult

RESULT = "fold.json"

# A run may be resumed with other values of these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data",
    "out",
    "folds",
    "test_subjects",
    "valid_fraction",
    "baselines",
    "jobs",
    "resume",
)
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING += ("demo",)


@dataclass(frozen=True)
class FoldJob:
    """One fold to train.

    Attributes:
        config: Options of model and training.
        fold: Subjects of each part.
        folder: Folder of the fold.
    """

    config: SignalConfig
    fold: Fold
    folder: Path


@dataclass(frozen=True)
class FoldResult:
    """Result of a finished fold, as in fold.json.

    Attributes:
        fold: Subjects of each part.
        rows: Indices of the test windows.
        probabilities: Class probabilities of the test windows ``(N, classes)``.
        epochs: Number of epochs trained.
        best_epoch: Epoch of the selected weights.
        valid: Validation metrics of that epoch.
        stopped_by: Reason why the training ended.
        seconds: Training time.
    """

    fold: Fold
    rows: np.ndarray
    probabilities: np.ndarray
    epochs: int
    best_epoch: int
    valid: dict[str, float]
    stopped_by: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        plain_values = {k: v for k, v in vars(self).items() if k != "fold"}
        plain_values["rows"] = self.rows.tolist()
        plain_values["probabilities"] = self.probabilities.round(7).tolist()
        return {"fold": self.fold.to_dict(), **plain_values}

    @classmethod
    def from_dict(cls, described: dict[str, Any]) -> FoldResult:
        """Return the result that `to_dict` described."""
        values = {name: described[name] for name in cls.__dataclass_fields__}
        values |= {
            "fold": Fold.from_dict(described["fold"]),
            "rows": np.asarray(described["rows"], dtype=np.int64),
        }
        values["probabilities"] = np.asarray(described["probabilities"], dtype=np.float64)
        return cls(**values)


@dataclass(frozen=True)
class FoldData:
    """Recordings shared by several folds.

    Attributes:
        recordings: Prepared recordings, standardized already if that needs no other subjects.
        standardized: Kind of that standardization, or ``"none"``.
        digest: Digest of the recordings before it; a fold of other recordings is rejected.
    """

    recordings: Recordings
    standardized: str
    digest: str

    @classmethod
    def of_jobs(cls, recordings: Recordings, jobs: Sequence[FoldJob], digest: str) -> FoldData:
        """Standardize once if all jobs agree on a kind that needs no other subjects."""
        kinds = {job.config.standardize for job in jobs}
        kind = kinds.pop() if len(kinds) == 1 else "none"
        if kind not in ("subject", "window"):
            return cls(recordings, "none", digest)
        return cls(Standardization(kind).apply(recordings), kind, digest)

    def side(self, rows: np.ndarray, standardization: Standardization) -> Recordings:
        """Return the standardized windows of one part."""
        taken = self.recordings.take(rows)
        is_done = self.standardized == standardization.kind
        return taken if is_done else standardization.apply(taken)


def run_fold(job: FoldJob, data: FoldData) -> FoldResult:
    """Train one fold, continue it, or read its result if it is finished.

    Args:
        job: The fold, its configuration and its folder.
        data: The recordings.

    Raises:
        ArgumentError: If the fold in the folder has other settings.
        Interrupted: If a signal arrived; the fold can continue.
        TrainingError: If the training diverges.
    """
    if (before := finished(job, data.digest)) is not None:
        return before
    refuse_links(job.folder)
    with RunFolder(job.folder, resume=job.folder.exists()) as run:
        trained = train_side(run, job, data, is_shown=False)
        rows = trained.rows["test"]
        test = data.side(rows, trained.standardization)
        best = trained.training.best or {}
        result = FoldResult(
            fold=job.fold,
            rows=rows,
            probabilities=probabilities_of(trained.model, test),
            epochs=trained.training.epoch,
            best_epoch=int(best.get("epoch", trained.training.epoch)),
            valid={k: v for k, v in best.items() if k.startswith("valid_")},
            stopped_by=trained.training.reason,
            seconds=trained.training.seconds,
        )
        described = {"settings": _all_settings(job, data.digest), **result.to_dict()}
        run.write_json(RESULT, described)
    return FoldResult.from_dict(described)


@dataclass(frozen=True)
class TrainedSide:
    """A trained model with its best weights, standardization and windows."""

    model: SignalClassifier
    standardization: Standardization
    rows: dict[str, np.ndarray]
    training: TrainingResult


def train_side(run: RunFolder, job: FoldJob, data: FoldData, *, is_shown: bool) -> TrainedSide:
    """Train the model of a fold in an open folder; the test subjects are not used."""
    recordings = data.recordings
    rows = job.fold.parts(recordings)
    seed = fold_seed(job)
    standardization = Standardization.fit(job.config.standardize, recordings.take(rows["train"]))  # type: ignore[arg-type]
    train, valid = (data.side(rows[side], standardization) for side in ("train", "valid"))
    model = build_model(job.config, recordings, seed)
    if not checkpoint.steps(run.checkpoints):  # otherwise it exists and must not change
        run.write_json("model.json", described(model, standardization, recordings, job))
    trainer = Trainer(
        model,
        training_task(job.config, train, valid, seed),
        trainer_config(job.config, seed, is_shown=is_shown),
        run,
        settings=_settings(job, data.digest),
    )
    training = trainer.fit()
    trainer.restore_best()
    return TrainedSide(model.eval(), standardization, rows, training)


def described(
    model: SignalClassifier,
    standardization: Standardization,
    recordings: Recordings,
    job: FoldJob,
) -> dict[str, Any]:
    """Return model.json: everything that prediction for other recordings needs."""
    return {
        "task": "signal",
        "model": to_dict(model.config),
        "standardization": standardization.to_dict(),
        "classes": list(recordings.classes),
        "channels": list(recordings.channels),
        "samples": recordings.signals.shape[2],
        "reading": asdict(job.config.reading),
        "subjects": [*job.fold.train, *job.fold.valid],
    }


def finished(job: FoldJob, digest: str) -> FoldResult | None:
    """Return the result of a finished fold, or None.

    Raises:
        ArgumentError: If the fold has other settings.
        DataError: If its file is damaged.
    """
    path = job.folder / RESULT
    if not path.is_file():
        return None
    try:
        described = RunFiles(job.folder).json(RESULT)
        result, settings = FoldResult.from_dict(described), described["settings"]
    except (ValueError, KeyError, TypeError) as error:
        fix = "Delete the folder of this fold and continue with --resume."
        raise DataError(f"is damaged ({error})", file=path, fix=fix) from None
    require_same(settings, _all_settings(job, digest), job.folder)
    may_go_on = result.stopped_by == "epochs" and result.epochs < job.config.epochs
    return None if may_go_on else result


def fold_seed(job: FoldJob) -> int:
    """Return the seed of the weights and the order of a fold."""
    return generators.derive(job.config.seed, "fold", job.fold.name) % 2**31


def folder_name(fold: Fold, number: int) -> str:
    """Return the name of a fold's folder: its number, and its name with safe characters."""
    return f"{number:03d}-{re.sub(r'[^A-Za-z0-9_-]+', '_', fold.name)[:60]}"


def _settings(job: FoldJob, digest: str) -> dict[str, Any]:
    """Return the settings that determine a fold, except those that the trainer checks."""
    trainer = trainer_config(job.config, fold_seed(job), is_shown=False)
    chosen = determining(job.config, trainer, _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
    return {**chosen, "fold": job.fold.to_dict(), "data": digest}


def _all_settings(job: FoldJob, digest: str) -> dict[str, Any]:
    trainer = trainer_config(job.config, fold_seed(job), is_shown=False)
    return plain({**_settings(job, digest), "trainer": trainer.settings()})
