"""Take and restore a snapshot of everything that the next training step depends on."""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, CheckpointError, MissingExtraError, TrainingError
from representer.machine import require_device
from representer.storage.atomic import PATIENCE
from representer.storage.checkpoint import decode, encode
from representer.storage.run import RunFolder
from representer.training import generators
from representer.training.averages import EvaluationWeights
from representer.training.config import (
    Carried,
    Row,
    TrainerConfig,
    TrainingState,
    copy_weights,
    load_weights,
)

if TYPE_CHECKING:
    from accelerate import Accelerator

# Processes and devices of distributed training, by Accelerate and torchrun.


def accelerator_for(config: TrainerConfig) -> Accelerator:
    """Return the Accelerator of a configuration.

    Gradients of three processes or more are summed in an order that depends on how DDP packs them,
    which it changes after the first step, unless it looks for unused parameters. A training that
    was resumed would differ in the last bits.
    """
    try:
        from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
        from accelerate.utils import parse_flag_from_env
    except ImportError as error:
        raise MissingExtraError("training", "accelerate", "train") from error
    try:
        is_on_cpu = config.device == "auto" and parse_flag_from_env("ACCELERATE_USE_CPU")
        name = "cpu" if is_on_cpu else config.device
        state = PartialState(cpu=name == "cpu", timeout=PATIENCE)
        device = require_device(name, state.num_processes)
        if config.mixed_precision == "fp16" and device.type == "cpu":
            raise ArgumentError("mixed_precision", "fp16", "no or bf16 on the CPU")
        if state.num_processes == 1:
            state.device = device  # which Accelerate would choose by itself
        fixed: list[Any] = [DistributedDataParallelKwargs(find_unused_parameters=True)]
        accelerator = Accelerator(
            cpu=device.type == "cpu", mixed_precision=config.mixed_precision,
            kwargs_handlers=fixed if state.num_processes > 2 else None,
        )  # fmt: skip
        if accelerator.num_processes > 1:
            atexit.register(_leave)  # exiting inside the group may abort the others
        return accelerator
    except ValueError as error:
        if "already been initialized" not in str(error):
            raise
        raise ArgumentError(
            "mixed_precision",
            config.mixed_precision,
            "the precision that this process already uses",
            hint="Accelerate allows one precision per process; start a new process.",
        ) from None


def report_device(device: torch.device, report: Callable[[str], object]) -> None:
    """Report a device that the operations have no kernels for."""
    if device.type == "mps":
        report("device mps: the operations have no kernels for it and run on the reference backend")


def require_agreement(is_main: bool, *, is_writer: bool) -> None:
    """Check that the main process, and only that one, writes the run folder."""
    if is_main != is_writer:
        problem = (
            "writes the run folder, but is not"
            if is_writer
            else ("does not write the run folder, but is")
        )
        raise TrainingError(
            f"this process {problem} the main process of Accelerate. Start all processes with "
            "torchrun or accelerate launch, and with ACCELERATE_USE_CPU=true if there is no GPU."
        )


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def totals(accelerator: Accelerator, *values: float) -> list[float]:
    """Return each value summed over all processes (an all-reduce)."""
    if accelerator.num_processes == 1:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64, device=accelerator.device)
    torch.distributed.all_reduce(summed)
    return summed.tolist()


def gathered(accelerator: Accelerator, value: Any) -> list[Any]:
    """Return the values of all processes (an all-gather), encoded as in a checkpoint."""
    if accelerator.num_processes == 1:
        return [value]
    from accelerate.utils import gather_object

    parts = gather_object([b"".join(encode(value))])  # gather_object fails on tensors
    return [decode(data) for data in parts]


def share(accelerator: Accelerator, description: Sequence[Any]) -> tuple[Sequence[Any], bool]:
    """Return this process's part of a batch.

    With fewer examples than processes, the idle ones use the first example with weight 0, because
    all must join the reduction; True says so.
    """
    if accelerator.num_processes == 1:
        return description, False
    rows = description[accelerator.process_index :: accelerator.num_processes]
    return (rows, False) if len(rows) else (description[:1], True)


