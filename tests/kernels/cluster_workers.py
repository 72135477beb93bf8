"""Write what one process computes, and two workers of an engine, of which some are killed.

``cluster_workers.py ENGINE FOLDER`` writes a Gram matrix as FOLDER/one.npy and FOLDER/cluster.npy,
Nyström features as FOLDER/one-features.npy and FOLDER/cluster-features.npy, predictions of six
Parquet files into FOLDER/one-parts and FOLDER/cluster-parts, and a file FOLDER/ID for each process
that computed blocks; FOLDER/killed and FOLDER/killed-part have the IDs of the killed workers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from representer.data.text import code_lines
from representer.estimators import TextClassifier
from representer.jobs import workers
from representer.kernels import Nystroem, StringKernel, gram
from representer.options.registry import TASKS
from representer.options.task import Task
from representer.options.text import TextReading
from representer.tasks.use import predict_parts

BLOCK = 8


class MortalKernel(StringKernel):
    """A string kernel that kills the first worker which has computed three blocks."""

    def __init__(self, order: int = 2, folder: str = "", main: int = 0) -> None:
        super().__init__(order)
        self.folder, self.main = folder, main

    def __call__(self, X, Y=None):
        """Return the kernel values, unless the process has to end."""
        values = super().__call__(X, Y)
        if os.getpid() != self.main:
            own = Path(self.folder, str(os.getpid()))
            with own.open("a", encoding="ascii") as file:
                file.write("x")
            if own.stat().st_size == 3:
                self._kill()
        return values

    def _kill(self) -> None:
        end_once(Path(self.folder, "killed"))


@dataclass(frozen=True)
class MortalTask(Task):
    """A task that kills the worker which has predicted the third file, before it says so."""

    main: int = 0

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function with the end of its process."""
        function = super().function(name)

        def call(run: str, source: Path, output: Path, *options: Any, device: str) -> None:
            function(run, source, output, *options, device=device)
            if source.stem == "2" and os.getpid() != self.main:
                end_once(Path(run).parent / "killed-part")

        return call


def end_once(marker: Path) -> None:
    """Kill this process if no other one was."""
    with suppress(FileExistsError):
        with marker.open("x", encoding="ascii") as file:
            file.write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)


def write_model_and_parts(run: Path, data: Path) -> None:
    """Train a small model of texts, and write six tables."""
    lines, labels = (x[:600] for x in (code_lines().texts, code_lines().labels))
    sizes = {"hidden_size": 8, "embedding_size": 8, "epochs": 1}
    TextClassifier(**sizes, random_state=0, verbose=0).fit(lines, labels).save(run)
    data.mkdir()
    for k in range(6):
        own = {"id": range(k * 100, k * 100 + 100), "text": lines[k * 100 : k * 100 + 100]}
        parquet.write_table(pyarrow.table({**own, "id": [*own["id"]]}), data / f"{k}.parquet")


def main(engine: str, folder: str) -> None:
    draw, place = np.random.default_rng(0), Path(folder)
    sequences = [draw.normal(size=(n % 9, 30)) for n in range(70)]
    kernel = MortalKernel(folder=folder, main=os.getpid())
    nystroem = Nystroem(kernel, 10, random_state=0, block=BLOCK).fit(sequences)
    gram(kernel, sequences, out=place / "one.npy", block=BLOCK)
    np.save(place / "one-features.npy", nystroem.transform(sequences))
    task = MortalTask(**vars(TASKS["text"]), main=os.getpid())
    write_model_and_parts(place / "run", place / "data")

    def predict(name: str, n_jobs: int) -> None:
        parts = str(place / "run"), place / "data", place / name
        predict_parts(task, *parts, [TextReading(text="text")], device="cpu", n_jobs=n_jobs)

    predict("one-parts", 1)
    with workers(engine, 2):
        predict("cluster-parts", 2)
    with workers(engine, 2):  # while one is restarted, joblib may use this process alone
        gram(kernel, sequences, out=place / "cluster.npy", block=BLOCK)
        np.save(place / "cluster-features.npy", nystroem.transform(sequences))


if __name__ == "__main__":
    main(*sys.argv[1:])
