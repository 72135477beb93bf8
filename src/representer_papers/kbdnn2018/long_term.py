"""M18 Figs. 4 to 6: a function of the first two bits of a long sequence."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.nn import KBRN
from representer.nn.recurrent.kbrn import StepNorm
from representer.report.metrics import wilson_interval
from representer.storage.checkpoint import Checkpoint, latest, save_step
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer.training import generators
from representer.training.generators import keep_freed_memory
from representer_papers.kbdnn2018 import FUNCTIONS, LONG_TERM_CELLS, networks
from representer_papers.kbdnn2018.networks import SIGNS
from representer_papers.shared import tables

SHORT, LONG = tuple(range(5, 51, 5)), (60, 80, 100, 150, 200)
UPDATES = 100_000
STAGES = (10, 25, 50, 100, 200, 500)  # lengths of growing sequences; solving one leads to the next
BATCH, EPOCH, TEST, SAVE = 500, 10, 5000, 500
ENOUGH, SOLVED = 0.99, 0.995  # accuracies of an epoch, and on new sequences
CHECK = 25_000  # sequences that decide; with 5,000, networks at 99.2 % passed by chance
SURE = SOLVED + 3 * math.sqrt(SOLVED * (1 - SOLVED) / CHECK)  # three standard errors
POINTS = 161
MEASURE = tables.Measure(
    "kbrn-long-term", "updates until it is solved",
    lambda metrics: metrics["updates"] if metrics["stopped_by"] == "solved" else None,
    "updates", UPDATES,
)  # fmt: skip


@dataclass(frozen=True)
class LongTermSetting:
    """One run."""

    function: str  # of the first two bits
    time: int  # T, length of a sequence
    cell: str
    preset: str
    seed: int
    updates: int  # at most
    tiny: bool = False  # a tiny network, as in smoke runs

    @property
    def grows(self) -> bool:
        """True if training begins with shorter sequences."""
        return self.cell.endswith("-grown")

    @property
    def clip(self) -> float:
        """Norm at which gradients are clipped."""
        return (0.1 if "-long" in self.cell else 1.0) if self.grows else math.inf

    @property
    def stages(self) -> tuple[int, ...]:
        """Lengths of the training sequences, in order."""
        return (*(t for t in STAGES if t < self.time and self.grows), self.time)

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return f"{self.preset}/{self.function}-T{self.time}/{self.cell}-seed{self.seed}"


def reproduce_long_term(request: Request) -> Path:
    """Train the missing networks, several at once, and write the table.

    ``threads`` is the number of parallel runs, with one thread each; 0 starts one per processor.
    """
    settings = long_term_settings(request)
    runs = [tables.Run(request.out / setting.name, setting, "updates") for setting in settings]
    workers = request.threads or os.cpu_count() or 1
    tables.run_missing(request, MEASURE, runs, tuple, train_long_term, workers=workers)
    return _write_table(request)


def long_term_settings(request: Request) -> list[LongTermSetting]:
    """Return the requested runs, the shortest sequences first.

    By default: all functions and networks at T = 5 to 50, and ≡ at 60 to 200 with normalized units.
    """
    if any(time < 2 for time in request.lengths):
        raise ArgumentError("lengths", request.lengths, "2 or more")
    updates = 20 if request.smoke else max(10, round(request.budget * UPDATES))
    lengths = request.lengths or ((3,) if request.smoke else SHORT + LONG)
    return [
        LongTermSetting(function, time, cell, request.preset, seed, updates, request.smoke)
        for seed in request.seeds
        for time in lengths
        for function in request.datasets or FUNCTIONS
        for cell in request.cells or LONG_TERM_CELLS
        if request.lengths
        or time <= max(SHORT)
        or (function == "iff" and not cell.startswith("lstm"))
    ]


def train_long_term(
    folder: RunFolder, setting: LongTermSetting, _: tuple[()] = ()
) -> dict[str, Any]:
    """Train a network until it solves the problem, or until it is out of updates.

    The authors' criterion is an accuracy over 99 % in an epoch, during which the weights change; a
    problem is solved here if the weights after it exceed 99.5 % on 25,000 new sequences by three
    standard errors, since one epoch after another tries its luck. The optimizer is Adam with a
    learning rate of 0.001 on the mean squared error, with a new batch for each update; an epoch is
    ten updates. A non-finite gradient ends the run. Where sequences grow, an epoch over 99 % leads
    to the next length, and all updates count.

    Returns:
        ``stopped_by`` (solved, updates or diverged), ``updates``, ``accuracy`` of the last epoch,
        and the results of `_tests`.
    """
    keep_freed_memory()
    with tables.one_thread():
        return _train(folder, setting)


def _train(folder: RunFolder, setting: LongTermSetting) -> dict[str, Any]:
    with generators.initializing(setting.seed):
        sizes = (4, 5) if setting.tiny else (20, 100)
        network = networks.long_term_network(setting.cell, setting.preset, *sizes)
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, 1e-3)
    first, curve, stage = _restore(folder, network, optimizer)
    stopped_by, accuracy, right, update = "updates", 0.0, 0.0, first
    for update in range(first + 1, setting.updates + 1):
        x, y = _batch(setting, "train", update, BATCH, setting.stages[stage])
        output = network(x)
        right += float(((output > 0.5) == (y > 0.5)).float().mean()) / EPOCH
        optimizer.zero_grad()
        (output - y).square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, setting.clip)
        if not math.isfinite(float(norm)):
            stopped_by = "diverged"
            break
        optimizer.step()
        if update % EPOCH == 0:
            accuracy, right = right, 0.0
            curve.append([update, round(accuracy, 4)])
            is_last = stage == len(setting.stages) - 1
            if accuracy > ENOUGH and (not is_last or _is_solved(setting, network, update)):
                stage += 1
            if stage == len(setting.stages):
                stopped_by = "solved"
                break
        if update % SAVE == 0 or update == setting.updates:
            moments = {str(k): moment for k, moment in optimizer.state_dict()["state"].items()}
            state = {"network": dict(network.state_dict()), "moments": moments}
            state |= {"curve": curve, "stage": stage}
            save_step(folder.checkpoints, Checkpoint(update, state, {}, {}), report=folder.report)
    return {
        "stopped_by": stopped_by,
        "updates": update,
        "accuracy": round(accuracy, 4),
        "curve": curve[:: max(1, len(curve) // 100)],
        **_tests(setting, network),
    }


def _batch(
    setting: LongTermSetting, use: str, number: int, size: int, time: int | None = None
) -> tuple[Tensor, Tensor]:
    draw = generators.generator(setting.seed, "two bits", use, number)
    return networks.two_bits(setting.function, time or setting.time, size, draw)


def _is_solved(setting: LongTermSetting, network: networks.Network, update: int) -> bool:
    network.eval()
    right = _accuracy(setting, network, f"check {update}", CHECK)
    network.train()
    return right >= SURE


@torch.no_grad()
def _tests(setting: LongTermSetting, network: networks.Network) -> dict[str, Any]:
    """Return the accuracy on 5,000 new sequences, and the learned functions.

    A normalized network is tested with the statistics of batches of 1,000 (``test``), and with
    running statistics collected over 20 batches without updates (``test_running``).
    """
    network.eval()
    result: dict[str, Any] = {"test": _accuracy(setting, network)}
    if not isinstance(network.layer, KBRN):
        return result
    norm = cast(StepNorm, network.layer.step_norm_l0)
    norm.batches.zero_()
    network.train()
    for number in range(20):
        network(_batch(setting, "statistics", number, BATCH)[0])
    network.eval()
    network.layer.eval_statistics = "running"
    result["test_running"] = _accuracy(setting, network)
    grid = torch.linspace(-SPAN, SPAN, POINTS)
    values = network.layer.activation()(grid[:, None].expand(-1, network.layer.hidden_size)).T
    slopes = values.diff(dim=1) / (grid[1] - grid[0])
    result["steep"] = int((slopes.abs().amax(1) > 1).sum())
    result["functions"] = [[round(float(v), 3) for v in row[::2]] for row in values]
    return result


@torch.no_grad()
def _accuracy(
    setting: LongTermSetting, network: networks.Network, use: str = "test", size: int = TEST
) -> float:
    accuracies = []
    for number in range(size // 1000):
        x, y = _batch(setting, use, number, 1000)
        accuracies.append(((network(x) > 0.5) == (y > 0.5)).float().mean())
    return round(float(torch.stack(accuracies).mean()), 5)


def _restore(
    folder: RunFolder, network: networks.Network, optimizer: torch.optim.Adam
) -> tuple[int, list[Any], int]:
    """Restore the last checkpoint of a run; return its update, its curve and its stage."""
    checkpoint = latest(folder.path / "checkpoints", report=folder.report)
    if checkpoint is None:
        return 0, [], 0
    network.load_state_dict(checkpoint.state["network"])
    moments = checkpoint.state["moments"].values()
    optimizer_state = optimizer.state_dict()
    optimizer_state["state"] = dict(zip(count(), moments, strict=False))
    optimizer.load_state_dict(optimizer_state)
    return checkpoint.step, list(checkpoint.state["curve"]), checkpoint.state["stage"]


Runs = list[dict[str, Any]]
SPAN = 4.0  # functions are drawn on [-SPAN, SPAN]
_ABOUT = (
    "Sequences of random bits; the target is a function of the first two. Batches of 500, Adam at",
    "0.001 on the mean squared error, 20 units, 100 centers. The problem is solved when the",
    "accuracy over an epoch of ten new batches exceeds 99 %, as in the code, and that of the",
    "weights after it exceeds 99.5 % on 25,000 new sequences by three standard errors. A run",
    "stops after 100,000 updates, as in the paper, or earlier if the command's budget says so.",
    "Cells give the number of seeds that solve the problem, and in parentheses the mean number of",
    "updates of those. Rates are over all seeds and lengths of a row, with Wilson's 95 % interval.",
)


def _write_table(request: Request) -> Path:
    """Write ``table.md``, ``curves.svg`` and ``functions.svg`` from a preset's finished runs."""
    every = tables.finished(request.out, f"{request.preset}/*/*")
    runs = [{**settings, **metrics} for settings, metrics in every]
    runs.sort(key=lambda run: (run["time"], run["seed"]))
    cells = [cell for cell in LONG_TERM_CELLS if _matching(runs, cell=cell)]
    titles = [(f"`{cell}`", networks.TITLES[cell]) for cell in cells]
    lines = tables.rows_of(("network", ""), titles, align="ll")
    for function in FUNCTIONS:
        if of_function := _matching(runs, function=function):
            lines += ["", f"## {SIGNS[function]} (`{function}`)", *_section(of_function)]
    if runs:
        lines += ["", *_figures(request.out, runs)]
    title = "M18 Figs. 4 to 6: a function of the first two bits"
    return tables.write_page(request, title, (f"Preset `{request.preset}`.", *_ABOUT), lines)


