"""M18 Figs. 4 to 6: a function of the first two bits of a long sequence."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from representer.errors import ArgumentError
from representer.tasks.recipe import Recipe, Request
from representer_papers.kbdnn2018.options import PRESETS

SOURCE = "M18 Figs. 4-6"
FUNCTIONS = ("or", "and", "xor", "iff")
CELLS = (
    "kbrn", "kbrn-fitted", "kbrn-long", "kbrn-grown", "kbrn-long-grown", "tanh", "tanh-grown",
    "tanh-long-grown", "lstm", "lstm-sigmoid",
)  # fmt: skip
SHORT, LONG = tuple(range(5, 51, 5)), (60, 80, 100, 150, 200)
UPDATES = 100_000
STAGES = (10, 25, 50, 100, 200, 500)  # lengths of growing sequences; solving one leads to the next


@dataclass(frozen=True)
class Setting:
    """One run.

    Attributes:
        function: Function of the first two bits.
        time: T, length of a sequence.
        cell: One of `CELLS`.
        preset: Settings of the paper or of the authors' code.
        seed: Seed of the initial weights and the sequences.
        updates: Maximum number of updates.
        tiny: Whether the network is tiny, as in smoke runs.
    """

    function: str
    time: int
    cell: str
    preset: str
    seed: int
    updates: int
    tiny: bool = False

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


def reproduce(request: Request) -> Path:
    """Train the missing networks, several at once, and write the table.

    ``threads`` is the number of parallel runs, with one thread each; 0 starts one per processor.
    """
    from representer_papers.kbdnn2018.long_term_report import write_report
    from representer_papers.kbdnn2018.long_term_run import train
    from representer_papers.shared.runs import Run, run_missing

    asked = () if request.table_only else settings(request)
    runs = [Run(request.out / setting.name, setting, "updates") for setting in asked]
    run_missing(runs, tuple, train, workers=request.threads or os.cpu_count() or 1)
    return write_report(request)


def settings(request: Request) -> list[Setting]:
    """Return the requested runs, the shortest sequences first.

    By default: all functions and networks at T = 5 to 50, and ≡ at 60 to 200 with normalized units.

    Raises:
        ArgumentError: If a length is below 2.
    """
    if any(time < 2 for time in request.lengths):
        raise ArgumentError("lengths", request.lengths, "2 or more")
    updates = 20 if request.smoke else max(10, round(request.budget * UPDATES))
    lengths = request.lengths or ((3,) if request.smoke else SHORT + LONG)
    return [
        Setting(function, time, cell, request.preset, seed, updates, request.smoke)
        for seed in request.seeds
        for time in lengths
        for function in request.datasets or FUNCTIONS
        for cell in request.cells or CELLS
        if request.lengths
        or time <= max(SHORT)
        or (function == "iff" and not cell.startswith("lstm"))
    ]


LONG_TERM = Recipe(
    name="kbrn-long-term",
    title="A function of the first two bits of sequences of 5 to 200: learned activations, LSTMs",
    source=SOURCE,
    reproduce=reproduce,
    cells=CELLS,
    datasets=FUNCTIONS,
    presets=PRESETS,
    options=("lengths",),
)
