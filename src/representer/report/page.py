"""Write ``report.html`` from the files of a run folder."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from representer.errors import DataError, MissingExtraError
from representer.report import figures, pictures, summary
from representer.report.metrics import (
    FILTERS,
    classification_metrics,
    coverage,
    decimals_of,
    effective_count,
    likelihood,
    paired_difference,
    regression_metrics,
    rmse_difference,
    rounded,
)
from representer.storage import atomic
from representer.storage.atomic import parse_json, read_bytes
from representer.storage.run import RunFiles

if TYPE_CHECKING:
    from jinja2 import Environment


# Entries of explanations.json as the report shows them: two groups of lines, marks, a picture.

LISTED = 8  # atoms of a line
DRAWN = 50  # objects of a list that are drawn
WEAK = 0.04  # of the strongest word; below, a word is not marked


def shown_entries(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return entries as in `shown_entry`; the objects of the first `DRAWN` are drawn."""
    return [shown_entry(entry, is_drawn=k < DRAWN) for k, entry in enumerate(entries)]


def shown_entry(entry: Mapping[str, Any], *, is_drawn: bool = True) -> dict[str, Any]:
    """Return an entry with what the page shows of it.

    These are ``favor`` and ``against``, the lines of each sign; ``decimals`` of their numbers;
    ``columns``, the parts if there are several; ``marks`` of a text, and ``picture`` of another
    object, drawn here (unless it says that there is none) and never read from a file.
    """
    is_graph = "smiles" in entry or "edges" in entry
    lines = [{**line, "atoms": is_graph and _atoms(line)} for line in entry["contributions"]]
    rows = rows_of(entry)
    numbers = [line["contribution"] for line in lines]
    shown = {
        **entry,
        "favor": [line for line in lines if line["contribution"] >= 0],
        "against": [line for line in lines if line["contribution"] < 0],
        "columns": entry["parts"]
        if any(line["kernel"] and line["network"] for line in lines)
        else [],
        "decimals": decimals_of(numbers),
        "row_decimals": 1 + decimals_of(row["contribution"] for row in rows[:-2]),
        "rows": rows if entry.get("by_place") else [],
        "elsewhere": {
            "count": max(0, len(entry.get("by_place", ())) - entry.get("listed", 0)),
            "contribution": sum(row["contribution"] for row in rows[:-2] if "places" not in row),
        },
        "largest": max((abs(row["contribution"]) for row in rows[:-2]), default=0.0) or 1.0,
        "picture": picture_of(entry, is_drawn=is_drawn),
    }
    if "words" in entry:
        shown["marks"] = _marks(entry)
    return shown


def rows_of(entry: Mapping[str, Any], *, by_feature: bool = False) -> list[dict[str, Any]]:
    """Return the rows of a table of an explanation, which sum to the last one, the score.

    Of places with one name, such as a word that occurs twice, each has its position, from 1.
    ``by_feature`` lists n-grams, walks or bands instead of words, atoms, nodes or steps.
    """
    listed = entry.get("listed", 10)
    if by_feature or not entry.get("by_place"):
        rows = list(entry["contributions"])
        others, rest = (entry["others"][name] for name in ("count", "contribution"))
        noun = entry.get("nouns", ("", "n-gram"))[1]
    else:
        counts = Counter(line["what"] for line in entry["by_place"])
        rows = sorted(entry["by_place"], key=lambda line: -abs(line["contribution"]))
        others, rest = len(rows[listed:]), sum(row["contribution"] for row in rows[listed:])
        rows, noun = [
            {**line, "what": f"{line['what']} [{line['places'][0][0] + 1}]"}
            if counts[line["what"]] > 1
            else line
            for line in rows[:listed]
        ], entry["nouns"][0]  # fmt: skip
    if others:
        plural = "s" * (others > 1)
        first, _, second = noun.partition(" or ")
        noun = f"{first}{plural} and {second}{plural}" if second else noun + plural
        rows.append({"what": f"{others} other {noun}", "contribution": rest})
    ends = ("constant", entry["constant"]), ("score", entry["score"])
    return rows + [{"what": name, "contribution": value} for name, value in ends]


