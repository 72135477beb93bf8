"""Training steps of a language model on one GPU: launched from Python, and from a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from representer.estimators.carried_state import CarriedState, detached, example_state
from representer.models import LanguageModel, LanguageModelConfig
from representer.training.captured_calls import WARM_UP
from representer.training.captured_losses import CapturedLosses
from representer.training.training_task import Loss

EAGER, CAPTURED = "launched from Python", "from a CUDA graph"
WORDS = 10_000


def language_steps(size: tuple[int, int, int], device: str) -> dict[str, Callable[[], object]]:
    """Return training steps on segments of T tokens of B streams, with d units.

    Both models start with the same weights; the optimizer runs without a graph.
    """
    steps = {EAGER: _step(size, device, is_captured=False)}
    if device == "cuda":
        steps[CAPTURED] = _step(size, device, is_captured=True)
    return steps


def _step(size: tuple[int, int, int], device: str, *, is_captured: bool) -> Callable[[], object]:
    T, B, units = size
    torch.manual_seed(0)
    config = LanguageModelConfig(WORDS, embedding_size=units, hidden_size=units, cell="rkm-lstm")
    model = LanguageModel(config).to(device)
    carried = CarriedState(lambda rows: example_state(model, rows))
    carried.value = example_state(model, B)
    tokens, following = torch.randint(WORDS, (2, T, B), device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device == "cuda")

    def compute(batch: Any) -> Loss:
        result = model(batch[0], carried.value)
        carried.value = detached(result.state)
        loss = model.output.loss(result.features, batch[1]) / batch[1].numel()
        loss.backward()
        return Loss(loss, batch[1].numel())

    captured = CapturedLosses(compute, [*model.parameters()], carried, _refuse)

    def step() -> None:
        optimizer.zero_grad()
        if is_captured:
            captured((tokens, following))
        else:
            compute((tokens, following))
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    return step


def _refuse(reason: str) -> None:
    raise RuntimeError(reason)
