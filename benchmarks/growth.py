"""CPU seconds and memory of training against the number and the length of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from report import table
from representer.estimators import SequenceClassifier, SeriesClassifier
from representer.kernels.convolution_kernel import ConvolutionKernel
from timing import cpu

ABOUT = """\
Each line of figures is that of a new process; memory is its peak above that of the libraries. The
exponent is the slope of the logarithm of the figures before it."""

Fit = Callable[[int, int], None]
Case = tuple[str, Fit, Sequence[tuple[int, int]]]


def drawn(count: int, steps: int) -> tuple[list[str], np.ndarray]:
    """Return random DNA, of which every other sequence has a motif."""
    letters = np.frombuffer(b"ACGT", np.uint8)
    rows = letters[np.random.default_rng(0).integers(0, 4, (count, steps))]
    rows[1::2, steps // 2 - 5 : steps // 2 + 4] = np.frombuffer(b"TTGACTCAA", np.uint8)
    return [row.tobytes().decode() for row in rows], np.arange(count) % 2


def fit_sequences(count: int, steps: int) -> None:
    model = SequenceClassifier(answer="kernel", random_state=0, verbose=0, n_jobs=1)
    model.fit(*drawn(count, steps))


def fit_series(count: int, steps: int) -> None:
    X = np.random.default_rng(0).normal(size=(count, steps))
    model = SeriesClassifier(num_features=1000, random_state=0, verbose=0, n_jobs=1)
    model.fit(X, np.arange(count) % 2)


def series_features(count: int, steps: int) -> None:
    X = np.random.default_rng(0).normal(size=(count, 1, steps))
    ConvolutionKernel(1000).fit_transform([*X])


SEQUENCES: list[Case] = [
    ("sequences of 100 bases, all inner products", fit_sequences,
     [(n, 100) for n in (500, 1000, 2000, 4000)]),
    ("sequences of 100 bases, counts", fit_sequences,
     [(n, 100) for n in (10_000, 30_000, 100_000)]),
    ("bases of 300 sequences", fit_sequences, [(300, t) for t in (100, 200, 400, 800)]),
]  # fmt: skip
SERIES: list[Case] = [
    ("series of 200 steps", fit_series, [(n, 200) for n in (400, 1600, 6400)]),
    ("steps of each of two series, features alone", series_features,
     [(2, t) for t in (10_000, 100_000, 1_000_000)]),
]  # fmt: skip


def section(cases: Iterable[Case]) -> str:
    """Return a table of CPU seconds and memory against sizes, with fitted exponents."""
    rows = []
    for what, fit, sizes in cases:
        varied = [count if len({n for n, _ in sizes}) > 1 else steps for count, steps in sizes]
        figures = np.array([measured(fit, *size) for size in sizes])
        print(what, varied, figures.tolist(), flush=True)
        slopes = [np.polyfit(np.log(varied), np.log(column), 1)[0] for column in figures.T]
        rows.append([
            what, ", ".join(f"{size:,}" for size in varied),
            ", ".join(f"{seconds:.1f}" for seconds in figures[:, 0]), f"{slopes[0]:.2f}",
            ", ".join(f"{memory:,.0f}" for memory in figures[:, 1]), f"{slopes[1]:.2f}",
        ])  # fmt: skip
    return table(["number of", "sizes", "CPU seconds", "exponent", "MB", "exponent"], rows, left=2)


def measured(fit: Fit, count: int, steps: int) -> tuple[float, float]:
    """Return CPU seconds and MB of memory of a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, fit, count, steps).result()


def _measured(fit: Fit, count: int, steps: int) -> tuple[float, float]:
    fit(40, 100)  # imports
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory is that from here
    before = _memory("VmRSS")
    _, seconds = cpu(fit, count, steps)
    return seconds, max(1.0, _memory("VmHWM") - before)


def _memory(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    (kibibytes,) = re.findall(rf"{name}:\s+(\d+) kB", status)
    return int(kibibytes) * 1024 / 1e6
