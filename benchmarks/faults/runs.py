"""A small ``fit`` of every task, and what of its run folder must not depend on interruptions."""

from __future__ import annotations

import atexit
import csv
import functools
import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from faults import patience
from faults.processes import Server, forked

RUN = "run"
JOINT = "text from Python"  # a kernel and a network, saved without a command
STOPPED = "-stopped"
WORDS = {"sea": ("wave", "tide", "sail", "salt"), "sky": ("cloud", "wing", "star", "moon")}
VALID: dict[str, Any] = {  # an object of each task
    "text": "the wave and tide", "language": "a b c", "molecule": "CCO",
    "graph": {"nodes": ["a", "b", "a"], "edges": [[0, 1, "s"], [1, 2, "s"]]},
}  # fmt: skip
JSON = {"content-type": "application/json"}


def write_texts(path: Path) -> None:
    """Write sixty texts of two classes that differ in a few words."""
    draw, rows = random.Random(0), [["id", "text", "label"]]
    for i in range(60):
        label = ("sea", "sky")[i % 2]
        rows.append([str(i), " ".join(draw.choices(WORDS[label] + ("the", "and"), k=6)), label])
    _write_rows(path, rows)


def write_molecules(path: Path) -> None:
    """Write molecules with the number of their letters."""
    from representer.data.molecules import assembled_molecules

    rows = [[one, str(sum(map(str.isalpha, one)))] for one in assembled_molecules(50).smiles]
    _write_rows(path, [["smiles", "size"], *rows])


