"""Write ``report.html`` from the files of a run folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from representer.errors import DataError, MissingExtraError
from representer.report import figures, signal_figures
from representer.report.results import by_target
from representer.report.standing import parts_sentence
from representer.storage import atomic
from representer.storage.files import parse_json, read_bytes
from representer.storage.run_files import RunFiles

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

NARROW = "\u202f"  # a narrow no-break space
EXPLAINED = "explanations.json"  # written by `representer explain`, optional
MATRIX_LIMIT = 20  # classes; beyond that, the largest entries are listed instead


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
                fix="Finish it with `representer fit ... --resume`.",
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
    shown = results._asdict() | {"test": results.metrics["test"]} | page.context(results)
    return _environment().get_template(page.template).render(shown)


def _of_language(run: Results) -> dict[str, Any]:
    curves = figures.perplexity_curves(run.history) if run.history else ""
    about_parts = parts_sentence(run.metrics["parts"])
    return {"curves": curves, "is_regression": False, "about_parts": about_parts}


def _drawn(entry: dict[str, Any]) -> dict[str, Any]:
    """Add the picture to an explanation, drawn from the SMILES and never read from a file."""
    if "smiles" not in entry:
        return {name: value for name, value in entry.items() if name != "picture"}
    from markupsafe import Markup

    from representer.data.molecules import parse_smiles
    from representer.report.molecule_drawing import draw_shares

    return {**entry, "picture": Markup(draw_shares(parse_smiles(entry["smiles"]), entry))}


def _of_signal(run: Results) -> dict[str, Any]:
    baseline = run.metrics["baselines"][0] if run.metrics["baselines"] else None
    by_subject = baseline and baseline["by_subject"]
    return {
        "is_regression": False,
        "about_parts": parts_sentence(run.metrics["parts"]),
        "reliability": figures.reliability(run.metrics["test"]["calibration"]["bins"]),
        "subjects": figures.subjects(run.metrics["by_subject"], by_subject, run.metrics["chance"]),
        "curves": _loss_curves(run.history),
        "filters": _filters(run.details["filters"]) if run.details.get("filters") else None,
    }


def _of_estimator(run: Results) -> dict[str, Any]:
    is_regression = run.metrics["kind"] == "regression"
    curves = _loss_curves(run.history) if is_regression else ""
    if run.history and not is_regression:
        curves = _curves(run.history, run.metrics, run.details["noun"])
    return {
        "is_regression": is_regression,
        "about_parts": parts_sentence(run.metrics["parts"]),
        "targets": [_of_target(run, *own) for own in by_target(run.metrics).items()],
        "curves": curves,
        "explained": [_drawn(entry) for entry in run.explained],
    }


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
        "confusions": _largest_confusions(test),
        "is_matrix_shown": len(test["per_class"]) <= MATRIX_LIMIT,
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


def _loss_curves(history: Sequence[dict[str, Any]]) -> str:
    return figures.loss_curves(_losses(history)) if history else ""


def _filters(described: dict[str, Any]) -> dict[str, Any]:
    channels = described["channels"]
    cards = [
        {**card, "picture": signal_figures.wavelet(card, channels)} for card in described["cards"]
    ]
    lags = [
        {**row, "map": signal_figures.scalp(row["weights"], channels, f"Weights, {row['class']}")}
        for row in described["lags"]
    ]
    bands = described["importance"] and signal_figures.importance(described["importance"])
    return {**described, "cards": cards, "lags": lags, "bands": bands}


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
    environment.filters |= {
        "percent": _percent,
        "points": _points,
        "count": _count,
        "equation": _equation,
    }
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


def _largest_confusions(test: dict[str, Any], count: int = 12) -> list[dict[str, Any]]:
    names = [c["label"] for c in test["per_class"]]
    cells = [
        {"truth": names[i], "predicted": names[j], "count": n, "support": sum(row)}
        for i, row in enumerate(test["confusion"])
        for j, n in enumerate(row)
        if i != j and n
    ]
    return sorted(cells, key=lambda c: -c["count"])[:count]


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}{NARROW}%"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def _count(number: int) -> str:
    return f"{number:,}".replace(",", NARROW)


def _equation(text: str) -> Markup:
    """Return an equation as HTML, with subscripts for ``c_t`` and ``c_{t−1}``."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"_\{(.*?)\}|_(\w)", r"<sub>\1\2</sub>", str(escape(text))))
