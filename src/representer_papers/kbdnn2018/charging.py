"""M18 Fig. 3: the charging problem with one learned unit, an LSTM cell or a sigmoid unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from representer.nn import KBRN
from representer.tasks.recipe import Request
from representer.training import generators
from representer_papers.kbdnn2018 import CHARGING_CELLS
from representer_papers.kbdnn2018.networks import CHARGES, TITLES, charging, charging_network
from representer_papers.shared import tables

UPDATES, BATCH, TEST = 10_000, 500, 25_000
AT = (100, 1000, 10_000)
MEASURE = tables.Measure(
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
    runs = [tables.Run(request.out / setting.name, setting, "updates") for setting in settings]
    with tables.one_thread():
        tables.run_missing(request, MEASURE, runs, tuple, lambda _, s, __: train_charging(s))
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
    runs = tables.finished(request.out, f"{request.preset}-*")
    runs.sort(key=lambda run: (list(TITLES).index(run[0]["cell"]), run[0]["seed"]))
    rows, curves, functions = [], {}, {}
    for s, metrics in runs:
        cell, curve = s["cell"], [(updates, 100 * y) for updates, y in metrics["curve"]]
        near = [
            [y for updates, y in curve if updates <= wanted][-1] if s["updates"] >= wanted else None
            for wanted in AT
        ]
        figures = [*near, curve[-1][1], max(y for _, y in curve)]
        cells = ["–" if y is None else f"{y:.2f}" for y in figures]
        rows.append((f"{TITLES[cell]} (`{cell}`)", s["seed"], f"{s['updates']:,}", *cells))
        if s["seed"] == runs[0][0]["seed"]:  # the pictures are of the first seed
            curves[cell] = curve
            if "function" in metrics:
                functions[cell] = metrics["function"]
    heads = ("network", "seed", "updates", *(f"after {n:,}" for n in AT), "last", "best")
    lines = tables.rows_of(heads, rows)
    if runs:
        ones = 100 * runs[0][1]["ones"]
        always = f"1 is correct at {ones:.1f} % of the steps, always 0 at {100 - ones:.1f} %"
        drawings = [
            {"title": "accuracy on the test sequences", "lines": curves, "log": "x",
             "xlabel": "updates", "ylabel": "% of steps"},
            {"title": "learned function of the unit", "lines": functions, "xlabel": "a"},
        ]  # fmt: skip
        title, size = "The charging problem", (3.6, 2.7)
        tables.panels(request.out / "accuracy.svg", drawings, columns=2, title=title, size=size)
        lines += ["", f"Always predicting {always}."]
        lines += ["", "![Accuracy during training, and the learned functions](accuracy.svg)"]
    low, high = CHARGES[request.preset]
    charges = (
        f"Preset `{request.preset}`: charges from {low} to {high}. Sequences of 30 steps, three"
    )
    return tables.write_page(request, "M18 Fig. 3: the charging problem", (charges, *_ABOUT), lines)
