"""M18 Fig. 3: the charging problem with one learned unit, an LSTM cell or a sigmoid unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from representer.tasks.recipe import Recipe, Request
from representer_papers.kbdnn2018.options import PRESETS

SOURCE = "M18 Fig. 3"
CELLS = ("kbrn", "kbrn-fitted", "rnn", "lstm", "lstm-sigmoid")
UPDATES, BATCH, TEST = 10_000, 500, 25_000


@dataclass(frozen=True)
class Setting:
    """One curve of the figure.

    Attributes:
        cell: One of `CELLS`.
        preset: Settings of the paper or of the authors' code.
        seed: Seed of the initial weights and the training sequences.
        updates: Number of updates, each on a new batch.
        test: Number of test sequences.
    """

    cell: str
    preset: str
    seed: int
    updates: int
    test: int

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return f"{self.preset}-{self.cell}-seed{self.seed}"


def reproduce(request: Request) -> Path:
    """Train the missing networks, draw the curves, and write the table."""
    from representer_papers.kbdnn2018.charging_report import write_report
    from representer_papers.kbdnn2018.options import one_thread
    from representer_papers.shared.runs import Run, run_missing

    updates = 3 if request.smoke else max(1, round(request.budget * UPDATES))
    test = 50 if request.smoke else TEST
    settings = [
        Setting(cell, request.preset, seed, updates, test)
        for cell in request.cells or CELLS
        for seed in request.seeds
    ]
    runs = [Run(request.out / setting.name, setting, "updates") for setting in settings]
    with one_thread():
        run_missing(() if request.table_only else runs, tuple, lambda _, s, __: train(s))
    return write_report(request)


def train(setting: Setting) -> dict[str, Any]:
    """Train one network, testing it at about sixty points spaced evenly on a log scale.

    Every update uses a new batch. The optimizer is Adam with a learning rate of 0.001; the loss is
    the squared error, summed over the steps of a sequence.

    Returns:
        ``curve``: pairs of updates and test accuracy over all steps; ``function``: the learned
        activation on a grid, where there is one; ``updates`` and ``stopped_by``.
    """
    import torch

    from representer.nn import KBRN
    from representer.training import generators
    from representer_papers.kbdnn2018.networks import charging_network
    from representer_papers.kbdnn2018.problems import charging

    with generators.initializing(setting.seed):
        network = charging_network(setting.cell, setting.preset)
    # every seed is tested on the same sequences
    tests = charging(setting.test, setting.preset, generators.generator(0, "charging test"))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    points = {round(setting.updates ** (i / 60)) for i in range(61)}
    curve = []
    for update in range(1, setting.updates + 1):
        draw = generators.generator(setting.seed, "charging", update)
        x, y = charging(BATCH, setting.preset, draw)
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


CHARGING = Recipe(
    name="kbrn-charging",
    title="The charging problem: one learned unit, a sigmoid unit and LSTMs",
    source=SOURCE,
    reproduce=reproduce,
    cells=CELLS,
    presets=PRESETS,
)
