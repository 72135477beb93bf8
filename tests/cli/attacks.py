"""Damaged and hostile run folders, generated from a seed, and what the commands make of them.

``python tests/cli/attacks.py [COUNT] [SEED]`` runs a campaign on tiny runs of every task and
prints the counts. A case is a copy of a run with one or two attacks. The attacker may leave the
manifest, remake it, or delete it. A forked child with a limit of memory and time runs one command.
Nothing outside of the run folder may change, no command may end in an internal error or hang, and
no prediction may change without a word unless the attacker has remade the manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from representer.cli.main import entry_point
from representer.data.molecules import assembled_molecules
from representer.data.signals import synthetic_recordings, write_npz
from representer.estimators import TextClassifier
from representer.storage.manifest import MANIFEST, Entry, manifest_text

SECONDS, MEMORY = 120, 4 * 2**30  # of one command, beyond what the parent uses
ALLOWED = (0, 2, 73, 74)
TASKS = ("text", "language", "molecule", "graph", "signal")
JOINT = "text, kernel and network"  # saved from Python
WEIRD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**7, 2**31, 10**30, 0.5, -0.0, 1e308, "", "x", "../../outside/a",
    "<script>", "\x1b[2J\n", "x" * 100_000, [], {}, [[]], {"a": 1}, [1, "a", None], ["x"] * 3,
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A run to attack, its data, and what the commands print for the untouched run."""

    task: str
    run: Path
    data: Path
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> list[list[str]]:
        """The commands of the task, with RUN and DATA to be filled in."""
        explain = ["explain", "RUN", "DATA", "--limit", "1"]
        if self.task == JOINT:
            columns = ["--text", "text", "--label", "label"]
            predict = ["predict", "RUN", "DATA", "--text", "text"]
            return [["evaluate", "RUN", "DATA", *columns], predict, predict]
        found = [["evaluate", "RUN", "DATA"], ["report", "RUN"]]
        if self.task == "language":
            found.append(["generate", "RUN", "-n", "5"])
        return [*found, explain, ["predict", "RUN", "DATA"], ["predict", "RUN", "DATA"]]


@dataclass(frozen=True)
class Case:
    """An attack on a run, and its outcome."""

    name: str
    command: str
    code: int | str
    problem: str | None
    errors: str


def make_targets(folder: Path, tasks: Sequence[str] = TASKS) -> list[Target]:
    """Train a tiny run of each task."""
    small = ["--hidden-size", "4", "--epochs", "1", "--batch-size", "16"]
    table = folder / "table.csv"
    rows = [f"{i},the {('sea', 'sky')[i % 2]} {i % 5},{'ab'[i % 2]}\n" for i in range(40)]
    table.write_text("id,text,label\n" + "".join(rows), encoding="utf-8")
    text = folder / "text.txt"
    text.write_text("one two three four five six seven\n" * 30, encoding="utf-8")
    molecules = folder / "molecules.csv"
    lines = [f"{smiles},{len(smiles)}\n" for smiles in assembled_molecules(30).smiles]
    molecules.write_text("smiles,length\n" + "".join(lines), encoding="utf-8")
    graphs = folder / "graphs.jsonl"
    records = [
        {"nodes": list("ab" * 3), "edges": [[v, v + 1] for v in range(3 + i % 2)], "label": i % 2}
        for i in range(30)
    ]
    graphs.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    signals = folder / "signals.npz"
    write_npz(signals, synthetic_recordings(subjects=3, windows=4))
    shares = ["--valid-fraction", "0.2", "--test-fraction", "0.2"]
    words = {
        "text": [table, *small, "--embedding-size", "4", "--min-count", "1", *shares,
                 "--cell", "string-kernel"],
        "language": [text, *small, "--unroll", "8"],
        "molecule": [molecules, *small, "--depth", "2", "--members", "2", "--target", "length",
                     "--baselines", "none", *shares],
        "graph": [graphs, *small, "--depth", "2", "--baselines", "none", *shares],
        "signal": [signals, *small, "--filter-length", "20", "--stride", "15", "--baselines",
                   "none", "--jobs", "1"],
    }  # fmt: skip
    targets = []
    for task in tasks:
        run = folder / f"run-{task}"
        assert entry_point(["fit", task, *map(str, words[task]), "--out", str(run)]) == 0
        targets.append(Target(task, run, Path(words[task][0])))  # type: ignore[arg-type]
    joint = folder / "run-joint"
    texts, labels = zip(*(row.strip().split(",")[1:] for row in rows), strict=True)
    model = TextClassifier(
        epochs=1, hidden_size=4, embedding_size=4, min_count=1, random_state=0, verbose=0
    )
    model.fit(texts, labels).save(joint)
    targets.append(Target(JOINT, joint, table))
    for target in targets:
        copy = folder / "untouched"
        for command in {words[0]: words for words in target.commands}.values():
            shutil.copytree(target.run, copy)
            code, out, err = run_command(command, copy, target.data, folder)
            assert code == 0, err
            target.answers[command[0]] = out
            shutil.rmtree(copy)
    return targets


