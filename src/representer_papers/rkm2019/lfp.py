"""L19 Table 4: seven cells with wavelet filters on neural signals, subject by subject."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.signals import (
    Recordings,
    default_couplings,
    recordings,
    resampled,
    synthetic_recordings,
)
from representer.errors import DataError
from representer.estimators import SignalClassifier
from representer.explain import band_importance, combined_lags, phase_lags
from representer.options.signal import SignalConfig
from representer.report import figures
from representer.report.figures import svg
from representer.report.metrics import paired_over_subjects
from representer.storage import atomic
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer.tasks.results import FoldResult
from representer.tasks.signal.data import (
    accuracy_by_subject,
    plan,
    spectral_baseline,
    windows_to_fit,
)
from representer.tasks.signal.flow import estimators_of, run_loso
from representer_papers.rkm2019.published import AVERAGED, BASELINE, CELLS
from representer_papers.shared import tables
from representer_papers.shared.datasets import MissingError, wanted

RATE = 160.0  # Hz: 40 samples are a quarter of a second; initial frequencies go up to 25 Hz
# The synthetic classes have equal power: only the phase lags of the channels distinguish them.
FLOOR = 1e-3  # of the mean power of a direction, in which a subject's channels are whitened
SYNTHETIC: dict[str, Any] = {"subjects": 8, "windows": 500, "seed": 0}


@dataclass(frozen=True)
class SignalSet:
    """A set of recordings."""

    name: str  # on the command line
    title: str  # in the table
    read: Callable[[Path], Recordings]  # from the folder of the data sets
    options: Mapping[str, Any] = field(default_factory=dict)  # that differ from fit signal
    baseline: str = "subject"  # best-performing standardization of the baseline's features
    rate: float = 0.0  # sampling rate after resampling, in Hz; 0 keeps the original
    planted: bool = False  # the recordings have a planted frequency and lags
    align: bool = False  # whether each subject's channels are whitened

    def recordings(self, root: Path, *, smoke: bool = False) -> Recordings:
        """Read and resample the recordings; a smoke run takes four windows per subject and class.

        Raises:
            DataError: If the file is missing.
        """
        read = self.read(root)
        if smoke:
            kept = [
                np.flatnonzero((read.subjects == subject) & (read.labels == label))[:4]
                for subject in np.unique(read.subjects)
                for label in range(len(read.classes))
            ]
            read = read.take(np.sort(np.concatenate(kept)))
        read = resampled(read, self.rate) if self.rate else read
        return aligned(read) if self.align else read


def aligned(recordings: Recordings) -> Recordings:
    """Whiten the channels of each subject, as He and Wu (2020) recenter subjects for networks.

    The windows of a subject are multiplied by the inverse square root of the mean of their
    covariances, without labels, so that this mean is the identity for every subject.
    """
    signals = recordings.signals.astype(np.float64)
    signals -= signals.mean(axis=2, keepdims=True)
    for subject in np.unique(recordings.subjects):
        rows = recordings.subjects == subject
        windows = signals[rows]
        covariance = np.einsum("nct,ndt->cd", windows, windows) / windows[:, 0].size
        values, vectors = np.linalg.eigh(covariance)
        # a common reference makes a direction without power: it stays small instead of noise
        scales = np.sqrt(np.maximum(values, FLOOR * values.mean()))
        signals[rows] = np.einsum("cd,ndt->nct", vectors / scales @ vectors.T, windows)
    return replace(recordings, signals=signals.astype(np.float32))


def _arithmetic(root: Path) -> Recordings:
    """Read windows of two seconds at rest or in mental arithmetic (Zyma et al., Data 2019)."""
    path = root / "eeg_mental_arithmetic" / "eegmat_250hz.npz"
    keys = ("X", "uv_per_count", "fs", "channels", "subject", "state")
    x, scale, rate, channels, subject, state = _arrays(path, keys)
    length = 2 * int(rate)
    count = x.shape[2] // length
    signals = (x[..., : count * length] * np.float32(scale)).reshape(*x.shape[:2], count, length)
    return recordings(
        signals.swapaxes(1, 2).reshape(-1, x.shape[1], length),
        np.repeat(np.asarray(["rest", "arithmetic"])[state.astype(int)], count),
        np.repeat([f"subject {k:02d}" for k in subject], count),
        rate,
        channels,
        file=path,
    )


def _alcoholism(label: str, names: tuple[str, ...], root: Path) -> Recordings:
    """Read the second after a picture (Zhang et al. 1995), leaving out duplicate trials."""
    path = root / "eeg_uci_alcoholism" / "smni_cmi.npz"
    keys = ("counts", "offset_uv", "uv_per_count", "fs", "channels", "subject", label, "duplicate")
    counts, offset, scale, rate, channels, subject, labels, copied = _arrays(path, keys)
    signals = offset[..., None] + counts * np.float32(scale)
    classes = np.asarray(names)[labels.astype(int)]
    kept = ~copied.astype(bool)
    return recordings(signals[kept], classes[kept], subject[kept], rate, channels, file=path)


def _arrays(path: Path, keys: tuple[str, ...]) -> list[Any]:
    if not path.is_file():
        raise MissingError("there is no such file", file=path, fix="Pass --data DIR.")
    with np.load(path, allow_pickle=False) as archive:
        missing = [key for key in keys if key not in archive.files]
        if missing:
            raise DataError(f"the arrays {', '.join(missing)} are missing", file=path)
        return [archive[key][()] for key in keys]


# Augmentation makes models invariant to a subject's gain and to a window's position, not to power.
_EEG = {
    "stride": 10, "lr": 5e-3, "dropout": 0.5, "channel_dropout": 0.2, "augment": True,
    "epochs": 25, "patience": 10,
}  # fmt: skip
# Every subject has one class, so standardizing by subject would remove the class; each window has
# its own scale instead. The epoch is the last: validation on a few subjects is too noisy, since
# nearly all windows of a subject are right or wrong together.
_GROUP = {**_EEG, "standardize": "window", "valid_fraction": 0.0, "epochs": 40}
# An evoked response has a fixed sign and a fixed position in time.
_ANSWER = {**_EEG, "augment": False}
_PLANTED = {"stride": 10, "lr": 2e-2, "epochs": 30, "patience": 0}
_group = partial(_alcoholism, "alcoholic", ("control", "alcoholic"))
_condition = partial(_alcoholism, "condition", ("one", "match", "other"))
_RECORDED = (
    SignalSet(
        "synthetic",
        "synthetic, lags only",
        lambda _: synthetic_recordings(**SYNTHETIC),
        _PLANTED,
        planted=True,
    ),
    SignalSet("arithmetic", "mental arithmetic", _arithmetic, _EEG, "subject", RATE),
    SignalSet("alcoholism", "alcoholism, group", _group, _GROUP, "training", RATE),
    SignalSet("condition", "alcoholism, condition", _condition, _ANSWER, "training", RATE),
)
# not the group: every subject has one class, which whitening by subject would remove
_RECENTERED = tuple(
    replace(s, name=f"{s.name}-recentered", title=f"{s.title}, recentered", align=True)
    for s in _RECORDED
    if s.name in ("arithmetic", "condition")
)
SIGNAL_SETS: Mapping[str, SignalSet] = {s.name: s for s in (*_RECORDED, *_RECENTERED)}


ROWS = (*CELLS, AVERAGED, BASELINE)
LEAST_FOLDS = 8
MEASURE = tables.Measure(
    "rkm-lfp", "mean test accuracy over subjects",
    lambda metrics: float(np.mean([*metrics["by_subject"].values()])),
    "folds", planned=lambda _: None,
)  # fmt: skip


def reproduce_signals(request: Request) -> Path:
    """Run the missing models, and write the table.

    Each subject is left out in turn. A budget below 1 leaves out groups of subjects instead: the
    number of groups is that fraction of the number of subjects, but at least eight.
    """
    root = request.data if request.data.is_dir() else Path()
    sets = wanted(root, request.datasets, SIGNAL_SETS)
    for signals in sets:
        settings = {"baseline": signals.baseline, "options": dict(signals.options)}
        settings |= {"budget": request.budget, "smoke": request.smoke}
        settings |= {"align": True} if signals.align else {}  # runs without it keep their keys

        def of_run(row: str, seed: int, settings: dict[str, Any] = settings) -> dict[str, Any]:
            return {"row": row, "seed": seed, **settings}

        runs = tables.runs_of(request, request.out / signals.name, ROWS, of_run)
        load = partial(signals.recordings, request.data, smoke=request.smoke)
        tables.run_missing(request, MEASURE, runs, load, partial(_run, request, signals))
    return _write_table(request, sets)


def config_of(signals: SignalSet, cell: str, request: Request, subjects: int, seed: int) -> Any:
    """Return the configuration of a model: L19's sizes and the options of the data set."""
    groups = max(LEAST_FOLDS, round(request.budget * subjects))
    chosen = SignalConfig(
        answer="network", cell=cell, filters="wavelet", filter_length=40, stride=20, hidden_size=30,
        pooling="mean", average_weights=False, seed=seed,
        folds=0 if request.budget == 1 or groups >= subjects else groups,
        threads=request.threads or 1, baselines="none",
    )  # fmt: skip
    chosen = replace(chosen, **signals.options)
    if cell == "syncnet":  # as in Li et al. (2017): an output at every sample
        chosen = replace(chosen, stride=1, pooling="flatten", pool_length=40)
    return replace(chosen, hidden_size=4, epochs=1, folds=2) if request.smoke else chosen


