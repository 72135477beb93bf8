"""Parts of every page of results: the machine, the command, tables and goals."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

import machine
import result_pages
from goals import Goal, Measured, Results, earlier
from representer import __version__
from representer import machine as devices
from representer.errors import say
from representer.ops import core
from representer.storage import atomic
from timing import Rounds, Spread

QUICK = "A quick run for development: not to be quoted."
ABOUT_GOALS = """\
"Bound" is the figure that would be measured if the products of our layer ran at the peak of the
machine, or a single step read its weights once, and nothing else took time."""
ABOUT_BEFORE = """\
 "Before" was measured on this machine by the same scripts with the code of the commit that the path
after `--before` names."""


class Kept:
    """Figures of runs, each in a file of a folder once, so that a command can be repeated.

    Args:
        folder: Of the figures.
        most: Seconds after which no run begins.
    """

    def __init__(self, folder: Path, most: float) -> None:
        self._folder, self._end = folder, time.perf_counter() + most
        self._folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, key: str, make: Callable[[], Any], *, is_asked: bool = True) -> Any:
        """Return the figures of a run, None if they are not there and it is late or not asked."""
        path = self._folder / f"{key}.json".replace(" ", "-")
        if not path.exists():
            if not is_asked or time.perf_counter() > self._end:
                return None
            atomic.write_json(path, make())
            say(f"{path.stem}: {path.read_text().strip()}")
        return json.loads(path.read_text())


class Finished:
    """Finished trainings, a JSON line of a file each, so that a command can be continued."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text("utf-8") if path.exists() else ""
        self.lines: list[dict[str, Any]] = []
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # one not written to its end
                self.lines.append(json.loads(line))
        self._break = "" if text.endswith("\n") else "\n" * bool(text)

    def add(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        atomic.append(self.path, f"{self._break}{json.dumps(line)}\n".encode())
        self._break = ""


def options(description: str, *, is_kept: bool = False, **more: Any) -> argparse.Namespace:
    """Return the options of a script, which computes on one thread from here on.

    Args:
        description: For ``--help``.
        is_kept: The script keeps the figures of its runs in a folder, by ``chosen.kept``.
        more: Options by name, beside ``--out``: a default and a text for ``--help``, where a type
            stands for an option that is required, or what ``add_argument`` takes.
    """
    parser = argparse.ArgumentParser(description=description)
    more = {"out": {"type": Path, "help": "page to write; printed if not given"}} | more
    if is_kept:
        more |= {"work": (Path, "folder of the figures"), "most": (np.inf, "seconds to start runs")}
    for name, settings in more.items():
        parser.add_argument(f"--{name}", **(
            settings if isinstance(settings, dict) else _settings_of(*settings)
        ))  # fmt: skip
    chosen = parser.parse_args()
    chosen.load = machine.load()
    if is_kept:
        chosen.kept = Kept(chosen.work, chosen.most)
    torch.set_num_threads(1)
    return chosen


def _settings_of(default: Any, text: str) -> dict[str, Any]:
    if isinstance(default, type):
        return {"type": default, "required": True, "help": text}
    if isinstance(default, bool):
        return {"action": "store_true", "help": text}
    return {"type": type(default), "default": default, "help": text}


TIMING: dict[str, Any] = {  # options of a script that times cases with goals
    "repeats": (25, "rounds; slow baselines run in fewer"),
    "quick": (False, "three rounds, for development"),
    "before": {"type": Path, "help": "page to take the goals' earlier figures from"},
}


def quick(chosen: argparse.Namespace) -> int:
    """Return the number of rounds of a script with `TIMING`."""
    require_core()
    return 3 if chosen.quick else chosen.repeats


def require_core() -> None:
    """End a script that times the compiled core where there is none.

    Raises:
        SystemExit: There is no core.
    """
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)


def write_page(
    chosen: argparse.Namespace,
    title: str,
    about: str,
    *parts: str,
    packages: dict[str, str] | None = None,
    command: str | None = None,
) -> None:
    """Write a page of results: what was done, on which machine by which command, and the parts."""
    loads = chosen.load, machine.load()
    head = [f"# {title}", about, machine_table(command or machine.command(), loads, packages)]
    parts = QUICK * getattr(chosen, "quick", False), *parts
    publish("\n\n".join([*head, *(section for section in parts if section)]) + "\n", chosen.out)


