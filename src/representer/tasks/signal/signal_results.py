"""What a finished signal run says about itself: metrics.json, details.json, closing lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.tasks.metrics import classification_metrics
from representer.tasks.options import command_of
from representer.tasks.signal.signal_baseline import NAME as BASELINE
from representer.tasks.signal.signal_baseline import BaselineAnswers
from representer.tasks.signal.signal_config import SignalConfig, defaults
from representer.tasks.signal.signal_data import SignalData
from representer.tasks.signal.signal_fold import TrainedSide
from representer.tasks.signal.signal_loso import LosoResult, accuracy_by_subject
from representer.tasks.signal.signal_paired import paired_over_subjects
from representer.tasks.signal.signal_run import TASK
from representer.tasks.training.fingerprint import fingerprint


def metrics_of(
    config: SignalConfig,
    data: SignalData,
    found: LosoResult,
    final: TrainedSide,
    baseline: BaselineAnswers | None,
) -> dict[str, Any]:
    """Return metrics.json: the figures over all folds, by subject, beside those of the baseline."""
    of = data.recordings
    own = _figures(data, found.rows, found.probabilities)
    rivals = []
    if baseline is not None:
        figures = _figures(data, baseline.rows, baseline.probabilities)
        rivals.append(
            {
                "name": BASELINE,
                "description": baseline.description,
                "seconds": baseline.seconds,
                **figures,
                "difference": paired_over_subjects(own["by_subject"], figures["by_subject"]),
            }
        )
    return {
        "task": TASK,
        "model": name_of(config),
        **own,
        "folds": [
            {
                "name": fold.fold.name,
                "test": list(fold.fold.test),
                "valid": list(fold.fold.valid),
                "windows": len(fold.rows),
                "accuracy": _accuracy(data, fold.rows, fold.probabilities),
                "epochs": fold.epochs,
                "best_epoch": fold.best_epoch,
                "stopped_by": fold.stopped_by,
                "seconds": fold.seconds,
            }
            for fold in found.folds
        ],
        "chance": float(np.bincount(of.labels).max() / len(of)),
        "valid": final.training.best,
        "epochs": final.training.epoch,
        "stopped_by": final.training.reason,
        "seconds": found.seconds,
        "final_seconds": final.training.seconds,
        "parameters": sum(p.numel() for p in final.model.parameters()),
        "baselines": rivals,
    }


def details_of(config: SignalConfig, data: SignalData, final: TrainedSide) -> dict[str, Any]:
    """Return details.json: data, sides of the final model, environment."""
    source = data.source if config.demo else Path(data.source).name
    usual = defaults(demo=config.demo)
    return {
        "title": f"{source}: {', '.join(data.recordings.classes)} from the signal",
        "command": command_of(TASK, config, usual),
        "config": config.to_dict(),
        "data": data.report,
        "standardization": final.standardization.to_dict(),
        "environment": fingerprint(next(final.model.parameters()).device),
    }


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal."""
    rows = [
        (metrics["model"], metrics),
        *((rival["name"], rival) for rival in metrics["baselines"]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{'':<{width}}  subjects  accuracy (mean ± deviation)  all windows  training"]
    lines += [
        f"{name:<{width}}  {len(row['by_subject']):8}  {row['mean']:.3f} ± {row['deviation']:.3f}"
        f"{'':<14}{row['test']['accuracy']:.3f}      {row['seconds']:7.1f} s"
        for name, row in rows
    ]
    return "\n".join([*lines, *map(verdict, metrics["baselines"])])


def verdict(rival: dict[str, Any]) -> str:
    """Return a sentence on whether the model beats another, over subjects."""
    d = rival["difference"]
    return (
        f"Against {rival['name']}: {100 * d['mean']:+.1f} points; ahead on {d['better']} subjects, "
        f"behind on {d['worse']}, level on {d['equal']} (Wilcoxon's signed-rank test: "
        f"p = {d['p']:.2g})."
    )


def name_of(config: SignalConfig) -> str:
    """Return what a model is called."""
    return f"{config.cell} with {config.filters} filters"


def _figures(data: SignalData, rows: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    of = data.recordings
    by_subject = accuracy_by_subject(of, rows, probabilities.argmax(axis=1))
    accuracies: Sequence[float] = list(by_subject.values())
    return {
        "test": classification_metrics(of.labels[rows], probabilities, of.classes),
        "by_subject": by_subject,
        "mean": float(np.mean(accuracies)),
        "deviation": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
    }


def _accuracy(data: SignalData, rows: np.ndarray, probabilities: np.ndarray) -> float:
    return float((probabilities.argmax(axis=1) == data.recordings.labels[rows]).mean())
