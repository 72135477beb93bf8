"""Using a trained model of signals: ``evaluate`` and ``predict``, whole windows or as a stream."""

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
from representer.tasks.metrics import classification_metrics
from representer.tasks.signal.signal_config import SignalReading
from representer.tasks.signal.signal_data import read_like, with_labels_of
from representer.tasks.signal.signal_folds import subjects_of
from representer.tasks.signal.signal_loso import accuracy_by_subject
from representer.tasks.signal.signal_run import TrainedSignal, load_run
from representer.tasks.storage.run_files import require_finite
from representer.tasks.table_file import as_csv, check_output, write_table
from representer.tasks.training.progress import say


def evaluate(run: str | Path, data: str | Path, reading: SignalReading) -> dict[str, Any]:
    """Test a trained model on labeled recordings.

    The model of a run is trained on all of its subjects, that of ``RUN/folds/NAME`` on all but
    those of the fold. A notice says which subjects of the data, by their names, it has met before.

    Args:
        run: The run folder, or that of a fold.
        data: The recordings.
        reading: How to read them, where it is not as in training.

    Returns:
        The figures over all windows, by subject, and their mean.

    Raises:
        DataError: If the recordings cannot be used.
    """
    trained = load_run(run)
    of = with_labels_of(_read(trained, data, reading), trained.classes, data)
    if known := [name for name in subjects_of(of) if name in trained.subjects]:
        say(f"{data}: the model was trained with {', '.join(known)}; the figures of others say "
            "how it does on somebody new")  # fmt: skip
    chances = trained.probabilities(of)
    require_finite(run, chances)
    by_subject = accuracy_by_subject(of, np.arange(len(of)), chances.argmax(axis=1))
    return {
        "run": str(run),
        "data": str(data),
        **classification_metrics(of.labels, chances, trained.classes),
        "by_subject": by_subject,
        "mean_of_subjects": float(np.mean(list(by_subject.values()))),
    }


def predict(
    run: str | Path,
    data: str | Path,
    output: str | Path | None,
    reading: SignalReading,
    *,
    stream: bool = False,
) -> None:
    """Write the class and the probabilities of every window, with its subject, number and start.

    Args:
        run: The run folder, or that of a fold.
        data: The recordings.
        output: CSV file, written whole or not at all; stdout if None.
        reading: How to read them, where it is not as in training.
        stream: Read each window stride by stride and write a row for each, with the second at which
            the answer was known; stderr says how long a step takes.

    Raises:
        DataError: If the recordings cannot be used, or the output cannot be where it should.
        StorageError: If the output cannot be written.
    """
    if output is not None:
        check_output(Path(output), Path(data))
    trained = load_run(run)
    of = _read(trained, data, reading, is_labeled=False)
    head = ["subject", "window", *(["second"] if stream else []), "prediction"]
    table: list[list[object]] = [[*head, *(f"probability_{name}" for name in trained.classes)]]
    if stream:
        rows = _streamed(trained, of)
    else:
        rows = ((row, None, chances) for row, chances in enumerate(trained.probabilities(of)))
    for row, second, chances in rows:
        require_finite(run, chances)
        when = [] if second is None else [f"{second:.6g}"]
        answer = [trained.classes[int(chances.argmax())], *(f"{chance:.6f}" for chance in chances)]
        table.append([of.subjects[row], row, *when, *answer])
    write_table(output, as_csv(table))


def _streamed(trained: TrainedSignal, of: Recordings) -> Iterator[tuple[int, float, np.ndarray]]:
    """Read every window stride by stride, and yield an answer for each stride."""
    kind, stride = trained.standardization.kind, trained.model.config.stride
    if kind in ("subject", "window"):
        say(f"standardized by the {kind}, as in training, which a live stream has to know "
            "beforehand; --standardize training needs nothing")  # fmt: skip
    signals = torch.from_numpy(trained.standardization.apply(of).signals)
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
                yield row, (start + stride) / of.sampling_rate, chances.double().numpy()
    half, most = (1e3 * float(np.percentile(times, q)) for q in (50, 95))
    say(f"{len(times)} steps of {stride} samples, {1e3 * stride / of.sampling_rate:.3g} ms of the "
        f"signal each: p50 {half:.3f} ms, p95 {most:.3f} ms a step")  # fmt: skip


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread, as a step is too small for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _read(
    trained: TrainedSignal, data: str | Path, reading: SignalReading, *, is_labeled: bool = True
) -> Recordings:
    """Read recordings, as those of training where nothing else is said."""
    said = {name: value for name, value in asdict(reading).items() if value is not None}
    like_training = SignalReading(**{**asdict(trained.reading), **said})
    rate = float(trained.model.config.sampling_rate)
    return read_like(
        data, like_training, trained.channels, rate, trained.samples, is_labeled=is_labeled
    )
