"""Attacks on a run folder, drawn from a seed: damage, and files that an attacker has made."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from representer.storage.run import MANIFEST, Entry, manifest_text

WEIRD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**7, 2**31, 10**30, 0.5, -0.0, 1e308, "", "x", "../../outside/a",
    "<script>", "\x1b[2J\n", "x" * 100_000, [], {}, [[]], {"a": 1}, [1, "a", None], ["x"] * 3,
)  # fmt: skip


def some_file(run: Path, draw: random.Random, *suffixes: str) -> Path:
    files = [
        path for path in sorted([*run.iterdir(), *run.rglob("*.ckpt")])
        if path.is_file() and not path.is_symlink() and path.suffix in (suffixes or path.suffix)
        and path.name not in ("config.yaml", ".lock", "metrics.csv", "timings.jsonl")
    ]  # fmt: skip
    return draw.choice(files or [run / "model.json"])


def truncate(run: Path, outside: Path, draw: random.Random) -> str:
    path = some_file(run, draw)
    os.truncate(path, draw.randrange(max(1, path.stat().st_size)))
    return path.name


def flip(run: Path, outside: Path, draw: random.Random) -> str:
    path = some_file(run, draw)
    data = bytearray(path.read_bytes() or b"\0")
    for _ in range(draw.choice((1, 1, 3))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return path.name


def overwrite(run: Path, outside: Path, draw: random.Random) -> str:
    path = some_file(run, draw)
    content = draw.choice((
        b"", b"\xff\xfe", b"null", b"[]", b"{}", b'"x"', b"[" * 100_000, b'{"a":' * 100_000,
        draw.randbytes(500), "λ".encode("utf-16"), b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
        b"9" * 100_000, b"NaN", struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"{}", path.read_bytes() * 2,
    ))  # fmt: skip
    path.write_bytes(content)
    return f"{path.name} {content[:8]!r}"


def swap(run: Path, outside: Path, draw: random.Random) -> str:
    one, other = some_file(run, draw), some_file(run, draw)
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
    path = some_file(run, draw)
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


CANARY = "executed"  # a file that planted code makes in the folder outside


def _bomb(outside: Path) -> bytes:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {outside / CANARY}",)

    return pickle.dumps(Bomb(), protocol=2)


def plant_pickle(run: Path, outside: Path, draw: random.Random) -> str:
    """Replace a file by code: a pickle, or an archive of torch or numpy with one."""
    path, code = some_file(run, draw), _bomb(outside)
    kind = draw.choice(("pickle", "torch", "numpy"))
    if kind != "pickle":
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            if kind == "torch":
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
    return f"{path.name} {kind}"


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
    return f"{path.name} {name}"


def change_version(run: Path, outside: Path, draw: random.Random) -> str:
    """Make a file one of another version, or of another program."""
    name = draw.choice((MANIFEST, "model.json", "metrics.json"))
    path = run / name
    value = json.loads(path.read_bytes())
    keys = [key for key in value if key in ("format", "written_by", "version", "task", "kind")]
    key = draw.choice(keys or ["version"])
    value[key] = draw.choice(("representer run 2", "representer run 0", "99.0", "", 0, 2, None, []))
    path.write_text(json.dumps(value), encoding="utf-8")
    return f"{name} {key}"


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
    return f"{names[0]!r}"


Attack = Callable[[Path, Path, random.Random], str]
ATTACKS: tuple[Attack, ...] = (
    *(truncate, flip, flip, overwrite, swap, change_json, change_json, change_json),
    *(change_weights, change_weights, replace_by_special, replace_by_special, plant, plant),
    *(plant_pickle, declare_sizes, change_version, list_outside),
)


def attacked(run: Path, outside: Path, draw: random.Random) -> tuple[str, bool]:
    """Attack a run once or twice; return what was done, and whether the manifest agrees with it."""
    names = []
    for _ in range(draw.choice((1, 1, 2))):
        attack = draw.choice(ATTACKS)
        with contextlib.suppress(Exception):  # a second attack on a damaged file
            names.append(f"{attack.__name__} {attack(run, outside, draw)}")
        if attack is replace_by_special:
            break  # another attack would read a pipe, a device or terabytes of zeros
    manifest = draw.choice(("kept", "kept", "remade", "remade", "deleted"))
    if manifest == "remade":
        remake_manifest(run)
    elif manifest == "deleted":
        with contextlib.suppress(OSError):
            (run / MANIFEST).unlink()
    return f"{', '.join(names)} (manifest {manifest})", manifest == "remade"


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
