"""Results as JSON lines: a run appends one line to its recipe's file when it ends or pauses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from representer.errors import DataError
from representer.storage.checkpoint import latest
from representer.tasks.recipe import Request

Line = dict[str, Any]
KEY = ("recipe", "variant", "seed", "settings")
ROWS = ("cell", "row", "network", "variant")  # settings that name a row of the table
SETTINGS, METRICS = "recipe.json", "metrics.json"
MACHINE = "machine.json"  # the chip that trained, the seconds of all tries, and the commit


@dataclass(frozen=True)
class Measure:
    """The figure in a recipe's lines, and the unit of its training.

    Attributes:
        recipe: Name of the recipe.
        metric: Name of the figure.
        value: Returns the figure from the metrics of a finished run; None if it has none.
        unit: Unit of the training, for example ``"epochs"``, by which the metrics count it.
        paper: Number of units in the paper, if the settings have no ``budget``; None if unknown.
        planned: Returns the planned number from the settings; by default, the setting ``unit``.
    """

    recipe: str
    metric: str
    value: Callable[[Line], float | None]
    unit: str
    paper: float | None = None
    planned: Callable[[Line], float | None] | None = None


def accuracy(metrics: Line) -> float:
    """Return the test accuracy in the metrics of a classifier."""
    return metrics["test"]["accuracy"]


def append_line(request: Request, measure: Measure, folder: Path, status: str) -> None:
    """Append the line of a run, unless it would repeat the last line with the same key.

    The file is ``RECORD/RECIPE.jsonl`` with ``record`` in the request, else ``OUT/results.jsonl``.
    """
    path = request.out / "results.jsonl"
    if request.record is not None:
        path = request.record / f"{measure.recipe}.jsonl"
    line = _line(request, measure, folder, status)
    last = read_lines(path).get(_key(line), {}) if path.exists() else {}
    if any(last.get(name) != line[name] for name in ("status", "steps", "value", "hours")):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:  # one write, since runs may be parallel
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> dict[tuple[Any, ...], Line]:
    """Return the last line of each `KEY`, from a file or from all files of a folder.

    Raises:
        DataError: If a line is not a JSON object with these fields; the error names it.
    """
    lines: dict[tuple[Any, ...], Line] = {}
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                lines[_key(line)] = line
            except (ValueError, KeyError, TypeError) as error:
                problem = f"this is not the line of a run ({error})"
                raise DataError(problem, file=file, line=number, fix="Remove it.") from error
    return lines


def read(path: Path) -> Any:
    """Return the content of a JSON file; None if there is none."""
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def _key(line: Line) -> tuple[Any, ...]:
    return tuple(line[name] for name in KEY)


def _line(request: Request, measure: Measure, folder: Path, status: str) -> Line:
    settings, metrics, machine = (read(folder / n) or {} for n in (SETTINGS, METRICS, MACHINE))
    fixed = {name: value for name, value in settings.items() if name != "seed"}
    unit, test, value = measure.unit, metrics.get("test"), None
    planned = measure.planned(settings) if measure.planned else settings[unit]
    done = metrics.get(unit, metrics.get(unit[:-1], planned))
    if metrics:
        value, planned = measure.value(metrics), planned or done
    ended = (folder / (MACHINE if machine else SETTINGS)).stat().st_mtime
    command = request.command.replace(str(request.data), "DIR").replace(" --table-only", "")
    return {
        "recipe": measure.recipe,
        "variant": re.sub(r"-seed-?\d+$", "", folder.relative_to(request.out).as_posix()),
        "row": next((settings[name] for name in ROWS if name in settings), None),
        "seed": settings["seed"],
        "settings": hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:12],
        "status": status,
        "unit": unit,
        "steps": done if metrics else _progress(folder, unit),
        "planned": planned,
        "paper": planned / settings["budget"]
        if planned and "budget" in settings
        else measure.paper,
        "metric": measure.metric,
        "value": None if value is None else round(value, 6),
        "interval": test.get("accuracy_interval") if isinstance(test, dict) else None,
        "hours": round(machine.get("seconds", 0.0) / 3600, 4) or None,
        "machine": machine.get("chip"),
        "commit": machine.get("commit"),
        "date": datetime.fromtimestamp(ended, UTC).date().isoformat(),
        "smoke": request.smoke,
        "command": command,
    }


def _progress(folder: Path, unit: str) -> float:
    """Return the last epoch or step in the log or the checkpoints of a paused run."""
    log = folder / "metrics.jsonl"
    if rows := log.read_text("utf-8").splitlines() if log.exists() else ():
        return json.loads(rows[-1])[unit[:-1]]
    checkpoint = latest(folder / "checkpoints", report=lambda _: None)
    return 0 if checkpoint is None else checkpoint.step
