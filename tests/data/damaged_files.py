"""Fuzzing of the readers with damaged data files, created by seeded mutations.

Run it as a script for a large campaign: ``python tests/data/damaged_files.py FOLDER --count 2000``.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from representer.data.signals import read_recordings, synthetic_recordings, write_npz
from representer.data.text import read_table, read_vectors
from representer.errors import DataError
from representer.printable import printable

Reader = Callable[[Path], object]
SECONDS = 20  # for one file, on a busy machine
LONGEST = 700  # characters of a message, the path included
HUGE = (
    *(
        b"\xff" * 4,
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\x7f",
        b"\x00\x00\x00\x40",
        b"\x40\x00\x00\x00",
    ),
    *(b"\xff" * 8, b"\x00\x00\x00\x00\x00\x00\x00\x40", b"9" * 8, b"(99999999999,)"),
)
MAGIC = (
    b"PK\x03\x04",
    b"\x93NUMPY\x01\x00",
    b"MATLAB 5.0 MAT-f",
    b"PAR1",
    b"0       ",
    b"\x1f\x8b",
)


def valid_files(folder: Path) -> dict[Path, Reader]:
    """Write valid files of each format, and return their readers."""
    drawn = synthetic_recordings(subjects=2, windows=4, seconds=0.2)
    names = np.asarray(drawn.classes)[drawn.labels]
    arrays = {"X": drawn.signals, "y": names, "subject": drawn.subjects, "fs": 100.0}
    write_npz(folder / "deflated.npz", drawn)
    np.savez(folder / "stored.npz", **arrays)
    np.savez(folder / "vectors.npz", words=["a", "b"], vectors=np.ones((2, 30)))
    np.save(folder / "array.npy", drawn.signals)
    files: dict[Path, Reader] = {
        folder / "deflated.npz": read_recordings,
        folder / "stored.npz": read_recordings,
        folder / "vectors.npz": read_vectors,
        folder / "array.npy": read_vectors,
        **_mat_files(folder, {**arrays, "y": names.astype(object)}),
        **_parquet_files(folder),
        **_mne_files(folder),
    }
    for path, read in files.items():
        if path.name not in ("array.npy", "old.mat"):  # rejected: neither has recordings
            read(path)
    return files


def _mat_files(folder: Path, arrays: dict[str, object]) -> dict[Path, Reader]:
    try:
        from scipy.io import savemat
    except ImportError:
        return {}
    savemat(folder / "deflated.mat", arrays, do_compression=True)
    savemat(folder / "plain.mat", arrays)
    numbers = {"X": np.ones((3, 2)), "y": np.arange(3), "subject": np.arange(3), "fs": 1.0}
    savemat(folder / "old.mat", numbers, format="4")
    return {folder / name: read_recordings for name in ("deflated.mat", "plain.mat", "old.mat")}


def _parquet_files(folder: Path) -> dict[Path, Reader]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return {}
    table = pa.table({"text": [f"document {k}" for k in range(60)], "label": ["a", "b"] * 30})
    for name, codec in (("packed.parquet", "snappy"), ("plain.parquet", "none")):
        parquet.write_table(table, folder / name, compression=codec)
    return {folder / name: read_table for name in ("packed.parquet", "plain.parquet")}


def _mne_files(folder: Path) -> dict[Path, Reader]:
    try:
        import mne
    except ImportError:
        return {}
    rng = np.random.default_rng(0)
    raw = mne.io.RawArray(
        rng.normal(0, 1e-5, (2, 300)), mne.create_info(["Fz", "Cz"], 100.0, "eeg"), verbose="error"
    )
    raw.set_annotations(mne.Annotations([0.5, 1.0, 2.0], [0.5, 0.5, 0.5], ["rest", "task", "rest"]))
    raw.save(folder / "s1_raw.fif", overwrite=True, verbose="error")
    raw.save(folder / "s2_raw.fif.gz", overwrite=True, verbose="error")
    events, numbers = mne.events_from_annotations(raw, verbose="error")
    epochs = mne.Epochs(raw, events, numbers, 0, 0.4, baseline=None, verbose="error")
    epochs.save(folder / "s1-epo.fif", overwrite=True, verbose="error")
    names = ["s1_raw.fif", "s2_raw.fif.gz", "s1-epo.fif"]
    try:
        raw.export(str(folder / "s1.edf"), overwrite=True, verbose="error")
    except (ImportError, RuntimeError):
        return {folder / name: read_recordings for name in names}
    return {folder / name: read_recordings for name in (*names, "s1.edf")}


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a file's content with one to three mutations."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(max(1, len(data)))
        length = rng.choice((1, 4, 16, 100))
        kind = rng.choice(("cut", "flip", "swap", "huge", "huge", "zero", "magic", "repeat"))
        if kind == "cut":
            del data[at:]
        elif kind == "flip":
            for _ in range(length):
                if data:
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == "swap":
            other = rng.randrange(max(1, len(data)))
            data[at : at + length], data[other : other + length] = (
                data[other : other + length], data[at : at + length],
            )  # fmt: skip
        elif kind == "huge":
            number = rng.choice(HUGE)
            at -= at % 4 * rng.randint(0, 1)
            data[at : at + len(number)] = number
        elif kind == "zero":
            data[at : at + length] = bytes(len(data[at : at + length]))
        elif kind == "magic":
            start = rng.choice(MAGIC)
            data[: len(start)] = start
        else:
            data[at:at] = data[at : at + length]
    return bytes(data)


def outcome(read: Reader, path: Path) -> str:
    """Read a file and return "read", "one line", or a description of any other outcome."""
    try:
        with warnings.catch_warnings(action="error"):
            read(path)
    except DataError as error:
        message = str(error)
        is_clear = len(message.splitlines()) == 1 and len(message) < LONGEST
        return "one line" if is_clear and printable(message) == message else f"unclear: {message!r}"
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}"
    return "read"


def campaign(folder: Path, count: int, seed: int = 0) -> dict[str, Counter[str]]:
    """Read damaged files of every format; return the outcomes by suffix."""
    files = list(valid_files(folder).items())
    contents = {path: path.read_bytes() for path, _ in files}
    rng = random.Random(f"damage/{seed}")
    found: dict[str, Counter[str]] = {}
    for number in range(count):
        path, read = files[number % len(files)]
        target = folder / "damaged" / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(damaged(contents[path], rng))
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        found.setdefault(path.name.partition(".")[2], Counter())[outcome(read, target)] += 1
        faulthandler.cancel_dump_traceback_later()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = campaign(options.folder, options.count, options.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    json.dump({"outcomes": results, "peak_mib": peak}, sys.stdout, indent=1)
