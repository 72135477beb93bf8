"""Signals: recordings of several subjects, reading, and synthetic ones with a planted truth."""

from representer.data.signals.npz import read_npz, write_npz
from representer.data.signals.recordings import Recordings, recordings
from representer.data.signals.synthetic import Coupling, default_couplings, synthetic_recordings

__all__ = [
    "Coupling",
    "Recordings",
    "default_couplings",
    "read_npz",
    "recordings",
    "synthetic_recordings",
    "write_npz",
]