def _matching(runs: Runs, **wanted: Any) -> Runs:
    return [run for run in runs if all(run[name] == value for name, value in wanted.items())]


def _solved(runs: Runs) -> Runs:
    return _matching(runs, stopped_by="solved")


def _section(runs: Runs) -> list[str]:
    """Return a table of one function: networks by length."""
    times = sorted({run["time"] for run in runs})
    heads = ("T", *map(str, times), "rate in %", "largest T that every seed solves")
    rows = [
        (f"`{cell}`", *(_count(_matching(of_cell, time=t)) for t in times), *_whole(of_cell))
        for cell in LONG_TERM_CELLS
        if (of_cell := _matching(runs, cell=cell))
    ]
    lines = tables.rows_of(heads, rows)
    if tested := _solved(runs):
        lines += ["", _about_tests(tested)]
    return lines


def _count(runs: Runs) -> str:
    if not runs:
        return "–"
    updates = [run["updates"] for run in _solved(runs)]
    mean = f" ({sum(updates) / len(updates):,.0f})" if updates else ""
    most = max(run["updates"] for run in runs)
    short = f" in {most:,}" if len(updates) < len(runs) else ""
    return f"{len(updates)} of {len(runs)}{mean or short}"


def _whole(runs: Runs) -> tuple[str, str]:
    """Return the rate of a row, and the largest length that every seed solves."""
    count, times = len(_solved(runs)), {run["time"] for run in runs}
    failed = {run["time"] for run in runs if run["stopped_by"] != "solved"}
    low, high = wilson_interval(count, len(runs))
    rate = f"{100 * count / len(runs):.0f} ({100 * low:.0f} – {100 * high:.0f})"
    return rate, str(max(times - failed, default="–"))


