"""Use a trained signal classifier: ``evaluate``, ``predict``, also as a stream, and ``explain``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from representer.data.signals import Recordings
from representer.errors import DataError, KindError
from representer.estimators import SignalClassifier, saving
from representer.models import SignalStream
from representer.printable import say
from representer.report import write_report
from representer.report.metrics import classification_metrics
from representer.report.page import EXPLAINED
from representer.report.results import Predictions
from representer.storage import atomic
from representer.storage.fields import from_values
from representer.storage.run_files import MODEL, RunFiles, require_finite
from representer.tasks.estimator_explain import entry_of
from representer.tasks.estimator_results import shown
from representer.tasks.signal.signal_data import SignalForm, read_like, with_labels_of
from representer.tasks.signal.signal_folds import subjects_of
from representer.tasks.signal.signal_loso import accuracy_by_subject
from representer.tasks.signal.signal_task import SignalReading, Streaming
from representer.tasks.table_file import as_csv, check_output, write_table


def evaluate(run: str | Path, data: str | Path, options: SignalReading) -> dict[str, Any]:
    """Evaluate a trained model on labeled recordings.

    The model of a run is trained on all of its subjects, that of ``RUN/folds/NAME`` on all but
    those of the fold. A notice names the subjects of the data that were used in training.

    Args:
        run: The run folder, or the folder of a fold.
        data: The recordings.
        options: How to read them; by default as in training.

    Returns:
        Metrics over all windows, accuracies by subject, and their mean.

    Raises:
        DataError: If the recordings cannot be used.
    """
    estimator, form, given = _opened(run, data, options)
    classes = tuple(map(str, estimator.classes_))
    recordings = with_labels_of(given, classes, data)
    if known := [name for name in subjects_of(recordings) if name in form.subjects]:
        say(f"{data}: the model was trained on {', '.join(known)}; only other subjects "
            "measure generalization")  # fmt: skip
    chances = _probabilities(run, estimator, recordings.signals, data)
    by_subject = accuracy_by_subject(recordings, np.arange(len(recordings)), chances.argmax(axis=1))
    return {
        "run": str(run),
        "data": str(data),
        **classification_metrics(recordings.labels, chances, classes),
        "by_subject": by_subject,
        "mean_of_subjects": float(np.mean(list(by_subject.values()))),
    }


def predict(
    run: str | Path,
    data: str | Path,
    output: str | Path | None,
    options: SignalReading,
    streaming: Streaming,
) -> None:
    """Write the class and the probabilities of every window, with its subject, number and start.

    Args:
        run: The run folder, or the folder of a fold.
        data: The recordings.
        output: CSV file, written atomically; stdout if None.
        options: How to read them; by default as in training.
        streaming: With ``stream``, read each window stride by stride and write a row for each
            stride, with the time in seconds at which the prediction is available; the time per
            step is printed on stderr. Only the network can do so.

    Raises:
        KindError: If the model has no network, with ``stream``.
        DataError: If the recordings or the path of the output cannot be used.
        StorageError: If the output cannot be written.
    """
    if output is not None:
        check_output(Path(output), Path(data))
    estimator, form, recordings = _opened(run, data, options, require_labels=False)
    classes = [*map(str, estimator.classes_)]
    head = ["subject", "window", *(["second"] if streaming.stream else []), "prediction"]
    table: list[list[object]] = [[*head, *(f"probability_{name}" for name in classes)]]
    if streaming.stream:
        _require_network(estimator)
        rows = _streamed(estimator, recordings, form)
    else:
        every = _probabilities(run, estimator, recordings.signals, data)
        rows = ((row, None, chances) for row, chances in enumerate(every))
    for row, second, chances in rows:
        require_finite(run, chances)
        when = [] if second is None else [f"{second:.6g}"]
        predicted = [classes[int(chances.argmax())], *(f"{chance:.6f}" for chance in chances)]
        table.append([recordings.subjects[row], row, *when, *predicted])
    write_table(output, as_csv(table))


def explain(
    run: str | Path, data: str | Path, options: SignalReading, *, limit: int, top: int
) -> list[dict[str, Any]]:
    """Explain the predictions for the first windows, numbered from 0 as by `predict`.

    Writes explanations.json into the run folder and updates its report.

    Args:
        run: The run folder.
        data: The recordings.
        options: How to read them; by default as in training.
        limit: Number of windows.
        top: Number of contributions to list for each.

    Raises:
        DataError: If the recordings cannot be used.
        KindError: If the cell has no exact contributions.
    """
    estimator, _, recordings = _opened(run, data, options, require_labels=False)
    signals = recordings.signals[:limit]
    chances = _probabilities(run, estimator, signals, data)
    predictions = Predictions(chances.argmax(axis=1), chances)
    names = [*map(str, estimator.classes_)]
    entries = [
        entry_of("window", row, shown(predictions, row, names), explanation)
        for row, explanation in enumerate(estimator.explain(signals, top))
    ]
    folder = Path(run)
    atomic.write_json(folder / EXPLAINED, entries)
    if all((folder / name).is_file() for name in ("metrics.json", "details.json")):
        say(f"report: {write_report(folder)}")
    return entries


def _opened(
    run: str | Path, data: str | Path, options: SignalReading, *, require_labels: bool = True
) -> tuple[SignalClassifier, SignalForm, Recordings]:
    """Return the estimator of a run, and recordings read as in training or as the options say."""
    estimator, files = SignalClassifier.load(run), RunFiles(run)
    saved = saving.read_description(files).reading
    form: SignalForm = files.parsed(MODEL, lambda: from_values(SignalForm, saved))
    given = {name: value for name, value in asdict(options).items() if value is not None}
    form = replace(form, reading=replace(form.reading, **given))
    rate = float(estimator.sampling_rate or 0)
    return estimator, form, read_like(data, form, rate, require_labels=require_labels)


def _probabilities(
    run: str | Path, estimator: SignalClassifier, signals: NDArray[Any], data: str | Path
) -> NDArray[np.float64]:
    try:
        chances = estimator.predict_proba(signals)
    except DataError as error:
        raise DataError(str(error), file=data) from None
    require_finite(run, chances)
    return chances


def _require_network(estimator: SignalClassifier) -> None:
    """Require the part of an estimator that reads a window step by step.

    Raises:
        KindError: It has no network.
    """
    if not estimator.has_network:
        expected = "a model with a network, since a kernel compares whole windows"
        raise KindError("the run", "one of a kernel machine alone", expected)
    if estimator.pool_.kernel:
        say("the network alone predicts the stream; the kernel compares whole windows")


def _streamed(
    estimator: SignalClassifier, recordings: Recordings, form: SignalForm
) -> Iterator[tuple[int, float, np.ndarray]]:
    """Read every window stride by stride, and yield the network's prediction for each stride."""
    kind = "subject" if form.is_standardized_by_subject else estimator.standardize
    if kind in ("subject", "window"):
        say(f"standardized by the {kind}, as in training; a live stream needs these statistics in "
            "advance, except with --standardize training")  # fmt: skip
    (signals,) = estimator.inputs_.collate(estimator.inputs_.encode(recordings.signals))
    reader, stride = SignalStream(estimator.network_), estimator.stride
    first, times = signals.shape[2] % stride, []
    with _one_thread():
        for row, window in enumerate(signals):
            reader.reset()
            for start in range(first, signals.shape[2], stride):
                samples = window[:, start : start + stride]
                before = time.perf_counter()
                chances = reader.step(samples)
                times.append(time.perf_counter() - before)
                yield row, (start + stride) / recordings.sampling_rate, chances.double().numpy()
    half, most = (1e3 * float(np.percentile(times, q)) for q in (50, 95))
    milliseconds = 1e3 * stride / recordings.sampling_rate
    say(f"{len(times)} steps of {stride} samples, {milliseconds:.3g} ms of the signal "
        f"each: p50 {half:.3f} ms, p95 {most:.3f} ms a step")  # fmt: skip


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch to one thread; a step is too small for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
