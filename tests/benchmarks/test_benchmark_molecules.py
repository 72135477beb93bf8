"""The benchmark of molecules: what is calibrated on which part, and what the tables average."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def molecules(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("molecules")


def test_deviations_are_calibrated_in_validation_and_judged_on_the_test_part(molecules):
    rng = np.random.default_rng(0)
    truth = [rng.normal(size=(400, 1)) for _ in range(3)]
    noise = (0.0, 2.0, 0.5)  # of training, validation and test
    answers = [y + scale * rng.normal(size=y.shape) for y, scale in zip(truth, noise, strict=True)]
    row = molecules.row(answers, [np.ones_like(y) for y in truth], truth)
    assert row.rmse == pytest.approx(np.sqrt(np.mean((answers[2] - truth[2]) ** 2)))
    assert 0.4 < row.rmse < 0.6
    assert row.shares["0.5"] > 0.95  # deviations of 2, as in validation, where errors are of 0.5
    same = molecules.row([answers[0], answers[2], answers[2]], [np.ones_like(y) for y in truth],
                         [truth[0], truth[2], truth[2]])  # fmt: skip
    assert same.shares["0.5"] == pytest.approx(0.5, abs=0.1)


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


def test_the_uncertainty_table_has_means_and_shares_in_percent(molecules):
    shares = {str(level): 0.25 for level in molecules.LEVELS}
    rows = [molecules.Row(1.0, 0.5, shares, 0.2), molecules.Row(2.0, 1.5, shares, 0.4)]
    line = molecules.uncertainty_table({"random: x": rows}).splitlines()[2]
    quarter = " | ".join(["25.0"] * len(molecules.LEVELS))
    assert line == f"| random: x | 1.500 ± 0.707 | 1.000 ± 0.707 | {quarter} | 0.30 |"