def run_command(
    command: list[str], run: Path, data: Path, logs: Path
) -> tuple[int | str, str, str]:
    """Run a command line in a forked child, and return its exit code, stdout and stderr."""
    names = {"RUN": str(run), "DATA": str(data)}
    words = [names.get(word, word) for word in command]
    paths = [logs / "stdout", logs / "stderr"]
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _become(words, paths)
        os._exit(99)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code: int | str = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.005)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        code = "hang"
    out, err = (path.read_text(encoding="utf-8", errors="replace") for path in paths)
    return code, out.replace(str(run), "RUN"), err


def _become(words: list[str], paths: list[Path]) -> None:
    for number, path in zip((1, 2), paths, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = entry_point(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


# Attacks. Each takes the run folder, a folder outside and a generator, and says what it did.

Attack = Callable[[Path, Path, random.Random], str]


def _some_file(run: Path, draw: random.Random, *suffixes: str) -> Path:
    files = [
        path for path in sorted(run.iterdir())
        if path.is_file() and not path.is_symlink() and path.suffix in (suffixes or path.suffix)
        and path.name not in ("config.yaml", ".lock", "metrics.csv", "timings.jsonl")
    ]  # fmt: skip
    return draw.choice(files or [run / "model.json"])


def truncate(run: Path, outside: Path, draw: random.Random) -> str:
    path = _some_file(run, draw)
    os.truncate(path, draw.randrange(max(1, path.stat().st_size)))
    return path.name


def flip(run: Path, outside: Path, draw: random.Random) -> str:
    path = _some_file(run, draw)
    data = bytearray(path.read_bytes() or b"\0")
    for _ in range(draw.choice((1, 1, 3))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return path.name


def overwrite(run: Path, outside: Path, draw: random.Random) -> str:
    path = _some_file(run, draw)
    content = draw.choice((
        b"", b"\xff\xfe", b"null", b"[]", b"{}", b'"x"', b"[" * 100_000, b'{"a":' * 100_000,
        draw.randbytes(500), "λ".encode("utf-16"), b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
        b"9" * 100_000, b"NaN", struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"{}", path.read_bytes() * 2,
    ))  # fmt: skip
    path.write_bytes(content)
    return f"{path.name} {content[:8]!r}"


def swap(run: Path, outside: Path, draw: random.Random) -> str:
    one, other = _some_file(run, draw), _some_file(run, draw)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"{one.name} {other.name}"


def change_json(run: Path, outside: Path, draw: random.Random) -> str:
    path = run / draw.choice(
        ["model.json"] * 4 + ["metrics.json", "details.json", "model.json", "vocabulary.json",
                              "pool.json", MANIFEST]
    )  # fmt: skip
    if not path.is_file():
        path = run / "model.json"
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return f"{path.name} already damaged"
    place = [value]
    at: Any = 0
    node: Any = place
    for _ in range(draw.randint(1, 5)):
        inner = node[at]
        if isinstance(inner, dict | list) and inner:
            node = inner
            at = draw.choice(list(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
    match draw.randrange(6):
        case 0 if isinstance(node, dict):
            del node[at]
        case 1 if isinstance(node, dict):
            node[draw.choice(("..", "extra", "__class__"))] = draw.choice(WEIRD)
        case 2 if isinstance(node, list):
            node.reverse()
        case 3 if type(node[at]) is int:
            node[at] = draw.choice((node[at] + 1, node[at] * 1000, -node[at], 10**9, 256))
        case _:
            node[at] = draw.choice(WEIRD)
    path.write_text(json.dumps(place[0]), encoding="utf-8")
    return f"{path.name} at {at}"


def change_weights(run: Path, outside: Path, draw: random.Random) -> str:
    path = run / draw.choice(("model.safetensors", "model.safetensors", "kernel.safetensors"))
    path = path if path.is_file() else run / "model.safetensors"
    try:
        tensors = safetensors.torch.load(path.read_bytes())
    except Exception:
        return f"{path.name} already damaged"
    if not tensors:
        return "no weights"
    name = draw.choice(sorted(tensors))
    match draw.randrange(7):
        case 0:
            flat = tensors[name].flatten().clone()
            flat[: 1 + len(flat) // 2] = draw.choice((float("nan"), float("inf")))
            tensors[name] = flat.reshape(tensors[name].shape)
        case 1:
            tensors[name] = tensors[name].to(draw.choice((torch.int8, torch.float64, torch.bool)))
        case 2:
            del tensors[name]
        case 3:
            tensors["extra"] = torch.zeros(3)
        case 4:
            tensors[name] = tensors[name].flatten()[:1].clone()
        case 5:
            tensors = {n: t.clone() * 1e30 for n, t in tensors.items() if t.is_floating_point()}
        case _:
            tensors[name] = -tensors[name]
    path.write_bytes(safetensors.torch.save(tensors))
    return f"{path.name} {name}"


def replace_by_special(run: Path, outside: Path, draw: random.Random) -> str:
    path = _some_file(run, draw)
    kind = draw.choice(("pipe", "zero", "link", "copy", "loop", "folder", "sparse", "gone"))
    content = path.read_bytes()
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "link":
            path.symlink_to(outside / "precious.txt")
        case "copy":
            (outside.parent / "bait").mkdir(exist_ok=True)
            (outside.parent / "bait" / path.name).write_bytes(content)
            path.symlink_to(outside.parent / "bait" / path.name)
        case "loop":
            path.symlink_to(path)
        case "folder":
            path.mkdir()
        case "sparse":
            path.write_bytes(content)
            os.truncate(path, draw.choice((2**32, 2**40)))
    return f"{path.name} {kind}"


def plant(run: Path, outside: Path, draw: random.Random) -> str:
    name = draw.choice((
        "report.html", "explanations.json", "pool.json", ".lock", "checkpoints", "folds",
        f".report.html.{os.getpid()}.tmp", ".representer-0123456789abcdef.tmp", "gine",
        "labels.json",
    ))  # fmt: skip
    path = run / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    match draw.randrange(4):
        case 0 | 1:
            path.symlink_to(outside / draw.choice(("precious.txt", "folder", "missing")))
        case 2:
            os.mkfifo(path)
        case _:
            entry: Any = draw.choice((*WEIRD, {"smiles": "<script>", "drawing": "<script>"}))
            path.write_text(json.dumps(draw.choice((entry, [entry], [entry] * 3))))
    return name


ATTACKS: tuple[Attack, ...] = (
    *(truncate, flip, flip, overwrite, swap, change_json, change_json, change_json),
    *(change_weights, change_weights, replace_by_special, replace_by_special, plant, plant),
)


def remake_manifest(run: Path) -> None:
    """Make the digests those of the damaged files, as an attacker does."""
    files = [path for path in run.iterdir() if path.is_file() and not path.is_symlink()]
    unlisted = (MANIFEST, ".lock", "timings.jsonl", "explanations.json", "report.html")
    entries = {
        path.name: Entry.of([path.read_bytes()]) for path in files
        if path.name not in unlisted and path.stat().st_size < 2**26
    }  # fmt: skip
    with contextlib.suppress(OSError):
        (run / MANIFEST).unlink(missing_ok=True)
        (run / MANIFEST).write_text(manifest_text(entries))


def digest(folder: Path) -> dict[str, str]:
    """Return a digest of everything below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file() else "folder" for path in sorted(folder.rglob("*"))
    }  # fmt: skip


def run_case(target: Target, folder: Path, draw: random.Random) -> Case:
    """Attack a copy of a run, run one command on it, and judge the outcome."""
    run, outside = folder / "place" / "run", folder / "place" / "outside"
    shutil.rmtree(folder / "place", ignore_errors=True)
    shutil.copytree(target.run, run)
    (outside / "folder").mkdir(parents=True)
    for name in ("precious.txt", "a", "folder/step-000000001.ckpt"):
        (outside / name).write_text("precious")
    names = []
    for _ in range(draw.choice((1, 1, 2))):
        attack = draw.choice(ATTACKS)
        with contextlib.suppress(OSError, UnicodeDecodeError):  # a second attack on a special file
            names.append(f"{attack.__name__} {attack(run, outside, draw)}")
        if attack is replace_by_special:
            break  # another attack would read a pipe, a device or terabytes of zeros
    manifest = draw.choice(("kept", "kept", "remade", "remade", "deleted"))
    if manifest == "remade":
        remake_manifest(run)
    elif manifest == "deleted":
        with contextlib.suppress(OSError):
            (run / MANIFEST).unlink()
    command = draw.choice(target.commands)
    before, data = digest(outside), target.data.read_bytes()
    code, out, err = run_command(command, run, target.data, folder)
    problem = None
    if code == "hang":
        problem = "hang"
    elif code not in ALLOWED:
        problem = "internal error"
    elif digest(outside) != before or target.data.read_bytes() != data:
        problem = "bytes outside"
    elif code == 0 and command[0] in ("predict", "evaluate", "generate"):
        is_told = "older version" in err
        if out != target.answers[command[0]] and manifest != "remade" and not is_told:
            problem = "silent change"
    elif code != 0 and sum(line.startswith("error:") for line in err.splitlines()) != 1:
        problem = "not one line"
    shutil.rmtree(folder / "place", ignore_errors=True)
    name = f"{target.task}: {', '.join(names)} (manifest {manifest})"
    return Case(name, command[0], code, problem, err)


def campaign(targets: list[Target], folder: Path, count: int, seed: int) -> Iterator[Case]:
    """Run so many cases, each task in turn; a case depends on the seed and its number alone."""
    for i in range(count):
        yield run_case(targets[i % len(targets)], folder, random.Random(f"{seed} {i}"))


def main() -> int:
    """Run a campaign and print its counts."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        targets = make_targets(folder)
        start = time.monotonic()
        cases = []
        for case in campaign(targets, folder, count, seed):
            cases.append(case)
            if len(cases) % 100 == 0:
                print(f"{len(cases)} cases, {time.monotonic() - start:.0f} s", flush=True)
            if case.problem:
                last = (case.errors.strip().splitlines() or [""])[-1]
                print(f"{case.problem}: {case.command} {case.name}: {last[:300]}", flush=True)
    print(f"{count} cases, seed {seed}, {time.monotonic() - start:.0f} s")
    print("exit codes", dict(Counter(str(case.code) for case in cases)))
    print("problems", dict(Counter(case.problem for case in cases if case.problem)))
    return int(any(case.problem for case in cases))


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
