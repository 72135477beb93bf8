"""Results of a task that trains an estimator, for metrics.json, details.json and the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.splits import Fold
from representer.errors import KindError, printable
from representer.estimators.explanation import Example, Part
from representer.estimators.label_sets import LabelSets
from representer.estimators.results import (
    EXPLAINED_ERRORS,
    figures_of_sets,
    model_name,
    right_sets,
    sets_as_classes,
)
from representer.options.registry import task_of_run
from representer.report import page
from representer.report.metrics import paired_difference
from representer.report.summary import ACCURACY, RMSE, chance_sentence, standing
from representer.storage.atomic import from_values
from representer.storage.run import RunFiles
from representer.tasks.objects import Data, Objects
from representer.tasks.use import EstimatorUse
from representer.training.state import TrainingResult

# Baselines that are trained on the same split.


@dataclass(frozen=True)
class Baseline:
    """Predictions of a baseline."""

    name: str  # short name for tables
    description: str  # what it does, in one sentence
    # classes or numbers of the test objects ``(N,)``, of several targets ``(N, K)``
    predictions: NDArray[Any]
    seconds: float  # time of training and prediction
    # of the classes of each target ``(N, C)``, or scores in their order, if the baseline has them
    probabilities: Sequence[NDArray[np.float64] | None] = ()


def majority_class(train_labels: Sequence[int], test_count: int) -> Baseline:
    """Predict the most frequent class of the training data."""
    return constant_prediction(np.asarray(train_labels), test_count, is_regression=False)


CONSTANTS = "mean", "majority class"
"""Names of baselines that predict one number or class."""


def constant_prediction(values: NDArray[Any], test_count: int, *, is_regression: bool) -> Baseline:
    """Predict the mean, or the most frequent class, of each target ``(N,)`` or ``(N, K)``."""
    started, constants = time.perf_counter(), []
    for target in values.reshape(len(values), -1).T:
        present = target[~np.isnan(target)]
        constants.append(
            present.mean() if is_regression else np.bincount(present.astype(int)).argmax()
        )
    predictions = np.tile(constants, (test_count, 1))
    predictions = predictions[:, 0] if values.ndim == 1 else predictions
    name = CONSTANTS[0] if is_regression else CONSTANTS[1]
    about = "mean" if is_regression else "commonest class"
    about = f"Always the {about} of the training data."
    return Baseline(name, about, predictions, time.perf_counter() - started)


def ranks(model: Any, features: Any) -> NDArray[np.float64] | None:
    """Return scores from 0 to 1 by which a linear model ranks two classes; None for more."""
    if getattr(model, "classes_", np.empty(0)).tolist() != [0, 1]:
        return None
    from scipy.special import expit

    second = expit(model.decision_function(features))
    return np.stack([1 - second, second], axis=1)


@dataclass(frozen=True)
class Facts:
    """Facts on the objects, for the report."""

    values: dict[str, str]  # by what they are
    notes: Sequence[str] = ()  # those that stderr shows before training


@dataclass(frozen=True)
class Model:
    """Description of a network, for the report."""

    name: str  # its name in tables
    # its equations and sizes, by what they are
    values: Mapping[str, str] = field(default_factory=dict)
    # names of its submodules, where they differ
    parts: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)  # on the objects, known with the network
    notes: Sequence[str] = ()  # what stderr shows before training


@dataclass(frozen=True)
class Outcome:
    """A trained model as the results show it."""

    name: str  # name of the model
    predictions: Sequence[page.Predictions]  # for the test objects, of each target
    training: TrainingResult | None  # result of the network's training; None without a network
    steps_per_epoch: int  # batches of the training objects
    parameters: dict[str, int]  # number of parameters by part, and of ``"all"``
    # kernel and network, see `Estimator.parts_`
    parts: Mapping[str, Part] = field(default_factory=dict)
    # predictions of kernel and network, each by itself, where both predict
    alone: Mapping[str, Sequence[page.Predictions]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Time of training all parts."""
        if not self.parts:
            return self.training.seconds if self.training else 0.0
        return sum(half.seconds or 0.0 for half in self.parts.values())