def _run(
    request: Request,
    signals: SignalSet,
    folder: RunFolder,
    settings: Mapping[str, Any],
    recordings: Recordings,
) -> dict[str, Any]:
    row = settings["row"]
    cell = "rkm-lstm" if row == BASELINE else row  # all rows have the same folds
    subjects = len(set(recordings.subjects.tolist()))
    config = config_of(signals, cell, request, subjects, settings["seed"])
    figures: dict[str, Any] = {}
    if row == BASELINE:
        config = replace(config, standardize=signals.baseline)
        result = spectral_baseline(recordings, plan(recordings, config), config.standardize)
        (chances,), rows = result.probabilities, np.arange(len(recordings))  # all are tested
        assert chances is not None, "a spectral baseline has probabilities"
        parameters = None
    else:
        result = run_loso(recordings, config, folder.path)
        chances, rows = result.probabilities, result.rows
        trained = estimators_of(folder.path, result.folds)
        parameters = sum(parameter.numel() for parameter in trained[0].network_.parameters())
        if signals.planted:
            figures["recovered"] = recovered(recordings, config, trained, result.folds)
    predictions = chances.argmax(axis=1)
    return {
        "classes": len(recordings.classes),
        "folds": len(plan(recordings, config)),
        "config": asdict(config),
        "by_subject": accuracy_by_subject(recordings, rows, predictions),
        "seconds": result.seconds,
        "parameters": parameters,
        PREDICTIONS: {
            "subjects": recordings.subjects[rows].tolist(),
            "labels": recordings.labels[rows].tolist(),
            "probabilities": chances.round(6).tolist(),
        },
        **figures,
    }


