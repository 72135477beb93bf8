"""The recordings of the Sync-RKM experiment: synthetic ones, and three tasks from two public EEGs.

The mouse recordings of L19 are not public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings, recordings, resampled, synthetic_recordings
from representer.errors import DataError
from representer_papers.shared.datasets import MissingError

RATE = 160.0  # Hz: 40 samples are a quarter of a second; initial frequencies go up to 25 Hz
# The synthetic classes have equal power: only the phase lags of the channels distinguish them.
SYNTHETIC: dict[str, Any] = {"subjects": 8, "windows": 500, "seed": 0}


@dataclass(frozen=True)
class SignalSet:
    """A set of recordings."""

    name: str  # on the command line
    title: str  # in the table
    read: Callable[[Path], Recordings]  # from the folder of the data sets
    options: Mapping[str, Any] = field(default_factory=dict)  # that differ from fit signal
    baseline: str = "subject"  # best-performing standardization of the baseline's features
    rate: float = 0.0  # sampling rate after resampling, in Hz; 0 keeps the original
    planted: bool = False  # the recordings have a planted frequency and lags

    def recordings(self, root: Path, *, smoke: bool = False) -> Recordings:
        """Read and resample the recordings; a smoke run takes four windows per subject and class.

        Raises:
            DataError: If the file is missing.
        """
        read = self.read(root)
        if smoke:
            kept = [
                np.flatnonzero((read.subjects == subject) & (read.labels == label))[:4]
                for subject in np.unique(read.subjects)
                for label in range(len(read.classes))
            ]
            read = read.take(np.sort(np.concatenate(kept)))
        return resampled(read, self.rate) if self.rate else read


def _synthetic(_: Path) -> Recordings:
    return synthetic_recordings(**SYNTHETIC)


def _arithmetic(root: Path) -> Recordings:
    """Read windows of two seconds at rest or in mental arithmetic (Zyma et al., Data 2019)."""
    path = root / "eeg_mental_arithmetic" / "eegmat_250hz.npz"
    keys = ("X", "uv_per_count", "fs", "channels", "subject", "state")
    x, scale, rate, channels, subject, state = _arrays(path, keys)
    length = 2 * int(rate)
    count = x.shape[2] // length
    signals = (x[..., : count * length] * np.float32(scale)).reshape(*x.shape[:2], count, length)
    return recordings(
        signals.swapaxes(1, 2).reshape(-1, x.shape[1], length),
        np.repeat(np.asarray(["rest", "arithmetic"])[state.astype(int)], count),
        np.repeat([f"subject {k:02d}" for k in subject], count),
        rate,
        channels,
        file=path,
    )


def _alcoholism(root: Path, label: str, names: tuple[str, ...]) -> Recordings:
    """Read the second after a picture (Zhang et al. 1995), leaving out duplicate trials."""
    path = root / "eeg_uci_alcoholism" / "smni_cmi.npz"
    keys = ("counts", "offset_uv", "uv_per_count", "fs", "channels", "subject", label, "duplicate")
    counts, offset, scale, rate, channels, subject, labels, copied = _arrays(path, keys)
    signals = offset[..., None] + counts * np.float32(scale)
    known = np.asarray(names)[labels.astype(int)]
    kept = ~copied.astype(bool)
    return recordings(signals[kept], known[kept], subject[kept], rate, channels, file=path)


def _group(root: Path) -> Recordings:
    return _alcoholism(root, "alcoholic", ("control", "alcoholic"))


def _condition(root: Path) -> Recordings:
    return _alcoholism(root, "condition", ("one", "match", "other"))


def _arrays(path: Path, keys: tuple[str, ...]) -> list[Any]:
    if not path.is_file():
        raise MissingError("there is no such file", file=path, fix="Pass --data DIR.")
    with np.load(path, allow_pickle=False) as archive:
        missing = [key for key in keys if key not in archive.files]
        if missing:
            raise DataError(f"the arrays {', '.join(missing)} are missing", file=path)
        return [archive[key][()] for key in keys]


# Augmentation makes models invariant to a subject's gain and to a window's position, not to power.
_EEG = {
    "stride": 10, "lr": 5e-3, "dropout": 0.5, "channel_dropout": 0.2, "augment": True,
    "epochs": 25, "patience": 10,
}  # fmt: skip
# Every subject has one class, so standardizing by subject would remove the class; each window has
# its own scale instead. The epoch is the last: validation on a few subjects is too noisy, since
# nearly all windows of a subject are right or wrong together.
_GROUP = {**_EEG, "standardize": "window", "valid_fraction": 0.0, "epochs": 40}
# An evoked response has a fixed sign and a fixed position in time.
_ANSWER = {**_EEG, "augment": False}
_PLANTED = {"stride": 10, "lr": 2e-2, "epochs": 30, "patience": 0}
SIGNAL_SETS: Mapping[str, SignalSet] = {
    s.name: s
    for s in (
        SignalSet("synthetic", "synthetic, lags only", _synthetic, _PLANTED, planted=True),
        SignalSet("arithmetic", "mental arithmetic", _arithmetic, _EEG, "subject", RATE),
        SignalSet("alcoholism", "alcoholism, group", _group, _GROUP, "training", RATE),
        SignalSet("condition", "alcoholism, condition", _condition, _ANSWER, "training", RATE),
    )
}