@dataclass(frozen=True)
class FoldResult:
    """Result of a finished fold of a classification.

    Attributes:
        fold: Groups of each part.
        rows: Rows of the test objects.
        probabilities: Their class probabilities ``(N, classes)``.
        accuracy: Of the test objects.
        epochs: Number of epochs trained; 0 without a network.
        best_epoch: Epoch of the selected weights.
        valid: Validation metrics of that epoch.
        stopped_by: Reason why the training ended.
        parts: Share and training time of kernel and network, as in metrics.json.
        alone: Class probabilities of each of them by itself, where both predict.
    """

    fold: Fold
    rows: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    accuracy: float
    epochs: int
    best_epoch: int
    valid: dict[str, float]
    stopped_by: str
    parts: dict[str, dict[str, Any]]
    alone: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def of(cls, trained: Trained) -> FoldResult:
        """Return the result of a model that was trained on a fold."""
        data, outcome, fold = trained.data, trained.outcome, trained.data.fold
        (column,), (predictions,), training = (
            data.columns("test"), outcome.predictions, outcome.training,
        )  # fmt: skip
        assert fold is not None
        assert predictions.probabilities is not None
        chances = predictions.probabilities.round(7)  # as they are stored
        alone = {k: p[0].probabilities.round(7) for k, p in outcome.alone.items()}  # type: ignore[union-attr]
        best, epochs = (training and training.best) or {}, training.epoch if training else 0
        return cls(
            fold=fold, rows=np.asarray(data.parts["test"].rows), probabilities=chances,
            accuracy=float((chances.argmax(axis=1) == column.truth).mean()), epochs=epochs,
            best_epoch=int(best.get("epoch", epochs)),
            valid={k: v for k, v in best.items() if k.startswith("valid_")},
            stopped_by=training.reason if training else "",
            parts={name: dict(half._asdict()) for name, half in outcome.parts.items()}, alone=alone,
        )  # fmt: skip

    @property
    def seconds(self) -> float:
        """Training time."""
        return sum(half["seconds"] for half in self.parts.values())

    def line(self, nouns: str) -> str:
        """Return the result as a line for the terminal."""
        epoch = f"epoch {self.best_epoch} of {self.epochs}, " if self.epochs else ""
        tested = f"accuracy {100 * self.accuracy:.1f} % on {len(self.rows)} {nouns}"
        return f"{self.fold.name}: {tested}, {epoch}{self.seconds:.1f} s"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        arrays = {"rows": self.rows.tolist(), "probabilities": self.probabilities.tolist()}
        alone = {name: predicted.tolist() for name, predicted in self.alone.items()}
        return asdict(self) | arrays | {"alone": alone}

    @classmethod
    def from_dict(cls, described: dict[str, Any]) -> FoldResult:
        """Return the result that `to_dict` described."""
        values = {name: described[name] for name in cls.__dataclass_fields__}
        values["fold"] = from_values(Fold, described["fold"])
        values["rows"] = np.asarray(described["rows"], dtype=np.int64)
        values["probabilities"] = np.asarray(described["probabilities"], dtype=np.float64)
        values["alone"] = {
            name: np.asarray(predicted) for name, predicted in described["alone"].items()
        }
        return cls(**values)


@dataclass(frozen=True)
class FoldResults:
    """Predictions of all folds.

    Attributes:
        folds: Results of the folds, in order.
        rows: Rows of the test objects, in ascending order.
        probabilities: Class probabilities ``(rows, classes)``.
    """

    folds: tuple[FoldResult, ...]
    rows: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    @classmethod
    def of(cls, folds: Sequence[FoldResult]) -> FoldResults:
        """Join the predictions of the folds."""
        return cls(tuple(folds), *joined([(fold.rows, fold.probabilities) for fold in folds]))

    def of_run(self, final: Trained) -> Trained:
        """Return the final model of a run with the predictions of its folds.

        The shares of kernel and network are the mean over the folds, their times the sum.
        """
        parts = {
            name: Part(
                float(np.mean([fold.parts[name]["share"] for fold in self.folds])),
                sum(fold.parts[name]["seconds"] for fold in self.folds),
            )
            for name in self.folds[0].parts
        }
        predictions = [page.Predictions(self.probabilities.argmax(axis=1), self.probabilities)]
        alone = {}
        for half in self.folds[0].alone:
            _, predicted = joined([(fold.rows, fold.alone[half]) for fold in self.folds])
            alone[half] = [page.Predictions(predicted.argmax(axis=1), predicted)]
        name = model_name(parts, final.estimator.network_name)
        changed = {"predictions": predictions, "parts": parts, "alone": alone}
        outcome = replace(final.outcome, name=name, **changed)
        return replace(final, outcome=outcome, folds=self.folds)

    @property
    def seconds(self) -> float:
        """Training time of all folds."""
        return sum(fold.seconds for fold in self.folds)


