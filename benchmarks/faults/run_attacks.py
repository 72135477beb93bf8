"""Attacks on a run folder, drawn from a seed: damage, and files that an attacker has made."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.run_damage import (
    WEIRD,
    change_json,
    change_weights,
    flip,
    overwrite,
    plant,
    replace_by_special,
    some_file,
    swap,
    truncate,
)
from representer.storage.run import MANIFEST, Entry, manifest_text

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
