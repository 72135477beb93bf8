"""Tiny runs of every task, finished, and stopped after their first checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from faults import patience
from faults.forked import forked
from representer.cli.main import entry_point
from representer.data.molecules import assembled_molecules
from representer.data.signals import synthetic_recordings, write_npz
from representer.estimators import TextClassifier
from representer.storage import atomic

TASKS = ("text", "language", "molecule", "graph", "signal")
JOINT = "text from Python"  # a kernel and a network, saved without a command
STOPPED = "-stopped"
VALID: dict[str, Any] = {  # an object of each task
    "text": "the sea 1", "language": "one two three", "molecule": "CCO",
    "graph": {"nodes": ["a", "b", "a"], "edges": [[0, 1], [1, 2]]},
}  # fmt: skip
JSON = {"content-type": "application/json"}
_SMALL = ["--hidden-size", "4", "--batch-size", "16"]
_SHARES = ["--valid-fraction", "0.2", "--test-fraction", "0.2"]
_OPTIONS = {
    "text": ["--embedding-size", "4", "--min-count", "1", "--cell", "string-kernel",
             "--baselines", "none", *_SHARES],
    "language": ["--unroll", "8"],
    "molecule": ["--depth", "2", "--members", "2", "--target", "length", "--baselines", "none",
                 *_SHARES],
    "graph": ["--depth", "2", "--baselines", "none", *_SHARES],
    "signal": ["--filter-length", "20", "--stride", "15", "--baselines", "none", "--jobs", "1"],
}  # fmt: skip
ROWS = [(f"the {('sea', 'sky')[i % 2]} {i % 5}", "ab"[i % 2]) for i in range(40)]


def write_data(folder: Path, task: str) -> Path:
    """Write a small data set of a task."""
    if task == "signal":
        write_npz(folder / "signals.npz", synthetic_recordings(subjects=3, windows=4))
        return folder / "signals.npz"
    if task == "series":
        rng = np.random.default_rng(0)
        np.savez(folder / "series.npz", X=rng.normal(size=(40, 2, 30)), y=np.arange(40) % 2)
        return folder / "series.npz"
    if task == "molecule":
        smiles = assembled_molecules(30).smiles
        name, lines = "molecules.csv", ["smiles,length", *(f"{s},{len(s)}" for s in smiles)]
    elif task == "graph":
        name, lines = "graphs.jsonl", [
            json.dumps({"nodes": list("ab" * 3), "edges": [[v, v + 1] for v in range(3 + i % 2)],
                        "label": i % 2})
            for i in range(30)
        ]  # fmt: skip
    elif task == "language":
        name, lines = "text.txt", ["one two three four five six seven"] * 30
    else:
        rows = [f"{i},{text},{label}" for i, (text, label) in enumerate(ROWS)]
        name, lines = "table.csv", ["id,text,label", *rows]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


def make_runs(folder: Path, tasks: Sequence[str]) -> Iterator[tuple[str, Path, Path]]:
    """Train a tiny run of each task in a new folder; yield task, run and data.

    The second run of a task, whose name ends in ``STOPPED``, lacks its last two epochs.
    """
    folder.mkdir()
    for task in tasks:
        data = write_data(folder, task)
        run = folder / task.replace(" ", "-")
        if task == JOINT:
            model = TextClassifier(
                epochs=1, hidden_size=4, embedding_size=4, min_count=1, random_state=0, verbose=0
            )
            model.fit(*zip(*ROWS, strict=True)).save(run)
            yield task, run, data
            continue
        words = ["fit", task, str(data), *_SMALL, *_OPTIONS[task]]
        assert entry_point([*words, "--epochs", "1", "--out", str(run)]) == 0
        yield task, run, data
        stopped = run.with_name(run.name + STOPPED)
        words += ["--epochs", "3", "--out", str(stopped)]

        def stop(words: list[str] = words) -> int:
            os.environ[atomic.VARIABLE] = "ckpt.begun:3:enospc"
            atomic.reset()
            return entry_point(words)

        ended = forked(stop, folder, seconds=120, memory=None)
        assert ended.code == 2, ended.err
        yield task, stopped, data


def request(
    port: int, method: str, path: str, body: bytes | None = None,
    headers: Mapping[str, str] = JSON, seconds: float = 60.0,
) -> tuple[int, bytes]:  # fmt: skip
    """Return status and body of the answer of a server on this machine."""
    connection = HTTPConnection("127.0.0.1", port, timeout=patience(seconds))
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
