"""Weights, gradients and moments that are divided among processes (FSDP of torch, version 2)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.training.trainer_config import TrainerConfig
from representer.training.training_state import copy_weights, joined, load_weights, shard_like

if TYPE_CHECKING:
    from accelerate import Accelerator


def prepared(
    accelerator: Accelerator,
    config: TrainerConfig,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> tuple[nn.Module, nn.Module, Any]:
    """Prepare a model and its optimizer for the processes.

    With ``fsdp``, a copy of the model is trained, of whose weights, gradients and moments each
    process keeps a part; `gathered_weights` gives the model itself the weights.

    Returns:
        The module to call, the module with the trained parameters, and the optimizer.

    Raises:
        ArgumentError: ``fsdp`` in a single process or with float16.
    """
    if not config.fsdp:
        wrapped, scaled = accelerator.prepare(model, optimizer)
        # Accelerate's wrapper scales in float16, and searches the path for a package at every step
        return wrapped, model, optimizer if accelerator.scaler is None else scaled
    if accelerator.num_processes == 1:
        hint = "Start the command with torchrun --nproc-per-node."
        raise ArgumentError("fsdp", True, "several processes", hint=hint)
    if config.mixed_precision == "fp16":
        raise ArgumentError("mixed_precision", "fp16", "no or bf16 with fsdp")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    trained = cast(nn.Module, fully_shard(copy.deepcopy(model.to(accelerator.device)), mesh=mesh))
    parts = dict(zip(model.parameters(), trained.parameters(), strict=True))
    for group in optimizer.param_groups:
        group["params"] = [parts[parameter] for parameter in group["params"]]
    wrapped = accelerator.prepare_model(trained, evaluation_mode=True)  # precision, but no DDP
    return wrapped, trained, optimizer


@contextmanager
def gathered_weights(model: nn.Module, trained: nn.Module, device: torch.device) -> Iterator[None]:
    """Give a model the weights of its trained copy within a block; all processes call this."""
    if trained is model:
        yield
        return
    load_weights(model.to(device), copy_weights(trained))
    try:
        yield
    finally:
        release(model, trained)


def release(model: nn.Module, trained: nn.Module) -> None:
    """Leave the memory of the device to the trained copy of a model, if it is a copy."""
    if trained is not model:
        model.cpu()


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the state of an optimizer with whole tensors; all processes call this together."""
    from accelerate.utils import recursively_apply

    return cast(dict[str, Any], recursively_apply(joined, optimizer.state_dict()))


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Restore the result of `optimizer_state`, in any number of processes."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    parts = {
        index: {name: _part(parameters[index], value) for name, value in values.items()}
        for index, values in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": parts})


def _part(parameter: Tensor, value: Any) -> Any:
    is_divided = isinstance(value, Tensor) and value.shape == parameter.shape
    return shard_like(parameter, value) if is_divided else value
