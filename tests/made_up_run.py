"""A finished run with made-up figures, for the tests of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from representer.report.metrics import classification_metrics, paired_difference

NAMES = ["World", "Sports", "Business", "Sci/Tech"]


def write_made_up_run(folder: Path, names: list[str] = NAMES, count: int = 760) -> Path:
    """Write metrics.json, details.json and metrics.jsonl as a finished run has them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, len(names), count)
    probabilities = rng.dirichlet(np.full(len(names), 0.4), count)
    probabilities[np.arange(count), truth] += 0.7
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    test = classification_metrics(truth, probabilities, names)
    right = probabilities.argmax(1) == truth
    guess = truth == 0
    metrics = {
        "task": "text",
        "kind": "classification",
        "model": "RKM-CIFG",
        "parameters": {"word vectors": 1540352, "cell": 98944, "classifier": 17028, "all": 1656324},
        "best_epoch": 4.0,
        "epochs": 6.0,
        "steps_per_epoch": 190,
        "seconds": 81.3,
        "targets": [],
        "test": test,
        "valid": test,
        "comparisons": [],
        "standing": {
            "": {
                "relation": "ahead of",
                "baseline": "TF-IDF + logistic regression",
                "difference": [0.05, 0.02, 0.08],
            }
        },
        "verdict": "On 760 test documents, RKM-CIFG is ahead of the best baseline.",
        "parts": {
            "kernel": {"share": 0.4, "seconds": 2.0},
            "network": {"share": 0.6, "seconds": 79.3},
        },
        "baselines": [
            baseline(
                "TF-IDF + logistic regression", right & (rng.random(count) < 0.97), right, 3.4
            ),
            baseline("majority class", guess, right, 0.0),
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    (folder / "details.json").write_text(json.dumps(details(names)), encoding="utf-8")
    with (folder / "metrics.jsonl").open("w", encoding="utf-8") as file:
        for epoch in range(1, 7):
            row = {
                "step": 190 * epoch, "epoch": epoch, "train_loss": 1.2 / epoch,
                "valid_loss": 0.5 + abs(epoch - 4) * 0.06,
                "valid_accuracy": 0.9 - abs(epoch - 4) * 0.02,
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")
    return folder


def change(folder: Path, name: str, **changes: Any) -> None:
    """Replace values of a file of a run."""
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def baseline(name: str, is_right: Any, model_is_right: Any, seconds: float) -> dict[str, Any]:
    accuracy = float(is_right.mean())
    return {
        "name": name, "description": f"what {name} does", "accuracy": accuracy,
        "accuracy_interval": [accuracy - 0.02, accuracy + 0.02], "macro_f1": accuracy,
        "seconds": seconds, "difference": list(paired_difference(model_is_right, is_right)),
    }  # fmt: skip


def details(names: list[str]) -> dict[str, Any]:
    dropped = [{"reason": "no text", "count": 3, "lines": [17, 90, 204]}]
    text = 'Agencies <b>agree</b> to & share "a satellite" after months of talks about the cost'
    mistake = {"number": 41, "truth": names[0], "predicted": f"{names[1]} (98 %)"}
    return {
        "title": "news.csv: topic from title and description",
        "command": "representer fit text news.csv --cell rkm-cifg --out runs/news",
        "config": {
            "data": "news.csv", "cell": "rkm-cifg", "filter_length": 3, "hidden_size": 128,
            "min_count": 2, "max_length": 400, "lr": 0.001, "seed": 0, "valid": None,
        },
        "data": {
            "sources": [
                {"file": "news.csv", "role": "all parts", "sha256": "ab" * 32, "rows": 7603,
                 "kept": 7600, "dropped": dropped}
            ],
            "train": 6080, "valid": 760, "test": 760,
            "labels": {"": {n: 1520 + i for i, n in enumerate(names)}},
            "facts": {"text column": "title, description", "length": "median 38 words"},
        },
        "noun": "document", "nouns": "documents", "place": "line",
        "model": {
            "values": {
                "memory cell": "c_t = (1 − f_t) ⊙ c̃_t + f_t ⊙ c_{t−1}", "output": "h_t = o_t ⊙ c_t",
            },
        },
        "points": {},
        "mistakes": [{**mistake, "text": text}] * 8,
        "environment": {"python": "3.11", "torch": "2.13.0", "threads": 2},
    }  # fmt: skip
