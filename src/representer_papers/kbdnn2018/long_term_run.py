"""One run on the problem of two bits: training until it is solved, checkpoints, tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Any, cast

import torch
from torch import Tensor

from representer.nn import KBRN
from representer.nn.recurrent.kbrn_direction import KBRNDirection
from representer.tasks.storage.checkpoint import Checkpoint, latest, save_step
from representer.tasks.storage.run_folder import RunFolder
from representer.tasks.training import generators
from representer_papers.kbdnn2018.long_term import Setting
from representer_papers.kbdnn2018.networks import Network, long_term_network
from representer_papers.kbdnn2018.problems import two_bits

BATCH, EPOCH, TEST, SAVE = 500, 10, 5000, 500
ENOUGH = 0.99
SPAN, POINTS = 4.0, 161


def train(folder: RunFolder, setting: Setting) -> dict[str, Any]:
    """Train a network until an epoch is right at 99 %, as the authors do, or it is out of updates.

    Adam with a rate of 0.001 on the mean squared error, a fresh batch an update; an epoch is ten
    updates. A gradient that is no number ends the run. Where sequences grow, such an epoch leads to
    the next length, and all updates count.

    Returns:
        ``stopped_by`` (solved, updates or diverged), ``updates``, ``accuracy`` of the last epoch,
        and what `_tests` finds.
    """
    with generators.initializing(setting.seed):
        sizes = (4, 5) if setting.tiny else (20, 100)
        network = long_term_network(setting.cell, setting.preset, *sizes)
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, 1e-3)
    first, curve, stage = _restore(folder, network, optimizer)
    stopped_by, share, right = "updates", 0.0, 0.0
    update = first
    for update in range(first + 1, setting.updates + 1):
        x, y = _batch(setting, "train", update, BATCH, setting.stages[stage])
        answer = network(x)
        right += float(((answer > 0.5) == (y > 0.5)).float().mean()) / EPOCH
        optimizer.zero_grad()
        (answer - y).square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, setting.clip)
        if not math.isfinite(float(norm)):
            stopped_by = "diverged"
            break
        optimizer.step()
        if update % EPOCH == 0:
            share, right = right, 0.0
            curve.append([update, round(share, 4)])
            stage += share > ENOUGH
            if stage == len(setting.stages):
                stopped_by = "solved"
                break
        if update % SAVE == 0 or update == setting.updates:
            _save(folder, update, network, optimizer, {"curve": curve, "stage": stage})
    return {
        "stopped_by": stopped_by,
        "updates": update,
        "accuracy": round(share, 4),
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
    """Return the share of 5,000 fresh sequences that is right, and what the units learned.

    A normalized network is tested with the statistics of batches of 1,000 (``test``), and one by
    one with running statistics of 20 batches without updates (``test_running``).
    """
    network.eval()
    found: dict[str, Any] = {"test": _share_right(setting, network)}
    if not isinstance(network.layer, KBRN):
        return found
    direction = cast(KBRNDirection, network.layer.directions[0])
    assert direction.norm is not None
    direction.norm.batches.zero_()
    network.train()
    for number in range(20):
        network(_batch(setting, "statistics", number, BATCH)[0])
    network.eval()
    direction.eval_statistics = "running"
    found["test_running"] = _share_right(setting, network)
    grid = torch.linspace(-SPAN, SPAN, POINTS)
    values = network.layer.activation()(grid[:, None].expand(-1, direction.hidden_size)).T
    slopes = values.diff(dim=1) / (grid[1] - grid[0])
    found["steep"] = int((slopes.abs().amax(1) > 1).sum())
    found["functions"] = [[round(float(v), 3) for v in row[::2]] for row in values]
    return found


def _share_right(setting: Setting, network: Network) -> float:
    batches: Iterator[tuple[Tensor, Tensor]] = (
        _batch(setting, "test", number, 1000) for number in range(TEST // 1000)
    )
    shares = [((network(x) > 0.5) == (y > 0.5)).float().mean() for x, y in batches]
    return round(float(torch.stack(shares).mean()), 5)


def _save(
    folder: RunFolder,
    update: int,
    network: Network,
    optimizer: torch.optim.Adam,
    noted: dict[str, Any],
) -> None:
    moments = {str(key): value for key, value in optimizer.state_dict()["state"].items()}
    state = {"network": dict(network.state_dict()), "moments": moments, **noted}
    save_step(folder.checkpoints, Checkpoint(update, state, {}, {}), report=folder.report)


def _restore(
    folder: RunFolder, network: Network, optimizer: torch.optim.Adam
) -> tuple[int, list[Any], int]:
    """Bring a run back to its last checkpoint; return its update, its curve and its stage."""
    found = latest(folder.path / "checkpoints", report=folder.report)
    if found is None:
        return 0, [], 0
    network.load_state_dict(found.state["network"])
    of_optimizer = optimizer.state_dict()
    of_optimizer["state"] = dict(zip(count(), found.state["moments"].values(), strict=False))
    optimizer.load_state_dict(of_optimizer)
    return found.step, list(found.state["curve"]), found.state["stage"]
