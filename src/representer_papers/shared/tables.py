"""A table of a paper: its runs, of which finished ones are kept and others resume, and its page."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from representer.errors import (
    ArgumentError,
    DataError,
    MissingExtraError,
    RepresenterError,
    RunFolderError,
    TrainingError,
)
from representer.machine import limited, processor
from representer.storage import atomic
from representer.storage.checkpoint import latest
from representer.storage.run import MODEL, RunFolder
from representer.tasks.recipe import Request
from representer.tasks.worklist import outcomes
from representer.training.generators import fingerprint

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
        # A full disk must not leave half a line, which would stop every run that comes after.
        atomic.append(path, (json.dumps(line, ensure_ascii=False) + "\n").encode())


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
        "curve": [
            [row[unit[:-1]], round(row[measure.curve], 4)]
            for row in (log_of(folder) if measure.curve else ())
        ]
        or metrics.get(measure.curve),
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


def log_of(folder: Path) -> list[dict[str, Any]]:
    """Return what a run has logged after each epoch or block of steps."""
    log = folder / "metrics.jsonl"
    return [*map(json.loads, log.read_text("utf-8").splitlines())] if log.exists() else []


def _progress(folder: Path, unit: str) -> float:
    """Return the last epoch or step in the log or the checkpoints of a paused run."""
    if rows := log_of(folder):
        return rows[-1][unit[:-1]]
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
        if metrics is None or not self.is_extensible():
            return metrics is not None
        return metrics[self.length] >= self.settings[self.length]

    def is_extensible(self) -> bool:
        """Return True if a finished run resumes when its length is increased."""
        metrics = read_json(self.folder / METRICS) if self.length else None
        return metrics is not None and metrics["stopped_by"] == self.length


class Stored(NamedTuple):
    """A run in a folder: its settings, and its metrics if it is finished."""

    folder: Path
    settings: dict[str, Any]
    metrics: dict[str, Any] | None


def stored(out: Path, pattern: str = "*") -> list[Stored]:
    """Return the runs in the folders that match a pattern, ordered by name."""
    paths = sorted(out.glob(f"{pattern}/{SETTINGS}"))
    return [Stored(p.parent, read_json(p) or {}, read_json(p.parent / METRICS)) for p in paths]


def finished(out: Path, pattern: str = "*") -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the settings and the metrics of the finished runs among `stored`."""
    return [(run.settings, run.metrics) for run in stored(out, pattern) if run.metrics is not None]


def runs_of(
    request: Request,
    home: Path,
    rows: Iterable[str],
    settings: Callable[[str, int], Any],
    length: str = "",
) -> list[Run[Any]]:
    """Return the runs of the requested rows, or of all rows, one seed of all before the next."""
    chosen = request.cells or tuple(rows)
    return [
        Run(home / f"{row}-seed{seed}", settings(row, seed), length)
        for seed in request.seeds
        for row in chosen
    ]


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
                if (run.folder / MODEL).exists() and not run.is_extensible():
                    shutil.rmtree(folder.checkpoints)  # they would fill the disk
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
    torch.set_flush_denormal(True)
    try:
        with limited(1):
            yield
    finally:
        torch.set_flush_denormal(False)


def _load_and_run(
    run: Run[Any], load: Callable[[], Any], train: Callable[..., Any], record: Record
) -> None:
    run_one(run, load(), train, record)


# The page: rows, figures over seeds, and pictures.


def by_seed(out: Path, *fields: str) -> dict[Any, dict[int, Stored]]:
    """Return the runs in a folder by the named settings (a tuple if several), then by seed."""
    runs: dict[Any, dict[int, Stored]] = {}
    for run in stored(out):
        key = itemgetter(*fields)(run.settings)
        runs.setdefault(key, {})[run.settings["seed"]] = run
    return runs


def metrics_by_seed(out: Path, *fields: str) -> dict[Any, dict[int, dict[str, Any]]]:
    """Return the metrics of the finished runs, in the order of `by_seed`."""
    metrics = {
        key: {seed: run.metrics for seed, run in runs.items() if run.metrics is not None}
        for key, runs in by_seed(out, *fields).items()
    }
    return {key: of_key for key, of_key in metrics.items() if of_key}


def seeds_of(runs: Mapping[Any, Mapping[int, Any]]) -> list[int]:
    """Return the seeds of all runs in ascending order."""
    return sorted({seed for of_key in runs.values() for seed in of_key})