def _atoms(line: Mapping[str, Any]) -> str:
    """Return the numbers of the atoms of a subtree, which its name does not have."""
    places = line["places"]
    if line["network"] or len(places) > 1:
        return ""
    atoms = [str(atom) for atom in places[0]]
    return ", ".join(atoms[:LISTED]) + (", …" if len(atoms) > LISTED else "")


def _marks(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each word of a text with its color, and the listed n-grams that it is part of."""
    ngrams: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for line in entry["contributions"]:
        for t in sorted({t for positions in line["places"] for t in positions}):
            ngrams[t].append(line)
    return [
        {"word": word, "value": value, "strength": strength, "ngrams": ngrams[t],
         "is_weak": abs(strength) < WEAK and not ngrams[t]}
        for t, (word, value, strength) in enumerate(
            zip(entry["words"], entry["by_word"], entry["strengths"], strict=True)
        )
    ]  # fmt: skip


def picture_of(entry: Mapping[str, Any], *, is_drawn: bool = True) -> Any:
    """Return the picture of an explained object as SVG, or a sentence if it is too large."""
    if not is_drawn and not entry.keys().isdisjoint({"smiles", "edges", "moments", "by_step"}):
        return f"Not drawn, since the page has {DRAWN} drawings of these already."
    if "smiles" in entry:
        from representer.data.molecules import parse_smiles
        from representer.report.pictures import draw_shares

        return draw_shares(parse_smiles(entry["smiles"]), entry)
    if "edges" in entry:
        from representer.report.pictures import draw_graph

        return draw_graph(entry["nodes"], entry["edges"], entry["by_node"])
    if "moments" in entry:
        from representer.report.pictures import window

        return window(entry)
    if "by_step" in entry:
        return pictures.series(entry)
    return ""


# Predictions beside true values: the metrics of a model, and how another model compares.

MISTAKES, EXCERPT, POINTS = 12, 320, 800


class Column(NamedTuple):
    """One target of some objects."""

    name: str  # its name; empty if it has none
    truth: NDArray[Any]  # numbers of classes, or numbers ``(N,)``; NaN where unknown
    classes: Sequence[str]  # names of the classes; none for numbers

    def known(self) -> NDArray[np.intp]:
        """Return the positions with a true value."""
        return np.flatnonzero(~np.isnan(self.truth))

    def at(self, positions: NDArray[np.intp]) -> Column:
        """Return the column at positions with a true value."""
        truth = self.truth[positions]
        return self._replace(truth=truth.astype(np.int64) if self.classes else truth)


@dataclass(frozen=True)
class Predictions:
    """Predictions for some objects."""

    values: NDArray[Any]  # numbers of classes, or numbers ``(N,)``
    probabilities: NDArray[np.float64] | None = None  # of each class ``(N, C)``; None for numbers
    deviations: NDArray[np.float64] | None = None  # standard deviations ``(N,)``; None for classes
    # probability of the predicted class alone ``(N,)``, where there are too many classes to keep
    # those of all
    chances: NDArray[np.float64] | None = None
    # whether each class is in the prediction set ``(N, C)``; None without conformal prediction
    sets: NDArray[np.bool_] | None = None
    # half of the width of each interval ``(N,)``; None likewise
    half_widths: NDArray[np.float64] | None = None

    @classmethod
    def joined(cls, parts: Sequence[Predictions]) -> Predictions:
        """Return the predictions for the objects of all parts."""
        columns = {name: [getattr(block, name) for block in parts] for name in vars(parts[0])}
        kept = {name: values for name, values in columns.items() if values[0] is not None}
        return cls(**{name: np.concatenate(values) for name, values in kept.items()})

    def at(self, positions: NDArray[np.intp]) -> Predictions:
        """Return the predictions at some positions."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        kept = {name: values[positions] for name, values in parts.items() if values is not None}
        return Predictions(**kept)


def figures_by_target(
    columns: Sequence[Column], predictions: Sequence[Predictions], digests: Any = None,
    groups: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the metrics of a single target, or of each by its name; see `figures_of`.

    Targets without a true value are left out. Objects with the same digest are copies.
    Prediction sets are evaluated by groups ``(N,)``, too, if there are any.
    """
    figures = {}
    for column, predicted in zip(columns, predictions, strict=True):
        if len(rows := column.known()):
            alike, named = (
                None if values is None else np.asarray(values)[rows] for values in (digests, groups)
            )
            figures[column.name] = figures_of(column.at(rows), predicted.at(rows), alike, named)
    return figures if columns[0].name else figures[""]


def figures_of(
    column: Column, predictions: Predictions, digests: Any = None, groups: Any = None
) -> dict[str, Any]:
    """Return the metrics of a classification or, with the coverage of intervals, a regression."""
    truth = column.truth
    count = effective_count(np.arange(len(truth)) if digests is None else digests)
    alike = dependent(groups)
    grouped = {} if alike is None else {"groups": len(np.unique(alike))}
    if predictions.probabilities is not None:
        figures = classification_metrics(
            truth, predictions.probabilities, column.classes, count, alike
        )
        areas = areas_under_curves(truth, predictions.probabilities)
        if areas["average_precision"] is not None:
            grouped |= {"ranked_class": column.classes[1]}
        figures |= grouped | areas
        if (sets := predictions.sets) is not None:
            names = [column.classes[number] for number in truth]
            inside = sets[np.arange(len(truth)), truth]
            figures["conformal"] = {
                **_held(inside, groups),
                "mean_size": float(sets.sum(axis=1).mean()),
                "by_class": rates_by(names, inside),
            }
        return figures
    figures = regression_metrics(truth, predictions.values, count, alike) | grouped
    if predictions.deviations is not None:
        intervals = predictions.values, predictions.deviations, truth
        figures["coverage"] = coverage(*intervals)
        figures["log_loss"] = likelihood(*intervals)
        figures["mean_deviation"] = float(predictions.deviations.mean())
    if (half := predictions.half_widths) is not None:
        inside = np.abs(truth - predictions.values) <= half
        figures["conformal"] = _held(inside, groups) | {"mean_width": float(2 * half.mean())}
    return figures


def dependent(groups: Any) -> NDArray[np.int64] | None:
    """Return the groups of objects as numbers ``(N,)``; None if each object is one of its own."""
    if groups is None or not len(groups):
        return None
    names, codes = np.unique(np.asarray(groups), return_inverse=True)
    return codes if len(names) < len(codes) else None


def _held(inside: NDArray[np.bool_], groups: Any) -> dict[str, Any]:
    """Return the rate at which sets or intervals hold the truth, and that of each group."""
    by_group = {} if groups is None else {"by_group": rates_by(groups.tolist(), inside)}
    return {"coverage": float(inside.mean()), **by_group}


def rates_by(names: Sequence[Any], inside: NDArray[np.bool_]) -> dict[Any, float]:
    """Return the share of rows that are inside, of those of each name."""
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return {name: float(inside[of_name].mean()) for name, of_name in rows.items()}


RANKING = "auc", "average_precision"


def areas_under_curves(
    truth: NDArray[np.int64], chances: NDArray[np.float64]
) -> dict[str, float | None]:
    """Return how well the second of two classes is ranked; None unless both are present.

    ``auc`` is the area under the ROC curve, and ``average_precision`` that under the curve of
    precision and recall, whose level by chance is the share of the second class.
    """
    if chances.shape[1] != 2 or len(set(truth.tolist())) < 2:
        return dict.fromkeys(RANKING)
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = {"auc": roc_auc_score, "average_precision": average_precision_score}
    return {name: float(score(truth, chances[:, 1])) for name, score in scores.items()}


def compared(
    columns: Sequence[Column], predictions: Sequence[Predictions], others: Sequence[Predictions],
    digests: Any = None, groups: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the test metrics of another model and the paired difference, of each target.

    Objects with the same digest are copies. The difference is that of the ``pairs``, the objects
    without them, since they would make it look more certain than it is. Those of a group may be
    alike, see `paired_difference`.
    """
    figures, differences = {}, {}
    for column, predicted, other in zip(columns, predictions, others, strict=True):
        rows = column.known()
        if not len(rows):
            continue
        copies, named = (
            None if values is None else np.asarray(values)[rows] for values in (digests, groups)
        )
        listed = figures_of(column.at(rows), other.at(rows), copies, named)
        if copies is not None:
            rows = rows[np.sort(np.unique(copies, return_index=True)[1])]
        alike = None if groups is None else dependent(np.asarray(groups)[rows])
        actual, model, beside = column.at(rows), predicted.at(rows), other.at(rows)
        if model.probabilities is not None:
            kept = (
                "count", "accuracy", "accuracy_interval", "macro_f1", "auc", "average_precision",
            )  # fmt: skip
            listed = {name: listed[name] for name in kept}
            pair = model.values == actual.truth, beside.values == actual.truth
            difference = paired_difference(*pair, alike)
        else:
            difference = rmse_difference(actual.truth, model.values, beside.values, alike)
        figures[column.name] = listed | {"pairs": len(rows)}
        differences[column.name] = list(difference)
    if columns[0].name:
        return {"test": figures, "difference": differences}
    return {**figures[""], "difference": differences[""]}


def shown(predictions: Predictions, row: int, names: Sequence[str]) -> str:
    """Return a prediction with its probability or standard deviation as text."""
    value, chances = predictions.values[row], predictions.chances
    if predictions.probabilities is not None:
        chances = predictions.probabilities[:, int(value)]
    if chances is not None:
        return f"{names[int(value)]} ({100 * chances[row]:.0f} %)"
    if predictions.deviations is None:
        return f"{value:.4g}"
    deviation = rounded(predictions.deviations[row], 2)
    return f"{value:.{len(deviation.partition('.')[2])}f} ± {deviation}"


def worst(column: Column, predictions: Predictions) -> list[int]:
    """Return the positions of the most confident errors, or of the largest errors."""
    rows, predicted, chances = column.known(), predictions.values, predictions.chances
    if predictions.probabilities is not None:
        chances = predictions.probabilities[np.arange(len(predicted)), predicted]
    if chances is not None:
        wrong = rows[predicted[rows] != column.truth[rows]]
        confidence = chances[wrong]
        rows = wrong[np.argsort(-confidence, kind="stable")]
    else:
        errors = np.abs(predicted[rows] - column.truth[rows])
        rows = rows[np.argsort(-errors, kind="stable")]
    return rows[:MISTAKES].tolist()


def mistakes(
    column: Column, predictions: Predictions, objects: Sequence[Any], labels: Sequence[Any],
    numbers: Sequence[int],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the objects at the positions of `worst`; texts are shown with their beginning."""
    return [
        {
            "number": numbers[i],
            "truth": labels[i],
            "predicted": shown(predictions, i, column.classes),
            "text": _excerpt(objects[i]),
        }
        for i in worst(column, predictions)
    ]


def _excerpt(one: Any) -> str:
    words = " ".join(one.split()) if isinstance(one, str) else ""
    return words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " …"


def points(
    columns: Sequence[Column], predictions: Sequence[Predictions]
) -> dict[str, list[list[float]]]:
    """Return true value, prediction and deviation of objects by target, for the plot."""
    result = {}
    for column, predicted in zip(columns, predictions, strict=True):
        if predicted.deviations is not None:
            rows = column.known()[:POINTS]
            parts = (column.truth, predicted.values, predicted.deviations)
            table = np.stack([numbers[rows] for numbers in parts], axis=1)
            result[column.name] = table.round(5).tolist()
    return result


BESIDE = ("alone", "comparisons", "baselines")  # rows of metrics.json beside the model


def by_target(metrics: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return metrics.json as those of runs with one target each, by the name of the target.

    A run whose target has no name is returned as it is, under an empty name. There are none without
    a test.
    """
    if metrics["test"] is None:
        return {}
    if not metrics["targets"]:
        return {"": metrics}
    return {
        name: metrics
        | {"test": figures}
        | {group: [_of(row, name) for row in metrics.get(group, ())] for group in BESIDE}
        for name, figures in metrics["test"].items()
    }


def _of(row: dict[str, Any], name: str) -> dict[str, Any]:
    return row | row["test"][name] | {"difference": row["difference"][name]}


EXPLAINED = "explanations.json"  # written by `representer explain`, optional


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the report of a finished run.

    Args:
        run: The folder; it contains metrics.json, details.json and metrics.jsonl, and optionally
            explanations.json.
        out: The page; by default ``report.html`` in the folder.

    Returns:
        The path of the page.

    Raises:
        DataError: If the run is not finished.
        StorageError: The page cannot be written.
    """
    files = RunFiles(run)
    for name in ("metrics.json", "details.json", "metrics.jsonl"):
        if not files.has(name):
            raise DataError(
                f"there is no {name}: the run is not finished, or this is not a run",
                file=run,
                fix="Finish it with the command that started it; `representer fit` has --resume.",
            )
    metrics, details = files.json("metrics.json"), files.json("details.json")
    lines = files.bytes("metrics.jsonl").splitlines()
    history = files.parsed("metrics.jsonl", lambda: [parse_json(line) for line in lines])
    explained = _explanations(run)
    try:
        page = render(Results(metrics, details, history, explained))
    except MissingExtraError:
        raise
    except Exception as error:  # the files may have any content
        problem = f"its results cannot be shown ({type(error).__name__}: {error})"
        fix = "Train again with this version."
        raise DataError(problem, file=run, fix=fix) from error
    target = out or run / "report.html"
    atomic.write_text(target, page)
    return target


def _explanations(run: Path) -> list[dict[str, Any]]:
    """Read the file of `representer explain`, which is not in the manifest."""
    try:
        explained = parse_json(read_bytes(run / EXPLAINED, 2**26))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        fix = "Run `representer explain` again, or delete the file."
        raise DataError(f"cannot be used: {reason}", file=run / EXPLAINED, fix=fix) from None
    return explained if isinstance(explained, list) else []


class Results(NamedTuple):
    """The files of a run: metrics.json, details.json, metrics.jsonl and explanations.json."""

    metrics: dict[str, Any]
    details: dict[str, Any]
    history: Sequence[dict[str, Any]]
    explained: Sequence[dict[str, Any]]


def render(results: Results) -> str:
    """Return the page of a run: self-contained HTML without scripts and links."""
    page = PAGES.get(results.metrics["task"], ESTIMATOR)
    details = results.details
    mistakes = details.get("mistakes", [])
    errors = iter(
        shown_entries(mistake["explained"] for mistake in mistakes if mistake.get("explained"))
    )
    shown = results._asdict() | {
        "test": results.metrics["test"],
        "is_regression": results.metrics.get("kind") == "regression",
        "explained": shown_entries(results.explained),
        "examples": shown_entries(details.get("examples", [])),
        "cliff": shown_entries(details.get("cliff", [])),
        "mistakes": [
            mistake | {"entry": next(errors) if mistake.get("explained") else None}
            for mistake in mistakes
        ],
    }
    return _environment().get_template(page.template).render(shown | page.context(results))


def headings(page: str) -> list[tuple[str, Any]]:
    """Return anchor and text of each section of a page, for its table of contents."""
    from markupsafe import Markup

    headings = re.findall(r'<h2 id="(.*?)">(.*?)</h2>', page)
    return [(anchor, Markup(text)) for anchor, text in headings]


def _of_language(run: Results) -> dict[str, Any]:
    curves = figures.perplexity_curves(run.history) if run.history else ""
    return {"curves": curves, "screen": summary.of_text(run)}


def _of_signal(run: Results) -> dict[str, Any]:
    baseline = run.metrics["baselines"][0] if run.metrics["baselines"] else None
    by_subject = baseline and baseline["by_subject"]
    return {
        "screen": summary.of_subjects(run),
        "reliability": figures.reliability(run.metrics["test"]["calibration"]["bins"]),
        "subjects": figures.subjects(run.metrics["by_subject"], by_subject, run.metrics["chance"]),
        "curves": _loss_curves(run.history, "cross-entropy (nats per window)"),
        "filters": _filters(run.details["filters"]) if run.details.get("filters") else None,
    }


def _of_estimator(run: Results) -> dict[str, Any]:
    is_regression = run.metrics["kind"] == "regression"
    targets = [_of_target(run, *target) for target in by_target(run.metrics).items()]
    screen = (summary.of_numbers if is_regression else summary.of_classes)(run, targets)
    members = run.details["config"].get("members") or 1
    history = [_per_member(row, members) for row in run.history]
    curves = ""
    if history and is_regression:
        curves = _loss_curves(history, "mean squared error (standardized)")
    elif history:
        curves = _curves(history, run.metrics, run.details["noun"])
    motifs = [row | {"picture": pictures.logos(row)} for row in run.details.get("motifs", ())]
    return {
        "screen": screen, "targets": targets, "curves": curves, "members": members,
        "motifs": motifs,
    }  # fmt: skip


def _per_member(row: dict[str, Any], members: int) -> dict[str, Any]:
    """Divide the training loss of an ensemble, which is a sum, by the number of its members."""
    loss = row.get("train_loss")
    return row if loss is None else row | {"train_loss": loss / members}


def _of_target(run: Results, name: str, metrics: dict[str, Any]) -> dict[str, Any]:
    test, baselines = metrics["test"], [row for group in BESIDE for row in metrics.get(group, ())]
    points = run.details["points"].get(name)
    shown = {
        "name": name,
        "test": test,
        "baselines": baselines,
        "parity": figures.parity(points, name or "value") if points else "",
        "comparison": "",
    }
    if metrics["kind"] == "regression":
        return shown
    results = _results(metrics, baselines)
    comparison = figures.comparison(results, run.details["nouns"]) if baselines else ""
    return shown | {
        "comparison": comparison,
        "reliability": figures.reliability(test["calibration"]["bins"]),
    }


class Page(NamedTuple):
    """A template, and the function that returns its additional values."""

    template: str
    context: Callable[[Results], dict[str, Any]]


ESTIMATOR = Page("estimator.html", _of_estimator)  # of all tasks without a page of their own
PAGES = {"language": Page("language.html", _of_language), "signal": Page("signal.html", _of_signal)}


def _loss_curves(history: Sequence[dict[str, Any]], unit: str) -> str:
    return figures.loss_curves(_losses(history), unit) if history else ""


def _filters(described: dict[str, Any]) -> dict[str, Any]:
    channels, lags = described["channels"], described["lags"]
    cards = [{**card, "picture": pictures.wavelet(card, channels)} for card in described["cards"]]
    maps = [
        {**row, "map": pictures.scalp(row["weights"], channels, f"Weights, {row['class']}")}
        for row in lags
    ]
    bands = described["importance"] and pictures.importance(described["importance"])
    phases = pictures.phases(lags, channels) if lags and len(channels) > 1 else ""
    return {**described, "cards": cards, "maps": maps, "bands": bands, "phases": phases}


def _losses(history: Sequence[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    return {
        label: [(row["epoch"], row[key]) for row in history if row.get(key) is not None]
        for label, key in (("training", "train_loss"), ("validation", "valid_loss"))
    }


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("the report", "jinja2", "train") from error
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= FILTERS | {"headings": headings}
    return environment


def _results(
    metrics: dict[str, Any], baselines: Sequence[dict[str, Any]]
) -> list[figures.ResultBar]:
    rows = [(metrics["model"], metrics["test"], True)]
    rows += [(b["name"], b, False) for b in baselines]
    results = [
        figures.ResultBar(name, row["accuracy"], *row["accuracy_interval"], is_model=is_model)
        for name, row, is_model in rows
    ]
    return sorted(results, key=lambda r: -r.accuracy)


def _curves(history: Sequence[dict[str, Any]], metrics: dict[str, Any], noun: str) -> str:
    def curve(key: str) -> list[tuple[float, float]]:
        rows = [row for row in history if row.get(key) is not None]
        return [(row["step"] / metrics["steps_per_epoch"], row[key]) for row in rows]

    losses = {"training": curve("train_loss"), "validation": curve("valid_loss")}
    accuracies = {"validation": curve("valid_accuracy")}
    return figures.learning_curves(
        {name: points for name, points in losses.items() if points},
        {name: points for name, points in accuracies.items() if points},
        metrics["best_epoch"],
        noun,
    )
