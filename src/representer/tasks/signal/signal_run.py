"""Load the run folder of a signal classifier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from representer.data.signals import Recordings, Standardization
from representer.models import SignalClassifier, SignalClassifierConfig
from representer.storage.run_files import RunFiles
from representer.tasks.signal.signal_config import SignalReading
from representer.tasks.signal.signal_model import probabilities_of

TASK = "signal"


@dataclass(frozen=True)
class TrainedSignal:
    """A trained model with everything that prediction needs.

    Attributes:
        model: The network, in evaluation mode.
        standardization: Standardization of its input.
        classes: Names of the classes.
        channels: Names of the channels, in order.
        samples: Samples of a window.
        reading: How the training data were read.
        subjects: Subjects used for training or early stopping.
    """

    model: SignalClassifier
    standardization: Standardization
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    samples: int
    reading: SignalReading
    subjects: tuple[str, ...]

    def probabilities(self, recordings: Recordings) -> NDArray[np.float64]:
        """Return the probability of each class for each window ``(N, classes)``.

        Args:
            recordings: With the channels and sampling rate of the model, not standardized.
        """
        return probabilities_of(self.model, self.standardization.apply(recordings))


@dataclass(frozen=True)
class _Described:
    """model.json of a signal run."""

    task: Literal["signal"]
    model: SignalClassifierConfig
    standardization: Standardization
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    samples: int
    reading: SignalReading
    subjects: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse lists that do not fit the model."""
        for name, number in (("classes", "num_classes"), ("channels", "num_channels")):
            values, expected = getattr(self, name), getattr(self.model, number)
            if len(values) != expected or len(set(values)) < expected:
                raise ValueError(f"{name} are {len(values)}; expected {expected} different ones")
        self.standardization.require_channels(len(self.channels))
        if self.samples < 1:
            raise ValueError(f"samples is {self.samples}; expected a positive integer")


def load_run(folder: str | Path) -> TrainedSignal:
    """Load the model of a run folder, or of the folder of a fold.

    Raises:
        DataError: If the folder contains no trained signal classifier, or a damaged one.
        CheckpointError: If its weights are damaged.
    """
    files = RunFiles(folder)
    described = files.describe(TASK, "signal classifier", _Described)
    return TrainedSignal(
        files.load_model(lambda: SignalClassifier(described.model)),
        described.standardization,
        described.classes,
        described.channels,
        described.samples,
        described.reading,
        described.subjects,
    )
