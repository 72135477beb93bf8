"""``fit signal``: train a classifier, tested on left-out subjects by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.signals import Recordings
from representer.errors import KindError, say
from representer.estimators import SignalClassifier
from representer.estimators.explanation import Part
from representer.estimators.results import explanations_of, model_name, parameter_counts
from representer.explain import (
    band_importance,
    combined_lags,
    phase_lags,
    recurring_oscillations,
    wavelet_cards,
)
from representer.report.metrics import classification_metrics
from representer.report.page import Predictions
from representer.report.summary import ACCURACY, chance_sentence, parts_sentence, standing
from representer.storage.run import RunFolder
from representer.tasks.flow import opened, publish, repeated, with_output_folder
from representer.tasks.options import as_yaml, defaults
from representer.tasks.signal.data import (
    SignalData,
    accuracy_by_subject,
    final_fold,
    plan,
    prepare,
    standardized,
)
from representer.tasks.signal.fold import (
    FoldJob,
    FoldResult,
    TrainedFold,
    new_estimator,
    train_fold,
)
from representer.tasks.signal.folds import (
    BaselinePredictions,
    LosoResult,
    estimators_of,
    paired_over_subjects,
    run_loso,
    spectral_baselines,
)
from representer.tasks.signal_options import DEMO, SIGNAL, SignalConfig

# Results of a signal run: metrics.json, details.json, and the closing table.


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
    name = model_name(parts, final.estimator.network_name)
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


# The test windows that the report of a signal run explains.

LINES, ERRORS = 6, 2


def explained_windows(
    recordings: Recordings, folder: Path, folds: Sequence[FoldResult]
) -> dict[str, Any]:
    """Return explanations of test windows for details.json, by the model of the first fold.

    Args:
        recordings: As the estimators take them.
        folder: Folder of the run.
        folds: Results of the folds.

    Returns:
        ``examples``, the first right window of each class, and ``mistakes``, the most confident
        errors; both empty if the predictions of the model have no contributions.
    """
    fold = folds[0]
    truth, chances = recordings.labels[fold.rows], fold.probabilities
    predicted = chances.argmax(axis=1)
    right = [np.flatnonzero((predicted == k) & (truth == k))[:1] for k in np.unique(truth)]
    wrong = np.flatnonzero(predicted != truth)
    wrong = wrong[np.argsort(-chances.max(axis=1)[wrong], kind="stable")][:ERRORS]
    at = np.concatenate([*right, wrong])
    if not len(at):
        return {}
    rows, found = fold.rows[at], Predictions(predicted[at], chances[at])
    (estimator,) = estimators_of(folder, folds[:1])
    labels = [recordings.classes[k] for k in truth[at]]
    try:
        entries = explanations_of(
            estimator, list(recordings.signals[rows]), [found], rows.tolist(), "window", LINES, (),
            labels,
        )  # fmt: skip
    except KindError:
        return {}
    for entry, row in zip(entries, rows, strict=True):
        entry["noun"] = f"subject {recordings.subjects[row]}, window"
        if recordings.channels:
            traces = zip(entry["traces"].items(), strict=True)
            names = dict(zip(entry["channels"], recordings.channels, strict=True))
            entry["traces"] = {names[name]: own for ((name, own),) in traces}
            entry["channels"] = list(recordings.channels)
    count = len(at) - len(wrong)
    return {
        "examples": entries[:count],
        "mistakes": [{"explained": entry} for entry in entries[count:]],
    }


# Explain the models of a signal run: wavelets, common oscillations, bands and phase lags.

SHOWN = 6  # wavelets to show
WINDOWS = 100  # maximum number of test windows per fold
HIGHEST = 50.0  # Hz


def describe_filters(
    recordings: Recordings, folder: Path, folds: Sequence[FoldResult], *, is_wavelet: bool
) -> dict[str, Any]:
    """Return the description of the filters for details.json and the report.

    Args:
        recordings: Recordings as the estimators take them.
        folder: Folder of the run, with a trained final model.
        folds: Results of the folds.
        is_wavelet: Whether the filters are wavelets.

    Returns:
        ``cards`` of the strongest wavelets of the final model and ``recurring`` oscillations of the
        models of the folds, both empty without wavelets; ``importance`` of bands and ``lags`` of
        each class for the models of the folds, empty if windows are too short.
    """
    trained = estimators_of(folder, folds)
    described: dict[str, Any] = {"cards": [], "recurring": []}
    if is_wavelet:
        cards, *every = (
            wavelet_cards(one.network_.cell) for one in (SignalClassifier.load(folder), *trained)
        )
        described["cards"] = [
            {k: v.round(6).tolist() if isinstance(v, np.ndarray) else v for k, v in vars(c).items()}
            for c in cards[:SHOWN]
        ]
        described["recurring"] = [vars(row) for row in recurring_oscillations(every)][:SHOWN]
    described["channels"] = list(recordings.channels)
    return described | _oscillations(recordings, folds, trained)


def _oscillations(
    recordings: Recordings, folds: Sequence[FoldResult], trained: Sequence[SignalClassifier]
) -> dict[str, Any]:
    width = max(1.0, 1.0 / recordings.seconds)
    if recordings.sampling_rate < 8 * width or recordings.seconds * recordings.sampling_rate < 8:
        return {"importance": None, "lags": []}
    tested = [_windows(recordings, fold, one) for fold, one in zip(folds, trained, strict=True)]
    highest = min(HIGHEST, recordings.sampling_rate / 2)
    networks, rate = [one.network_ for one in trained], recordings.sampling_rate
    bands = [
        band_importance(network, *windows, rate, width=width, highest=highest)
        for network, windows in zip(networks, tested, strict=True)
    ]
    mean = bands[0]._replace(loss=torch.stack([one.loss for one in bands]).mean(0))
    best = float(mean.frequencies[mean.loss.argmax()])
    wide = min(4 * width, rate / 2 - width)
    lags = []
    for label, name in enumerate(recordings.classes):
        combined = combined_lags(
            [
                phase_lags(network, signals, label, best, rate, width=wide)
                for network, (signals, _) in zip(networks, tested, strict=True)
            ]
        )
        own = {"lags": combined.lags.tolist(), "weights": combined.weights.tolist()}
        lags.append({"class": name} | own)
    return {
        "importance": {
            "frequencies": mean.frequencies.tolist(),
            "loss": mean.loss.tolist(),
            "best": best,
            "center": mean.center,
        },
        "lags": lags,
    }


def _windows(
    recordings: Recordings, fold: FoldResult, one: SignalClassifier
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return up to `WINDOWS` standardized test windows of a fold, evenly spread."""
    count = len(fold.rows)
    places = np.linspace(0, count - 1, min(count, WINDOWS)).round().astype(int)
    tested = recordings.take(fold.rows[np.unique(places)])
    (signals,) = one.inputs_.collate(one.inputs_.encode(tested.signals))
    return signals, torch.from_numpy(tested.labels)


