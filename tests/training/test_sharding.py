"""Weights that are divided among processes; `test_workers.py` trains with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_training import model

from representer.errors import ArgumentError
from representer.training.sharding import prepared
from representer.training.trainer_config import TrainerConfig


@pytest.mark.parametrize(
    ("processes", "precision", "message"),
    [
        (1, "no", "fsdp is True; expected several processes. Start the command with torchrun"),
        (2, "fp16", "mixed_precision is 'fp16'; expected no or bf16 with fsdp"),
    ],
)
def test_weights_are_divided_among_several_processes_without_float16(
    processes: int, precision: Any, message: str
) -> None:
    accelerator: Any = SimpleNamespace(num_processes=processes)
    config, network = TrainerConfig(fsdp=True, mixed_precision=precision), model()
    with pytest.raises(ArgumentError, match=message):
        prepared(accelerator, config, network, torch.optim.SGD(network.parameters()))
