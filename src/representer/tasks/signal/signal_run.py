"""What a run folder of a model of signals holds, read to use it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from representer.data.signals import Recordings, Standardization
from representer.errors import DataError
from representer.models import SignalClassifier, SignalClassifierConfig, from_dict
from representer.tasks.signal.signal_config import SignalReading
from representer.tasks.signal.signal_model import probabilities_of
from representer.tasks.storage.run_files import WEIGHTS, describe, load_weights

TASK = "signal"


@dataclass(frozen=True)
class TrainedSignal:
    """A trained model with all that is needed to ask it.

    Attributes:
        model: In evaluation mode.
        standardization: Of what it is asked about.
        classes: What it answers.
        channels: In its order.
        samples: Of a window.
        reading: How the training data were read.
        subjects: Who trained it or stopped its training.
    """

    model: SignalClassifier
    standardization: Standardization
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    samples: int
    reading: SignalReading
    subjects: tuple[str, ...]

    def probabilities(self, of: Recordings) -> NDArray[np.float64]:
        """Return the probability of each class for each window ``(N, classes)``.

        Args:
            of: With the model's channels and sampling rate, not standardized.
        """
        return probabilities_of(self.model, self.standardization.apply(of))


def load_run(folder: str | Path) -> TrainedSignal:
    """Read the model of a run folder, or of the folder of a fold.

    Raises:
        DataError: If the folder holds no trained model of signals.
        CheckpointError: If its weights are damaged.
    """
    folder = Path(folder)
    described = describe(folder)
    if described.get("task") != TASK:
        raise DataError("is no model of signals", file=folder / "model.json")
    model = SignalClassifier(from_dict(SignalClassifierConfig, described["model"]))
    load_weights(model, folder / WEIGHTS)
    return TrainedSignal(
        model.eval(),
        Standardization.from_dict(described["standardization"]),
        tuple(described["classes"]),
        tuple(described["channels"]),
        described["samples"],
        SignalReading(**described["reading"]),
        tuple(described["subjects"]),
    )