def recovered(
    recordings: Recordings,
    config: Any,
    trained: Sequence[SignalClassifier],
    folds: Sequence[FoldResult],
) -> dict[str, Any]:
    """Return the frequency and the phase lags that the models of all folds of a run use.

    Returns:
        ``frequency`` in Hz, the mean over folds, and that of the worst fold; ``lags`` in degrees
        from the combined evidence of all folds; and the planted values, which are those of the last
        of ``default_couplings``.
    """
    planted = default_couplings(len(recordings.channels))[-1]
    label = recordings.classes.index(planted.name)
    centers, evidence = [], []
    windows = windows_to_fit(recordings, config).recordings.signals
    rate = recordings.sampling_rate
    for fold, model in zip(folds, trained, strict=True):
        (signals,) = model.inputs_.collate(model.inputs_.encode(windows))
        labels, rows = torch.from_numpy(recordings.labels), torch.from_numpy(fold.rows)
        importance = band_importance(model.network_, signals[rows], labels[rows], rate)
        centers.append(importance.center)
        # at the recovered frequency: the planted one is unknown to a user
        frequency = min(max(importance.center, 3.0), rate / 2 - 3.0)
        evidence.append(phase_lags(model.network_, signals, label, frequency, rate))
    lags = combined_lags(evidence).lags.numpy()
    off = np.degrees(np.angle(np.exp(1j * np.radians(lags - np.asarray(planted.lags)))))
    return {
        "frequency": float(np.mean(centers)),
        "frequency error": float(np.mean(centers) - planted.frequency),
        "worst fold": float(max(centers, key=lambda f: abs(f - planted.frequency))),
        "lags": lags.tolist(),
        "largest lag error": math.fabs(max(off.tolist(), key=abs)),
        "planted": {"frequency": planted.frequency, "lags": list(planted.lags)},
    }


