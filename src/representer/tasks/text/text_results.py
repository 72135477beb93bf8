"""Results of a text run: metrics.json, details.json, and the closing table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.functional import Cell
from representer.models import SequenceClassifier
from representer.nn import StringKernelRNN
from representer.tasks.baselines import Baseline, majority_class, tfidf_logistic_regression
from representer.tasks.cells_table import memory_equation, output_equation
from representer.tasks.metrics import classification_metrics, paired_difference
from representer.tasks.options import command_of
from representer.tasks.text.text_config import TextConfig, defaults
from representer.tasks.text.text_data import Part, TextData
from representer.training.fingerprint import fingerprint
from representer.training.training_result import TrainingResult

MISTAKES, EXCERPT = 12, 320


@dataclass(frozen=True)
class Predictions:
    """Predictions of a trained model for the test documents.

    Attributes:
        name: Name of the model.
        probabilities: Class probabilities ``(N, C)``.
        training: Result of the training.
        parameters: Number of parameters by part.
    """

    name: str
    probabilities: NDArray[np.float64]
    training: TrainingResult
    parameters: dict[str, int]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The most probable class of each document."""
        return self.probabilities.argmax(axis=1)


def train_baselines(data: TextData, *, tuned: bool = False) -> list[Baseline]:
    """Train both baselines and predict the test documents.

    Args:
        data: Data of the run.
        tuned: Select the regularization of the logistic regression on the validation documents.
    """
    train, test = data.train, data.test
    valid = (data.valid.tokens, data.valid.labels) if tuned else None
    return [
        tfidf_logistic_regression(train.tokens, train.labels, test.tokens, valid),
        majority_class(train.labels, len(test)),
    ]


def metrics_of(
    data: TextData,
    predictions: Predictions,
    baselines: Sequence[Baseline],
    others: Sequence[Predictions],
    steps_per_epoch: int,
) -> dict[str, Any]:
    """Return metrics.json: the test metrics of the model, of baselines and of other models."""
    truth = np.asarray(data.test.labels)
    best = predictions.training.best
    right = predictions.labels == truth

    def compared(
        name: str, about: str, labels: NDArray[np.int64], seconds: float
    ) -> dict[str, Any]:
        figures = classification_metrics(truth, np.eye(len(names))[labels], names)
        kept = ("accuracy", "accuracy_interval", "macro_f1")
        difference = list(paired_difference(right, labels == truth))
        described = {"name": name, "description": about, "seconds": seconds}
        return {**described, **{k: figures[k] for k in kept}, "difference": difference}

    names = data.classes.names
    return {
        "task": "text",
        "model": predictions.name,
        "test": classification_metrics(truth, predictions.probabilities, names),
        "valid": best,
        "best_epoch": (best["step"] if best else predictions.training.step) / steps_per_epoch,
        "epochs": predictions.training.step / steps_per_epoch,
        "steps": predictions.training.step,
        "steps_per_epoch": steps_per_epoch,
        "stopped_by": predictions.training.reason,
        "seconds": predictions.training.seconds,
        "parameters": predictions.parameters,
        "comparisons": [
            compared(o.name, "Trained with the same settings.", o.labels, o.training.seconds)
            for o in others
        ],
        "baselines": [compared(b.name, b.description, b.predictions, b.seconds) for b in baselines],
    }


def details_of(
    config: TextConfig, data: TextData, model: SequenceClassifier, predictions: Predictions
) -> dict[str, Any]:
    """Return details.json: data, model, errors, command and environment, for the report."""
    cell, output = _equations(model.cell)
    head = f"mean over time → {model.config.head_size} ReLU → {len(data.classes)}"
    usual = defaults(config.preset, demo=config.demo, cell=config.cell)
    return {
        "title": _title(config, data),
        "command": command_of("text", config, usual),
        "config": config.to_dict() | {"embedding_size": model.config.embedding_size},
        "data": data.report,
        "model": {
            "name": predictions.name,
            "cell": cell,
            "output": output,
            "head": head,
            "parameters": predictions.parameters,
        },
        "mistakes": worst_mistakes(data.test, data.classes.names, predictions.probabilities),
        "environment": fingerprint(next(model.parameters()).device),
    }


def _equations(layer: Any) -> tuple[str, str]:
    """Return the equations of the memory cell and of the output."""
    if isinstance(layer, StringKernelRNN):
        activation = layer.activation or ""
        return "c_{j,t} = λ c_{j,t−1} + c_{j−1,t−1} ⊙ W_j x_t", f"h_t = {activation}(c_{{n,t}})"
    cell: Cell | None = getattr(layer, "cell", None)
    if cell is None:
        return "torch.nn.LSTM", "torch.nn.LSTM"
    return memory_equation(cell), output_equation(cell)


def verdict(metrics: dict[str, Any]) -> str:
    """Return a sentence that compares the model with each other model and baseline.

    The model is "ahead" or "behind" where the 95 % interval of the paired difference excludes 0.
    """
    parts = []
    for baseline in (*metrics["comparisons"], *metrics["baselines"]):
        difference, low, high = (100 * bound for bound in baseline["difference"])
        relation = "ahead of" if low > 0 else "behind" if high < 0 else "level with"
        interval = f"{difference:+.1f} points, 95 % interval {low:+.1f} to {high:+.1f}"
        parts.append(f"{relation} {baseline['name']} ({interval})")
    if not parts:
        return ""
    listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return f"On {metrics['test']['count']} test documents, {metrics['model']} is {listed}."


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal."""
    test = metrics["test"]
    rows = [(metrics["model"], test, metrics["seconds"])]
    rows += [(r["name"], r, r["seconds"]) for r in (*metrics["comparisons"], *metrics["baselines"])]
    width = max(len(name) for name, _, _ in rows)
    lines = [f"{'':<{width}}  accuracy  95 % interval     macro F1  training"]
    for name, row, seconds in rows:
        low, high = (100 * bound for bound in row["accuracy_interval"])
        lines.append(
            f"{name:<{width}}  {100 * row['accuracy']:6.2f} %  {low:5.2f} – {high:6.2f} %  "
            f"{row['macro_f1']:8.3f}  {seconds:6.1f} s"
        )
    return "\n".join(lines)


def _title(config: TextConfig, data: TextData) -> str:
    source, text = data.train.source, data.report["text_column"]
    if config.demo:
        return f"{source[:1].upper()}{source[1:]}: original, or with two tokens swapped"
    label = data.report["label_column"]
    if not data.reading.header:
        text, label = f"column {text.replace(',', ' and ')}", f"column {label}"
    return f"{Path(source).name}: {label} from {text}"


def worst_mistakes(
    part: Part, names: Sequence[str], probabilities: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return the misclassified documents, most confident first.

    Args:
        part: The documents.
        names: Names of the classes.
        probabilities: Probability of every class ``(N, C)``.
    """
    truth, predicted = np.asarray(part.labels), probabilities.argmax(axis=1)
    wrong = np.flatnonzero(predicted != truth)
    confident = wrong[np.argsort(-probabilities[wrong, predicted[wrong]], kind="stable")][:MISTAKES]
    return [
        {
            "line": part.lines[i],
            "truth": names[part.labels[i]],
            "predicted": names[int(predicted[i])],
            "probability": float(probabilities[i, predicted[i]]),
            "text": _excerpt(part.texts[i]),
        }
        for i in confident.tolist()
    ]


def _excerpt(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " …"
