"""Write ``report.html`` from the files of a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from representer.errors import DataError, MissingExtraError
from representer.report import figures, first_screen, signal_figures
from representer.report.explained import shown_entries
from representer.report.results import by_target
from representer.report.wording import FILTERS
from representer.storage import atomic
from representer.storage.files import parse_json, read_bytes
from representer.storage.run_files import RunFiles

if TYPE_CHECKING:
    from jinja2 import Environment

EXPLAINED = "explanations.json"  # written by `representer explain`, optional


def write_report(run: Path) -> Path:
    """Write ``report.html`` into a finished run folder.

    Args:
        run: The folder; it contains metrics.json, details.json and metrics.jsonl, and optionally
            explanations.json.

    Returns:
        The path of the page.

    Raises:
        DataError: If the run is not finished.
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
    target = run / "report.html"
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
    errors = iter(shown_entries(one["explained"] for one in mistakes if one.get("explained")))
    shown = results._asdict() | {
        "test": results.metrics["test"],
        "is_regression": results.metrics.get("kind") == "regression",
        "explained": shown_entries(results.explained),
        "examples": shown_entries(details.get("examples", [])),
        "mistakes": [
            one | {"entry": next(errors) if one.get("explained") else None} for one in mistakes
        ],
    }
    return _environment().get_template(page.template).render(shown | page.context(results))


def _of_language(run: Results) -> dict[str, Any]:
    curves = figures.perplexity_curves(run.history) if run.history else ""
    return {"curves": curves, "screen": first_screen.of_text(run)}


def _of_signal(run: Results) -> dict[str, Any]:
    baseline = run.metrics["baselines"][0] if run.metrics["baselines"] else None
    by_subject = baseline and baseline["by_subject"]
    return {
        "screen": first_screen.of_subjects(run),
        "reliability": figures.reliability(run.metrics["test"]["calibration"]["bins"]),
        "subjects": figures.subjects(run.metrics["by_subject"], by_subject, run.metrics["chance"]),
        "curves": _loss_curves(run.history, "cross-entropy (nats per window)"),
        "filters": _filters(run.details["filters"]) if run.details.get("filters") else None,
    }


def _of_estimator(run: Results) -> dict[str, Any]:
    is_regression = run.metrics["kind"] == "regression"
    targets = [_of_target(run, *own) for own in by_target(run.metrics).items()]
    screen = (first_screen.of_numbers if is_regression else first_screen.of_classes)(run, targets)
    members = run.details["config"].get("members") or 1
    history = [_per_member(row, members) for row in run.history]
    curves = ""
    if history and is_regression:
        curves = _loss_curves(history, "mean squared error (standardized)")
    elif history:
        curves = _curves(history, run.metrics, run.details["noun"])
    return {"screen": screen, "targets": targets, "curves": curves, "members": members}


def _per_member(row: dict[str, Any], members: int) -> dict[str, Any]:
    """Divide the training loss of an ensemble, which is a sum, by the number of its members."""
    loss = row.get("train_loss")
    return row if loss is None else row | {"train_loss": loss / members}


def _of_target(run: Results, name: str, metrics: dict[str, Any]) -> dict[str, Any]:
    test, baselines = metrics["test"], [*metrics["comparisons"], *metrics["baselines"]]
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
PAGES = {
    "language": Page("language.html", _of_language),
    "signal": Page("signal.html", _of_signal),
}


def _loss_curves(history: Sequence[dict[str, Any]], unit: str) -> str:
    return figures.loss_curves(_losses(history), unit) if history else ""


def _filters(described: dict[str, Any]) -> dict[str, Any]:
    channels, lags = described["channels"], described["lags"]
    cards = [
        {**card, "picture": signal_figures.wavelet(card, channels)} for card in described["cards"]
    ]
    maps = [
        {**row, "map": signal_figures.scalp(row["weights"], channels, f"Weights, {row['class']}")}
        for row in lags
    ]
    bands = described["importance"] and signal_figures.importance(described["importance"])
    phases = signal_figures.phases(lags, channels) if lags and len(channels) > 1 else ""
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
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment


def _results(metrics: dict[str, Any], baselines: Sequence[dict[str, Any]]) -> list[figures.Result]:
    rows = [(metrics["model"], metrics["test"], True)]
    rows += [(b["name"], b, False) for b in baselines]
    results = [
        figures.Result(name, row["accuracy"], *row["accuracy_interval"], is_model=is_model)
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
