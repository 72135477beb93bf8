"""Results of a signal run: metrics.json, details.json, and the closing table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.report.metrics import classification_metrics
from representer.tasks.estimator_options import defaults
from representer.tasks.options import command_of
from representer.tasks.signal.signal_baseline import NAME as BASELINE
from representer.tasks.signal.signal_baseline import BaselinePredictions
from representer.tasks.signal.signal_data import SignalData
from representer.tasks.signal.signal_fold import TrainedFold
from representer.tasks.signal.signal_loso import LosoResult, accuracy_by_subject
from representer.tasks.signal.signal_paired import paired_over_subjects
from representer.tasks.signal.signal_task import DEMO, SIGNAL, SignalConfig
from representer.training.fingerprint import fingerprint


def metrics_of(
    config: Any,
    data: SignalData,
    result: LosoResult,
    final: TrainedFold,
    baseline: BaselinePredictions | None,
) -> dict[str, Any]:
    """Return metrics.json: metrics over all folds and by subject, for model and baseline."""
    recordings = data.recordings
    own = _figures(data, result.rows, result.probabilities)
    baselines = []
    if baseline is not None:
        figures = _figures(data, baseline.rows, baseline.probabilities)
        baselines.append(
            {
                "name": BASELINE,
                "description": baseline.description,
                "seconds": baseline.seconds,
                **figures,
                "difference": paired_over_subjects(own["by_subject"], figures["by_subject"]),
            }
        )
    return {
        "task": SIGNAL.name,
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
            for fold in result.folds
        ],
        "chance": float(np.bincount(recordings.labels).max() / len(recordings)),
        "valid": final.training.best,
        "epochs": final.training.epoch,
        "stopped_by": final.training.reason,
        "seconds": result.seconds,
        "final_seconds": final.training.seconds,
        "parameters": sum(p.numel() for p in final.estimator.network_.parameters()),
        "baselines": baselines,
    }


def details_of(config: Any, data: SignalData, final: TrainedFold) -> dict[str, Any]:
    """Return details.json: data, command and environment."""
    source = data.source if config.demo else Path(data.source).name
    usual = defaults(SignalConfig, DEMO if config.demo else {})
    return {
        "title": f"{source}: {', '.join(data.recordings.classes)} from the signal",
        "command": command_of(SIGNAL.name, config, usual),
        "config": config.to_dict(),
        "data": data.report,
        "environment": fingerprint(next(final.estimator.network_.parameters()).device),
    }


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal."""
    rows = [
        (metrics["model"], metrics),
        *((other["name"], other) for other in metrics["baselines"]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{'':<{width}}  subjects  accuracy (mean ± std)        all windows  training"]
    lines += [
        f"{name:<{width}}  {len(row['by_subject']):8}  {row['mean']:.3f} ± {row['deviation']:.3f}"
        f"{'':<14}{row['test']['accuracy']:.3f}      {row['seconds']:7.1f} s"
        for name, row in rows
    ]
    return "\n".join([*lines, *map(verdict, metrics["baselines"])])


def verdict(baseline: dict[str, Any]) -> str:
    """Return a sentence that compares the model with a baseline over subjects."""
    d = baseline["difference"]
    return (
        f"Relative to {baseline['name']}: {100 * d['mean']:+.1f} points; ahead on "
        f"{d['better']} subjects, behind on {d['worse']}, level on {d['equal']} "
        f"(Wilcoxon's signed-rank test: p = {d['p']:.2g})."
    )


def name_of(config: Any) -> str:
    """Return the name of the model."""
    return f"{config.cell} with {config.filters} filters"


def _figures(data: SignalData, rows: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    recordings = data.recordings
    by_subject = accuracy_by_subject(recordings, rows, probabilities.argmax(axis=1))
    accuracies: Sequence[float] = list(by_subject.values())
    return {
        "test": classification_metrics(recordings.labels[rows], probabilities, recordings.classes),
        "by_subject": by_subject,
        "mean": float(np.mean(accuracies)),
        "deviation": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
    }


def _accuracy(data: SignalData, rows: np.ndarray, probabilities: np.ndarray) -> float:
    return float((probabilities.argmax(axis=1) == data.recordings.labels[rows]).mean())
