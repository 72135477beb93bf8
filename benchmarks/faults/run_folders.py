"""Damaged and hostile run folders: what every command that reads one makes of them.

A case is a copy of a tiny run with one or two attacks; the attacker may leave the manifest, remake
it, or delete it. A forked child runs one command on it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import pickle
import random
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
import uvicorn

from faults import Case, Suite, count_of, emptied, temporary_folder
from faults.processes import CANARY, Bomb, Outcome, forked
from faults.runs import JOINT, STOPPED, make_runs
from representer.cli.main import entry_point
from representer.serving.model_process import ModelProcess
from representer.storage.run import MANIFEST, Entry, manifest_text

EACH = 1000  # cases of a task
IMPORTED = (  # once here, not in each child
    "representer.serving", "representer.hub", "representer.report", "representer.report.pictures",
)  # fmt: skip
COMPARED = ("predict", "evaluate", "generate")  # whose output must be that of the untouched run
READ = ["predict", "predict", "evaluate", "explain", "report", "serve", "export", "resume"]
COMMANDS = {
    "text": READ, "language": [*READ, "generate"], "molecule": READ, "graph": READ, "signal": READ,
    JOINT: ["predict", "evaluate", "serve", "export"],
}  # fmt: skip
WEIRD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**7, 2**31, 10**30, 0.5, -0.0, 1e308, "", "x", "../../outside/a",
    "<script>", "\x1b[2J\n", "x" * 100_000, [], {}, [[]], {"a": 1}, [1, "a", None], ["x"] * 3,
)  # fmt: skip


def some_file(run: Path, draw: random.Random) -> Path:
    files = [
        path for path in sorted([*run.iterdir(), *run.rglob("*.ckpt")])
        if path.is_file() and not path.is_symlink()
        and path.name not in ("config.yaml", ".lock", "metrics.csv", "timings.jsonl")
    ]  # fmt: skip
    return draw.choice(files or [run / "model.json"])


# Attacks: what is done to a run, of which a sentence is returned.

Attack = Callable[[Path, Path, random.Random], str]


def of_bytes(change: Callable[[bytes, random.Random], bytes]) -> Attack:
    """Return an attack that changes the bytes of a file."""

    def attack(run: Path, outside: Path, draw: random.Random) -> str:
        path = some_file(run, draw)
        path.write_bytes(change(path.read_bytes(), draw))
        return f"{change.__name__} {path.name}"

    return attack


def truncate(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(max(1, len(data)))]


def flip(data: bytes, draw: random.Random) -> bytes:
    flipped = bytearray(data or b"\0")
    for _ in range(draw.choice((1, 1, 3))):
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
    return bytes(flipped)


def overwrite(data: bytes, draw: random.Random) -> bytes:
    return draw.choice((
        b"", b"\xff\xfe", b"null", b"[]", b"{}", b'"x"', b"[" * 100_000, b'{"a":' * 100_000,
        draw.randbytes(500), "λ".encode("utf-16"), b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
        b"9" * 100_000, b"NaN", struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"{}", data * 2,
    ))  # fmt: skip


def swap(run: Path, outside: Path, draw: random.Random) -> str:
    one, other = some_file(run, draw), some_file(run, draw)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"swap {one.name} {other.name}"


def change_json(run: Path, outside: Path, draw: random.Random) -> str:
    path = run / draw.choice(
        ["model.json"] * 4 + ["metrics.json", "details.json", "model.json", "vocabulary.json",
                              "pool.json", MANIFEST]
    )  # fmt: skip
    path = path if path.is_file() else run / "model.json"
    root = [json.loads(path.read_bytes())]
    node, key = descended(root, draw)
    match draw.randrange(6):
        case 0 if isinstance(node, dict):
            del node[key]
        case 1 if isinstance(node, dict):
            node[draw.choice(("..", "extra", "__class__"))] = draw.choice(WEIRD)
        case 2 if isinstance(node, list):
            node.reverse()
        case 3 if type(node[key]) is int:
            value = node[key]
            node[key] = draw.choice((value + 1, value * 1000, -value, 10**9, 256))
        case _:
            node[key] = draw.choice(WEIRD)
    path.write_text(json.dumps(root[0]), encoding="utf-8")
    return f"change {path.name} at {key}"


def descended(root: list[Any], draw: random.Random) -> tuple[Any, Any]:
    """Return a list or a dictionary in a nested value, and one of its keys."""
    node, key = root, 0
    for _ in range(draw.randint(1, 5)):
        inner = node[key]
        if isinstance(inner, dict | list) and inner:
            node = inner
            key = (
                draw.choice(list(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
            )
    return node, key


def change_weights(run: Path, outside: Path, draw: random.Random) -> str:
    path = run / draw.choice(("model.safetensors", "model.safetensors", "kernel.safetensors"))
    path = path if path.is_file() else run / "model.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    name = draw.choice(sorted(tensors))
    tensor = tensors[name]
    match draw.randrange(7):
        case 0:
            flat = tensor.flatten().clone()
            flat[: 1 + len(flat) // 2] = draw.choice((float("nan"), float("inf")))
            tensors[name] = flat.reshape(tensor.shape)
        case 1:
            tensors[name] = tensor.to(draw.choice((torch.int8, torch.float64, torch.bool)))
        case 2:
            del tensors[name]
        case 3:
            tensors["extra"] = torch.zeros(3)
        case 4:
            tensors[name] = tensor.flatten()[:1].clone()
        case 5:
            tensors = {n: t.clone() * 1e30 for n, t in tensors.items() if t.is_floating_point()}
        case _:
            tensors[name] = -tensor
    path.write_bytes(safetensors.torch.save(tensors))
    return f"change {path.name} {name}"


def replace_by_special(run: Path, outside: Path, draw: random.Random) -> str:
    path = some_file(run, draw)
    what = draw.choice(("pipe", "zero", "link", "copy", "loop", "folder", "sparse", "gone"))
    content, bait = path.read_bytes(), outside.parent / "bait"
    path.unlink()
    links = {
        "zero": Path("/dev/zero"), "link": outside / "precious.txt", "copy": bait / path.name,
        "loop": path,
    }  # fmt: skip
    if what == "copy":
        bait.mkdir(exist_ok=True)
        (bait / path.name).write_bytes(content)
    if what in links:
        path.symlink_to(links[what])
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "sparse":
        path.write_bytes(content)
        os.truncate(path, draw.choice((2**32, 2**40)))
    return f"{path.name} as {what}"


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
    return f"plant {name}"


def plant_pickle(run: Path, outside: Path, draw: random.Random) -> str:
    """Replace a file by code: a pickle, or an archive of torch or numpy with one."""
    path, code = some_file(run, draw), pickle.dumps(Bomb(outside), protocol=2)
    what = draw.choice(("pickle", "torch", "numpy"))
    if what != "pickle":
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            if what == "torch":
                archive.writestr("archive/data.pkl", code)
                archive.writestr("archive/version", "3\n")
            else:
                form = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
                head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(form)) + form
                archive.writestr("X.npy", head + code)
        code = content.getvalue()
    path.write_bytes(code)
    for name in ("model.pkl", "model.pt", "optimizer.pt"):
        (run / name).write_bytes(code)
    return f"{path.name} as {what}"


def declare_sizes(run: Path, outside: Path, draw: random.Random) -> str:
    """Change forms and offsets in the header of a file of tensors."""
    path = draw.choice([p for p in sorted(run.iterdir()) if p.suffix == ".safetensors"] or [run])
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    name = draw.choice(sorted(set(header) - {"__metadata__"}) or ["x"])
    entry = header.setdefault(name, {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})
    match draw.randrange(5):
        case 0:
            entry["shape"] = draw.choice(([10**11], [2**40, 2**40], [0, 10**12], [-1], []))
        case 1:
            entry["data_offsets"] = draw.choice(([0, 2**40], [4, 0], [-4, 0], [0, 0], [2**63, 0]))
        case 2:
            entry["dtype"] = draw.choice(("F64", "I8", "F8_E4M3", "BOOL", "object", 7))
        case 3:
            header["../../outside/a"] = header.pop(name)
        case _:
            header["__metadata__"] = {"format": "pt", "config": draw.choice(WEIRD)}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    return f"declare {path.name} {name}"


def change_version(run: Path, outside: Path, draw: random.Random) -> str:
    """Make a file one of another version, or of another program."""
    name = draw.choice((MANIFEST, "model.json", "metrics.json"))
    value = json.loads((run / name).read_bytes())
    keys = [key for key in value if key in ("format", "written_by", "version", "task", "kind")]
    key = draw.choice(keys or ["version"])
    value[key] = draw.choice(("representer run 2", "representer run 0", "99.0", "", 0, 2, None, []))
    (run / name).write_text(json.dumps(value), encoding="utf-8")
    return f"version {name} {key}"


def list_outside(run: Path, outside: Path, draw: random.Random) -> str:
    """Let the manifest list files outside, or a large number of files."""
    written = json.loads((run / MANIFEST).read_bytes())
    entry = {"size": draw.choice((8, 0, 2**62)), "sha256": "0" * 64}
    names = draw.choice((
        ["../outside/precious.txt"], [str(outside / "precious.txt")], ["", ".", ".."],
        ["a/../../outside/a"], ["model.json\x00"], [f"file-{k}" for k in range(2000)],
    ))  # fmt: skip
    written["files"].update(dict.fromkeys(names, entry))
    (run / MANIFEST).write_text(json.dumps(written), encoding="utf-8")
    return f"list {names[0]!r}"


ATTACKS: tuple[Attack, ...] = (
    *map(of_bytes, (truncate, flip, flip, overwrite)),
    *(swap, change_json, change_json, change_json),
    *(change_weights, change_weights, replace_by_special, replace_by_special, plant, plant),
    *(plant_pickle, declare_sizes, change_version, list_outside),
)


def attacked(run: Path, outside: Path, draw: random.Random) -> tuple[str, bool]:
    """Attack a run once or twice; return what was done, and whether the manifest agrees with it."""
    done = []
    for _ in range(draw.choice((1, 1, 2))):
        attack = draw.choice(ATTACKS)
        with contextlib.suppress(Exception):  # a second attack on a damaged file
            done.append(attack(run, outside, draw))
        if attack is replace_by_special:
            break  # another attack would read a pipe, a device or terabytes of zeros
    manifest = draw.choice(("kept", "kept", "remade", "remade", "deleted"))
    with contextlib.suppress(OSError):
        if manifest == "remade":
            remake_manifest(run)
        elif manifest == "deleted":
            (run / MANIFEST).unlink()
    return f"{', '.join(done)} (manifest {manifest})", manifest == "remade"


def remake_manifest(run: Path) -> None:
    """Make the digests those of the damaged files, as an attacker does."""
    files = [path for path in run.iterdir() if path.is_file() and not path.is_symlink()]
    unlisted = (MANIFEST, ".lock", "timings.jsonl", "explanations.json", "report.html")
    entries = {
        path.name: Entry.of([path.read_bytes()]) for path in files
        if path.name not in unlisted and path.stat().st_size < 2**26
    }  # fmt: skip
    (run / MANIFEST).unlink(missing_ok=True)
    (run / MANIFEST).write_text(manifest_text(entries))


# Commands on an attacked run.


@dataclass(frozen=True)
class Target:
    """A run to attack, its data, and what the commands leave of the untouched run."""

    task: str
    run: Path
    data: Path
    outputs: dict[str, str] = field(default_factory=dict)

    def words(self, command: str, run: Path, out: Path) -> list[str]:
        """Return the words of a command."""
        data = str(self.data)
        if self.task == JOINT and command in ("predict", "evaluate"):
            label = ["--label", "label"] if command == "evaluate" else []
            return [command, str(run), data, "--text", "text", *label]
        if command == "resume":  # with the options that the run says it had
            return ["fit", self.task, "--config", str(self.run / "config.yaml"), data,
                    "--out", str(run), "--resume"]  # fmt: skip
        rest = {
            "evaluate": [data], "predict": [data], "explain": [data, "--limit", "1"],
            "generate": ["-n", "5"], "serve": ["--port", "0"],
            "export": ["--to", "hub", "--out", str(out)],
        }  # fmt: skip
        return [command, str(run), *rest.get(command, [])]

    def ended(self, command: str, run: Path, forbidden: Sequence[Path] = ()) -> Outcome:
        """Run a command on a copy of the run."""
        words = self.words(command, run, run.parent / "out")

        def call() -> int:
            np.seterr(all="ignore")
            if command == "serve":  # the model is loaded here, where it is watched
                ModelProcess.start = lambda self: self.about.update(self._make().describe())
                uvicorn.Server.run = lambda self, sockets: sockets[0].close()
            return entry_point(words)

        return forked(call, _PLACE[0], forbidden=forbidden)


_PLACE: list[Path] = []
_TARGETS: dict[tuple[str, bool], Target] = {}  # by task, and whether it was stopped


def setup() -> None:
    """Train the runs, once, and note what each command leaves of them."""
    if _PLACE:
        return
    for name in IMPORTED:
        importlib.import_module(name)
    torch.set_num_threads(1)
    _PLACE.append(temporary_folder())
    for task, run, data in make_runs(_PLACE[0] / "runs", tuple(COMMANDS)):
        _TARGETS[task, run.name.endswith(STOPPED)] = Target(task, run, data)
    for (task, is_stopped), target in _TARGETS.items():
        for command in {c for c in COMMANDS[task] if (c == "resume") == is_stopped}:
            copy = emptied(_PLACE[0] / "place") / "run"
            shutil.copytree(target.run, copy)
            ended = target.ended(command, copy)
            ended.require(0, about=f"{task} {command}: ")
            target.outputs[command] = left(command, ended, copy)


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield cases of each task in turn; a case depends on the seed, its task and number alone."""
    for number in range(count_of(share, EACH)):
        for task, commands in COMMANDS.items():
            draw = random.Random(f"{seed} {task} {number}")
            command = draw.choice(commands)
            yield Case(command, f"{task} {number:04}", partial(attempt, task, command, draw))