LEVEL = 0.05  # a larger p-value makes two results level
WIDTH = 7.0  # of a figure, in inches
PREDICTIONS = "predictions"  # key of a run's predictions in its metrics
Runs = dict[str, dict[int, dict[str, Any]]]  # by row and seed
_ABOUT = (
    "",
    "Accuracy in %, averaged over subjects. Each fold trains new weights; validation subjects of",
    "the training side choose the epoch. Filters of 40 samples, 30 per gate, as in the paper; its",
    "recordings of 29 mice are not public, so its column serves to compare the order alone. The",
    "EEGs are resampled to 160 Hz, and a cell makes a step every 10 samples. Signals are",
    "standardized by subject; for the alcoholism group, where every subject has one class, by",
    "window, and there all training subjects are trained on for 40 epochs, since a few subjects",
    "choose an epoch badly. Band power has its best-performing standardization: by subject, and",
    "for alcoholism by the training subjects. ± is the standard deviation over seeds, which differ",
    "in folds and weights. Training windows of the EEGs are augmented (sign, position in time,",
    "gain, noise), except for the condition, where the evoked response has a fixed sign and",
    "position. SyncNet, the paper's row CNN, has relu, the largest output of every 40 samples, and",
    "one linear layer on all of these (Li et al., 2017); the CNN of Table 1, averaged over time,",
    "which can tell neither powers nor phases, is a row of its own. With fewer folds than",
    "subjects, a fold leaves out a group of subjects. Recentered: each subject's channels are",
    "whitened by the mean covariance of his windows, without labels (He and Wu, 2020).",
)
_TITLES = {cell: title for cell, (title, _) in CELLS.items()} | {
    AVERAGED: "CNN, mean over time",
    BASELINE: "log band power, logistic regression",
}


def _write_table(request: Request, sets: Sequence[SignalSet]) -> Path:
    """Write ``table.md`` from all results in the folder, and a figure of each set's subjects."""
    runs = {s.name: tables.metrics_by_seed(request.out / s.name, "row") for s in sets}
    means = {
        name: {row: _means(of_row) for row, of_row in rows.items()} for name, rows in runs.items()
    }
    summary = [
        (
            title,
            f"{CELLS[row][1]:.2f}" if row in CELLS else "–",
            *(
                tables.mean(list(means[s.name][row].values()), 1)
                if row in means[s.name]
                else "not run"
                for s in sets
            ),
        )
        for row, title in _TITLES.items()
    ]
    lines = tables.rows_of(("", "L19, mice", *(signals.title for signals in sets)), summary)
    for signals in sets:
        if results := runs[signals.name]:
            lines += _section(request, signals, results, means[signals.name])
    of_all = ", recentered subjects" if all(signals.align for signals in sets) else ""
    return tables.write_page(request, f"L19 Table 4: neural signals{of_all}", _ABOUT, lines)


def _means(runs: dict[int, dict[str, Any]]) -> dict[int, float]:
    """Return the accuracy of each seed in %, averaged over subjects."""
    return {s: 100 * statistics.mean(run["by_subject"].values()) for s, run in runs.items()}


def _section(
    request: Request, signals: SignalSet, rows: Runs, means: Mapping[str, dict[int, float]]
) -> list[str]:
    some = next(iter(next(iter(rows.values())).values()))
    seeds = ", ".join(map(str, tables.seeds_of(rows)))
    lines = [
        "",
        f"## {signals.title[0].upper()}{signals.title[1:]}",
        "",
        f"{len(some['by_subject'])} subjects, {some['folds']} folds, seeds {seeds}.",
    ]
    cells = {row: runs for row, runs in rows.items() if row in CELLS}
    paper = {row: CELLS[row][1] for row in cells}
    lines += tables.order_lines(signals.title, paper, {row: means[row] for row in cells})
    lines += _memory(cells)
    if BASELINE in rows and cells:
        best = max(cells, key=lambda row: statistics.mean(means[row].values()))
        figure = f"{signals.name}.svg"
        ours, baseline = (_by_subject(runs) for runs in (cells[best], rows[BASELINE]))
        test = paired_over_subjects(ours, baseline)
        lines += [
            "",
            f"{_TITLES[best]}, the cell with the highest accuracy, is {_verdict(test)} the "
            f"baseline: {100 * test['mean']:+.1f} points; higher on {test['better']} subjects, "
            f"lower on {test['worse']} (Wilcoxon's signed-rank test, p = {test['p']:.3f}).",
        ]
        drawn = figures.subjects_drawing(WIDTH, ours, baseline, 1 / some["classes"])
        atomic.write_text(request.out / figure, svg(*drawn))
        lines += ["", f"![Accuracy of {best} by subject, beside the baseline]({figure})"]
    return lines + _ensembles(rows) + _recovery(cells)


