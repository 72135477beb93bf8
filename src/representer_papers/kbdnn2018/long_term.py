"""M18 Figs. 4 to 6: a function of the first two bits of a long sequence."""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from representer.errors import ArgumentError, RunFolderError
from representer.tasks.recipe import Recipe, Request

SOURCE = "M18 Figs. 4-6"
FUNCTIONS = ("or", "and", "xor", "iff")
CELLS = (
    "kbrn", "kbrn-fitted", "kbrn-long", "kbrn-grown", "kbrn-long-grown", "tanh", "tanh-grown",
    "tanh-long-grown", "lstm", "lstm-sigmoid",
)  # fmt: skip
SHORT, LONG = tuple(range(5, 51, 5)), (60, 80, 100, 150, 200)
UPDATES = 100_000
STAGES = (10, 25, 50, 100, 200, 500)  # lengths of growing sequences; solving one leads to the next
PRESETS = ("paper", "authors_code")


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


def run(request: Request) -> Path:
    """Train the missing networks, several at once, and write the table.

    Every run is a folder with checkpoints. Finished runs are kept, interrupted runs resume, and
    runs that another process is working on are skipped. ``threads`` is the number of parallel
    runs, with one thread each; 0 starts one per processor.

    Returns:
        The path of the table.

    Raises:
        ArgumentError: If the request names an unknown function, cell, preset or option.
    """
    from representer_papers.kbdnn2018.long_term_report import write_report
    from representer_papers.kbdnn2018.options import refuse_others

    refuse_others(request, ("datasets", "cells", "lengths"))
    if request.preset not in PRESETS:
        raise ArgumentError("preset", request.preset, f"one of {', '.join(PRESETS)}")
    waiting = (
        [] if request.table_only else [s for s in settings(request) if not is_done(request.out, s)]
    )
    workers = min(request.threads or os.cpu_count() or 1, max(1, len(waiting)))
    if workers == 1:
        for setting in waiting:
            _say(run_one(request.out, setting))
    else:  # each run is single-threaded, so parallel runs need processes
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            for done in as_completed(pool.submit(run_one, request.out, s) for s in waiting):
                _say(done.result())
    return write_report(request)


def settings(request: Request) -> list[Setting]:
    """Return the requested runs, the shortest sequences first.

    By default: all functions and networks at T = 5 to 50, and ≡ at 60 to 200 with normalized units.

    Raises:
        ArgumentError: If the request names an unknown function or cell, or a length below 2.
    """
    from representer_papers.kbdnn2018.options import chosen

    functions = chosen("datasets", request.datasets, FUNCTIONS)
    cells = chosen("cells", request.cells, CELLS)
    if any(time < 2 for time in request.lengths):
        raise ArgumentError("lengths", request.lengths, "2 or more")
    updates = 20 if request.smoke else max(10, round(request.budget * UPDATES))
    lengths = request.lengths or ((3,) if request.smoke else SHORT + LONG)
    return [
        Setting(function, time, cell, request.preset, seed, updates, request.smoke)
        for seed in request.seeds
        for time in lengths
        for function in functions
        for cell in cells
        if request.lengths
        or time <= max(SHORT)
        or (function == "iff" and not cell.startswith("lstm"))
    ]


def is_done(out: Path, setting: Setting) -> bool:
    """Return True if a run needs no more updates.

    A run that ended for lack of updates is not done if the setting now allows more of them.

    Raises:
        ArgumentError: If the folder has a smoke run and the setting is none, or the reverse.
    """
    path = out / setting.name / "metrics.json"
    if not path.exists():
        return False
    result = json.loads(path.read_text("utf-8"))
    if result["setting"]["tiny"] != setting.tiny:
        hint = "Choose another --out for a smoke run."
        raise ArgumentError("out", str(out), "a folder of runs of this size", hint=hint)
    return result["stopped_by"] != "updates" or result["updates"] >= setting.updates


def run_one(out: Path, setting: Setting) -> str:
    """Run or resume one setting; return a line on how it ended."""
    from representer.storage.run_folder import RunFolder
    from representer.training.freed_memory import keep_freed_memory
    from representer_papers.kbdnn2018.long_term_run import train
    from representer_papers.kbdnn2018.options import one_thread

    keep_freed_memory()
    folder = out / setting.name
    try:
        with one_thread(), RunFolder(folder, resume=True) as run_folder:
            if is_done(out, setting):  # another process has finished it in the meantime
                return f"{setting.name}: already finished"
            result = train(run_folder, setting)
            run_folder.write_json("metrics.json", {"setting": asdict(setting), **result})
    except RunFolderError as error:  # another process is working on it
        return f"skipped: {error}"
    ending = f"{result['stopped_by']} after {result['updates']:,} updates"
    return f"{setting.name}: {ending}, test accuracy {result['test']:.4f}"


def _say(line: str) -> None:
    print(line, flush=True)


LONG_TERM = Recipe(
    name="kbrn-long-term",
    title="A function of the first two bits of sequences of 5 to 200: learned activations, LSTMs",
    source=SOURCE,
    run=run,
)
