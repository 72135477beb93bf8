"""One process of several that train a small classifier in float64, with a fault at a step.

    torchrun ddp_training.py FOLDER DROPOUT PATIENCE FAULT RANK STEP

PATIENCE is the number of seconds until a process that does not take part counts as lost. FAULT is
``none``, ``kill``, ``raise``, ``hang`` or ``exit``; it occurs before the first restart.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from representer.models import SequenceClassifierConfig, SequenceNetwork
from representer.storage import atomic
from representer.storage.run import RunFolder
from representer.training import generators, state
from representer.training.config import TrainerConfig, TrainingTask
from representer.training.trainer import Trainer

EXAMPLES, TIME, BATCH, WORDS = 54, 8, 8, 20  # the last batch has 6, so parts are unequal


def main() -> None:
    """Train in the folder, or continue."""
    folder, dropout, patience, fault, rank, step = sys.argv[1:]
    atomic.PATIENCE = state.PATIENCE = timedelta(seconds=float(patience))
    torch.set_num_threads(1)
    is_first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    is_faulty = is_first and os.environ.get("RANK", "0") == rank
    sizes: dict[str, Any] = {"embedding_size": 6, "hidden_size": 6, "head_size": 4}
    with generators.initializing(5):
        model = SequenceNetwork(SequenceClassifierConfig(WORDS, 3, **sizes, dropout=float(dropout)))
    config = TrainerConfig(
        epochs=3, lr=0.01, clip_norm=1.0, evaluate_every=5, checkpoint_every_steps=4, device="cpu",
        seed=5,
    )  # fmt: skip
    at = int(step) if is_faulty else -1
    with RunFolder(folder, resume=not is_first) as run:
        Trainer(model.double(), task(fault, at), config, run).fit()


def task(fault: str, at: int) -> TrainingTask:
    """Return the classification of random tokens by the first of each."""
    draw = torch.Generator().manual_seed(3)
    tokens = torch.randint(1, WORDS, (EXAMPLES, TIME), generator=draw)
    lengths = torch.randint(1, TIME + 1, (EXAMPLES,), generator=draw)
    labels, loaded = tokens[:, 0] % 3, [0]

    def batches(epoch: int) -> list[list[int]]:
        order = torch.randperm(EXAMPLES, generator=generators.generator(5, "order", epoch))
        return [order[i : i + BATCH].tolist() for i in range(0, EXAMPLES, BATCH)]

    def load(rows: Any) -> Any:
        loaded[0] += 1
        if loaded[0] == at:
            _fail(fault)
        return tokens[rows], lengths[rows], labels[rows]

    def loss(model: torch.nn.Module, batch: Any) -> tuple[torch.Tensor, int]:
        logits = model(*batch[:2])
        return torch.nn.functional.cross_entropy(logits, batch[2]), len(batch[2])

    def evaluate(model: torch.nn.Module, check: Callable[[], None]) -> dict[str, float]:
        check()
        right = (model(tokens, lengths).argmax(1) == labels).double().mean()
        return {"accuracy": float(right)}

    return TrainingTask(batches, load, loss, evaluate)


def _fail(fault: str) -> None:
    """Fail in one of four ways."""
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "raise":
        raise RuntimeError("a fault of the campaign")
    if fault == "exit":
        os._exit(0)
    if fault == "hang":
        time.sleep(3600)


if __name__ == "__main__":
    main()
