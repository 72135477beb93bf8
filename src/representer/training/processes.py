"""Processes and devices of distributed training, by Accelerate and torchrun."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from representer.errors import ArgumentError, MissingExtraError, TrainingError
from representer.machine import require_device
from representer.storage.atomic import PATIENCE
from representer.storage.checkpoint import decode, encode
from representer.training.config import TrainerConfig

if TYPE_CHECKING:
    from accelerate import Accelerator


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