def publish(text: str, out: Path | None) -> None:
    """Write a page to a file atomically, or its section; print it if no file is given."""
    if out is None:
        print(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out, text = result_pages.placed(out, text)
    whole = out.with_name(f"{out.name}.new")
    whole.write_text(text, encoding="utf-8")
    whole.replace(out)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> str:
    """Return a Markdown table with the first columns left-aligned and the others right-aligned."""
    lines = [head, ["---"] * left + ["---:"] * (len(head) - left), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Return a mean and half of its 95 % interval by Student's t, infinite for a single value."""
    array = np.array([*values])
    if len(array) < 2:
        return float(array.mean()), float("inf")
    half = student.ppf(0.975, len(array) - 1) * array.std(ddof=1) / len(array) ** 0.5
    return float(array.mean()), float(half)


def mean_of(values: Sequence[float] | NDArray[np.float64], digits: int, sign: str = "") -> str:
    """Return a mean and half of its 95 % interval, which a single value has not."""
    mean, half = interval(values)
    return f"{mean:{sign}.{digits}f}" + (f" ± {half:.{digits}f}" if len(values) > 1 else "")


def apart(first: Any, second: Any, digits: int) -> tuple[str, str]:
    """Return the mean of a paired difference, and the ends of its 95 % interval."""
    mean, half = interval(np.asarray(first) - np.asarray(second))
    ends = f"{mean - half:+.{digits}f} to {mean + half:+.{digits}f}"
    return f"{mean:+.{digits}f}", "–" if half == float("inf") else ends


def against(
    results: Mapping[str, Mapping[str, NDArray[np.float64]]], ours: str, digits: int
) -> list[list[str]]:
    """Return the paired difference of a method to each other one on each set, with its interval.

    Args:
        results: First figures of each split ``(splits, figures)``, by set and method.
        ours: The method.
        digits: Of the figures.
    """
    return [
        [name, other, *apart(of_set[ours][:, 0], figures[:, 0], digits)]
        for name, of_set in results.items() for other, figures in of_set.items() if other != ours
    ]  # fmt: skip


def elsewhere(python: str, code: str, **arrays: Any) -> NDArray[Any]:
    """Run code in another interpreter: it reads ``given``, the arrays, and leaves ``result``."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder, "given.npz"), Path(folder, "result.npy")
        np.savez(given, **arrays)
        whole = f"import numpy as np\ngiven = np.load({str(given)!r})\n{code}\n"
        subprocess.run([python, "-c", f"{whole}np.save({str(result)!r}, result)"], check=True)
        return np.load(result)


def machine_table(
    command: str, load: tuple[str, str], packages: dict[str, str] | None = None
) -> str:
    """Return the machine, the versions and the command; ``packages`` adds versions by name."""
    processor = getattr(devices, "processor", platform.machine)  # 0.2.0 has no such function
    sets = f"{', '.join(core.USABLE)}; used: {core.USABLE[0]}"
    rows = [
        ["processor", f"{processor()}, {machine.cores()} cores"],
        ["instruction sets of the core", sets],
        ["system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"],
        ["versions", f"representer {__version__}, torch {torch.__version__}"],
        *([name, version] for name, version in (packages or {}).items()),
        ["date", datetime.date.today().isoformat()],
        ["load average, before and after", " → ".join(load)],
        ["command", f"`{command}`"],
    ]
    return table(["machine", ""], rows, 2)


def limits_table(limits: machine.Limits) -> str:
    rows = [[f"multiplications and additions, {name}", f"{rate / 1e9:.1f}"]
            for name, rate in limits.arithmetic.items()]  # fmt: skip
    rows += [[f"memory: two arrays of {size} MiB read, one written, bytes", f"{rate / 1e9:.1f}"]
             for size, rate in limits.memory.items()]  # fmt: skip
    head = ["the machine at its best, one thread", "10⁹ a second"]
    return f"## Limits of the machine\n\n{table(head, rows)}"


def goals_table(goals: Iterable[Goal], results: Results, before: Path | None) -> str:
    """Return the goals of the cases that ran, beside the figures of an earlier page."""
    then, rows = earlier(before), []
    for goal in goals:
        value = goal.value(results)
        if value is None:
            continue
        earlier_figure = [then.get(goal.what, "—")] * (before is not None)
        bound = goal.bound(results)
        verdict = "met" if value.median >= goal.least else "missed"
        rows.append([goal.what, f"≥ {goal.least:.2f}", *earlier_figure, spread(value),
                     number(bound) if bound else "—", verdict])  # fmt: skip
    if not rows:
        return "## Goals\n\nNone of the cases of this run has a goal."
    head = ["what", "goal", *["before"] * (before is not None), "measured", "bound", ""]
    about = ABOUT_GOALS + ABOUT_BEFORE * (before is not None)
    return f"## Goals\n\n{about}\n\n{table(head, rows)}"


def modes_table(
    title: str,
    modes: dict[str, Measured],
    limits: machine.Limits,
    baselines: Sequence[str],
    unit: tuple[str, dict[str, float]],
) -> str:
    """Return one table with a group of columns for each mode: times, ratios, share of the peak.

    Args:
        title: Heading above it.
        modes: The measurements.
        limits: Of the machine.
        baselines: Candidates over which speedups are shown, those that were measured.
        unit: Its name, and how many of it a second has in each mode.
    """
    first = next(iter(modes.values()))
    has_shares, head, rows = bool(first.operations), [""], []
    over = [name for name in baselines if name in first.rounds.seconds]
    for mode in modes:
        head += [f"{mode}, {unit[0]}", *(f"speedup over {name}" for name in over)]
        head += ["share of the peak"] * has_shares
    for name in first.rounds.seconds:
        row = [name]
        for mode, measured in modes.items():
            row.append(spread(measured.rounds.spread(name), unit[1].get(mode, 1e3)))
            row += [spread(measured.rounds.ratio(baseline, name)) for baseline in over]
            share = measured.share(name, limits)
            row += [number(share.median) if share else ""] * has_shares
        rows.append(row)
    return f"{title}\n\n{table(head, rows)}"


def spread(value: Spread, scale: float = 1.0) -> str:
    median, low, high = (number(scale * n) for n in (value.median, value.low, value.high))
    return f"{median} ({low} – {high})"


def number(number: float) -> str:
    """Format a number with three significant digits."""
    return f"{number:.0f}" if number >= 100 else f"{number:#.3g}"


def ratios_table(rounds: Rounds, baseline: str, unit: str = "ms", scale: float = 1e3) -> str:
    """Return the time of each candidate, and its speedup over a baseline."""
    rows = [[name, spread(rounds.spread(name), scale), spread(rounds.ratio(baseline, name))]
            for name in rounds.seconds]  # fmt: skip
    return table(["", unit, f"speedup over {baseline}"], rows)
