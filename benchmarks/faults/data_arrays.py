"""Files of arrays and signals: valid ones, their rows, and the same rows by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import read_recordings, synthetic_recordings, write_npz

Rows = Sequence[Any]


def recordings_of(path: Path) -> Rows:
    """Return label, subject and samples of each window."""
    found = read_recordings(path)
    assert np.isfinite(found.signals).all(), "signals that are not finite were read"
    names = np.asarray(found.classes)[found.labels].tolist()
    return [(name, subject, signal.tobytes()) for name, subject, signal in
            zip(names, found.subjects.tolist(), found.signals, strict=True)]  # fmt: skip


def plain_arrays(path: Path, rows: Rows) -> Rows | None:
    """Return the windows as numpy reads them."""
    with np.load(path, allow_pickle=False) as file:
        signals, names, subjects = file["X"], file["y"], file["subject"]
    return [(str(name), str(subject), signal.astype(np.float32).tobytes())
            for name, subject, signal in zip(names, subjects, signals, strict=True)]  # fmt: skip


def write_arrays(path: Path) -> None:
    """Write recordings as arrays."""
    drawn = synthetic_recordings(subjects=2, windows=4, seconds=0.2)
    names = np.asarray(drawn.classes)[drawn.labels]
    arrays = {"X": drawn.signals, "y": names, "subject": drawn.subjects, "fs": 100.0}
    if path.suffix == ".mat":
        from scipy.io import savemat

        arrays["y"] = names.astype(object)
        savemat(path, arrays, do_compression=path.stem == "deflated")
    elif path.stem == "deflated":
        write_npz(path, drawn)
    else:
        np.savez(path, **arrays)


def write_words(path: Path) -> None:
    """Write word vectors as arrays."""
    np.savez(path, words=["a", "b", "a"], vectors=np.arange(90.0).reshape(3, 30))


def plain_words(path: Path, rows: Rows) -> Rows | None:
    """Return the first vector of each word as numpy reads them."""
    first: dict[str, list[float]] = {}
    with np.load(path, allow_pickle=False) as file:
        for word, row in zip(file["words"], file["vectors"], strict=True):
            first.setdefault(str(word), row.astype(np.float32).tolist())
    return list(first.items())


def write_mne(path: Path) -> None:
    """Write a recording or epochs with MNE."""
    import mne

    rng = np.random.default_rng(0)
    about = mne.create_info(["Fz", "Cz"], 100.0, "eeg")
    raw = mne.io.RawArray(rng.normal(0, 1e-5, (2, 300)), about, verbose="error")
    raw.set_annotations(mne.Annotations([0.5, 1.0, 2.0], [0.5, 0.5, 0.5], ["rest", "task", "rest"]))
    if path.suffix == ".edf":
        raw.export(str(path), overwrite=True, verbose="error")
        return
    if path.name.endswith("-epo.fif"):
        events, numbers = mne.events_from_annotations(raw, verbose="error")
        raw = mne.Epochs(raw, events, numbers, 0, 0.4, baseline=None, verbose="error")
    raw.save(path, overwrite=True, verbose="error")
