"""Run what is missing of a table; finished runs are kept, interrupted runs resume."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from representer.errors import (
    ArgumentError,
    DataError,
    RepresenterError,
    RunFolderError,
    TrainingError,
)
from representer.machine import processor
from representer.storage.checkpoint import latest
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer.tasks.worklist import outcomes

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
        curve: Name of the figure in ``metrics.jsonl`` that shows the progress, or of pairs with it
            in the metrics.
    """

    recipe: str
    metric: str
    value: Callable[[Line], float | None]
    unit: str
    paper: float | None = None
    planned: Callable[[Line], float | None] | None = None
    curve: str = ""


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
    """Return the last line of each `KEY`, of a file or of all files of a folder, in their order."""
    lines: dict[tuple[Any, ...], Line] = {}
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                lines.pop(_key(line), None)  # the order is that of the last lines
                lines[_key(line)] = line
            except (ValueError, KeyError, TypeError) as error:
                problem = f"this is not the line of a run ({error})"
                raise DataError(problem, file=file, line=number, fix="Remove it.") from error
    return lines


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; None if there is none."""
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def _key(line: Line) -> tuple[Any, ...]:
    return tuple(line[name] for name in KEY)


def _line(request: Request, measure: Measure, folder: Path, status: str) -> Line:
    settings, metrics, machine = (read_json(folder / n) or {} for n in (SETTINGS, METRICS, MACHINE))
    fixed = {name: value for name, value in settings.items() if name != "seed"}
    unit, test, value = measure.unit, metrics.get("test"), None
    planned = measure.planned(settings) if measure.planned else settings[unit]
    done = metrics.get(unit, metrics.get(unit[:-1], planned))
    if metrics:
        value, planned = measure.value(metrics), planned or done
    ended = (folder / (MACHINE if machine else SETTINGS)).stat().st_mtime
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
        "command": shown_command(request),
        "curve": _curve(folder, measure) or metrics.get(measure.curve),
    }


def shown_command(request: Request) -> str:
    """Return the command of a request without ``--table-only``, ``--record`` and local folders."""
    words, folder = shlex.split(request.command), str(request.data)
    shown: list[str] = []
    for word, before in zip(words, ["", *words], strict=False):
        if "--record" not in (word.partition("=")[0], before) and word != "--table-only":
            option, equals, value = word.rpartition("=")
            if value == folder or value.startswith(f"{folder}/"):
                value = f"DIR{value.removeprefix(folder)}"
            shown.append(option + equals + (Path(value).name if value.startswith("/") else value))
    return shlex.join(shown)


def _curve(folder: Path, measure: Measure) -> list[list[float]]:
    """Return pairs of the number of units and the figure that shows the progress."""
    log = folder / "metrics.jsonl"
    texts = log.read_text("utf-8").splitlines() if measure.curve and log.exists() else ()
    return [
        [row[measure.unit[:-1]], round(row[measure.curve], 4)] for row in map(json.loads, texts)
    ]


def _progress(folder: Path, unit: str) -> float:
    """Return the last epoch or step in the log or the checkpoints of a paused run."""
    log = folder / "metrics.jsonl"
    if rows := log.read_text("utf-8").splitlines() if log.exists() else ():
        return json.loads(rows[-1])[unit[:-1]]
    checkpoint = latest(folder / "checkpoints", report=lambda _: None)
    return 0 if checkpoint is None or unit == "epochs" else checkpoint.step


C = TypeVar("C")
D = TypeVar("D")
Train = Callable[[RunFolder, C, D], Mapping[str, Any] | None]
Record = Callable[[Path, str], None]
RESUMED = "resumed.json"
_WITHOUT_EFFECT = ("threads", "out", "resume")


@dataclass(frozen=True)
class Run(Generic[C]):
    """One run of a table.

    Attributes:
        folder: Run folder, with ``recipe.json`` and, once finished, ``metrics.json``.
        config: A dataclass or a mapping with everything that determines the result.
        length: The field of the configuration that a repeated command may increase. A run whose
            metrics say that it was ``stopped_by`` this field then resumes.
    """

    folder: Path
    config: C
    length: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as JSON values, without fields that do not change the result."""
        config: Any = self.config
        values = dict(config) if isinstance(config, Mapping) else asdict(config)
        kept = {name: value for name, value in values.items() if name not in _WITHOUT_EFFECT}
        return json.loads(json.dumps(kept))

    def is_done(self) -> bool:
        """Return True if a finished run with the same settings exists."""
        written = read_json(self.folder / SETTINGS)
        for name, value in self.settings.items():
            if written is not None and written.get(name) != value and name != self.length:
                hint = f"Its {name} is {written.get(name)!r}; choose another --out."
                expected = "a run with these settings"
                raise ArgumentError("out", str(self.folder), expected, hint=hint)
        metrics = read_json(self.folder / METRICS)
        if metrics is None or not self.length or metrics["stopped_by"] != self.length:
            return metrics is not None
        return metrics[self.length] >= self.settings[self.length]


