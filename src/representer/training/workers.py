"""The processes and the device that share one training, from Accelerate and torchrun."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from representer.errors import ArgumentError, MissingExtraError, TrainingError
from representer.storage.checkpoint.container import decode, encode
from representer.storage.main_process import PATIENCE
from representer.training.trainer_config import TrainerConfig

if TYPE_CHECKING:
    from accelerate import Accelerator


def accelerator_for(config: TrainerConfig) -> Accelerator:
    """Return the Accelerator that a configuration asks for.

    Raises:
        MissingExtraError: Accelerate is not installed.
        ArgumentError: This process has used another precision before.
    """
    try:
        from accelerate import Accelerator, InitProcessGroupKwargs
    except ImportError as error:
        raise MissingExtraError("training", "accelerate", "train") from error
    try:
        accelerator = Accelerator(
            cpu=config.device == "cpu",
            mixed_precision=config.mixed_precision,
            kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
        )
        if accelerator.num_processes > 1:
            atexit.register(_leave)  # a process that ends in the group may abort the others
        return accelerator
    except ValueError as error:
        if "already been initialized" not in str(error):
            raise
        raise ArgumentError(
            "mixed_precision",
            config.mixed_precision,
            "the one that this process trained with before",
            hint="Accelerate allows one per process; start another.",
        ) from None


def require_agreement(is_main: bool, *, is_writer: bool) -> None:
    """Refuse a training that nobody would write, or that two processes would.

    Args:
        is_main: Accelerate takes this process for the main one.
        is_writer: The run folder takes it for the one that writes.

    Raises:
        TrainingError: They disagree.
    """
    if is_main != is_writer:
        names = {True: "the main process", False: "a process that writes nothing"}
        raise TrainingError(
            f"the run folder takes this process for {names[is_writer]}, Accelerate for "
            f"{names[is_main]}. Start all processes with torchrun or accelerate launch, and with "
            "ACCELERATE_USE_CPU=true where there is no GPU."
        )


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def totals(accelerator: Accelerator, *values: float) -> list[float]:
    """Return each value summed over all processes, in all of them."""
    if accelerator.num_processes == 1:
        return list(values)
    summed = torch.tensor(values, dtype=torch.float64, device=accelerator.device)
    torch.distributed.all_reduce(summed)
    return summed.tolist()


def gathered(accelerator: Accelerator, value: Any) -> list[Any]:
    """Return the value of every process, in all of them; a checkpoint must be able to hold it."""
    if accelerator.num_processes == 1:
        return [value]
    from accelerate.utils import gather_object

    parts = gather_object([b"".join(encode(value))])  # objects with tensors in them do not arrive
    return [decode(part) for part in parts]


def share(accelerator: Accelerator, description: Sequence[Any]) -> tuple[Sequence[Any], bool]:
    """Return this process's part of a batch.

    Returns:
        The part, and whether it is a stand-in: with fewer examples than processes some have none,
        and take the first with weight 0, because every process must take part in the reduction.
    """
    if accelerator.num_processes == 1:
        return description, False
    part = description[accelerator.process_index :: accelerator.num_processes]
    return (part, False) if len(part) else (description[:1], True)
