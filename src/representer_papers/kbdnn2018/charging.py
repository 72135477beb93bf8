"""M18 Fig. 3: the charging problem with one learned unit, an LSTM cell or a sigmoid unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from representer.nn import KBRN
from representer.tasks.recipe import Request
from representer.training import generators
from representer_papers.kbdnn2018 import CHARGING_CELLS
from representer_papers.kbdnn2018.networks import CHARGES, TITLES, charging, charging_network
from representer_papers.kbdnn2018.pictures import panels
from representer_papers.shared.runs import Measure, Run, one_thread, run_missing, stored
from representer_papers.shared.table import table_head, table_row, write_page

UPDATES, BATCH, TEST = 10_000, 500, 25_000
AT = (100, 1000, 10_000)
MEASURE = Measure(
    "kbrn-charging", "accuracy over all steps", lambda m: m["curve"][-1][1], "updates", UPDATES,
    curve="curve",
)  # fmt: skip
_ABOUT = (
    "of which are charged; networks of one unit, 20 centers; Adam at 0.001 on the squared",
    "error, a new batch of 500 sequences for each update (the paper: 10,000 updates). Figures",
    "are the accuracy in % over all steps of the test sequences, after the number of updates",
    "in the column's title. The paper shows curves without figures.",
)


@dataclass(frozen=True)
class ChargingSetting:
    """One curve of the figure."""

    cell: str
    preset: str
    seed: int
    updates: int  # each on a new batch
    test: int  # number of test sequences

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return f"{self.preset}-{self.cell}-seed{self.seed}"


def reproduce_charging(request: Request) -> Path:
    """Train the missing networks, draw the curves, and write the table."""
    updates = 3 if request.smoke else max(1, round(request.budget * UPDATES))
    test = 50 if request.smoke else TEST
    settings = [
        ChargingSetting(cell, request.preset, seed, updates, test)
        for cell in request.cells or CHARGING_CELLS
        for seed in request.seeds
    ]
    runs = [Run(request.out / setting.name, setting, "updates") for setting in settings]
    with one_thread():
        run_missing(request, MEASURE, runs, tuple, lambda _, s, __: train_charging(s))
    return _write_table(request)


def train_charging(setting: ChargingSetting) -> dict[str, Any]:
    """Train one network, testing it at about sixty points spaced evenly on a log scale.

    Every update uses a new batch. The optimizer is Adam with a learning rate of 0.001; the loss is
    the squared error, summed over the steps of a sequence.

    Returns:
        ``curve``: pairs of updates and test accuracy over all steps; ``function``: the learned
        activation on a grid, where there is one; ``updates`` and ``stopped_by``.
    """
    with generators.initializing(setting.seed):
        network = charging_network(setting.cell)
    # every seed is tested on the same sequences
    tests = charging(setting.test, setting.preset, generators.generator(0, "charging test"))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    points = {round(setting.updates ** (i / 60)) for i in range(61)}
    curve = []
    for update in range(1, setting.updates + 1):
        _draw = generators.generator(setting.seed, "charging", update)
        x, y = charging(BATCH, setting.preset, _draw)
        loss = (network(x) - y).square().sum(0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update in points:
            with torch.no_grad():
                is_right = (network(tests[0]) > 0.5) == (tests[1] > 0.5)
            curve.append([update, round(float(is_right.float().mean()), 5)])
    result: dict[str, Any] = {"updates": setting.updates, "stopped_by": "updates", "curve": curve}
    result["ones"] = round(float(tests[1].mean()), 4)
    if isinstance(network.layer, KBRN):
        with torch.no_grad():
            grid = torch.linspace(-10, 10, 201)
            values = network.layer.activation()(grid[:, None])[:, 0]
        result["function"] = [
            [float(a), round(float(y), 5)] for a, y in zip(grid, values, strict=True)
        ]
    return result


def _write_table(request: Request) -> Path:
    """Write ``table.md`` and ``accuracy.svg`` from a preset's finished runs; return the path."""
    every = stored(request.out, f"{request.preset}-*")
    runs = [(run.settings, run.metrics) for run in every if run.metrics is not None]
    runs.sort(key=lambda run: (list(TITLES).index(run[0]["cell"]), run[0]["seed"]))
    heads = [f"after {updates:,}" for updates in AT]
    lines = ["", *table_head("network", "seed", "updates", *heads, "last", "best")]
    for s, metrics in runs:
        accuracies = [100 * y for _, y in metrics["curve"]]
        near = [
            [y for updates, y in metrics["curve"] if updates <= wanted][-1]
            if s["updates"] >= wanted
            else None
            for wanted in AT
        ]
        cells = ["–" if y is None else f"{100 * y:.2f}" for y in near]
        cells += [f"{accuracies[-1]:.2f}", f"{max(accuracies):.2f}"]
        title = f"{TITLES[s['cell']]} (`{s['cell']}`)"
        lines.append(table_row(title, s["seed"], f"{s['updates']:,}", *cells))
    if runs:
        ones = 100 * runs[0][1]["ones"]
        always = f"1 is correct at {ones:.1f} % of the steps, always 0 at {100 - ones:.1f} %"
        lines += ["", f"Always predicting {always}."]
        _draw(request.out / "accuracy.svg", runs)
        lines += ["", "![Accuracy during training, and the learned functions](accuracy.svg)"]
    low, high = CHARGES[request.preset]
    charges = (
        f"Preset `{request.preset}`: charges from {low} to {high}. Sequences of 30 steps, three"
    )
    return write_page(request, "M18 Fig. 3: the charging problem", (charges, *_ABOUT), lines)


def _draw(path: Path, runs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Plot the first seed's accuracy against updates on a log scale, and its learned functions."""
    of_cell = {s["cell"]: metrics for s, metrics in runs if s["seed"] == runs[0][0]["seed"]}
    curves = {
        cell: [(x, 100 * y) for x, y in figures["curve"]] for cell, figures in of_cell.items()
    }
    functions = {
        cell: figures["function"] for cell, figures in of_cell.items() if "function" in figures
    }
    drawings = [
        {"title": "accuracy on the test sequences", "lines": curves, "log": True,
         "xlabel": "updates", "ylabel": "% of steps"},
        {"title": "learned function of the unit", "lines": functions, "xlabel": "a"},
    ]  # fmt: skip
    panels(path, drawings, columns=2, title="The charging problem", size=(3.6, 2.7))
