"""The benchmark of molecules: the metrics of a part, and what the tables average."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def molecules(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("molecules")


def test_a_row_has_the_errors_and_the_coverage_of_the_intervals(molecules):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=4000)
    deviations = rng.uniform(0.2, 2, size=4000)
    answers = truth + deviations * rng.normal(size=4000)
    row = molecules.row(answers, deviations, truth, molecules.Part(0.5, 1.0))
    assert row.rmse == pytest.approx(np.sqrt(np.mean((answers - truth) ** 2)))
    assert row.shares["0.5"] == pytest.approx(0.5, abs=0.03)  # 4 standard errors
    assert row.rank > 0.3
    wide = molecules.row(answers, 4 * deviations, truth, molecules.Part(0.5, 1.0))
    assert wide.shares["0.5"] > 0.95
    assert wide.loss > row.loss


def figures(rmse: float, mae: float) -> dict:
    return {"target": {"rmse": rmse, "mae": mae}}


def test_errors_are_averaged_over_the_splits_of_a_kind(molecules):
    runs = {
        "random": [
            {"model": "WL, mean of 5", "test": figures(1.0, 0.5),
             "comparisons": [], "baselines": [{"name": "mean", "test": figures(2.0, 1.5)}]},
            {"model": "WL, mean of 5", "test": figures(3.0, 0.7),
             "comparisons": [], "baselines": [{"name": "mean", "test": figures(4.0, 1.5)}]},
        ],
        "scaffold": [
            {"model": "WL, mean of 5", "test": figures(5.0, 0.9),
             "comparisons": [], "baselines": [{"name": "mean", "test": figures(6.0, 2.5)}]},
        ],
    }  # fmt: skip
    lines = molecules.errors_table(runs).splitlines()
    assert lines[0] == "|  | RMSE, random | MAE, random | RMSE, scaffold | MAE, scaffold |"
    assert lines[2] == "| WL | 2.000 ± 1.414 | 0.600 ± 0.141 | 5.000 | 0.900 |"
    assert lines[3] == "| mean | 3.000 ± 1.414 | 1.500 ± 0.000 | 6.000 | 2.500 |"


def test_the_table_of_parts_has_means_and_shares_in_percent(molecules):
    shares = {str(level): 0.25 for level in molecules.LEVELS}
    rows = [
        molecules.Row(1.0, 0.5, shares, 0.2, molecules.Part(0.5, 10.0)),
        molecules.Row(2.0, 1.5, shares, 0.4, molecules.Part(0.7, 20.0)),
    ]
    line = molecules.parts_table({"random: x": rows}).splitlines()[2]
    quarter = " | ".join(["25.0"] * len(molecules.LEVELS))
    assert line == f"| random: x | 1.500 ± 0.707 | 1.000 ± 0.707 | {quarter} | 0.30 | 0.60 | 15 |"
