"""Recordings of multichannel signals, from files or synthetic."""

from representer.data.signals.arrays import read_mat, read_npz, write_npz
from representer.data.signals.mne_files import read_mne
from representer.data.signals.reading import read_recordings
from representer.data.signals.recordings import (
    Coupling,
    Recordings,
    Standardization,
    augmented,
    cut,
    default_couplings,
    recordings,
    resampled,
    synthetic_recordings,
)

__all__ = [
    "Coupling", "Recordings", "Standardization", "augmented", "cut", "default_couplings",
    "read_mat", "read_mne", "read_npz", "read_recordings", "recordings", "resampled",
    "synthetic_recordings", "write_npz",
]  # fmt: skip