def _about_tests(runs: Runs) -> str:
    least = min(run["test"] for run in runs)
    line = f"Test accuracy of solved runs on 5,000 new sequences: at least {100 * least:.2f} %"
    if running := [run["test_running"] for run in runs if "test_running" in run]:
        line += f"; with running statistics, at least {100 * min(running):.2f} %"
    if steep := [run["steep"] for run in runs if "steep" in run and _is_learned(run)]:
        line += f". Units with |f'| > 1 on [-4, 4]: {min(steep)} to {max(steep)} of 20"
    return f"{line}."


def _figures(out: Path, runs: Runs) -> list[str]:
    drawings: list[dict[str, Any]] = []
    for function in FUNCTIONS:
        of_function = _matching(runs, function=function)
        both = {cell: _points(_matching(of_function, cell=cell)) for cell in LONG_TERM_CELLS}
        drawings += [
            {"title": f"{SIGNS[function]}: {what}", "xlabel": "T", "marks": True, "ylim": ylim,
             "lines": {cell: points[k] for cell, points in both.items()}}
            for k, (what, ylim) in enumerate(
                (("share of seeds that solve it", (-0.05, 1.05)), ("mean updates", None))
            )
        ]  # fmt: skip
    title = "Solved runs, and updates"
    tables.panels(out / "curves.svg", drawings, columns=2, title=title, size=(3.4, 2.0))
    lines = [f"![{title}](curves.svg)"]
    if shown := [run for run in _solved(runs) if "functions" in run and _is_learned(run)]:
        s = max(shown, key=lambda run: (run["function"] == "iff", run["time"]))
        _draw_functions(out / "functions.svg", s["functions"])
        which = f"{SIGNS[s['function']]}, T = {s['time']}, `{s['cell']}`, seed {s['seed']}"
        caption = f"The learned functions on [-4, 4] ({which}); dashed frames where |f'| > 1:"
        lines += ["", caption, "", "![Learned functions](functions.svg)"]
    return lines


def _points(runs: Runs) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Return by length the fraction of solved runs, and the mean updates of these."""
    rates, updates = [], []
    for time in sorted({run["time"] for run in runs}):
        of_time = _matching(runs, time=time)
        counts = [run["updates"] for run in _solved(of_time)]
        rates.append((time, len(counts) / len(of_time)))
        if counts:
            updates.append((time, sum(counts) / len(counts)))
    return rates, updates


def _is_learned(run: dict[str, Any]) -> bool:
    return not run["cell"].startswith("tanh")


def _draw_functions(path: Path, functions: Sequence[Sequence[float]]) -> None:
    drawings = []
    for i, values in enumerate(functions):
        step = 2 * SPAN / (len(values) - 1)
        points = [(-SPAN + k * step, value) for k, value in enumerate(values)]
        is_steep = max(abs(b - a) / step for a, b in pairwise(values)) > 1
        drawings.append({"title": f"unit {i}", "lines": {"f": points}, "framed": is_steep})
    tables.panels(path, drawings, columns=5, title="The learned functions", size=(1.5, 1.2))
