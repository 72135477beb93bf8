"""Baselines of one split, trained once and stored for all models tested on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from representer.report.metrics import wilson_interval
from representer.storage import atomic
from representer.tasks.objects import Data
from representer.tasks.results import Baseline
from representer.tasks.text import train_baselines


def write_baselines(path: Path, data: Data) -> None:
    """Train the baselines and write their figures, their predictions and the split's sizes."""
    truth = data.values["test"]
    rows = []
    for baseline in train_baselines(data):
        right = int((baseline.predictions == truth).sum())
        rows.append(
            {
                "name": baseline.name,
                "description": baseline.description,
                "seconds": baseline.seconds,
                "accuracy": right / len(truth),
                "accuracy_interval": wilson_interval(right, len(truth)),
                "predictions": baseline.predictions.tolist(),
            }
        )
    sizes = {name: len(objects) for name, objects in data.parts.items()}
    atomic.write_json(path, {"sizes": sizes, "baselines": rows})


def read_baselines(path: Path) -> list[Baseline]:
    """Return the stored baselines."""
    return [
        Baseline(row["name"], row["description"], np.asarray(row["predictions"]), row["seconds"])
        for row in json.loads(path.read_text("utf-8"))["baselines"]
    ]
