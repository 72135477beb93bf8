"""M18 Fig. 2: parity of two and four bits by one unit, with and without an l1 penalty."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from representer.nn import KernelActivation
from representer.tasks.recipe import Request
from representer.training import generators
from representer_papers.kbdnn2018 import PARITIES
from representer_papers.kbdnn2018.networks import parity
from representer_papers.shared import tables

BITS, CENTERS, PENALTIES = (2, 4), (50, 100, 300), (0.0, 0.00075)
UPDATES = 1_000_000  # from the authors' code; the paper prints no number
SMALL = 1e-3
MEASURE = tables.Measure(
    "kbrn-xor", "variation of f", lambda metrics: metrics["variation"], "updates"
)
_HEADS = (
    "bits", "ℓ1", "centers", "seed", "updates", "solved after", "coefficients", "variation",
    "error",
)  # fmt: skip
_ABOUT = (
    "One unit y = f(w·z + b) with g(u) = |u|, trained on the whole truth table by Adam at 0.01",
    "on the mean squared error. *Solved after* is the number of updates after which every row",
    "stays on the correct side of 1/2. *Coefficients* counts those above 0.001. *Variation* is",
    "the total variation of f over the range of the pre-activations, extended by a fifth on",
    "both sides. The paper shows the functions without figures and does not print the number",
    "of updates.",
)


@dataclass(frozen=True)
class ParitySetting:
    """One panel of the figure."""

    bits: int
    centers: int
    penalty: float  # factor of the sum of absolute coefficients
    seed: int
    updates: int

    @property
    def name(self) -> str:
        """Name of the run folder."""
        penalized = "l1" if self.penalty else "plain"
        return f"{self.bits}bit-{self.centers}-{penalized}-seed{self.seed}"


def reproduce_parity(request: Request) -> Path:
    """Train the missing networks, draw the functions, and write the table."""
    updates = 200 if request.smoke else max(1, round(request.budget * UPDATES))
    settings = [
        ParitySetting(bits, centers, penalty, seed, updates)
        for seed in request.seeds
        for bits in BITS
        if f"{bits}bit" in (request.datasets or PARITIES)
        for penalty in PENALTIES
        for centers in CENTERS
    ]
    runs = [tables.Run(request.out / setting.name, setting, "updates") for setting in settings]
    with tables.one_thread():
        tables.run_missing(request, MEASURE, runs, tuple, lambda _, s, __: train_parity(s))
    return _write_table(request)


def train_parity(setting: ParitySetting) -> dict[str, Any]:
    """Train one unit on the whole truth table at once, as the authors do.

    The optimizer is Adam with a learning rate of 0.01 on the mean squared error plus the penalty.
    Weights, centers and coefficients are drawn from a normal distribution truncated at two standard
    deviations.

    Returns:
        ``solved``: the number of updates after which all rows stay correct, or None; ``large``: the
        number of coefficients above 0.001; ``error``: the mean squared error; the function on a
        grid, and the pre-activation of each row; ``updates`` and ``stopped_by``.
    """
    rows, targets = parity(setting.bits)
    with generators.initializing(setting.seed):
        f = KernelActivation(1, setting.centers, init="random")
        linear = torch.nn.Linear(setting.bits, 1)
        torch.nn.init.trunc_normal_(linear.weight)
        torch.nn.init.trunc_normal_(linear.bias)
    optimizer = torch.optim.Adam([*f.parameters(), *linear.parameters()], 0.01)
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
        values = f(grid[:, None])
        is_right = bool(((outputs - targets).abs() < 0.5).all())
        return {
            "updates": setting.updates,
            "stopped_by": "updates",
            "solved": wrong_at if is_right else None,
            "large": int((f.coefficients.abs() > SMALL).sum()),
            "variation": float(values.diff(dim=0).abs().sum()),
            "error": float((outputs - targets).square().mean()),
            "grid": [round(float(a), 5) for a in grid],
            "function": [round(float(y), 5) for y in values[:, 0]],
            "sums": [round(float(a), 5) for a in sums],
            "targets": targets.tolist(),
        }


def _write_table(request: Request) -> Path:
    """Write ``table.md`` and ``functions.svg`` from the finished runs; return the table's path."""
    runs = tables.finished(request.out)
    runs.sort(key=lambda run: tuple(run[0][n] for n in ("seed", "bits", "penalty", "centers")))
    rows, drawings = [], []
    for s, m in runs:
        shown = s["bits"], f"{s['penalty']:g}", s["centers"], s["seed"], f"{s['updates']:,}"
        solved = "not" if m["solved"] is None else m["solved"]
        left = f"{m['large']} of {s['centers']}"
        rows.append((*shown, solved, left, f"{m['variation']:.2f}", f"{m['error']:.1e}"))
        if s["seed"] == runs[0][0]["seed"]:  # the panels of Fig. 2, with the truth table as dots
            penalized = "ℓ1" if s["penalty"] else "no ℓ1"
            drawing = {
                "title": f"{s['bits']} bits, d = {s['centers']}, {penalized}",
                "lines": {"f": list(zip(m["grid"], m["function"], strict=True))},
                "dots": list(zip(m["sums"], m["targets"], strict=True)),
            }
            drawings.append(drawing)
    lines = tables.rows_of(_HEADS, rows, align="")
    if drawings:
        title = "Activations learned for parity, targets as dots"
        tables.panels(request.out / "functions.svg", drawings, columns=3, title=title)
        lines += ["", "![The learned functions](functions.svg)"]
    return tables.write_page(request, "M18 Fig. 2: parity by one unit", _ABOUT, lines)