def write_graphs(path: Path) -> None:
    """Write chains of two kinds of nodes, labeled by the more frequent kind."""
    draw, lines = random.Random(0), []
    for _ in range(50):
        nodes = draw.choices("ab", k=draw.choice((3, 5, 7)))
        edges = [[v, v + 1, "s"] for v in range(len(nodes) - 1)]
        label = "many" if 2 * nodes.count("a") > len(nodes) else "few"
        lines.append(json.dumps({"nodes": nodes, "edges": edges, "label": label}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_signals(path: Path) -> None:
    """Write windows of three subjects."""
    from representer.data.signals import synthetic_recordings, write_npz

    write_npz(path, synthetic_recordings(subjects=3, windows=10))


def write_prose(path: Path) -> None:
    """Write sentences of four words in which each suggests the next."""
    draw, following = random.Random(0), {"a": "bc", "b": "cd", "c": "da", "d": "ab"}
    lines = []
    for _ in range(60):
        words = [draw.choice("abcd")]
        while len(words) < 7:
            words.append(draw.choice(following[words[-1]]))
        lines.append(" ".join(words))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_series(path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    np.savez(path, X=rng.normal(size=(40, 2, 30)), y=np.arange(40) % 2)


def _write_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


class Task(NamedTuple):
    """The data of a task, the options of a ``fit`` of a second, and the command that uses it."""

    data: str
    write: Callable[[Path], None]
    fit: str = ""
    use: str = "predict"


_SIZES = "--hidden-size 6 --threads 1 --lr 0.02"
_PARTS = f"{_SIZES} --valid-fraction 0.2 --test-fraction 0.2 --batch-size 8"
DATA = {
    "text": Task(
        "texts.csv", write_texts,
        f"{_PARTS} --embedding-size 6 --epochs 5 --min-count 1 --dropout 0.1 --evaluate-every 3",
    ),
    "molecule": Task(
        "molecules.csv", write_molecules,
        f"{_PARTS} --depth 2 --members 2 --epochs 4 --target size",
    ),
    "graph": Task(
        "graphs.jsonl", write_graphs, f"{_PARTS} --depth 2 --epochs 4 --dropout 0.2"
    ),
    "signal": Task(
        "signals.npz", write_signals,
        "--hidden-size 4 --filter-length 20 --stride 15 --epochs 2 --batch-size 8 --lr 0.01 "
        "--jobs 1",
    ),
    "language": Task(
        "prose.txt", write_prose, f"{_SIZES} --epochs 3 --batch-size 4 --unroll 8", "evaluate"
    ),
    "series": Task("series.npz", write_series),
}  # fmt: skip
TASKS = tuple(DATA)[:-1]  # those that are trained


def write_data(folder: Path, task: str) -> Path:
    """Write the data of a task."""
    path = folder / DATA[task].data
    DATA[task].write(path)
    return path


def make_runs(folder: Path, tasks: Sequence[str]) -> Iterator[tuple[str, Path, Path]]:
    """Train a tiny run of each task in a new folder; yield task, run and data.

    The second run of a task, whose name ends in ``STOPPED``, lacks its last two epochs.
    """
    from representer.cli.main import entry_point
    from representer.estimators import TextClassifier
    from representer.storage import atomic

    folder.mkdir()
    for task in tasks:
        data = write_data(folder, task.partition(" ")[0])
        run = folder / task.replace(" ", "-")
        if task == JOINT:
            model = TextClassifier(
                epochs=1, hidden_size=4, embedding_size=4, min_count=1, random_state=0, verbose=0
            )
            with data.open(encoding="utf-8") as file:
                rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
            model.fit(*zip(*rows, strict=True)).save(run)
            yield task, run, data
            continue
        words = ["fit", task, str(data), *DATA[task].fit.split(), "--hidden-size", "4"]
        words += ["--batch-size", "16"] + ["--baselines", "none"] * (task != "language")
        words += ["--evaluate-every", "100", "--cell", "string-kernel"] * (task == "text")
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


class Reference(NamedTuple):
    """An uninterrupted run: what it leaves, its processor time, and the failpoints it passes."""

    digests: Mapping[str, str]
    seconds: float
    places: Sequence[tuple[str, int]]


class SmallRuns:
    """A server of commands, the data of each task, and the uninterrupted runs.

    Args:
        folder: Receives everything.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.server = folder, Server()
        for task in TASKS:
            write_data(folder, task)

    def words(self, task: str, *others: str) -> list[str]:
        """Return the command line of ``fit``."""
        data = str(self.folder / DATA[task].data)
        return ["fit", task, data, "--out", RUN, *DATA[task].fit.split(), *others]

    def start(self, task: str, case: Path, *others: str, **how: Any) -> int:
        """Start ``fit`` in the folder of a case, and return its process number."""
        case.mkdir(exist_ok=True)
        words = [self.words(task, *others), *how.pop("then", ())]
        return self.server.start(log_of(case), folder=str(case), words=words, **how)

    def run(self, task: str, case: Path, *others: str, **how: Any) -> int:
        """Run ``fit`` to its end and return its exit code."""
        return self.server.wait(self.start(task, case, *others, **how))

    def close(self) -> None:
        """End the server and delete everything."""
        self.server.close()
        shutil.rmtree(self.folder)

    def use(self, task: str) -> list[str]:
        """Return the command line that applies the run of a task to its data."""
        output = ["--output", "predicted.csv"] * (DATA[task].use == "predict")
        return [DATA[task].use, RUN, str(self.folder / DATA[task].data), *output]

    def finish(self, task: str, case: Path, *others: str, **how: Any) -> None:
        """Run ``fit`` and the use of its result to their end, which must succeed."""
        code = self.run(task, case, *others, then=[self.use(task)], **how)
        assert code == 0, f"exit code {code}: {last_line(case)}"

    @functools.cache  # noqa: B019  (one object in a process)
    def reference(self, task: str) -> Reference:
        """Return the uninterrupted run of a task."""
        first, case, timed = (self.folder / f"{task}-{x}" for x in ("first", "reference", "timed"))
        modules, places = first.with_suffix(".modules"), case.with_suffix(".places")
        used = timed.with_suffix(".seconds")
        self.finish(task, first, modules=str(modules))
        self.server.load(modules.read_text(encoding="utf-8").split())
        self.finish(task, case, faults=[["record_places", str(places)]])
        digests = digests_of(case)
        assert digests == digests_of(first), "two uninterrupted runs differ"
        self.run(task, timed, seconds=str(used))
        visits = places.read_text(encoding="utf-8").split()
        numbered = [(name, visits[:i].count(name) + 1) for i, name in enumerate(visits)]
        return Reference(digests, float(used.read_text(encoding="utf-8")), numbered)

    def require_same(self, task: str, case: Path) -> None:
        """Compare a run that was interrupted with the uninterrupted one, and delete it."""
        expected, found = self.reference(task).digests, digests_of(case)
        changed = sorted(n for n in {*expected, *found} if expected.get(n) != found.get(n))
        assert not changed, f"other than without an interruption: {', '.join(changed)}"
        shutil.rmtree(case)


_RUNS: list[SmallRuns] = []


def setup() -> None:
    """Start the server of commands of a suite, in a folder that every user can read."""
    _RUNS.append(SmallRuns(Path(tempfile.mkdtemp(prefix="representer-runs-"))))
    _RUNS[-1].folder.chmod(0o755)
    atexit.register(_RUNS[-1].close)


def new_case(task: str | None = None) -> tuple[SmallRuns, Path]:
    """Return the runs and a new folder, once the uninterrupted run of a task is there."""
    if task is not None:
        _RUNS[-1].reference(task)
    return _RUNS[-1], Path(tempfile.mkdtemp(dir=_RUNS[-1].folder))


def continued(task: str, case: Path) -> None:
    """Continue a run after the fault is gone, and compare it."""
    _RUNS[-1].finish(task, case, "--resume")
    _RUNS[-1].require_same(task, case)


def log_of(case: Path) -> Path:
    """Return the path of the output of a case."""
    return case.with_name(f"{case.name}.log")


def output_of(case: Path) -> str:
    return log_of(case).read_text(encoding="utf-8", errors="replace")


def last_line(case: Path) -> str:
    """Return the last line of the output of a case."""
    return (output_of(case).splitlines() or ["(nothing)"])[-1]


def require_loadable(case: Path) -> None:
    """Load every checkpoint of a case."""
    from representer.storage import checkpoint

    for path in case.rglob("*.ckpt"):
        checkpoint.load(path)


def digests_of(case: Path) -> dict[str, str]:
    """Return a digest of each file of a case, without times and what depends on them.

    Of the checkpoints in a folder, only the last one counts: a signal writes one in between.
    """
    found, last = {}, {path.parent: path for path in sorted(case.rglob("*.ckpt"))}
    for path in sorted(case.rglob("*")):
        is_earlier = path.suffix == ".ckpt" and last[path.parent] != path
        if path.is_file() and not is_earlier and path.name not in (".lock", "timings.jsonl"):
            digest = hashlib.sha256(repr(_content(path)).encode()).hexdigest()
            found[str(path.relative_to(case))] = digest
    return found


def _content(path: Path) -> Any:
    """Return the content of a file without what differs between two uninterrupted runs."""
    if path.suffix == ".ckpt":
        from representer.storage import checkpoint
        from representer.storage.checkpoint import encode

        loaded = checkpoint.load(path)
        return loaded.step, b"".join(encode([_timeless(loaded.state), loaded.settings]))
    if path.name == "manifest.json":  # the digests of files with times
        value = _timeless(json.loads(path.read_bytes()))
        files = value["files"]
        return value | {"files": {n: None if n.endswith(".json") else files[n] for n in files}}
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_bytes()))
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_bytes().splitlines()]
    return b"" if path.suffix == ".html" else path.read_bytes()  # a page shows times


def _timeless(value: Any) -> Any:
    """Return a nested value without times and without the option that continues a run."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items()
                if "second" not in str(k) and k not in ("timings", "resume")}  # fmt: skip
        return {k: _timeless(v) for k, v in kept.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_timeless, value))
    return value