class Stored(NamedTuple):
    """A run in a folder: its settings, and its metrics if it is finished."""

    folder: Path
    settings: dict[str, Any]
    metrics: dict[str, Any] | None


def stored(out: Path, pattern: str = "*") -> list[Stored]:
    """Return the runs in the folders that match a pattern, ordered by name."""
    paths = sorted(out.glob(f"{pattern}/{SETTINGS}"))
    return [Stored(p.parent, read_json(p) or {}, read_json(p.parent / METRICS)) for p in paths]


def run_missing(
    request: Request,
    measure: Measure,
    runs: Sequence[Run[C]],
    load: Callable[[], D],
    train: Train[C, D],
    beside: Mapping[Path, Callable[[Path, D], None]] | None = None,
    *,
    workers: int = 1,
) -> None:
    """Run what is missing, in order; with ``table_only``, only append their lines.

    Each run appends its line to the results when it ends, pauses or diverges; after a divergence
    the next one starts. A run that another process is working on is skipped.

    Raises:
        ArgumentError: If a folder has a run with other settings.
        Interrupted: If a signal arrives; the same command resumes.
    """
    record = partial(append_line, request, measure)
    if request.table_only:
        for run in runs:
            if (run.folder / SETTINGS).exists():
                record(run.folder, "finished" if (run.folder / METRICS).exists() else "paused")
        return
    waiting = [run for run in runs if not run.is_done()]
    missing = {path: write for path, write in (beside or {}).items() if not path.exists()}
    if workers > 1 and len(waiting) > 1:
        folders = {run.folder: run for run in waiting}
        others = load, train, record
        ended = outcomes(_load_and_run, folders, lambda at: (folders[at], *others), workers)
        for _, outcome in ended:
            if isinstance(outcome, RepresenterError):
                raise outcome
    elif waiting or missing:
        data = load()
        for path, write in missing.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, data)
        for run in waiting:
            run_one(run, data, train, record)


def run_one(run: Run[C], data: D, train: Train[C, D], record: Record) -> None:
    """Run or resume one run; see :func:`run_missing`."""
    print(f"{run.folder}:", flush=True)
    status = "paused"
    try:
        is_resumed = (run.folder / SETTINGS).exists()
        with RunFolder(run.folder, resume=run.folder.exists(), has_resume=False) as folder:
            if run.is_done():  # another process has finished it in the meantime
                return
            if is_resumed:
                folder.write_json(RESUMED, True)
            folder.write_json(SETTINGS, run.settings)
            try:
                with _timed(folder):
                    metrics = train(folder, run.config, data)
                if metrics is not None:
                    folder.write_json(METRICS, metrics)
                status = "finished"
            except TrainingError as error:  # divergence of one run must not stop the others
                print(f"{run.folder}: {error}", flush=True)
                status = "diverged"
            finally:
                record(run.folder, status)
    except RunFolderError as error:  # another process is working on it
        print(f"skipped: {error}", flush=True)


@contextmanager
def _timed(folder: RunFolder) -> Iterator[None]:
    """Write which chip trains in a folder, and add the seconds of the block."""
    earlier = (read_json(folder.path / MACHINE) or {}).get("seconds", 0.0)
    started = time.monotonic()
    try:
        yield
    finally:
        seconds = earlier + time.monotonic() - started
        folder.write_json(MACHINE, {"chip": chip(), "seconds": seconds, "commit": commit()})


def chip() -> str:
    """Return the name of the GPU or processor that trains on this machine by default."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else processor()


@cache
def commit() -> str | None:
    """Return the commit of the checkout that this module is part of; None if there is none."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # not a copy inside a repository
        return git("describe", "--always", "--abbrev=12", "--dirty", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread and flush denormal numbers to zero, for tiny networks."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


def _load_and_run(
    run: Run[Any], load: Callable[[], Any], train: Callable[..., Any], record: Record
) -> None:
    run_one(run, load(), train, record)
