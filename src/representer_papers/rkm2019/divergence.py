"""L19 Table 3: which cells stay finite with AWD-LSTM's recipe, SGD at 30 without layer norm."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from representer.errors import TrainingError
from representer.estimators import LanguageModel
from representer.estimators.language_training import optimizer_for, training_task
from representer.options.language import PRESETS, LanguageConfig
from representer.storage.run import RunFolder
from representer.tasks.language import FLOW
from representer.tasks.recipe import Request
from representer.training.config import TrainerConfig, TrainingTask
from representer.training.trainer import Trainer
from representer_papers.rkm2019.published import LANGUAGE_CELLS, LANGUAGE_ROWS, ROWS
from representer_papers.shared import tables
from representer_papers.shared.language import locate_texts

TEXT = "ptb"
STEPS, BLOCK = 1350, 5  # two epochs of the Penn Treebank; steps between two measurements
_SMALL = {"hidden_size": 200, "embedding_size": 100}
# By suffix of a row: the title of its settings, and how they differ from AWD-LSTM's.
_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "": ("1150 units, SGD at 30", {}),
    "-norm": ("1150 units, layer norm, SGD at 30", {"layer_norm": True}),
    "-small": ("200 units, SGD at 30", _SMALL),
    "-small-norm": ("200 units, layer norm, SGD at 30", _SMALL | {"layer_norm": True}),
    "-small-20": ("200 units, SGD at 20", _SMALL | {"lr": 20.0}),
    "-small-adam": ("200 units, Adam at 0.003", _SMALL | {"optimizer": "adam", "lr": 3e-3}),
}
_TITLES = {cell: title for title, cell in ROWS.items()}
_DEFAULT = ("lstm", "rkm-lstm", "rkm-cifg")
MEASURE = tables.Measure(
    "rkm-divergence", "step at which the loss or its gradient is not finite",
    lambda metrics: metrics["step"] if "fault" in metrics else None,
    "steps", 250 * STEPS, planned=lambda settings: settings["epochs"] * BLOCK,
)  # fmt: skip
_SMOKE = {"hidden_size": 8, "embedding_size": 8, "batch_size": 2}
_ABOUT = (
    "",
    "Training on the Penn Treebank with the settings of AWD-LSTM (three layers, 20 streams of 70",
    "words, dropout, the norm of the gradient clipped to 0.25) until the loss or its gradient is",
    f"not finite, or for the steps of the budget, of which the whole is {STEPS:,}, two epochs. The",
    "weights are not averaged. Loss: nats per token, the mean of the last "
    f"{BLOCK} steps, with dropout;",
    "ln 10,000 = 9.21. Largest state: of all entries of the carried states at the last step.",
    f"Both are measured every {BLOCK} steps; of a run that diverged, these are the last before.",
    "Hours are of a machine that may have done other work.",
)


def reproduce_divergence(request: Request) -> Path:
    """Run what is missing in ``OUT/CELL-seedK``, and write the table."""
    blocks = 2 if request.smoke else max(1, round(request.budget * STEPS / BLOCK))
    settings = partial(_settings, blocks, request)
    runs = tables.runs_of(request, request.out, _DEFAULT, settings, "epochs")
    folder = request.data / TEXT if request.table_only else locate_texts(request, (TEXT,))[TEXT]
    train = partial(train_until_divergence, request.threads or None)
    tables.run_missing(request, MEASURE, runs, lambda: folder, train)
    return _write_table(request)


def _settings(blocks: int, request: Request, row: str, seed: int) -> dict[str, Any]:
    cell, suffix = _parts(row)
    chosen = {**PRESETS["awd"], "optimizer": "sgd", "cell": cell, **_KINDS[suffix][1]}
    if request.smoke:
        chosen |= _SMOKE
    return {"row": row, "seed": seed, "epochs": blocks, "options": chosen}


def _parts(row: str) -> tuple[str, str]:
    """Return the cell of a row, and the suffix with its settings."""
    cell = max((cell for cell in LANGUAGE_CELLS if row.startswith(cell)), key=len)
    return cell, row.removeprefix(cell)


def train_until_divergence(
    threads: int | None, run: RunFolder, described: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """Train, or resume a training, until something is not finite, and return what was seen."""
    options = LanguageConfig(data=str(folder), seed=described["seed"], **described["options"])
    data = FLOW.prepare(options)
    parameters = FLOW.new_estimator(run, options, data)
    network = parameters.new_network(described["seed"])
    task = _in_blocks(training_task_of(parameters, data, network, described["seed"]))
    config = TrainerConfig(
        epochs=described["epochs"], lr=parameters.lr, weight_decay=parameters.weight_decay,
        clip_norm=parameters.clip_norm, monitor="largest_state", direction="min",
        seed=described["seed"], threads=threads, checkpoint_every_seconds=300.0,
        save_every_epochs=described["epochs"],
    )  # fmt: skip
    settings = {"row": described["row"], "sha256": data.splits()["sha256"]}
    optimizer = optimizer_for(parameters, network)
    rows: list[Mapping[str, Any]] = []
    trainer = Trainer(
        network, task, config, run, optimizer=optimizer, settings=settings, callbacks=(rows.append,)
    )
    started = time.monotonic()
    seen: dict[str, Any] = {"parameters": sum(p.numel() for p in network.parameters())}
    try:
        result = trainer.fit()
    except TrainingError as error:  # what this recipe is about
        fault, seconds = str(error).partition(" (")[0], time.monotonic() - started
        seen |= {"fault": fault, "stopped_by": "fault", "seconds": seconds}
    else:
        seen |= {"stopped_by": "epochs", "epochs": result.epoch, "seconds": result.seconds}
    last = rows[-1] if rows else {}
    return seen | {name: last.get(name) for name in ("step", "train_loss", "largest_state")}


def training_task_of(parameters: LanguageModel, data: Any, network: Any, seed: int) -> TrainingTask:
    """Return the training on the text, with the largest carried state in place of validation."""
    task = training_task(parameters, data.parts["train"], data.parts["valid"], network, seed)

    def evaluate(model: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        assert task.carried is not None
        return {"largest_state": max(x.abs().max().item() for x in task.carried.state_dict() or ())}

    return replace(task, evaluate=evaluate)


def _in_blocks(task: TrainingTask) -> TrainingTask:
    """Return the same batches in the same order, in epochs of `BLOCK` steps."""

    def batches(block: int) -> Sequence[Sequence[Any]]:
        steps: list[Sequence[Any]] = []
        epoch = 0
        while len(steps) < (block + 1) * BLOCK:
            steps += task.batches(epoch)
            epoch += 1
        return steps[block * BLOCK : (block + 1) * BLOCK]

    return replace(task, batches=batches)


def _write_table(request: Request) -> Path:
    """Write ``table.md`` from the runs of the folder, finished or not, and return its path."""
    runs = tables.stored(request.out)
    runs.sort(key=lambda run: (LANGUAGE_ROWS.index(run.settings["row"]), run.settings["seed"]))
    rows = []
    for run in runs:
        cell, suffix = _parts(run.settings["row"])
        seen = run.metrics or [{}, *tables.log_of(run.folder)][-1]  # the last that is saved
        rows.append((_TITLES[cell], _KINDS[suffix][0], run.settings["seed"], *_outcome(seen)))
    heads = ("settings", "seed", "parameters", "outcome", "step", "loss", "largest state", "hours")
    lines = tables.rows_of(("cell", *heads), rows, align="llrrl")
    if not runs:
        lines.append("There are no runs.")
    title = "L19 Table 3: do the cells stay finite with AWD-LSTM's recipe?"
    return tables.write_page(request, title, _ABOUT, lines)


def _outcome(seen: Mapping[str, Any]) -> tuple[str, ...]:
    outcome = f"diverged: {seen['fault']}" if "fault" in seen else "finite"
    outcome += "" if "stopped_by" in seen else ", interrupted"
    shown = (("parameters", ","), ("step", ","), ("train_loss", ".2f"), ("largest_state", ".3g"))
    count, *figures = ("–" if seen.get(k) is None else f"{seen[k]:{form}}" for k, form in shown)
    hours = f"{seen['seconds'] / 3600:.2f}" if "seconds" in seen else "–"
    return count, outcome, *figures, hours