def seed_cells(
    runs: Mapping[int, dict[str, Any] | None],
    seeds: Sequence[int],
    figure: Callable[[dict[str, Any]], str],
) -> list[str]:
    """Return a cell for each seed: the figure of its metrics, "running" or "not run"."""
    shown = {seed: figure(run) if run else "running" for seed, run in runs.items()}
    return [shown.get(seed, "not run") for seed in seeds]


def write_page(
    request: Request, title: str, about: Sequence[str], lines: Iterable[str] = ()
) -> Path:
    """Write ``table.md`` into the output folder, and return its path."""
    machine = fingerprint()
    threads = request.threads or machine["threads"]
    made_on = f"torch {machine['torch']}, threads: {threads}, {machine['cpu capability']}"
    warning = "**Smoke run: tiny models, a few steps. The figures mean nothing.**"
    page = [
        f"# {title}",
        "",
        f"Made by `{shown_command(request)}` with {made_on}.",
        *_training(request.out),
        *about,
        *(["", warning] if request.smoke else []),
        *lines,
    ]
    path = request.out / "table.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, "\n".join(page) + "\n")
    return path


def _training(out: Path) -> list[str]:
    """Return how long the runs of a folder took, on what and when, and how many were resumed."""
    timed = [(path, *timing) for path in sorted(out.rglob(METRICS)) if (timing := _seconds(path))]
    if not timed:
        return []
    hours = sum(seconds for _, seconds, _ in timed) / 3600
    last = max(path.stat().st_mtime for path, *_ in timed)
    date = datetime.fromtimestamp(last, UTC).date().isoformat()
    resumed = sum((path.parent / RESUMED).exists() for path, *_ in timed)
    chips = " and ".join(sorted({name for *_, name in timed}))
    return [
        f"Training: {len(timed)} runs in {hours:.2f} hours on {chips}, the last on {date}; "
        f"{resumed or 'none'} of them interrupted and resumed."
    ]


def _seconds(path: Path) -> tuple[float, str] | None:
    """Return the seconds of training of a run, and its chip; None if nothing says how long."""
    metrics, machine = read_json(path), read_json(path.with_name(MACHINE)) or {}
    of_training = metrics.get("seconds") if isinstance(metrics, dict) else None
    seconds = machine.get("seconds") if of_training is None else of_training
    return None if seconds is None else (seconds, machine.get("chip") or chip())


def table_row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def table_head(*heads: str, align: str = "l") -> list[str]:
    """Return the first two rows of a table."""
    marks = ("---|" if side == "l" else "---:|" for side in align.ljust(len(heads), "r"))
    return [table_row(*heads), f"|{''.join(marks)}"]


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[object]], align: str = "l") -> list[str]:
    """Return a table after an empty line."""
    return ["", *table_head(*heads, align=align), *(table_row(*cells) for cells in rows)]


def percent(value: float | None) -> str:
    """Format an accuracy in [0, 1] in %; – for none."""
    return "–" if value is None else f"{100 * value:.2f}"


def mean(values: Sequence[float], digits: int) -> str:
    """Format the mean over seeds, with the standard deviation if there are several; – for none."""
    if not values:
        return "–"
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def mean_accuracy(accuracies: Sequence[float], interval: Sequence[float]) -> str:
    """Format the mean over seeds of accuracies in [0, 1], in %.

    A single seed is followed by its 95 % interval.
    """
    shown = mean([100 * accuracy for accuracy in accuracies], 2)
    if len(accuracies) > 1:
        return shown
    return f"{shown} ({100 * interval[0]:.2f} – {100 * interval[1]:.2f})"


LEVEL = 0.05  # of the paired t-test over seeds


def order_lines(
    name: str, paper: Mapping[str, float], ours: Mapping[str, Mapping[int, float]]
) -> list[str]:
    """Return sentences that compare the paper's ranking of the cells with ours.

    Args:
        name: Subject of the sentence, for example ``"1-gram"``.
        paper: The paper's figure of each cell.
        ours: Our figures of each cell, by seed.

    Returns:
        An empty line and a line of Markdown; nothing if a cell is missing, if the cells have
        different seeds, if there is only one cell, or if all figures of the paper or all means are
        equal.
    """
    seeds = sorted(next(iter(ours.values()), {}))
    is_order = len(paper) > 1 and set(paper) == set(ours)
    if not is_order or not seeds or any(sorted(by_seed) != seeds for by_seed in ours.values()):
        return []
    import numpy as np
    from scipy.stats import rankdata

    cells = list(paper)
    figures = {cell: [ours[cell][seed] for seed in seeds] for cell in cells}
    means = {cell: sum(figures[cell]) / len(seeds) for cell in cells}
    if 1 in (len(set(paper.values())), len(set(means.values()))):  # no order to compare
        return []
    ranks = [rankdata([ranked[c] for c in cells]) for ranked in (paper, means)]
    rank = np.corrcoef(*ranks)[0, 1]
    line = (
        f"{name}: the paper's order is {_ranking(paper)}; ours {_ranking(means)}. "
        f"Spearman's rank correlation {rank:.2f}."
    )
    if len(seeds) > 1:
        pairs = list(combinations(cells, 2))
        apart = [pair for pair in pairs if _differ(figures, pair)]
        agree = [pair for pair in apart if _sign(paper, pair) * _sign(means, pair) > 0]
        line += (
            f" Of {len(pairs)} pairs of cells, {len(apart)} differ by the paired t-test over "
            f"{len(seeds)} seeds (p < {LEVEL}), {len(agree)} of them as in the paper."
        )
    return ["", line]


