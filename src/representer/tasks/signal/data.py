"""Read recordings, and divide them by subjects into the folds of a run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from representer.data import splits
from representer.data.signals import (
    Recordings,
    Standardization,
    cut,
    read_recordings,
    resampled,
    synthetic_recordings,
)
from representer.data.splits import FINAL, Fold, Splits
from representer.data.tables import Grid
from representer.data.tables.columns import remarks
from representer.data.tables.files import format_of
from representer.data.tables.reading import kind_of, named_table
from representer.errors import ArgumentError, DataError, say
from representer.kernels.cross_spectral_kernel import MATRIX, POWER, CrossSpectralKernel
from representer.options.signal import SignalReading, in_samples
from representer.options.task import without_data
from representer.tasks.objects import Objects
from representer.tasks.results import CONSTANTS, Baseline, joined, majority_class

# Folds by subjects: no subject is in two parts.


def plan(recordings: Recordings, config: Any) -> list[Fold]:
    """Return the folds of a `SignalConfig`; see `folds_of`."""
    return folds_of(
        recordings, config.valid_fraction, config.seed,
        count=config.folds, tested=config.tested, file=config.data,
    )  # fmt: skip


def folds_of(
    recordings: Recordings, valid_fraction: float, seed: int, *, count: int = 0,
    tested: Sequence[str] = (), file: str | Path | None = None,
) -> list[Fold]:  # fmt: skip
    """Return folds that leave each subject out once, alone or in a group.

    There are ``count`` groups, 2 or more; 0 is one fold per subject. ``tested`` are the subjects of
    a single fold. Early stopping, unless ``valid_fraction`` is 0, has at least one of the others,
    and one of each kind if subjects differ in their classes.
    """
    subjects = subjects_of(recordings)
    if tested:
        if unknown := [name for name in tested if name not in subjects]:
            listed = ", ".join(subjects)
            problem = f"there is no subject {', '.join(unknown)}; the subjects are {listed}"
            raise DataError(problem, file=file)
        left_out = {"test": tuple(dict.fromkeys(tested))}
    elif count:
        if not 2 <= count <= len(subjects):
            expected = f"0, or 2 to {len(subjects)}, the number of subjects"
            raise ArgumentError("folds", count, expected)
        kinds = _splits(recordings).groups_by_classes(seed, "groups", subjects).values()
        dealt = [subject for of_kind in kinds for subject in of_kind]
        left_out = {f"group {k + 1}": tuple(sorted(dealt[k::count])) for k in range(count)}
    else:
        left_out = {name: (name,) for name in subjects}
    return [
        _fold(recordings, name, test, valid_fraction, seed, file) for name, test in left_out.items()
    ]


def final_fold(
    recordings: Recordings, valid_fraction: float, seed: int, *, file: str | Path | None = None
) -> Fold:
    """Return the fold of the final model: all subjects are for training or early stopping."""
    return _fold(recordings, FINAL, (), valid_fraction, seed, file)


def subjects_of(recordings: Recordings) -> list[str]:
    """Return the subjects in order of appearance."""
    return list(dict.fromkeys(recordings.subjects.tolist()))


def accuracy_by_subject(
    recordings: Recordings, rows: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """Return the accuracy on each subject, in the order of the recordings."""
    right, subjects = predicted == recordings.labels[rows], recordings.subjects[rows]
    return {s: float(right[subjects == s].mean()) for s in subjects_of(recordings) if s in subjects}


def _splits(recordings: Recordings) -> Splits:
    return Splits(len(recordings.labels), recordings.labels, recordings.subjects)


def _fold(
    recordings: Recordings, name: str, test: tuple[str, ...], valid_fraction: float, seed: int,
    file: str | Path | None,
) -> Fold:  # fmt: skip
    others = [subject for subject in subjects_of(recordings) if subject not in test]
    needed = 2 if valid_fraction else 1
    if len(others) < needed:
        to_stop = ", and another one for early stopping" if valid_fraction else ""
        raise DataError(
            f"there are {len(others)} subjects besides the test subjects; expected at least "
            f"{needed}",
            file=file,
            fix=f"One is needed for training{to_stop}. Sessions of one subject can stand for "
            "subjects.",
        )
    valid = set[str]()
    if valid_fraction:
        valid = _splits(recordings).held_out_groups(valid_fraction, seed, name, others)
    train = tuple(subject for subject in others if subject not in valid)
    rows = np.isin(recordings.subjects, train)
    missing = sorted(set(range(len(recordings.classes))) - set(recordings.labels[rows].tolist()))
    if missing:
        names = ", ".join(recordings.classes[k] for k in missing)
        raise DataError(
            f"the training subjects of fold {name!r} have no window of {names}",
            file=file,
            fix="Add subjects with this class, or remove the class.",
        )
    return Fold(name, train, tuple(s for s in others if s in valid), test)


DEMO_SOURCE = "synthetic recordings"
_OF_ARRAYS, _OF_EVENTS = ("signals", "labels"), ("events", "event_start", "event_seconds")
READING = (*_OF_ARRAYS, *_OF_EVENTS)


@dataclass(frozen=True)
class Windows(Objects):
    """Windows of recordings, numbered from 0."""

    recordings: Any = None  # all of them
    # digest of the recordings before they were standardized; empty if they are not
    content: str = ""
    about: dict[str, Any] = field(default_factory=dict)  # facts on them for details.json

    @property
    def digest(self) -> str:
        """Digest of the recordings as they were read."""
        return self.content or digest_of(self.recordings)


def windows_of(recordings: Recordings, source: str | Path, **others: Any) -> Windows:
    """Return the windows of recordings; those of a file without classes have no use for labels."""
    labels = [recordings.classes[label] for label in recordings.labels.tolist()]
    numbers = [*range(len(recordings))]
    rows = [*zip(recordings.subjects.tolist(), numbers, strict=True)]
    signals: Any = recordings.signals
    return Windows(
        str(source), str(source), signals, labels, numbers, rows=numbers,
        table=Grid(["subject", "window"], rows, numbers, [], True, False, []), has_lines=False,
        recordings=recordings, **others,
    )  # fmt: skip


def windows_to_fit(
    recordings: Recordings, config: Any, source: str | Path = "recordings", **others: Any
) -> Windows:
    """Return the windows of recordings as a run trains on them, standardized by subject or not."""
    made = recordings
    if config.standardize == "subject":
        made = Standardization("subject").apply(recordings)
    return windows_of(made, source, content=digest_of(recordings), **others)


@dataclass(frozen=True)
class SignalForm:
    """The form of the recordings of a model, as a run saves it; Python saves none of it."""

    channels: tuple[str, ...] = ()  # names, in order; none for any
    samples: int = 0  # samples of a window; 0 for any
    is_standardized_by_subject: bool = False  # whether windows are standardized by subject
    subjects: tuple[str, ...] = ()  # subjects used for training or early stopping
    is_whole: bool = False  # whether a table gave one label to each recording, whatever its events

    def __post_init__(self) -> None:
        if len(set(self.channels)) < len(self.channels):
            raise ArgumentError("channels", self.channels, "different names")
        if self.samples < 0:
            raise ArgumentError("samples", self.samples, "0 or more")


def refuse_unused(source: str, options: Any) -> None:
    """Refuse options of reading that have no effect on a file."""
    has_arrays = format_of(Path(source)) in ("npz", "mat")
    has_events = not (has_arrays or is_listed(source))
    unused = {
        name: "recordings such as .edf files have events" for name in _OF_EVENTS if not has_events
    }
    unused |= {name: ".npz and .mat files have arrays" for name in _OF_ARRAYS if not has_arrays}
    for name, files in unused.items():
        if (value := getattr(options, name)) is not None:
            raise ArgumentError(name, value, f"nothing, since only {files}")


def prepare(config: Any) -> Windows:
    """Read the recordings of a run."""
    if not config.demo and config.data is None:
        hint = without_data("signal", config)
        raise ArgumentError("data", None, "a file of recordings", hint=hint)
    source = DEMO_SOURCE if config.demo else str(config.data)
    refuse_unused(source, config)
    cutting = {"sampling_rate": config.resample, "window_seconds": config.window_seconds}
    reading = SignalReading(**{name: getattr(config, name) for name in READING})
    raw = synthetic(config.seed) if config.demo else read_given(source, reading, **cutting)
    made = at_rate(raw, config.resample or raw.sampling_rate, source)
    if config.window_seconds:
        made = cut(made, config.window_seconds, file=source)
    made = made if config.demo else _distinct(made, source)
    stride = in_samples(config, made.sampling_rate)["stride"]
    if (samples := made.signals.shape[2]) < stride:
        raise DataError(
            f"window 0 of subject {made.subjects[0]} has {samples} samples, fewer than the "
            f"{stride} of one step",
            file=source,
            fix="Use longer windows or a smaller --stride.",
        )
    for note in remarks(made.classes):
        say(f"{source}: {note}")
    if single := raw.one_class_subjects():
        named = ", ".join(single[:5]) + (", …" if len(single) > 5 else "")
        who = f"subject {named} has" if len(single) == 1 else f"subjects {named} have"
        say(f"{source}: {who} windows of one class; their accuracies are less informative")
    if config.standardize == "subject" and set(single) == set(subjects_of(made)):
        say("--standardize subject removes the differences between such subjects; "
            "window and training do not")  # fmt: skip
    report = {
        "source": source,
        "windows": len(made),
        "given_windows": len(raw),
        "seconds": made.seconds,
        "given_seconds": raw.seconds,
        "sampling_rate": made.sampling_rate,
        "given_sampling_rate": raw.sampling_rate,
        "channels": list(made.channels),
        "classes": dict(zip(made.classes, np.bincount(made.labels).tolist(), strict=True)),
        "subjects": {s: int((made.subjects == s).sum()) for s in subjects_of(made)},
        "one_class_subjects": single,
    }
    return windows_to_fit(made, config, source, about=report)


def _distinct(given: Recordings, source: str) -> Recordings:
    """Return the recordings without windows that an earlier subject has, too, which would leak."""
    digests = list(map(splits.digest_of, given.signals))
    first = dict(zip(reversed(digests), reversed(given.subjects.tolist()), strict=True))
    is_new = np.array([first[digest] for digest in digests]) == given.subjects
    if count := int((~is_new).sum()):
        say(f"{source}: {count:,} of {len(given):,} windows equal those of another subject and are "
            "left out")  # fmt: skip
    return given.take(is_new)


def is_listed(source: str | None) -> bool:
    """Return True for a table of recordings, or the folder of one."""
    path = Path(source or "-")
    return bool(named_table(path, "recordings") if path.is_dir() else kind_of(path))


def synthetic(seed: int) -> Recordings:
    """Return the recordings of the demo, whose classes differ in phase, not in power."""
    return synthetic_recordings(subjects=6, windows=60, seconds=2.0, seed=seed)


def read_given(
    path: str | Path, reading: SignalReading, *, require_labels: bool = True, **cutting: Any
) -> Recordings:
    """Read recordings, and print the remarks of their reader on stderr.

    How recordings that may differ in rate or length are cut are options of `read_recordings`.

    Raises:
        DataError: If the file cannot be used.
    """
    result = read_recordings(
        path, signals=reading.signals or "X", labels=reading.labels or "y",
        events=[name.strip() for name in (reading.events or "").split(",") if name.strip()],
        start=reading.event_start or 0.0, seconds=reading.event_seconds, is_labeled=require_labels,
        **cutting,
    )  # fmt: skip
    for note in result.notes:
        say(f"{path}: {note}")
    return result


def digest_of(recordings: Recordings) -> str:
    """Return a digest of recordings."""
    digest = hashlib.sha256()
    about = (recordings.classes, recordings.channels, recordings.sampling_rate,
             recordings.signals.shape, recordings.subjects.tolist())  # fmt: skip
    digest.update(repr(about).encode())
    for array in (recordings.signals, recordings.labels):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def at_rate(recordings: Recordings, sampling_rate: float, source: str | Path) -> Recordings:
    """Return the recordings at a sampling rate, resampled with a notice if necessary."""
    if recordings.sampling_rate == sampling_rate:
        return recordings
    say(f"{source}: resampled from {recordings.sampling_rate:g} Hz to {sampling_rate:g} Hz")
    return resampled(recordings, sampling_rate)


# Baselines for signals: logistic regression on the spectra of the windows, and chance.


_COST = 0.1  # C with one feature per channel and band, about as many as windows of a subject
_KINDS = {
    POWER: ("log band power", "Logarithms of each channel's power"),
    MATRIX: (
        "cross-spectral matrices",
        "Logarithms of the cross-spectral matrices of all channels",
    ),
}
VIEWS = {"none": (), "simple": (POWER,), "all": (POWER, MATRIX)}  # by --baselines


def spectral_baselines(
    recordings: Recordings, folds: Sequence[Fold], config: Any
) -> list[Baseline]:
    """Train and test the baselines of a `SignalConfig`; see `spectral_baseline`."""
    scheme = "none" if config.standardize == "subject" else config.standardize
    rows = [spectral_baseline(recordings, folds, scheme, view) for view in VIEWS[config.baselines]]
    return [*rows, most_common(recordings, folds)] if rows else []


def most_common(recordings: Recordings, folds: Sequence[Fold]) -> Baseline:
    """Predict the most frequent class of the training subjects of each fold."""
    started, predicted, one_hot = time.perf_counter(), [], np.eye(len(recordings.classes))
    for fold in folds:
        parts = fold.parts(recordings.subjects)
        train = recordings.labels[np.concatenate([parts["train"], parts["valid"]])]
        guess = majority_class(train.tolist(), len(parts["test"]))
        predicted.append((parts["test"], one_hot[guess.predictions]))
    classes = joined(predicted)[1].argmax(axis=1)
    description = "Always the commonest class of the training subjects."
    return Baseline(CONSTANTS[1], description, classes, time.perf_counter() - started)


def spectral_baseline(
    recordings: Recordings, folds: Sequence[Fold], standardize: str, view: str = POWER
) -> Baseline:
    """Train and test a baseline on the folds of a model; predict their test windows, in order.

    The baseline needs no early stopping, so it is trained on the validation subjects, too.

    Args:
        recordings: Resampled and cut recordings, not standardized.
        folds: Folds of the model.
        standardize: Standardization of the windows, as for the model.
        view: Of `CrossSpectralKernel`: log band power, or logarithms of cross-spectral matrices.
    """
    started = time.perf_counter()
    if standardize in ("subject", "window"):  # the scaler undoes that by training
        recordings = Standardization(standardize).apply(recordings)
    kernel = CrossSpectralKernel(recordings.sampling_rate, views=(view,))
    spectra = kernel.read(recordings.signals)
    features = spectra.views[view].astype(np.float64)
    bands = list(dict.fromkeys(feature.band for feature in kernel.fit(spectra).features()))
    cost = _COST * len(bands) * spectra.shape[0] / features.shape[1]
    predicted = []
    for fold in folds:
        parts = fold.parts(recordings.subjects)
        train, test = np.concatenate([parts["train"], parts["valid"]]), parts["test"]
        # a rotation changes nothing, and leaves at most as many features as windows
        model = make_pipeline(StandardScaler(), PCA(), LogisticRegression(C=cost, max_iter=2000))
        model.fit(features[train], recordings.labels[train])
        predicted.append((test, model.predict_proba(features[test])))
    name, what = _KINDS[view]
    hertz = ", ".join(f"{low:.3g} to {high:.3g}" for low, high in bands)
    description = f"{what} in bands of {hertz} Hz, standardized on the training subjects; "
    _, chances = joined(predicted)
    return Baseline(
        f"{name} + logistic regression", description + "logistic regression.",
        chances.argmax(axis=1), time.perf_counter() - started, [chances],
    )  # fmt: skip
