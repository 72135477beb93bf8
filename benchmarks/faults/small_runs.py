"""A small ``fit`` of every task, and what of its run folder must not depend on interruptions."""

from __future__ import annotations

import atexit
import csv
import functools
import hashlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.warm import Server

RUN = "run"
WORDS = {"sea": ("wave", "tide", "sail", "salt"), "sky": ("cloud", "wing", "star", "moon")}


@dataclass(frozen=True)
class Command:
    """A ``fit`` of a second.

    Args:
        data: Name of its file.
        write: Writes the file.
        fit: Options of ``fit``.
        use: The command that applies the run, after its name, ``RUN`` and the data.
    """

    data: str
    write: Callable[[Path], None]
    fit: Sequence[str]
    use: str = "predict"

    def words(self, task: str, data: Path, *others: str) -> list[str]:
        """Return the words of ``fit`` of a data file."""
        return ["fit", task, str(data), "--out", RUN, *self.fit, *others]


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

    smiles = assembled_molecules(50).smiles
    rows = [[one, str(sum(map(str.isalpha, one)))] for one in smiles]
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


_SIZES = ("--hidden-size", "6", "--threads", "1", "--lr", "0.02")
_PARTS = ("--valid-fraction", "0.2", "--test-fraction", "0.2")
COMMANDS = {
    "text": Command(
        "texts.csv", write_texts,
        (*_SIZES, *_PARTS, "--embedding-size", "6", "--epochs", "5", "--batch-size", "8",
         "--min-count", "1", "--dropout", "0.1", "--evaluate-every", "3"),
    ),
    "molecule": Command(
        "molecules.csv", write_molecules,
        (*_SIZES, *_PARTS, "--depth", "2", "--members", "2", "--epochs", "4", "--batch-size", "8",
         "--target", "size"),
    ),
    "graph": Command(
        "graphs.jsonl", write_graphs,
        (*_SIZES, *_PARTS, "--depth", "2", "--epochs", "4", "--batch-size", "8",
         "--dropout", "0.2"),
    ),
    "signal": Command(
        "signals.npz", write_signals,
        ("--hidden-size", "4", "--filter-length", "20", "--stride", "15", "--epochs", "2",
         "--batch-size", "8", "--lr", "0.01", "--jobs", "1"),
    ),
    "language": Command(
        "prose.txt", write_prose,
        (*_SIZES, "--epochs", "3", "--batch-size", "4", "--unroll", "8"),
        "evaluate",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Reference:
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
        for command in COMMANDS.values():
            command.write(folder / command.data)

    def words(self, task: str, *others: str) -> list[str]:
        """Return the command line of ``fit``."""
        return COMMANDS[task].words(task, self.folder / COMMANDS[task].data, *others)

    def start(self, task: str, case: Path, *others: str, **how: Any) -> int:
        """Start ``fit`` in the folder of a case, and return its process number."""
        case.mkdir(exist_ok=True)
        words = [self.words(task, *others), *how.pop("then", ())]
        return self.server.start(log_of(case), folder=str(case), words=words, **how)

    def close(self) -> None:
        """End the server and delete everything."""
        self.server.close()
        shutil.rmtree(self.folder)

    def finish(self, task: str, case: Path, *others: str, **how: Any) -> None:
        """Run ``fit`` and the use of its result to their end.

        Raises:
            AssertionError: They failed.
        """
        data = str(self.folder / COMMANDS[task].data)
        use = [COMMANDS[task].use, RUN, data]
        use += ["--output", "predicted.csv"] if use[0] == "predict" else []
        code = self.server.wait(self.start(task, case, *others, then=[use], **how))
        assert code == 0, f"exit code {code}: {last_line(case)}"

    @functools.cache  # noqa: B019  (one object in a process)
    def reference(self, task: str) -> Reference:
        """Return the uninterrupted run of a task."""
        first, case = self.folder / f"{task}-first", self.folder / f"{task}-reference"
        modules = first.with_suffix(".modules")
        self.finish(task, first, modules=str(modules))
        self.server.load(modules.read_text(encoding="utf-8").split())
        places = case.with_suffix(".places")
        self.finish(task, case, faults=[["record_places", str(places)]])
        digests = digests_of(case)
        assert digests == digests_of(first), "two uninterrupted runs differ"
        timed = self.folder / f"{task}-timed"
        used = timed.with_suffix(".seconds")
        self.server.wait(self.start(task, timed, seconds=str(used)))
        seconds = float(used.read_text(encoding="utf-8"))
        visits = places.read_text(encoding="utf-8").split()
        numbered = [(name, visits[:i].count(name) + 1) for i, name in enumerate(visits)]
        return Reference(digests, seconds, numbered)

    def require_same(self, task: str, case: Path) -> None:
        """Compare a run that was interrupted with the uninterrupted one, and delete it.

        Raises:
            AssertionError: A file differs, or one is left over.
        """
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


def last_line(case: Path) -> str:
    """Return the last line of the output of a case."""
    lines = log_of(case).read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else "(nothing)"


def digests_of(case: Path) -> dict[str, str]:
    """Return a digest of each file of a case, without times and what depends on them.

    Of the checkpoints in a folder, only the last one counts: a signal writes one in between.
    """
    found, last = {}, {path.parent: path for path in sorted(case.rglob("*.ckpt"))}
    for path in sorted(case.rglob("*")):
        name = str(path.relative_to(case))
        is_earlier = path.suffix == ".ckpt" and last[path.parent] != path
        if path.is_file() and not is_earlier and path.name not in (".lock", "timings.jsonl"):
            found[name] = hashlib.sha256(repr(_content(path)).encode()).hexdigest()
    return found


def require_loadable(case: Path) -> None:
    """Load every checkpoint of a case.

    Raises:
        CheckpointError: One is damaged.
    """
    from representer.storage import checkpoint

    for path in case.rglob("*.ckpt"):
        checkpoint.load(path)


def _content(path: Path) -> Any:
    """Return the content of a file without what differs between two uninterrupted runs."""
    if path.suffix == ".ckpt":
        from representer.storage import checkpoint
        from representer.storage.checkpoint import encode

        loaded = checkpoint.load(path)
        state = _timeless(loaded.state)
        return loaded.step, b"".join(encode([state, loaded.settings]))
    if path.suffix == ".json":
        value = _timeless(json.loads(path.read_text(encoding="utf-8")))
        if path.name == "manifest.json":  # the digests of files with times
            files = value["files"]
            value["files"] = {n: e for n, e in files.items() if not n.endswith(".json")} | {
                n: None for n in files if n.endswith(".json")
            }
        return value
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_bytes().splitlines()]
    if path.suffix == ".html":
        return ""  # shows times
    return path.read_bytes()


def _timeless(value: Any) -> Any:
    """Return a nested value without times and without the option that continues a run."""
    if isinstance(value, dict):
        without = ("timings", "resume")
        kept = {k: v for k, v in value.items() if "second" not in str(k) and k not in without}
        return {k: _timeless(v) for k, v in kept.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_timeless, value))
    return value


def _write_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
