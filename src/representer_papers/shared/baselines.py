"""The baselines of one split, trained once and kept for all the models that are tested on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from representer.tasks.baselines import Baseline
from representer.tasks.metrics import wilson_interval
from representer.tasks.storage import atomic
from representer.tasks.text.text_data import TextData
from representer.tasks.text.text_results import train_baselines


def write_baselines(path: Path, data: TextData) -> None:
    """Train the baselines and write their figures and answers, and the sizes of the split."""
    truth = np.asarray(data.test.labels)
    found = []
    for baseline in train_baselines(data):
        right = int((baseline.predictions == truth).sum())
        found.append(
            {
                "name": baseline.name,
                "description": baseline.description,
                "seconds": baseline.seconds,
                "accuracy": right / len(truth),
                "accuracy_interval": wilson_interval(right, len(truth)),
                "predictions": baseline.predictions.tolist(),
            }
        )
    sizes = {"train": len(data.train), "valid": len(data.valid), "test": len(data.test)}
    atomic.write_json(path, {"sizes": sizes, "baselines": found})


def read_baselines(path: Path) -> list[Baseline]:
    """Return the baselines that were written."""
    return [
        Baseline(row["name"], row["description"], np.asarray(row["predictions"]), row["seconds"])
        for row in json.loads(path.read_text("utf-8"))["baselines"]
    ]
