"""Windows of MNE: ``Epochs`` with their channels, sampling rate and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Montage:
    """The channels and the sampling rate of windows that name them.

    Args:
        channels: Names of the channels; none of an array.
        sampling_rate: In Hz; 0 of an array.
    """

    channels: tuple[str, ...] = ()
    sampling_rate: float = 0.0


def is_epochs(X: Any) -> bool:
    """Return True for MNE's ``Epochs``.

    Raises:
        DataError: X is a continuous recording of MNE.
    """
    if not (hasattr(X, "get_data") and hasattr(X, "ch_names")):
        return False
    if not hasattr(X, "events"):
        fix = "Cut it into windows, such as mne.make_fixed_length_epochs(raw, duration=2)."
        raise DataError(f"X is a {type(X).__name__}; expected mne.Epochs", fix=fix)
    return True


def read_epochs(epochs: Any, sampling_rate: float | None) -> tuple[NDArray[Any], Montage]:
    """Return the good data channels of training epochs ``(N, C, T)``, and which they are.

    Args:
        epochs: MNE's ``Epochs``.
        sampling_rate: The parameter of the estimator.

    Raises:
        ArgumentError: The parameter differs from the rate of the epochs.
        DataError: There is no good data channel.
    """
    rate = float(epochs.info["sfreq"])
    if sampling_rate is not None and sampling_rate != rate:
        hint = f"Leave it out, or use epochs.resample({sampling_rate:g})."
        raise ArgumentError("sampling_rate", sampling_rate, f"{rate:g}, as of X", hint=hint)
    try:
        good = epochs.copy().pick("data", exclude="bads", verbose="error")
    except ValueError:
        kinds = ", ".join(sorted(set(epochs.get_channel_types())))
        problem = f"X has no good data channel, only channels of the types {kinds}"
        raise DataError(problem, fix='Set them, such as epochs.set_channel_types({"Fz": "eeg"}).') \
            from None  # fmt: skip
    return good.get_data(copy=False), Montage(tuple(good.ch_names), rate)


def known_channels(epochs: Any, known: Montage) -> NDArray[Any]:
    """Return the channels of the training data of MNE's ``Epochs``, see `rearranged`."""
    return rearranged(*read_epochs(epochs, None), known)


def rearranged(data: NDArray[Any], montage: Montage, known: Montage) -> NDArray[Any]:
    """Return the channels of the training data, in its order, of epochs ``(N, C, T)``.

    Args:
        data: Windows of good data channels ``(N, C, T)``.
        montage: Their channels and sampling rate.
        known: Those of the training; if it has no channels, all are returned.

    Raises:
        DataError: A channel is missing, or the sampling rate differs.
    """
    if montage.sampling_rate != known.sampling_rate:
        problem = f"X has {montage.sampling_rate:g} Hz; the model has {known.sampling_rate:g} Hz"
        raise DataError(problem, fix=f"Use epochs.resample({known.sampling_rate:g}).")
    if missing := [name for name in known.channels if name not in montage.channels]:
        problem = f"X lacks the channels {', '.join(missing)} of the training data"
        raise DataError(problem, fix="Rename or interpolate them.")
    order = [montage.channels.index(name) for name in known.channels]
    return np.asarray(data)[:, order] if order else data