def fit(config: Any) -> dict[str, Any]:
    """Cross-validate over subjects, train a final model, and write the run folder.

    The metrics are those of the folds, whose models are in ``RUN/folds``. The final model, which
    `predict` uses, is trained on all subjects, some of them for early stopping only.
    Nothing is written before the data have been read and checked.

    Args:
        config: The run, a `SignalConfig`.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: See ``errors``; the message names the location and the fix.
    """
    config = with_output_folder(config, "signal-demo", "signal")
    data = prepare(config)
    recordings, folds = data.recordings, plan(data.recordings, config)
    estimator = new_estimator(config, recordings, 0)
    if estimator.has_network:
        estimator.new_network(0)  # raises now what would fail later
    with opened(config) as run:
        if not (run.path / "config.yaml").exists():
            run.write_text("config.yaml", as_yaml(config))
        run.write_json("splits.json", {"folds": [asdict(fold) for fold in folds]})
        say(f"{len(folds)} folds of {len(recordings)} windows, {recordings.seconds:g} s "
            f"each, of {len(data.report['subjects'])} subjects")  # fmt: skip
        result = run_loso(recordings, config, run.path)
        shared = replace(data, recordings=standardized(recordings, config))
        final = train_final(run, config, shared)
        metrics = metrics_of(data, result, final, spectral_baselines(recordings, folds, config))
        run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
        details = details_of(config, data, final)
        if estimator.has_network:
            details["filters"] = describe_filters(
                shared.recordings, run.path, result.folds, is_wavelet=config.filters == "wavelet"
            )
        details |= explained_windows(shared.recordings, run.path, result.folds)
        about = parts_sentence(metrics["parts"])
        return publish(run, metrics, details, [summary(metrics), about, metrics["verdict"]])


def train_final(run: RunFolder, config: Any, data: SignalData) -> TrainedFold:
    """Train the final model on all subjects, or continue its training."""
    fold = final_fold(data.recordings, config.valid_fraction, config.seed, file=config.data)
    end = (
        f"early stopping on subjects {', '.join(fold.valid)}" if fold.valid else "no early stopping"
    )
    say(f"final model: trained on {len(fold.train)} subjects, {end}")
    return train_fold(run, FoldJob(replace(config, resume=False), fold, run.path), data, verbose=1)
