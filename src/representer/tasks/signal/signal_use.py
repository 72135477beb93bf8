"""Use a trained signal classifier: ``evaluate`` and ``predict``, by windows or as a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.signals import Recordings
from representer.models import SignalStream
from representer.printable import say
from representer.storage.run_files import require_finite
from representer.tasks.metrics import classification_metrics
from representer.tasks.signal.signal_config import SignalReading, Streaming
from representer.tasks.signal.signal_data import read_like, with_labels_of
from representer.tasks.signal.signal_folds import subjects_of
from representer.tasks.signal.signal_loso import accuracy_by_subject
from representer.tasks.signal.signal_run import TrainedSignal, load_run
from representer.tasks.table_file import as_csv, check_output, write_table


def evaluate(run: str | Path, data: str | Path, reading: SignalReading) -> dict[str, Any]:
    """Evaluate a trained model on labeled recordings.

    The model of a run is trained on all of its subjects, that of ``RUN/folds/NAME`` on all but
    those of the fold. A notice names the subjects of the data that were used in training.

    Args:
        run: The run folder, or the folder of a fold.
        data: The recordings.
        reading: How to read them; by default as in training.

    Returns:
        Metrics over all windows, accuracies by subject, and their mean.

    Raises:
        DataError: If the recordings cannot be used.
    """
    trained = load_run(run)
    recordings = with_labels_of(_read(trained, data, reading), trained.classes, data)
    if known := [name for name in subjects_of(recordings) if name in trained.subjects]:
        say(f"{data}: the model was trained on {', '.join(known)}; only other subjects "
            "measure generalization")  # fmt: skip
    chances = trained.probabilities(recordings)
    require_finite(run, chances)
    by_subject = accuracy_by_subject(recordings, np.arange(len(recordings)), chances.argmax(axis=1))
    return {
        "run": str(run),
        "data": str(data),
        **classification_metrics(recordings.labels, chances, trained.classes),
        "by_subject": by_subject,
        "mean_of_subjects": float(np.mean(list(by_subject.values()))),
    }


def predict(
    run: str | Path,
    data: str | Path,
    output: str | Path | None,
    reading: SignalReading,
    streaming: Streaming,
) -> None:
    """Write the class and the probabilities of every window, with its subject, number and start.

    Args:
        run: The run folder, or the folder of a fold.
        data: The recordings.
        output: CSV file, written atomically; stdout if None.
        reading: How to read them; by default as in training.
        streaming: With ``stream``, read each window stride by stride and write a row for each
            stride, with the time in seconds at which the prediction is available; the time per
            step is printed on stderr.

    Raises:
        DataError: If the recordings or the path of the output cannot be used.
        StorageError: If the output cannot be written.
    """
    if output is not None:
        check_output(Path(output), Path(data))
    trained = load_run(run)
    recordings = _read(trained, data, reading, is_labeled=False)
    head = ["subject", "window", *(["second"] if streaming.stream else []), "prediction"]
    table: list[list[object]] = [[*head, *(f"probability_{name}" for name in trained.classes)]]
    if streaming.stream:
        rows = _streamed(trained, recordings)
    else:
        rows = (
            (row, None, chances) for row, chances in enumerate(trained.probabilities(recordings))
        )
    for row, second, chances in rows:
        require_finite(run, chances)
        when = [] if second is None else [f"{second:.6g}"]
        predicted = [
            trained.classes[int(chances.argmax())],
            *(f"{chance:.6f}" for chance in chances),
        ]
        table.append([recordings.subjects[row], row, *when, *predicted])
    write_table(output, as_csv(table))


def _streamed(
    trained: TrainedSignal, recordings: Recordings
) -> Iterator[tuple[int, float, np.ndarray]]:
    """Read every window stride by stride, and yield a prediction for each stride."""
    kind, stride = trained.standardization.kind, trained.model.config.stride
    if kind in ("subject", "window"):
        say(f"standardized by the {kind}, as in training; a live stream needs these statistics in "
            "advance, except with --standardize training")  # fmt: skip
    signals = torch.from_numpy(trained.standardization.apply(recordings).signals)
    reader = SignalStream(trained.model)
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


def _read(
    trained: TrainedSignal, data: str | Path, reading: SignalReading, *, is_labeled: bool = True
) -> Recordings:
    """Read recordings, by default as in training."""
    said = {name: value for name, value in asdict(reading).items() if value is not None}
    like_training = SignalReading(**{**asdict(trained.reading), **said})
    rate = float(trained.model.config.sampling_rate)
    return read_like(
        data, like_training, trained.channels, rate, trained.samples, is_labeled=is_labeled
    )