def attempt(task: str, command: str, draw: random.Random) -> None:
    target = _TARGETS[task, command == "resume"]
    run = emptied(_PLACE[0] / "place") / "run"
    outside = run.parent / "outside"
    shutil.copytree(target.run, run)
    (outside / "folder").mkdir(parents=True)
    for name in ("precious.txt", "a", "folder/step-000000001.ckpt"):
        (outside / name).write_text("precious", encoding="utf-8")
    done, is_remade = attacked(run, outside, draw)
    before, data = digest_of(outside), target.data.read_bytes()
    ended = target.ended(command, run, (outside, run.parent / "bait"))
    about = f"{command} after {done}: "
    assert not (outside / CANARY).exists(), f"{about}code was executed: {ended.last}"
    assert digest_of(outside) == before, f"{about}bytes outside changed: {ended.last}"
    assert target.data.read_bytes() == data, f"{about}the data changed: {ended.last}"
    ended.require(0, 2, 73, 74, about=about, has_notices=True)
    if ended.code == 0 and not is_remade and "older version" not in ended.err:
        is_same = left(command, ended, run) == target.outputs[command]
        assert is_same, f"{about}another output without a word: {ended.last}"


def left(command: str, ended: Outcome, run: Path) -> str:
    """Return what must not depend on the damage: the output, or the weights of a resumed run."""
    if command == "resume":
        return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    return ended.out.replace(str(run), "RUN") if command in COMPARED else ""


def digest_of(folder: Path) -> dict[str, str]:
    """Return a digest of everything below a folder."""
    return {
        os.fspath(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file() else "folder" for path in sorted(folder.rglob("*"))
    }  # fmt: skip


SUITES = {
    "run_folders": Suite(
        "A run folder was damaged or replaced by an attacker: one clear line or what it held, no "
        "code run, nothing touched outside, at most 1 GiB",
        cases,
        setup,
    )
}
