"""A process that trains a tiny classifier, made to be killed.

``python training_worker.py serve`` imports everything once and then forks a child for each job that
comes as a line of JSON on stdin, so that a campaign of kills does not pay for imports. ``python
training_worker.py run JOB`` runs one job, as torchrun does it.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accelerate
import accelerate.utils
import safetensors.torch
import torch
import torch._dynamo  # imported by the first optimizer otherwise, in every child

from representer.errors import RepresenterError
from representer.models import SequenceClassifierConfig, SequenceNetwork
from representer.storage import checkpoint
from representer.storage.atomic import VARIABLE
from representer.storage.run import RunFolder
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask
from representer.training.trainer import Trainer

EXAMPLES, TIME, BATCH, WORDS = 78, 10, 8, 30
_PRELOADED = (accelerate.utils, safetensors.torch, torch._dynamo)


def train(job: dict[str, Any]) -> None:
    """Train, or go on with training, in the folder ``job["out"]``."""
    torch.set_num_threads(1)
    settings = SequenceClassifierConfig(
        WORDS, 3, embedding_size=12, hidden_size=12, head_size=8, dropout=job.get("dropout", 0.5),
    )  # fmt: skip
    with generators.initializing(5):
        model = SequenceNetwork(settings)
    model.to(torch.float64 if job.get("double") else torch.float32)
    config = TrainerConfig(
        **{
            "epochs": 8,
            "lr": 0.005,
            "clip_norm": 1.0,
            "evaluate_every": 7,
            "checkpoint_every_steps": 4,
            "device": "cpu",
            "seed": 5,
            **job.get("config", {}),
        }
    )
    with RunFolder(job["out"], resume=job.get("resume", False)) as run:
        trainer = Trainer(model, task(job), config, run, settings={"model": "tiny"})
        trainer.fit()


def task(job: dict[str, Any]) -> TrainingTask:
    """Return the classification of random tokens by the first word of each."""
    draw = torch.Generator().manual_seed(3)
    tokens = torch.randint(1, WORDS, (EXAMPLES, TIME), generator=draw)
    lengths = torch.randint(1, TIME + 1, (EXAMPLES,), generator=draw)
    labels = tokens[:, 0] % 3
    loaded = [0]

    def batches(epoch: int) -> list[list[int]]:
        order = torch.randperm(EXAMPLES, generator=generators.generator(5, "order", epoch))
        return [order[i : i + BATCH].tolist() for i in range(0, EXAMPLES, BATCH)]

    def load(rows: Any) -> Any:
        loaded[0] += 1
        _raise_signals(job, "load", loaded[0])
        return tokens[rows], lengths[rows], labels[rows]

    def loss(model: torch.nn.Module, batch: Any) -> tuple[torch.Tensor, int]:
        logits = model(*batch[:2])
        return torch.nn.functional.cross_entropy(logits, batch[2]), len(batch[2])

    def evaluate(model: torch.nn.Module, check: Callable[[], None]) -> dict[str, float]:
        right = 0
        for start in range(0, EXAMPLES, 20):
            rows = slice(start, start + 20)
            torch.rand(3)  # an evaluation may use randomness, and must not move the training's
            right += int((model(tokens[rows], lengths[rows]).argmax(1) == labels[rows]).sum())
            _raise_signals(job, "evaluate", loaded[0])
            check()
        return {"accuracy": right / EXAMPLES}

    return TrainingTask(batches, load, loss, evaluate)


def save(job: dict[str, Any]) -> None:
    """Save a checkpoint of a step."""
    state = {"weights": torch.full((50,), float(job["step"]))}
    saved = checkpoint.Checkpoint(job["step"], state, {}, {})
    checkpoint.save_step(job["out"], saved, report=lambda line: None)


JOBS = {"train": train, "save": save}


def _raise_signals(job: dict[str, Any], place: str, load: int) -> None:
    rank = os.environ.get("RANK", "0")
    if job.get("signal_at") == [place, load] and job.get("signal_rank", rank) == rank:
        for number in job["signals"]:
            os.kill(os.getpid(), number)


def run(job: dict[str, Any]) -> int:
    """Run a job as the command line does, and return its exit code."""
    if "failpoint" in job:
        os.environ[VARIABLE] = job["failpoint"]
    time.sleep(max(0.0, job.get("start_at", 0.0) - time.time()))
    try:
        JOBS[job["job"]](job)
    except RepresenterError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
        from faults.processes import serve

        serve(run)
    else:
        sys.exit(run(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
