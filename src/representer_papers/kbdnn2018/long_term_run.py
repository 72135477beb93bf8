"""One run on the two-bits problem: training until it is solved, checkpoints, tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Any, cast

import torch
from torch import Tensor

from representer.nn import KBRN
from representer.nn.recurrent.kbrn.step_norm import StepNorm
from representer.storage.checkpoint import Checkpoint, latest, save_step
from representer.storage.run_folder import RunFolder
from representer.training import generators
from representer.training.freed_memory import keep_freed_memory
from representer_papers.kbdnn2018.long_term import Setting
from representer_papers.kbdnn2018.networks import Network, long_term_network
from representer_papers.kbdnn2018.options import one_thread
from representer_papers.kbdnn2018.problems import two_bits

BATCH, EPOCH, TEST, SAVE = 500, 10, 5000, 500
ENOUGH = 0.99
SPAN, POINTS = 4.0, 161


def train(folder: RunFolder, setting: Setting, _: tuple[()] = ()) -> dict[str, Any]:
    """Train a network until the accuracy of an epoch exceeds 99 %, or until it is out of updates.

    The criterion is that of the authors. The optimizer is Adam with a learning rate of 0.001 on the
    mean squared error, with a new batch for each update; an epoch is ten updates. A non-finite
    gradient ends the run. Where sequences grow, such an epoch leads to the next length, and all
    updates count.

    Returns:
        ``stopped_by`` (solved, updates or diverged), ``updates``, ``accuracy`` of the last epoch,
        and the results of `_tests`.
    """
    keep_freed_memory()
    with one_thread():
        return _train(folder, setting)


def _train(folder: RunFolder, setting: Setting) -> dict[str, Any]:
    with generators.initializing(setting.seed):
        sizes = (4, 5) if setting.tiny else (20, 100)
        network = long_term_network(setting.cell, setting.preset, *sizes)
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, 1e-3)
    first, curve, stage = _restore(folder, network, optimizer)
    stopped_by, accuracy, right = "updates", 0.0, 0.0
    update = first
    for update in range(first + 1, setting.updates + 1):
        x, y = _batch(setting, "train", update, BATCH, setting.stages[stage])
        output = network(x)
        right += float(((output > 0.5) == (y > 0.5)).float().mean()) / EPOCH
        optimizer.zero_grad()
        (output - y).square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, setting.clip)
        if not math.isfinite(float(norm)):
            stopped_by = "diverged"
            break
        optimizer.step()
        if update % EPOCH == 0:
            accuracy, right = right, 0.0
            curve.append([update, round(accuracy, 4)])
            stage += accuracy > ENOUGH
            if stage == len(setting.stages):
                stopped_by = "solved"
                break
        if update % SAVE == 0 or update == setting.updates:
            _save(folder, update, network, optimizer, {"curve": curve, "stage": stage})
    return {
        "stopped_by": stopped_by,
        "updates": update,
        "accuracy": round(accuracy, 4),
        "curve": curve[:: max(1, len(curve) // 100)],
        **_tests(setting, network),
    }


def _batch(
    setting: Setting, use: str, number: int, size: int, time: int | None = None
) -> tuple[Tensor, Tensor]:
    draw = generators.generator(setting.seed, "two bits", use, number)
    return two_bits(setting.function, time or setting.time, size, draw)


@torch.no_grad()
def _tests(setting: Setting, network: Network) -> dict[str, Any]:
    """Return the accuracy on 5,000 new sequences, and the learned functions.

    A normalized network is tested with the statistics of batches of 1,000 (``test``), and with
    running statistics collected over 20 batches without updates (``test_running``).
    """
    network.eval()
    result: dict[str, Any] = {"test": _accuracy(setting, network)}
    if not isinstance(network.layer, KBRN):
        return result
    norm = cast(StepNorm, network.layer.step_norm_l0)
    norm.batches.zero_()
    network.train()
    for number in range(20):
        network(_batch(setting, "statistics", number, BATCH)[0])
    network.eval()
    network.layer.eval_statistics = "running"
    result["test_running"] = _accuracy(setting, network)
    grid = torch.linspace(-SPAN, SPAN, POINTS)
    values = network.layer.activation()(grid[:, None].expand(-1, network.layer.hidden_size)).T
    slopes = values.diff(dim=1) / (grid[1] - grid[0])
    result["steep"] = int((slopes.abs().amax(1) > 1).sum())
    result["functions"] = [[round(float(v), 3) for v in row[::2]] for row in values]
    return result


def _accuracy(setting: Setting, network: Network) -> float:
    batches: Iterator[tuple[Tensor, Tensor]] = (
        _batch(setting, "test", number, 1000) for number in range(TEST // 1000)
    )
    accuracies = [((network(x) > 0.5) == (y > 0.5)).float().mean() for x, y in batches]
    return round(float(torch.stack(accuracies).mean()), 5)


def _save(
    folder: RunFolder,
    update: int,
    network: Network,
    optimizer: torch.optim.Adam,
    progress: dict[str, Any],
) -> None:
    moments = {str(key): value for key, value in optimizer.state_dict()["state"].items()}
    state = {"network": dict(network.state_dict()), "moments": moments, **progress}
    save_step(folder.checkpoints, Checkpoint(update, state, {}, {}), report=folder.report)


def _restore(
    folder: RunFolder, network: Network, optimizer: torch.optim.Adam
) -> tuple[int, list[Any], int]:
    """Restore the last checkpoint of a run; return its update, its curve and its stage."""
    checkpoint = latest(folder.path / "checkpoints", report=folder.report)
    if checkpoint is None:
        return 0, [], 0
    network.load_state_dict(checkpoint.state["network"])
    moments = checkpoint.state["moments"].values()
    optimizer_state = optimizer.state_dict()
    optimizer_state["state"] = dict(zip(count(), moments, strict=False))
    optimizer.load_state_dict(optimizer_state)
    return checkpoint.step, list(checkpoint.state["curve"]), checkpoint.state["stage"]
