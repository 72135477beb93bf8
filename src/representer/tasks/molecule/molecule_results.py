"""Results of a molecule run: metrics.json, details.json, and the closing table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.models import GraphEnsemble
from representer.tasks.molecule.molecule_config import MoleculeConfig, defaults
from representer.tasks.molecule.molecule_data import MoleculeData, MoleculePart
from representer.tasks.molecule.molecule_explain import can_explain, explain_molecule
from representer.tasks.molecule.molecule_predictions import (
    Predictions,
    differences,
    figures_of,
    is_ahead,
)
from representer.tasks.molecule.molecule_run import TASK, TrainedMolecule
from representer.tasks.molecule.molecule_targets import Targets
from representer.tasks.options import command_of
from representer.training.fingerprint import fingerprint
from representer.training.training_result import TrainingResult

DRAWN, MISTAKES, POINTS = 6, 12, 2000
WALKS = 5  # listed beside each drawing


def metrics_of(
    config: MoleculeConfig,
    data: MoleculeData,
    predictions: Predictions,
    baselines: Sequence[Predictions],
    training: TrainingResult,
    parameters: int,
) -> dict[str, Any]:
    """Return metrics.json: the test metrics by target, of the model and of the baselines."""
    targets, values = data.targets, data.test.values
    return {
        "task": TASK,
        "kind": config.task,
        "model": predictions.name,
        "test": figures_of(targets, values, predictions),
        "valid": training.best,
        "epochs": training.epoch,
        "steps": training.step,
        "steps_per_epoch": -(-len(data.train) // config.batch_size),
        "stopped_by": training.reason,
        "seconds": training.seconds,
        "parameters": parameters,
        "members": config.members,
        "baselines": [
            {
                "name": baseline.name,
                "description": baseline.description,
                "seconds": baseline.seconds,
                "test": _slim(figures_of(targets, values, baseline)),
                "difference": differences(targets, values, predictions, baseline),
            }
            for baseline in baselines
        ],
    }


def details_of(
    config: MoleculeConfig, data: MoleculeData, trained: TrainedMolecule, predictions: Predictions
) -> dict[str, Any]:
    """Return details.json: data, points of the plot, errors, drawings and environment."""
    usual = defaults(config.preset, demo=config.demo, task=config.task)
    return {
        "title": _title(config, data),
        "command": command_of(TASK, config, usual),
        "config": config.to_dict(),
        "data": data.report,
        "points": points(data.targets, data.test, predictions),
        "mistakes": worst_mistakes(data.targets, data.test, predictions),
        "drawings": drawings(trained, data.test),
        "environment": fingerprint(next(trained.model.parameters()).device),
    }


def drawings(trained: TrainedMolecule, part: MoleculePart) -> list[dict[str, Any]]:
    """Return drawings of a few test molecules with the walks that explain their predictions.

    They are evenly spread over the sizes of the molecules, up to 30 atoms.
    """
    if not can_explain(trained):
        return []
    sizes = [(int(graph.num_nodes or 0), i) for i, graph in enumerate(part.graphs)]
    fitting = [i for size, i in sorted(sizes) if 4 <= size <= 30] or [i for _, i in sorted(sizes)]
    places = np.linspace(0, len(fitting) - 1, min(DRAWN, len(fitting))).astype(int)
    return [
        {
            "line": part.lines[i],
            "truth": _shown_truth(trained.targets, part.values[i, 0]),
            **explain_molecule(trained, part.smiles[i], part.graphs[i], WALKS),
        }
        for i in (fitting[place] for place in dict.fromkeys(places.tolist()))
    ]


def points(
    targets: Targets, part: MoleculePart, predictions: Predictions
) -> dict[str, list[list[float]]]:
    """Return true value, prediction and deviation of test molecules by target, for the plot."""
    if predictions.numbers is None or predictions.deviations is None:
        return {}
    found = {}
    for k, name in enumerate(targets.names):
        rows = np.flatnonzero(~np.isnan(part.values[:, k]))[:POINTS]
        columns = (part.values, predictions.numbers, predictions.deviations)
        found[name] = np.stack([c[rows, k] for c in columns], axis=1).round(5).tolist()
    return found


def worst_mistakes(
    targets: Targets, part: MoleculePart, predictions: Predictions
) -> list[dict[str, Any]]:
    """Return the largest errors for the first target, largest first."""
    rows = np.flatnonzero(~np.isnan(part.values[:, 0]))
    truth = part.values[rows, 0]
    if predictions.numbers is not None:
        assert predictions.deviations is not None
        found, deviations = predictions.numbers[rows, 0], predictions.deviations[rows, 0]
        order = np.argsort(-np.abs(found - truth))[:MISTAKES].tolist()
        return [
            {
                **_place(part, int(rows[i])),
                "truth": f"{truth[i]:.4g}",
                "predicted": f"{found[i]:.4g}",
                "uncertainty": f"{deviations[i]:.2g}",
            }
            for i in order
        ]
    chances = predictions.probabilities[0][rows]
    predicted = chances.argmax(1)
    wrong = np.flatnonzero(predicted != truth)
    order = wrong[np.argsort(-chances[wrong, predicted[wrong]], kind="stable")][:MISTAKES].tolist()
    names = targets.classes[0]
    return [
        {
            **_place(part, int(rows[i])),
            "truth": names[int(truth[i])],
            "predicted": names[predicted[i]],
            "uncertainty": f"{1 - chances[i].max():.2g}",
        }
        for i in order
    ]


def verdict(targets: Targets, metrics: dict[str, Any]) -> str:
    """Return a sentence that compares the model with the baselines over all targets."""
    counts: dict[str, list[str]] = {}
    for baseline in metrics["baselines"]:
        marks = [is_ahead(targets, tuple(d)) for d in baseline["difference"].values()]
        word = "level with"
        if marks and all(mark is True for mark in marks):
            word = "ahead of"
        elif marks and all(mark is False for mark in marks):
            word = "behind"
        elif any(mark is not None for mark in marks) and len(marks) > 1:
            word = "on some targets different from"
        counts.setdefault(word, []).append(baseline["name"])
    if not counts:
        return ""
    parts = "; ".join(f"{word} {' and '.join(names)}" for word, names in counts.items())
    return f"{metrics['model']} is {parts}, by the 95 % intervals of the differences."


def summary(targets: Targets, metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal."""
    rows = [(metrics["model"], metrics["test"], metrics["seconds"])]
    rows += [(b["name"], b["test"], b["seconds"]) for b in metrics["baselines"]]
    width = max(len(name) for name, _, _ in rows)
    lines = []
    for target, own in metrics["test"].items():
        what = "RMSE      95 % interval        MAE" if targets.is_regression else "accuracy  AUC"
        lines.append(f"{target}, {own['count']} test molecules")
        lines.append(f"{'':<{width}}  {what}  training")
        for name, test, seconds in rows:
            shown = _numbers(test[target]) if targets.is_regression else _shares(test[target])
            lines.append(f"{name:<{width}}  {shown}  {seconds:6.1f} s")
    return "\n".join(lines)


def parameters_of(model: GraphEnsemble) -> int:
    """Return the number of parameters of all members."""
    return sum(p.numel() for p in model.parameters())


def _numbers(row: dict[str, Any]) -> str:
    low, high = row["rmse_interval"]
    return f"{row['rmse']:<8.4g}  {low:8.4g} – {high:<8.4g}  {row['mae']:<8.4g}"


def _shares(row: dict[str, Any]) -> str:
    auc = "" if row["auc"] is None else f"{row['auc']:.3f}"
    return f"{100 * row['accuracy']:6.2f} %  {auc:<5}"


def _slim(figures: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: {k: v for k, v in row.items() if k not in ("per_class", "confusion")}
        for name, row in figures.items()
    }


def _place(part: MoleculePart, row: int) -> dict[str, Any]:
    return {"line": part.lines[row], "smiles": part.smiles[row]}


def _shown_truth(targets: Targets, value: float) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.4g}" if targets.is_regression else targets.classes[0][int(value)]


def _title(config: MoleculeConfig, data: MoleculeData) -> str:
    source = data.train.source if config.demo else Path(data.train.source).name
    return f"{source}: {', '.join(data.targets.names)} from the molecule"