def ensemble_accuracy(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, float] | None:
    """Return each subject's accuracy with the ensemble over seeds, by their mean probabilities.

    Every window is predicted by models that were trained without its subject, whatever groups the
    folds of a seed leave out. None if there are fewer than two seeds, or if some of them predicted
    other windows or have no stored predictions.
    """
    stored = [run[PREDICTIONS] for run in runs.values() if PREDICTIONS in run]
    windows = [(predicted["subjects"], predicted["labels"]) for predicted in stored]
    if len(stored) < max(2, len(runs)) or any(predicted != windows[0] for predicted in windows):
        return None
    probabilities = np.mean([predicted["probabilities"] for predicted in stored], axis=0)
    subjects, labels = np.asarray(stored[0]["subjects"]), np.asarray(stored[0]["labels"])
    right = probabilities.argmax(axis=1) == labels
    return {str(s): float(right[subjects == s].mean()) for s in dict.fromkeys(subjects.tolist())}


def _ensembles(rows: Runs) -> list[str]:
    """Return the table of the ensembles over seeds, the best first, beside the baseline."""
    every = {
        row: ensemble
        for row, runs in rows.items()
        if (ensemble := ensemble_accuracy(runs)) is not None
    }
    baseline = every.pop(BASELINE, None)
    if not every:
        return []
    table = []
    for name in sorted(every, key=lambda row: -statistics.mean(every[row].values())):
        compared = ["", "", ""]
        if baseline is not None:
            test = paired_over_subjects(every[name], baseline)
            counts = f"{test['better']}, {test['worse']}"
            compared = [f"{100 * test['mean']:+.1f}", counts, f"{test['p']:.3f}"]
        table.append((name, every[name], compared))
    if baseline is not None:
        table.append((BASELINE, baseline, ["", "", ""]))
    heads = "", "seeds", "accuracy", "minus the baseline", "subjects better, worse", "p"
    shown = (
        (_TITLES[row], len(rows[row]), f"{100 * statistics.mean(figures.values()):.1f}", *compared)
        for row, figures, compared in table
    )
    about = "Ensembles over the seeds (mean of the models' probabilities):"
    return ["", about, *tables.rows_of(heads, shown)]


def _memory(cells: Runs) -> list[str]:
    """Compare the RKM-LSTM with the cells without memory, subject by subject."""
    if not {"rkm-lstm", "syncnet", "gated-cnn"} <= cells.keys():
        return []
    sentences = []
    for row in ("syncnet", "gated-cnn"):
        test = paired_over_subjects(_by_subject(cells["rkm-lstm"]), _by_subject(cells[row]))
        low, high = (f"{100 * end:+.1f}" for end in test["interval"])
        gap = f"{100 * test['mean']:+.1f} points, {low} to {high}, p = {test['p']:.3f}"
        sentences.append(f"{_verdict(test)} the {_TITLES[row]} ({gap})")
    return ["", f"Does memory help? The RKM-LSTM is {' and '.join(sentences)}."]


def _verdict(test: Mapping[str, Any]) -> str:
    """Return the relation that the paired test over subjects supports."""
    if not test["p"] < LEVEL:
        return "level with"
    return "ahead of" if test["mean"] > 0 else "behind"


def _by_subject(runs: dict[int, Any]) -> dict[str, float]:
    """Return each subject's accuracy, averaged over seeds."""
    every = [run["by_subject"] for run in runs.values()]
    return {subject: statistics.mean(run[subject] for run in every) for subject in every[0]}


def _recovery(cells: Runs) -> list[str]:
    rows = [
        (row, seed, run["recovered"])
        for row, runs in cells.items()
        for seed, run in sorted(runs.items())
        if "recovered" in run
    ]
    if not rows:
        return []
    planted = rows[0][2]["planted"]
    lags = ", ".join(f"{lag:g}" for lag in planted["lags"])
    heads = "", "seed", "frequency, Hz", "worst fold, Hz", "lags, degrees", "largest error"
    shown = (
        (
            _TITLES[name],
            seed,
            f"{run['frequency']:.2f}",
            f"{run['worst fold']:.2f}",
            ", ".join(f"{lag:.1f}" for lag in run["lags"]),
            f"{run['largest lag error']:.1f}",
        )
        for name, seed, run in rows
    )
    return [
        "",
        f"Planted: {planted['frequency']:g} Hz, lags of {lags} degrees. Recovered from the models",
        "of all folds (`band_importance`, `phase_lags`):",
        *tables.rows_of(heads, shown, align="lrrrlr"),
    ]