def take(
    accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer,
    averages: EvaluationWeights, state: TrainingState, carried: Carried | None,
) -> dict[str, Any]:  # fmt: skip
    """Return a snapshot that a checkpoint can store. All processes must call this together."""
    handed_on = None if carried is None else gathered(accelerator, carried.state_dict())
    return {
        "progress": state.to_dict(),
        "model": copy_weights(model),
        "optimizer": optimizer.state_dict(),
        "averages": averages.state_dict(),
        "scaler": None if accelerator.scaler is None else accelerator.scaler.state_dict(),
        "random": gathered(accelerator, generators.states()),
        "carried": handed_on,
    }


def put_back(
    snapshot: Mapping[str, Any], accelerator: Accelerator, model: nn.Module,
    optimizer: torch.optim.Optimizer, averages: EvaluationWeights, carried: Carried | None,
) -> TrainingState:  # fmt: skip
    """Restore model, optimizer and random states from a snapshot, and return the training state."""
    load_weights(model, snapshot["model"])
    optimizer.load_state_dict(snapshot["optimizer"])
    averages.load_state_dict(snapshot.get("averages"))
    if accelerator.scaler is not None and snapshot["scaler"] is not None:
        accelerator.scaler.load_state_dict(snapshot["scaler"])
    if accelerator.process_index < len(snapshot["random"]):
        generators.restore(snapshot["random"][accelerator.process_index])
    if carried is not None:
        parts = snapshot.get("carried") or []
        if len(parts) != accelerator.num_processes:
            raise CheckpointError(
                f"the state carried between batches is from {len(parts)} processes; expected "
                f"{accelerator.num_processes}. Resume with {len(parts)} processes."
            )
        carried.load_state_dict(parts[accelerator.process_index])
    return TrainingState.from_dict(snapshot["progress"])


# The output files of a training run; each can be rebuilt from a checkpoint's state.

BEST, FINAL = "model.safetensors", "final.safetensors"


def write_weights(
    run: RunFolder, name: str, weights: Mapping[str, Tensor], row: Row | None
) -> None:
    """Write weights, with their metrics as JSON under ``metrics`` in the file's header."""
    run.write_tensors(name, weights, {"metrics": json.dumps(row)})


def write_state(run: RunFolder, state: TrainingState) -> None:
    """Rewrite the metrics and best weights from the state, and remove the final weights."""
    state.log.write(run)
    run.remove(FINAL)
    write_best(run, state)


def write_best(run: RunFolder, state: TrainingState) -> None:
    """Write the best weights of the state, or remove the file if there are none."""
    if state.best_weights is None:
        run.remove(BEST)
    else:
        write_weights(run, BEST, state.best_weights, state.best_row)


def write_end(run: RunFolder, state: TrainingState, weights: Mapping[str, Tensor]) -> None:
    """Write the final weights, and use them as the best ones if no evaluation gave a number."""
    last = state.log.rows[-1] if state.log.rows else None
    write_weights(run, FINAL, weights, last)
    if state.best_weights is None:
        write_weights(run, BEST, weights, last)


# Result of a finished training run.

Reason = Literal[
    "epochs",
    "max_steps",
    "patience",
    "nonmonotone",
    "max_drop",
    "time_limit",
    "callback",
    "diverged",
]


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        step: Completed optimization steps.
        epoch: Completed epochs.
        rows: Metrics of each evaluation.
        best: Row of the best evaluation, whose weights are in ``model.safetensors``; None if the
            monitored metric was never a number.
        reason: The rule that ended training.
        seconds: Training time, without interruptions.
    """

    step: int
    epoch: int
    rows: list[Row]
    best: Row | None
    reason: Reason
    seconds: float
