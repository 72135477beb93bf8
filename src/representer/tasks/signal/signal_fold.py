"""One fold: a model with fresh weights is trained, stopped by others, and asked about the test."""

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
from representer.tasks.options import determining
from representer.tasks.signal.signal_config import SignalConfig
from representer.tasks.signal.signal_folds import Fold
from representer.tasks.signal.signal_model import (
    build_model,
    probabilities_of,
    trainer_config,
    training_task,
)
from representer.tasks.storage import checkpoint
from representer.tasks.storage.run_files import RunFiles
from representer.tasks.storage.run_folder import RunFolder, refuse_links
from representer.tasks.training import generators
from representer.tasks.training.settings import plain, require_same
from representer.tasks.training.trainer import Trainer
from representer.tasks.training.training_result import TrainingResult

RESULT = "fold.json"

# What a run may be resumed with another value of; the trainer watches over its own settings.
FREE = ("data", "out", "folds", "test_subjects", "valid_fraction", "baselines", "jobs", "resume")
FREE += ("demo",)


@dataclass(frozen=True)
class FoldJob:
    """One fold to train.

    Attributes:
        config: Of the model and its training.
        fold: Who is on which side.
        folder: Where its run is kept.
    """

    config: SignalConfig
    fold: Fold
    folder: Path


@dataclass(frozen=True)
class FoldResult:
    """What a finished fold has found; fold.json.

    Attributes:
        fold: Who was on which side.
        rows: The numbers of the test windows.
        probabilities: What was answered for them ``(N, classes)``.
        epochs: Passes until it stopped.
        best_epoch: The one whose weights answered.
        valid: The figures there.
        stopped_by: Why it ended.
        seconds: Of training.
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
        """Return it as JSON holds it."""
        plain_values = {k: v for k, v in vars(self).items() if k != "fold"}
        plain_values["rows"] = self.rows.tolist()
        plain_values["probabilities"] = self.probabilities.round(7).tolist()
        return {"fold": self.fold.to_dict(), **plain_values}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> FoldResult:
        """Return what `to_dict` described."""
        values = {name: found[name] for name in cls.__dataclass_fields__}
        values |= {
            "fold": Fold.from_dict(found["fold"]),
            "rows": np.asarray(found["rows"], dtype=np.int64),
        }
        values["probabilities"] = np.asarray(found["probabilities"], dtype=np.float64)
        return cls(**values)


@dataclass(frozen=True)
class FoldData:
    """The recordings that folds share.

    Attributes:
        recordings: Prepared; those that are standardized by what is of a subject already are so.
        standardized: By what they are.
        digest: Of them as they were; a folder of others is refused.
    """

    recordings: Recordings
    standardized: str
    digest: str

    @classmethod
    def of_jobs(cls, of: Recordings, jobs: Sequence[FoldJob], digest: str) -> FoldData:
        """Standardize once what needs nothing of other subjects, if all jobs want the same."""
        kinds = {job.config.standardize for job in jobs}
        kind = kinds.pop() if len(kinds) == 1 else "none"
        if kind not in ("subject", "window"):
            return cls(of, "none", digest)
        return cls(Standardization(kind).apply(of), kind, digest)

    def side(self, rows: np.ndarray, standardization: Standardization) -> Recordings:
        """Return the windows of one side, standardized."""
        taken = self.recordings.take(rows)
        is_done = self.standardized == standardization.kind
        return taken if is_done else standardization.apply(taken)


def run_fold(job: FoldJob, data: FoldData) -> FoldResult:
    """Train one fold, go on with it, or read what it found before.

    Args:
        job: The fold, its configuration and its folder.
        data: The recordings.

    Raises:
        ArgumentError: If the folder's fold was run with other settings.
        Interrupted: If a signal ended it; the fold can go on.
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
        found = {"settings": _all_settings(job, data.digest), **result.to_dict()}
        run.write_json(RESULT, found)
    return FoldResult.from_dict(found)


@dataclass(frozen=True)
class TrainedSide:
    """A model at the end of its training, with its best weights and what it was trained with."""

    model: SignalClassifier
    standardization: Standardization
    rows: dict[str, np.ndarray]
    training: TrainingResult


def train_side(run: RunFolder, job: FoldJob, data: FoldData, *, is_shown: bool) -> TrainedSide:
    """Train the model of a fold in an open folder; nobody but its training side is looked at."""
    of = data.recordings
    rows = job.fold.parts(of)
    seed = fold_seed(job)
    standardization = Standardization.fit(job.config.standardize, of.take(rows["train"]))  # type: ignore[arg-type]
    train, valid = (data.side(rows[side], standardization) for side in ("train", "valid"))
    model = build_model(job.config, of, seed)
    if not checkpoint.steps(run.checkpoints):  # otherwise it is there, and may not change
        run.write_json("model.json", described(model, standardization, of, job))
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
    of: Recordings,
    job: FoldJob,
) -> dict[str, Any]:
    """Return model.json: what is needed to ask a model about other recordings."""
    return {
        "task": "signal",
        "model": to_dict(model.config),
        "standardization": standardization.to_dict(),
        "classes": list(of.classes),
        "channels": list(of.channels),
        "samples": of.signals.shape[2],
        "reading": asdict(job.config.reading),
        "subjects": [*job.fold.train, *job.fold.valid],
    }


def finished(job: FoldJob, digest: str) -> FoldResult | None:
    """Return what a finished fold found, or None.

    Raises:
        ArgumentError: If it was run with other settings.
        DataError: If its file is damaged.
    """
    path = job.folder / RESULT
    if not path.is_file():
        return None
    try:
        found = RunFiles(job.folder).json(RESULT)
        result, settings = FoldResult.from_dict(found), found["settings"]
    except (ValueError, KeyError, TypeError) as error:
        mend = "Delete the folder of this fold, and go on with --resume."
        raise DataError(f"is damaged ({error})", file=path, mend=mend) from None
    require_same(settings, _all_settings(job, digest), job.folder)
    may_go_on = result.stopped_by == "epochs" and result.epochs < job.config.epochs
    return None if may_go_on else result


def fold_seed(job: FoldJob) -> int:
    """Return the seed of a fold's weights and order."""
    return generators.derive(job.config.seed, "fold", job.fold.name) % 2**31


def folder_name(fold: Fold, number: int) -> str:
    """Return the name of a fold's folder: its number, and its name as far as a path may hold it."""
    return f"{number:03d}-{re.sub(r'[^A-Za-z0-9_-]+', '_', fold.name)[:60]}"


def _settings(job: FoldJob, digest: str) -> dict[str, Any]:
    """Return what determines a fold, but for what the trainer watches over itself."""
    trainer = trainer_config(job.config, fold_seed(job), is_shown=False)
    chosen = determining(job.config, trainer, FREE)
    return {**chosen, "fold": job.fold.to_dict(), "data": digest}


def _all_settings(job: FoldJob, digest: str) -> dict[str, Any]:
    trainer = trainer_config(job.config, fold_seed(job), is_shown=False)
    return plain({**_settings(job, digest), "trainer": trainer.settings()})