def _ranking(figures: Mapping[str, float]) -> str:
    return " > ".join(sorted(figures, key=lambda cell: -figures[cell]))


def _sign(figures: Mapping[str, float], pair: tuple[str, str]) -> int:
    first, second = (figures[cell] for cell in pair)
    return (first > second) - (first < second)


def _differ(figures: Mapping[str, Sequence[float]], pair: tuple[str, str]) -> bool:
    from scipy.stats import ttest_rel

    first, second = (figures[cell] for cell in pair)
    gaps = {a - b for a, b in zip(first, second, strict=True)}
    if len(gaps) == 1:  # the test is undefined without variance
        return gaps != {0.0}
    return bool(ttest_rel(first, second).pvalue < LEVEL)


COLORS = ("#3b82c4", "#d9822b", "#5aa469", "#8a63b8", "#b04a5a", "#6b7280")
COLORS += ("#2a9d8f", "#d66ba0", "#8c8c2a", "#1f2937")
LEGEND = 5  # labels in a row of the legend


def panels(
    path: Path,
    drawings: Sequence[Mapping[str, Any]],
    *,
    columns: int,
    title: str,
    size: tuple[float, float] = (2.3, 1.7),
) -> None:
    """Draw a grid of small axes as SVG, in the layout of M18's figures.

    A drawing has a ``title`` and may have ``lines`` (points by label) with ``marks``, ``levels``
    (dashed lines by label), ``dots``, a dashed frame (``framed``), axes with a logarithmic scale
    (``log``, for example ``"x"``), ``xlabel``, ``ylabel``, ``xlim`` and ``ylim``.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("the pictures", "matplotlib", "train") from error
    rows = -(-len(drawings) // columns)
    figsize = (columns * size[0], rows * size[1] + 0.4)
    figure = Figure(figsize=figsize, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    colors: dict[str, str] = {}
    for axes, drawing in zip(grid, drawings, strict=False):
        for label, points in drawing.get("lines", {}).items():
            color = colors.setdefault(label, COLORS[len(colors) % len(COLORS)])
            mark = "-o" if drawing.get("marks") else "-"
            if points:
                xs, ys = zip(*points, strict=True)
                axes.plot(xs, ys, mark, color=color, linewidth=1.2, markersize=3, label=label)
        for label, level in drawing.get("levels", {}).items():
            axes.axhline(level, color=colors[label], linewidth=0.8, linestyle="--")
        for x, y in drawing.get("dots", ()):
            axes.plot([x], [y], "o", color="#222222", markersize=3)
        for axis in drawing.get("log", ""):
            getattr(axes, f"set_{axis}scale")("log")
            if axis == "y":  # which may span less than a power of ten
                axes.yaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_minor_formatter("{x:g}")
        if drawing.get("framed"):
            for spine in axes.spines.values():
                spine.set_linestyle((0, (4, 2)))
                spine.set_color(COLORS[1])
        axes.set_ylim(drawing.get("ylim"))
        axes.set_xlim(drawing.get("xlim"))
        axes.set_title(drawing["title"], fontsize=8)
        axes.set_xlabel(drawing.get("xlabel", ""), fontsize=7)
        axes.set_ylabel(drawing.get("ylabel", ""), fontsize=7)
        axes.tick_params(which="both", labelsize=6)
    for axes in grid[len(drawings) :]:
        axes.set_axis_off()
    if len(colors) > 1:
        handles = {
            label: h
            for axes in grid
            for h, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            handles.values(), handles, loc="outside lower center",
            ncols=min(LEGEND, len(handles)), fontsize=7, frameon=False,
        )  # fmt: skip
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
    drawing = buffer.getvalue()
    atomic.write_text(path, drawing[drawing.index("<svg") :])
