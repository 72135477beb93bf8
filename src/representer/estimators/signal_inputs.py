"""The inputs of networks for signals: checked windows, standardized."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.data.signals import Recordings, Standardization
from representer.errors import DataError
from representer.estimators.containers import as_sequence, column_of, has_columns
from representer.estimators.fitting import shuffled
from representer.estimators.signal_epochs import Montage

Windows = NDArray[np.float32]


@dataclass(frozen=True)
class SignalInputs:
    """Windows of a signal as standardized tensors.

    Args:
        standardization: Learned from the training windows.
        num_channels: C.
        names: Names of the channels, if they are known.
        sampling_rate: That of epochs, in Hz; 0 if it is the parameter of the estimator.

    Raises:
        ValueError: The standardization, or the names, are of another number of channels.
    """

    standardization: Standardization
    num_channels: int
    names: tuple[str, ...] = ()
    sampling_rate: float = 0.0

    def __post_init__(self) -> None:
        self.standardization.require_channels(self.num_channels)
        if len(self.names) not in (0, self.num_channels):
            raise ValueError(f"{len(self.names)} names of {self.num_channels} channels")

    def named(self, channels: Sequence[int]) -> str:
        """Return the names of one channel or two, or their numbers."""
        if self.names:
            return " and ".join(self.names[c] for c in channels)
        return f"channel{'s' * (len(channels) > 1)} {' and '.join(map(str, channels))}"

    @classmethod
    def learn(cls, kind: str, windows: Windows, montage: Montage) -> SignalInputs:
        """Return the inputs for training windows ``(N, C, T)``."""
        own = Standardization.fit(kind, _recordings(windows))  # type: ignore[arg-type]
        return cls(own, windows.shape[1], montage.channels, montage.sampling_rate)

    def encode(self, X: Any) -> list[Any]:
        """Return each window standardized ``(C, T)``.

        Raises:
            DataError: The number of channels differs from that in training.
        """
        windows = np.asarray(X)
        if windows.shape[1] != self.num_channels:
            problem = f"X has {windows.shape[1]} channels; the model has {self.num_channels}"
            raise DataError(problem, fix="Use the channels of the training data.")
        return list(self.standardization.apply(_recordings(windows)).signals)

    def collate(self, encoded: Sequence[Windows], multiple: int = 1) -> tuple[Tensor]:
        """Return windows ``(B, C, T)``."""
        return (torch.from_numpy(np.stack(encoded)),)

    def size(self, encoded: Windows) -> int:
        """Return the number of samples."""
        return encoded.shape[1]

    def batches(
        self, encoded: Sequence[Any], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        """Return the function from an epoch to batches in random order."""
        return shuffled(encoded, batch_size, seed)


def _recordings(windows: Windows) -> Recordings:
    """Return windows as recordings, of which standardization reads signals and channels alone."""
    none, channels = np.zeros(len(windows), dtype=np.int64), map(str, range(windows.shape[1]))
    return Recordings(windows, none, (), none.astype(str), 1.0, tuple(channels))


def check_windows(X: Any, stride: int) -> Windows:
    """Return windows ``(N, C, T)`` in float32, after checking each.

    Args:
        X: An array ``(N, C, T)``, or a sequence of arrays ``(C, T)`` of one shape.
        stride: The least number of samples.

    Raises:
        DataError: A window cannot be used; the message names its row.
    """
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise DataError(f"X is a {type(X).__name__}; expected an array (N, C, T)")
    one_column = column_of(X) if has_columns(X) else X
    rows = [_window(one, row) for row, one in enumerate(as_sequence(one_column, "X"))]
    if not rows:
        return np.zeros((0, 1, stride), dtype=np.float32)
    for axis, what in enumerate(("channels", "samples")):
        sizes = [one.shape[axis] for one in rows]
        common = Counter(sizes).most_common(1)[0][0]
        for row, size in enumerate(sizes):
            if size != common:
                problem = f"X[{row}] has {size} {what}, the others have {common}"
                raise DataError(problem, fix="Pad or cut it, or leave this row out.")
    if rows[0].shape[1] < stride:
        problem = f"X has windows of {rows[0].shape[1]} samples, fewer than the stride, {stride}"
        fix = "Use longer windows or a smaller stride; X is (N, C, T)."
        raise DataError(problem, fix=fix)
    with np.errstate(over="ignore"):  # becomes infinity
        windows = np.stack(rows).astype(np.float32)
    broken = ~np.isfinite(windows)
    if broken.any():
        row, channel, sample = (int(i) for i in np.argwhere(broken)[0])
        what = "NaN" if np.isnan(windows[row, channel, sample]) else "infinity"
        problem = f"X[{row}] contains {what} in channel {channel}"
        raise DataError(problem, fix="Interpolate it, or leave this row out.")
    return windows


def _window(one: Any, row: int) -> NDArray[Any]:
    """Return a window as an array ``(C, T)`` of numbers."""
    try:
        array = np.asarray(one)
        if array.dtype == object and array.ndim == 1:  # a list of channels, as tables hold them
            array = np.asarray([np.asarray(channel) for channel in array])
    except ValueError:  # channels of unequal lengths
        raise DataError(f"X[{row}] has channels of unequal lengths") from None
    if array.ndim != 2 or not len(array) or array.dtype.kind not in "fiu":
        problem = f"X[{row}] is {array.dtype} of shape {array.shape}; expected numbers (C, T)"
        raise DataError(problem, fix="Pass an array (N, C, T); one window is X[None].")
    return array
