"""M18 Fig. 2: parity of two and four bits by one unit, with and without an l1 penalty."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from representer.tasks.recipe import Recipe, Request
from representer_papers.kbdnn2018.options import PRESETS

SOURCE = "M18 Fig. 2"
BITS, CENTERS, PENALTIES = (2, 4), (50, 100, 300), (0.0, 0.00075)
UPDATES = 1_000_000  # from the authors' code; the paper prints no number
SMALL = 1e-3


@dataclass(frozen=True)
class Setting:
    """One panel of the figure.

    Attributes:
        bits: Number of input bits.
        centers: d, number of centers.
        penalty: Factor of the sum of absolute coefficients.
        seed: Seed of the initial weights.
        updates: Number of updates.
    """

    bits: int
    centers: int
    penalty: float
    seed: int
    updates: int

    @property
    def name(self) -> str:
        """Name of the run folder."""
        penalized = "l1" if self.penalty else "plain"
        return f"{self.bits}bit-{self.centers}-{penalized}-seed{self.seed}"


def reproduce(request: Request) -> Path:
    """Train the missing networks, draw the functions, and write the table."""
    from representer_papers.kbdnn2018.options import one_thread
    from representer_papers.kbdnn2018.xor_report import write_report
    from representer_papers.shared.runs import Run, run_missing

    updates = 200 if request.smoke else max(1, round(request.budget * UPDATES))
    settings = [
        Setting(bits, centers, penalty, seed, updates)
        for seed in request.seeds
        for bits in BITS
        for penalty in PENALTIES
        for centers in CENTERS
    ]
    runs = [Run(request.out / setting.name, setting, "updates") for setting in settings]
    with one_thread():
        run_missing(() if request.table_only else runs, tuple, lambda _, s, __: train(s))
    return write_report(request)


def train(setting: Setting) -> dict[str, Any]:
    """Train one unit on the whole truth table at once, as the authors do.

    The optimizer is Adam with a learning rate of 0.01 on the mean squared error plus the penalty.
    Weights, centers and coefficients are drawn from a normal distribution truncated at two standard
    deviations.

    Returns:
        ``solved``: the number of updates after which all rows stay correct, or None; ``large``: the
        number of coefficients above 0.001; ``error``: the mean squared error; the function on a
        grid, and the pre-activation of each row; ``updates`` and ``stopped_by``.
    """
    import torch

    from representer.nn import KernelActivation
    from representer.training import generators
    from representer_papers.kbdnn2018.problems import parity

    rows, targets = parity(setting.bits)
    with generators.initializing(setting.seed):
        f = KernelActivation(1, setting.centers, init="random")
        linear = torch.nn.Linear(setting.bits, 1)
        torch.nn.init.trunc_normal_(linear.weight)
        torch.nn.init.trunc_normal_(linear.bias)
    parameters = [*f.parameters(), *linear.parameters()]
    optimizer = torch.optim.Adam(parameters, 0.01)
    wrong_at = 0
    for update in range(1, setting.updates + 1):
        outputs = f(linear(rows))[:, 0]
        if ((outputs - targets).abs() >= 0.5).any():
            wrong_at = update
        loss = (outputs - targets).square().mean()
        if setting.penalty:
            loss = loss + setting.penalty * f.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        sums = linear(rows)[:, 0]
        outputs = f(sums[:, None])[:, 0]
        margin = (sums.max() - sums.min()) / 5  # as the authors draw them
        grid = torch.linspace(float(sums.min() - margin), float(sums.max() + margin), 201)
        error = float((outputs - targets).square().mean())
        is_right = bool(((outputs - targets).abs() < 0.5).all())
        return {
            "updates": setting.updates,
            "stopped_by": "updates",
            "solved": wrong_at if is_right else None,
            "large": int((f.coefficients.abs() > SMALL).sum()),
            "variation": float((f(grid[:, None]).diff(dim=0)).abs().sum()),
            "error": error,
            "grid": [round(float(a), 5) for a in grid],
            "function": [round(float(y), 5) for y in f(grid[:, None])[:, 0]],
            "sums": [round(float(a), 5) for a in sums],
            "targets": targets.tolist(),
        }


XOR = Recipe(
    name="kbrn-xor",
    title="Parity of two and four bits by one unit with a learned activation",
    source=SOURCE,
    reproduce=reproduce,
    presets=PRESETS,
)
