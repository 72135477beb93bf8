"""Results of a signal run: metrics.json, details.json, and the closing table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings
from representer.estimators.explanation import Part
from representer.estimators.results import model_name, parameter_counts
from representer.report.metrics import classification_metrics
from representer.report.standing import ACCURACY, chance_sentence, standing
from representer.tasks.options import defaults
from representer.tasks.run_flow import repeated
from representer.tasks.signal.signal_baseline import BaselinePredictions
from representer.tasks.signal.signal_data import SignalData
from representer.tasks.signal.signal_fold import FoldResult, TrainedFold
from representer.tasks.signal.signal_folds import accuracy_by_subject
from representer.tasks.signal.signal_loso import LosoResult
from representer.tasks.signal.signal_paired import paired_over_subjects
from representer.tasks.signal.signal_task import DEMO, SIGNAL, SignalConfig


def metrics_of(
    data: SignalData,
    result: LosoResult,
    final: TrainedFold,
    baselines: Sequence[BaselinePredictions],
) -> dict[str, Any]:
    """Return metrics.json: metrics over all folds and by subject, for model and baselines."""
    recordings, training = data.recordings, final.training
    own, parts = _figures(recordings, result), _parts(result.folds)
    others = []
    for one in baselines:
        figures = _figures(recordings, one)
        about = {"name": one.name, "description": one.description, "seconds": one.seconds}
        difference = paired_over_subjects(own["by_subject"], figures["by_subject"])
        others.append(about | figures | {"difference": difference})
    name = model_name(parts, final.estimator._network_name)
    metrics = {
        "task": SIGNAL.name,
        "model": name,
        **own,
        "folds": [
            {
                "name": fold.fold.name,
                "test": list(fold.fold.test),
                "valid": list(fold.fold.valid),
                "windows": len(fold.rows),
                "accuracy": fold.accuracy(recordings),
                **{k: getattr(fold, k) for k in ("epochs", "best_epoch", "stopped_by", "seconds")},
            }
            for fold in result.folds
        ],
        "chance": float(np.bincount(recordings.labels).max() / len(recordings)),
        "valid": training and training.best,
        "epochs": training.epoch if training else 0,
        "stopped_by": training.reason if training else "",
        "seconds": result.seconds,
        "final_seconds": sum(part.seconds or 0.0 for part in final.estimator.parts_.values()),
        "parts": {name: part._asdict() for name, part in parts.items()},
        "parameters": parameter_counts(final.estimator)["all"],
        "baselines": others,
    }
    found = _standing(name, others, len(own["by_subject"]))
    verdict = " ".join(filter(None, (found["verdict"], chance_sentence(own["test"]))))
    return metrics | found | {"verdict": verdict}


def details_of(config: Any, data: SignalData, final: TrainedFold) -> dict[str, Any]:
    """Return details.json: data, command and environment."""
    source = data.source if config.demo else Path(data.source).name
    usual = defaults(SignalConfig, DEMO if config.demo else {})
    return {
        "title": f"{source}: {', '.join(data.recordings.classes)} from the signal",
        "data": data.report,
        **repeated(SIGNAL.name, config, usual, final.estimator),
    }


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal."""
    rows = [metrics | {"name": metrics["model"]}, *metrics["baselines"]]
    width = max(len(row["name"]) for row in rows)
    lines = [f"{'':<{width}}  subjects  accuracy (mean ± std)        all windows  training"]
    lines += [
        f"{row['name']:<{width}}  {len(row['by_subject']):8}  {row['mean']:.3f} ± "
        f"{row['deviation']:.3f}{'':<14}{row['test']['accuracy']:.3f}      {row['seconds']:7.1f} s"
        for row in rows
    ]
    return "\n".join(lines)


def _standing(name: str, baselines: Sequence[dict[str, Any]], subjects: int) -> dict[str, Any]:
    """Return how the model compares with the best baseline over subjects, as in metrics.json."""
    differences = {own["name"]: own["difference"] for own in baselines}
    intervals = {which: (d["mean"], *d["interval"]) for which, d in differences.items()}
    on = f"{subjects} test subject{'s' * (subjects > 1)}"
    found = standing(name, intervals, ACCURACY, on, subjects)
    if not found:
        return {"standing": {}, "verdict": ""}
    d = differences[found["baseline"]]
    counts = (
        f"It is ahead on {d['better']} subjects, behind on {d['worse']}, level on {d['equal']} "
        f"(Wilcoxon's signed-rank test: p = {d['p']:.2g})."
    )
    return {"standing": found, "verdict": f"{found['sentence']} {counts}"}


def _parts(folds: Sequence[FoldResult]) -> dict[str, Part]:
    """Return the mean share and the total time of kernel and network over the folds."""
    return {
        name: Part(
            float(np.mean([fold.parts[name]["share"] for fold in folds])),
            sum(fold.parts[name]["seconds"] for fold in folds),
        )
        for name in folds[0].parts
    }


def _figures(recordings: Recordings, tested: LosoResult | BaselinePredictions) -> dict[str, Any]:
    rows, chances = tested.rows, tested.probabilities
    by_subject = accuracy_by_subject(recordings, rows, chances.argmax(axis=1))
    accuracies = [*by_subject.values()]
    return {
        "test": classification_metrics(recordings.labels[rows], chances, recordings.classes),
        "by_subject": by_subject,
        "mean": float(np.mean(accuracies)),
        "deviation": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
    }