def joined(folds: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of all folds in ascending order, and their probabilities."""
    rows, probabilities = map(np.concatenate, zip(*folds, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], probabilities[order]


@dataclass(frozen=True)
class Trained:
    """A trained estimator with its best weights, and its test predictions or those of folds."""

    config: Any
    data: Data
    estimator: Any
    model: Model
    outcome: Outcome
    folds: Sequence[FoldResult] = ()


def metrics_of(
    task: str, data: Data, outcome: Outcome, others: Sequence[Outcome] = (),
    baselines: Sequence[Baseline] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return metrics.json: the test metrics of the model, of other networks and of baselines."""
    columns, predictions, training = data.columns("test"), outcome.predictions, outcome.training
    digests = data.digests("test")
    about = "Trained with the same settings."
    has_sets = isinstance(data.target, LabelSets)

    def beside(others: Sequence[page.Predictions]) -> dict[str, Any]:
        """Return how other predictions compare, of all labels together, too."""
        figures = page.compared(columns, predictions, others, digests, data.groups)
        if not has_sets:
            return figures
        pair = right_sets(columns, predictions), right_sets(columns, others)
        rows = np.sort(np.unique(digests, return_index=True)[1])  # equal objects count once
        groups = None if data.groups is None else page.dependent(np.asarray(data.groups)[rows])
        difference = list(paired_difference(pair[0][rows], pair[1][rows], groups))
        sets = figures_of_sets(columns, others, digests) | {"difference": difference}
        return figures | {"sets": sets | {"pairs": len(rows)}}

    half = "A part of the model by itself."
    return {
        "task": task,
        "kind": "regression" if data.is_regression else "classification",
        "model": outcome.name,
        "targets": list(data.targets),
        "test": page.figures_by_target(columns, predictions, digests, data.groups),
        **({"sets": figures_of_sets(columns, predictions, digests)} if has_sets else {}),
        **_training(training, outcome.steps_per_epoch),
        "seconds": outcome.seconds,
        "parts": {name: half._asdict() for name, half in outcome.parts.items()},
        "parameters": outcome.parameters,
        "alone": [
            {"name": f"{name} alone", "description": half, "seconds": outcome.parts[name].seconds}
            | beside(predicted)
            for name, predicted in outcome.alone.items()
        ],
        "comparisons": [
            {"name": other.name, "description": about, "seconds": other.seconds}
            | beside(other.predictions)
            for other in others
        ],
        "baselines": [
            {
                "name": baseline.name,
                "description": baseline.description,
                "seconds": baseline.seconds,
            }
            | beside(predictions_of_baseline(baseline, columns))
            for baseline in baselines
        ],
    }


def _training(training: TrainingResult | None, steps: int) -> dict[str, Any]:
    """Return how the network was trained; nothing without one."""
    if training is None:
        return {"valid": None}
    best = training.best
    return {
        "valid": best,
        "best_epoch": (best["step"] if best else training.step) / steps,
        "epochs": training.step / steps,
        "steps": training.step,
        "steps_per_epoch": steps,
        "stopped_by": training.reason,
    }


def kept_sentence(metrics: Mapping[str, Any]) -> str:
    """Return which weights of the network predict, if it was trained on after them."""
    best, epochs = metrics.get("best_epoch", 0.0), metrics.get("epochs", 0.0)
    if not 0 < best < epochs:
        return ""
    return (
        f"The network's weights are those of epoch {best:.3g} of {epochs:.3g}, the best on the "
        "validation data."
    )


def predictions_of_baseline(
    baseline: Baseline, columns: Sequence[page.Column]
) -> list[page.Predictions]:
    """Return the predictions of a baseline for each target."""
    table = baseline.predictions.reshape(len(baseline.predictions), -1)
    result = []
    for k, column in enumerate(columns):
        values, chances = table[:, k], None
        if column.classes:
            values = values.astype(np.int64)
            chances = baseline.probabilities[k] if baseline.probabilities else None
            if chances is None or chances.shape[1] != len(column.classes):
                chances = np.eye(len(column.classes))[values]
        result.append(page.Predictions(values, chances))
    return result


def _targets(metrics: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return metrics.json by target; of any number of labels, that of all of them together."""
    if "sets" not in metrics:
        return page.by_target(metrics)
    rows = {key: [row | row["sets"] for row in metrics.get(key, ())] for key in page.BESIDE}
    return {"all labels right": metrics | rows | {"test": metrics["sets"]}}


def verdicts(metrics: dict[str, Any], nouns: str) -> dict[str, Any]:
    """Return how the model compares with the best baseline, for metrics.json.

    ``standing`` has those of each target by its name, see `report.standing`, and ``verdict`` all
    sentences; both are left out without baselines.
    """
    measure = RMSE if metrics["kind"] == "regression" else ACCURACY
    standings = {}
    for name, figures in _targets(metrics).items():
        others = (*figures["comparisons"], *figures["baselines"])
        differences = {other["name"]: other["difference"] for other in others}
        count = figures["test"]["count"]
        pairs = min((other.get("pairs", count) for other in others), default=count)
        on = f"{count} test {nouns}" + f" ({pairs} different ones)" * (pairs < count)
        if groups := figures["test"].get("groups"):
            on += f" of {groups} groups"
        count, unit = (groups, " groups") if groups else (pairs, "")
        standings[name] = standing(metrics["model"], differences, measure, on, count, unit)
    sentences = [
        (f"{name}: " if name else "") + sentence
        for name, figures in _targets(metrics).items()
        for sentence in (standings[name].get("sentence"), chance_sentence(figures["test"]))
        if sentence
    ]
    return {"standing": standings, "verdict": " ".join(sentences)}


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal, of each target."""
    targets = _targets(metrics).items()
    return "\n".join((f"{name}\n" if name else "") + _summary(figures) for name, figures in targets)


def _summary(metrics: dict[str, Any]) -> str:
    rows = [(metrics["model"], metrics["test"], metrics["seconds"])]
    others = [row for key in page.BESIDE for row in metrics.get(key, ())]
    rows += [(row["name"], row, row["seconds"] or 0.0) for row in others]
    width = max(len(name) for name, _, _ in rows)
    if metrics["kind"] == "regression":
        lines = [f"{'':<{width}}        RMSE    95 % interval             MAE      R²  training"]
        for name, row, seconds in rows:
            low, high = row["rmse_interval"]
            r2 = "–" if row["r2"] is None else f"{row['r2']:.3f}"
            lines.append(
                f"{name:<{width}}  {row['rmse']:10.4g}  {low:10.4g} – {high:<10.4g}"
                f"  {row['mae']:8.4g}  {r2:>6}  {seconds:6.1f} s"
            )
        return "\n".join(lines)
    ranks = metrics["test"].get("average_precision") is not None
    areas = "  ROC AUC  PR AUC" * ranks
    lines = [f"{'':<{width}}  accuracy  95 % interval   macro F1{areas}  training"]
    for name, row, seconds in rows:
        low, high = (100 * bound for bound in row["accuracy_interval"])
        areas = f"  {row['auc']:7.3f}  {row['average_precision']:6.3f}" if ranks else ""
        lines.append(
            f"{name:<{width}}  {100 * row['accuracy']:6.1f} %  {low:4.1f} – {high:5.1f} %  "
            f"{row['macro_f1']:8.3f}{areas}  {seconds:6.1f} s"
        )
    if ranks:
        lines.append(f"PR AUC is that of {metrics['test']['ranked_class']!r}, the second by name.")
    return "\n".join(lines)


# The test objects that a report explains: a few typical ones, and the worst errors.

EXAMPLES, LINES = 4, 6
SMALL = 60  # words, or nodes: larger objects are not explained without being asked for


def explained_tests(
    task: Any, run: Path, estimator: Any, data: Data, predictions: Sequence[page.Predictions],
    largest: float = SMALL,
) -> dict[str, Any]:  # fmt: skip
    """Return explanations of test objects for details.json.

    They are ``examples``, typical ones, and ``mistakes``, of which the first are explained; none
    are if the predictions of the model have no contributions. ``largest`` is the size up to which
    an object is explained.
    """
    test, column, predicted = data.parts["test"], data.columns("test")[0], predictions[0]
    if isinstance(data.target, LabelSets):
        column, predicted = sets_as_classes(data.columns("test"), predictions)
    sizes = [data.inputs.size(each) for each in data.encoded["test"]]
    labels = test.columns[0][1]
    if data.is_regression:
        labels = [f"{value:.4g}" for value in column.truth]
    wrong = page.mistakes(column, predicted, test.objects, labels, test.numbers)
    explained = dict(zip(page.worst(column, predicted), wrong, strict=True))
    for row, mistake in explained.items() if test.names else ():
        mistake["name"] = test.names[row]
    errors = [row for row in explained if sizes[row] <= largest][:EXPLAINED_ERRORS]
    chosen = typical(column, predicted, sizes, largest)
    try:
        entries = task.entries(run, estimator, test.subset(chosen + errors), LINES)
    except KindError:
        return {"examples": [], "mistakes": wrong}
    for row, entry in zip(chosen + errors, entries, strict=True):
        entry["truth"] = str(labels[row])
    for row, entry in zip(errors, entries[len(chosen) :], strict=True):
        explained[row]["explained"] = entry
    return {"examples": entries[: len(chosen)], "mistakes": wrong}


def typical(
    column: page.Column, predictions: page.Predictions, sizes: Sequence[int], largest: float = SMALL
) -> list[int]:
    """Return the positions of up to `EXAMPLES` objects of a readable size.

    Of classes, the first right ones of each class in turn; of numbers, from the smallest true value
    to the largest in even steps.
    """
    rows = [row for row in column.known().tolist() if sizes[row] <= largest]
    rows = rows or column.known()[np.argsort(np.asarray(sizes)[column.known()])].tolist()[:1]
    if not column.classes:
        ordered = sorted(rows, key=lambda row: column.truth[row])
        places = np.linspace(0, len(ordered) - 1, min(EXAMPLES, len(ordered)))
        return [
            ordered[position] for position in dict.fromkeys(places.round().astype(int).tolist())
        ]
    right = [row for row in rows if predictions.values[row] == column.truth[row]]
    by_class = [
        [row for row in right if column.truth[row] == k] for k in range(len(column.classes))
    ]
    turns = [rows[turn] for turn in range(EXAMPLES) for rows in by_class if turn < len(rows)]
    return sorted((turns or rows)[:EXAMPLES])


# Objects of the test part of a run, with names to choose them by.

MOST, LONGEST = 1000, 60  # examples, characters of a text in a name


def tested(
    use: EstimatorUse, demo: Callable[[], Objects], run: str, data: str | None
) -> list[Example]:
    """Return the objects of a path or of the demo; those of the training without the other parts.

    Raises:
        DataError: They cannot be used.
    """
    objects = demo() if data is None else of_path(use, run, data)
    files = RunFiles(run)

    def test_rows() -> set[int] | None:
        splits = files.json("splits.json")
        test = splits["test"]
        is_same = splits["sha256"].get(test["source"]) == objects.digest
        return set(test[f"{objects.place}s"]) if is_same else None

    rows = files.parsed("splits.json", test_rows) if files.has("splits.json") else None
    if rows is not None:
        objects = objects.subset([k for k, number in enumerate(objects.numbers) if number in rows])
    return named_examples(objects, objects.place)


def of_path(use: EstimatorUse, run: str, data: str) -> Objects:
    """Return the objects of a file or folder that the model of a run can explain."""
    return use.to_predict(run, data, use.reading(), "cpu")[1]


def named_examples(objects: Objects, place: str, groups: Sequence[str] = ()) -> list[Example]:
    """Return objects with their names; of each group as many as there is space for."""
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(groups or [""] * len(objects)):
        rows.setdefault(group, []).append(row)
    each = max(1, MOST // max(1, len(rows)))
    return [
        Example(_name(objects, row, place), group, objects.objects[row])
        for group, members in list(rows.items())[:MOST]
        for row in members[:each]
    ]


def _name(objects: Objects, row: int, place: str) -> str:
    value, label = objects.objects[row], objects.labels[row]
    text = ", ".join(label) if isinstance(label, tuple) else label
    name = f"{place} {objects.numbers[row]}" + (f" ({text})" if text else "")
    return printable(name + (f": {value[:LONGEST]}" if isinstance(value, str) else ""))


# Objects of a run to look at, from data that the user names or from its demo.


def examples_of(run: str, data: str | None) -> list[Example]:
    """Return objects of the data of a run; of the training's data, those of the test part alone.

    Nothing leads from a run folder to another file: it may be somebody else's.

    Raises:
        DataError: They cannot be used.
    """
    task, files = task_of_run(run, "explain"), RunFiles(run)
    if "examples" not in task.functions or (data is None and not _is_demo(files)):
        return []
    return task.function("examples")(run, data)


def _is_demo(files: RunFiles) -> bool:
    # a run that was saved from Python has no configuration
    return files.has("config.yaml") and files.yaml("config.yaml").get("demo") is True
