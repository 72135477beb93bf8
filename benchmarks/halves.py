"""Kernel and network against each alone, and coverage by groups and by rare classes.

python benchmarks/halves.py --out docs/results/halves.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from report import publish, table
from representer.errors import DataError
from representer.estimators.conformal import Conformal, calibration_rows
from representer.estimators.pool import Pool
from representer.estimators.targets import Classes, Column, Numbers

LEVEL, REPEATS = 0.9, 400
RARE = ["frequent rows", "rare classes", "rows of each", "coverage", "standard error"]
Floats = NDArray[np.float64]


def targets(count: int) -> Iterator[tuple[str, list[Column], list[NDArray], list[Floats]]]:
    """Yield each kind of target with its columns, their values and the scores that are right."""
    rng = np.random.default_rng(0)
    for name, classes in (("two classes", 2), ("nine classes", 9)):
        values = np.arange(count) % classes
        yield name, [Classes(tuple(range(classes)))], [values], [5 * np.eye(classes)[values]]
    for name, columns in (("a number", 1), ("three numbers", 3)):
        values = [rng.standard_normal((count, 1)) for _ in range(columns)]
        yield name, [Numbers((0.0,), (1.0,))] * columns, values, values


def halves(right: Floats, rng: np.random.Generator) -> dict[str, tuple[Floats, Floats]]:
    """Return pairs of scores of a kernel machine and of a network."""
    noise = rng.standard_normal((3, *right.shape))
    perfect, noisy = right + 0.1 * noise[0], right + 2 * noise[1]
    return {
        "perfect, diverged": (perfect, 1e8 * noise[2]),
        "constant, perfect": (np.full(right.shape, 0.5), perfect),
        "reversed, perfect": (-right, perfect),
        "noisy, reversed": (noisy, -1e3 * right),
        "noisy, chance": (noisy, noise[2]),
    }


def stacks() -> list[tuple[str, ...]]:
    """Return a row for each planted case: the losses of the halves and of the stack."""
    rows = []
    for count in (12, 1000):
        for name, columns, values, right in targets(count):
            rng, cases = np.random.default_rng(1), {}
            for column, truth, scores in zip(columns, values, right, strict=True):
                for case, pair in halves(scores, rng).items():
                    cases.setdefault(case, []).append(Pool.fit(column, *pair, truth))
            for case, pools in cases.items():
                is_worse = any(p.loss > min(p.kernel_loss, p.network_loss) for p in pools)
                losses = (
                    np.mean([getattr(pool, loss) for pool in pools])
                    for loss in ("kernel_loss", "network_loss", "loss")
                )
                figures = [f"{loss:.4g}" for loss in losses]
                rows.append((f"{count:,}", name, case, *figures, "yes" if is_worse else "no"))
    return rows


def grouped_coverage() -> list[tuple[str, ...]]:
    """Return the coverage of new groups, whose scores have a scale in common."""
    rows = []
    for groups, each in ((10, 100), (20, 50), (30, 30), (40, 25), (100, 10)):
        of_row, rng, coverage = np.repeat(np.arange(groups), each), np.random.default_rng(0), []
        for seed in range(REPEATS):
            scores = abs(rng.normal(size=len(of_row)) * np.exp(rng.normal(size=groups))[of_row])
            new = abs(rng.normal(size=(200, 20)) * np.exp(rng.normal(size=(200, 1))))
            try:
                _, held = calibration_rows(Numbers((0.0,), (1.0,)), scores, of_row, seed, LEVEL)
            except DataError as error:
                least = str(error).partition("; ")[2].partition(".")[0]
                coverage = [f"refused: {least} to calibrate with, of 9 that are needed"]
                break
            coverage.append((new <= Conformal.fit(LEVEL, [scores[held]]).quantiles[0]).mean())
        rows.append((f"{groups}", f"{each}", *shown(coverage)))
    return rows


def rare_coverage() -> list[tuple[str, ...]]:
    """Return the coverage of all rows, of a model that knows frequent classes alone."""
    rows = []
    for frequent, classes, each in ((600, 100, 3), (600, 300, 1), (900, 30, 3), (600, 60, 5)):
        rng, coverage = np.random.default_rng(0), []
        truth = np.r_[np.arange(frequent) % 2, 2 + np.arange(classes * each) // each]
        target = Classes(tuple(range(classes + 2)))
        for seed in range(REPEATS):
            scores = np.where(truth < 2, 0.0, 1.0) + rng.random(len(truth))
            order = rng.permutation(len(truth))
            new, old = order[: len(order) // 3], order[len(order) // 3 :]
            _, held = calibration_rows(target, truth[old], None, seed, LEVEL)
            quantile = Conformal.fit(LEVEL, [scores[old][held]]).quantiles[0]
            coverage.append((scores[new] <= quantile).mean())
        rows.append((f"{frequent}", f"{classes}", f"{each}", *shown(coverage)))
    return rows


def shown(coverage: list) -> tuple[str, str]:
    """Return the mean and its standard error, or why there is none."""
    if isinstance(coverage[0], str):
        return coverage[0], ""
    return f"{np.mean(coverage):.3f}", f"{np.std(coverage) / len(coverage) ** 0.5:.3f}"


def page() -> str:
    """Return the page."""
    cases = stacks()
    worse = sum(row[-1] == "yes" for row in cases)
    return f"""# Two halves, and coverage

Written by `python benchmarks/halves.py --out docs/results/halves.md`,
with torch {torch.__version__} and NumPy {np.__version__}.

## Kernel and network against each alone

Losses on the validation rows, which neither half was trained on: the mean negative log probability
of classes, the mean squared error of standardized numbers, of several targets their mean. The
first half is the kernel machine, the second the network. Of {len(cases)} planted cases, the loss of
both is above the smaller one of a half in {worse}.

{table(["rows", "target", "halves", "kernel", "network", "both", "both above a half"], cases, 7)}

## Conformal prediction with groups

Level {LEVEL}; the coverage of random rows of new groups, the mean of {REPEATS} draws. The scores
of a group have a scale in common. One random row of each of the drawn groups gives a score, so
that the coverage is between the level and the level plus one over their number; with fewer groups
than the level needs, the fit is refused.

{table(["groups", "rows of each", "coverage", "standard error"], grouped_coverage(), 4)}

## Conformal prediction with rare classes

Level {LEVEL}; the coverage of new rows of all classes, of a model that never finds the rare ones,
the mean of {REPEATS} draws. Two classes share the frequent rows.

{table(RARE, rare_coverage(), 5)}
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    publish(page(), parser.parse_args().out)
