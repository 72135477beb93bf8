"""Use a trained signal classifier: ``evaluate``, ``predict``, also as a stream, and ``explain``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.signals import Recordings, Standardization, cut
from representer.data.tables import Grid
from representer.errors import DataError, KindError, say
from representer.estimators import SignalClassifier
from representer.estimators.explanation import Example
from representer.estimators.parameters import AUTO
from representer.estimators.results import classes_of
from representer.machine import limited
from representer.models import SignalStream
from representer.report.page import Predictions
from representer.storage.run import require_finite
from representer.tasks import use
from representer.tasks.objects import Objects
from representer.tasks.predictions import as_csv, check_output, write_table
from representer.tasks.results import named_examples, of_path
from representer.tasks.signal.data import (
    DEMO_SOURCE,
    SignalForm,
    accuracy_by_subject,
    at_rate,
    demo,
    read_given,
    subjects_of,
)
from representer.tasks.signal_options import SignalReading, Streaming
from representer.tasks.use import EstimatorUse

UNSEEN = 2**20  # seed of the recordings to look at in the demo


@dataclass(frozen=True)
class Windows(Objects):
    """Windows of recordings, numbered from 0.

    Attributes:
        recordings: All of them.
    """

    recordings: Any = None


def windows_of(recordings: Recordings, source: str | Path) -> Windows:
    """Return the windows of recordings; those of a file without classes have no use for labels."""
    labels = [recordings.classes[label] for label in recordings.labels.tolist()]
    numbers = [*range(len(recordings))]
    rows = [*zip(recordings.subjects.tolist(), numbers, strict=True)]
    return Windows(
        str(source), str(source), list(recordings.signals), labels, numbers, rows=numbers,
        table=Grid(["subject", "window"], rows, numbers, [], True, False, []), has_lines=False,
        recordings=recordings,
    )  # fmt: skip


def read_windows(path: str | Path, *, is_regression: bool, **reading: Any) -> Windows:
    """Return the windows of a file; the options are those of `read_given`."""
    return windows_of(read_given(path, **reading), path)


def as_trained(estimator: SignalClassifier, form: SignalForm) -> dict[str, Any]:
    """Return how the recordings of training became windows, for `read_given`."""
    rate = estimator.sampling_rate_
    seconds = form.samples / rate
    return {"sampling_rate": rate, "window_seconds": seconds, "is_whole": form.is_whole}


def adapted(estimator: SignalClassifier, form: SignalForm, objects: Windows) -> Windows:
    """Convert windows to the format of training.

    Channels are reordered and unknown ones dropped; recordings are resampled and longer windows are
    cut where necessary, with a notice.

    Raises:
        DataError: If a channel is missing, or windows are too short.
    """
    made, path = objects.recordings, objects.source
    if form.channels:
        if unknown := [name for name in made.channels if name not in form.channels]:
            say(f"{path}: the channels {', '.join(unknown)} are unknown to the model and ignored")
        made = made.in_order(form.channels, file=path)
    rate = estimator.sampling_rate_
    given = made = at_rate(made, rate, path)
    if form.samples and made.signals.shape[2] != form.samples:
        seconds = form.samples / rate
        made = cut(made, seconds, file=path)
        say(f"{path}: {len(given)} windows of {given.seconds:g} s are cut into {len(made)} of "
            f"{seconds:g} s, as in training")  # fmt: skip
    if form.is_standardized_by_subject:
        made = Standardization("subject").apply(made)
    return windows_of(made, path)


def figures(
    form: SignalForm, objects: Windows, values: NDArray[np.int64], found: Sequence[Predictions]
) -> dict[str, Any]:
    """Return accuracies by subject and their mean; tell which subjects were used in training."""
    if known := [name for name in subjects_of(objects.recordings) if name in form.subjects]:
        say(f"{objects.source}: the model was trained on {', '.join(known)}; only other subjects "
            "measure generalization")  # fmt: skip
    recordings = replace(objects.recordings, labels=values)  # in the classes of the model
    by_subject = accuracy_by_subject(recordings, np.arange(len(values)), found[0].values)
    return {"by_subject": by_subject, "mean_of_subjects": float(np.mean([*by_subject.values()]))}


USE = EstimatorUse(
    noun="window",
    reading=SignalReading,
    read=read_windows,
    remembered={one.name: "" for one in fields(SignalReading)},
    form=SignalForm,
    as_trained=as_trained,
    adapted=adapted,
    figures=figures,
    group="subject",
    groups=lambda windows: [windows.recordings.subjects[row] for row in windows.rows],
)
evaluate, explain = USE.evaluate, USE.explain


def examples(run: str, data: str | None) -> list[Example]:
    """Return windows of a file or, if there is none, of subjects that the demo was not trained on.

    The windows of a file may be those of subjects that the model was trained on.

    Raises:
        DataError: They cannot be used.
    """
    if data is None:
        estimator, _, form = USE.load(run, SignalReading(), "cpu")
        windows: Any = adapted(estimator, form, windows_of(demo(UNSEEN), DEMO_SOURCE))
    else:
        windows = of_path(USE, run, data)
    return named_examples(
        windows, "window", [windows.recordings.subjects[row] for row in windows.rows]
    )


def of_two_files(first: Windows, second: Windows) -> SignalClassifier:
    """Return a classifier with the kernel of the windows of two files.

    Raises:
        DataError: The files differ in their channels, sampling rate or window length.
    """
    forms = [
        (f"{', '.join(own.channels)}, {own.sampling_rate:g} Hz, {own.signals.shape[2]} samples")
        for own in (first.recordings, second.recordings)
    ]
    if forms[0] != forms[1]:
        problem = f"the windows have {forms[1]}; those of {first.source} have {forms[0]}"
        raise DataError(problem, file=second.source, fix="Convert one of the files.")
    return SignalClassifier(sampling_rate=first.recordings.sampling_rate)


drift = partial(use.drift, USE, of_two_files)


def predict(
    run: str | Path,
    data: str | Path,
    output: str | Path | None,
    options: SignalReading,
    streaming: Streaming,
    *,
    device: str = AUTO,
) -> None:
    """Write the class and the probabilities of every window, with its subject and number.

    Args:
        run: The run folder, or the folder of a fold.
        data: The recordings.
        output: CSV file, written atomically; stdout if None.
        options: How to read them; by default as in training.
        streaming: With ``stream``, read each window stride by stride and write a row for each
            stride, with the time in seconds at which the network's prediction is available; the
            time per step is printed on stderr.
        device: Device of the network, see `estimators.load`.

    Raises:
        DataError: If the recordings or the path of the output cannot be used.
        StorageError: If the output cannot be written.
        KindError: If the model has no network, with ``stream``.
    """
    if not streaming.stream:
        return USE.predict(run, data, output, options, device=device)
    if output is not None:
        check_output(Path(output), Path(data))
    estimator, form, windows = USE.opened(run, data, options, device=device)
    if not estimator.has_network:
        expected = "a model with a network, since a kernel compares whole windows"
        raise KindError("the run", "one of a kernel machine alone", expected)
    if estimator.pool_.kernel:
        say("the network alone predicts the stream; the kernel compares whole windows")
    kind = "subject" if form.is_standardized_by_subject else estimator.standardize
    if kind in ("subject", "window"):
        say(f"standardized by the {kind}, as in training; a live stream needs these statistics in "
            "advance, except with --standardize training")  # fmt: skip
    (names,) = classes_of(estimator.target_)
    head = ["subject", "window", "second", "prediction", *(f"probability_{n}" for n in names)]
    table: list[list[object]] = [list(head)]
    for row, second, chances in _streamed(estimator, windows.recordings):
        require_finite(run, chances)
        predicted = [names[int(chances.argmax())], *(f"{chance:.6f}" for chance in chances)]
        table.append([windows.recordings.subjects[row], row, f"{second:.6g}", *predicted])
    write_table(output, [as_csv(table)])
    return None


def _streamed(
    estimator: SignalClassifier, recordings: Recordings
) -> Iterator[tuple[int, float, np.ndarray]]:
    """Read every window stride by stride, and yield the network's prediction for each stride."""
    (signals,) = estimator.inputs_.collate(estimator.inputs_.encode(recordings.signals))
    reader, stride = SignalStream(estimator.network_), estimator.network_.config.stride
    first, times = signals.shape[2] % stride, []
    with limited(1):  # a step is too small for more
        for row, window in enumerate(signals):
            reader.reset()
            for start in range(first, signals.shape[2], stride):
                samples = window[:, start : start + stride]
                before = time.perf_counter()
                chances = reader.step(samples).cpu()
                times.append(time.perf_counter() - before)
                yield row, (start + stride) / recordings.sampling_rate, chances.double().numpy()
    half, most = (1e3 * float(np.percentile(times, q)) for q in (50, 95))
    milliseconds = 1e3 * stride / recordings.sampling_rate
    say(f"{len(times)} steps of {stride} samples, {milliseconds:.3g} ms of the signal "
        f"each: p50 {half:.3f} ms, p95 {most:.3f} ms a step")  # fmt: skip
