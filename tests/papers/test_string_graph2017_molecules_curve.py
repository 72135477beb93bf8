"""The learning curve of L17 Table 3: nested parts, and the line through the errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.stats import t

from representer.tasks.recipe import Request
from representer_papers.string_graph2017 import RECIPES, molecules
from representer_papers.string_graph2017.molecules import curve_lines, fitted, read_molecule_set


def test_a_power_law_is_continued():
    points = [(n, 3 * n**-0.25) for n in (100, 400, 1600, 1600)]
    line = fitted(points, 1_000_000)
    assert line.doubled == pytest.approx([2**-0.25] * 3)
    assert line.at == pytest.approx([3 * 1_000_000**-0.25] * 3)


def test_the_intervals_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    points = [(n, float(3 * n**-0.25 * np.exp(0.1 * rng.normal()))) for n in (50, 50, 400, 3200)]
    x, y = np.log(np.array(points)).T
    at = np.log(20_000)
    # the covariance of (slope, value at the point), from another implementation
    best, covariance = scipy.optimize.curve_fit(lambda x, b, v: v + b * (x - at), x, y)
    half = t.ppf(0.975, 2) * np.sqrt(np.diag(covariance))
    line = fitted(points, 20_000)
    for found, value, wide in ((line.doubled, best[0], half[0]), (line.at, best[1], half[1])):
        base = np.log(2) if found is line.doubled else 1.0
        shown = np.log(found) / base
        assert shown == pytest.approx([value - wide, value, value + wide], rel=1e-5)


def test_a_curve_needs_three_sizes_of_the_same_network():
    parts = [{"wl": [(n, n**-0.5)] * 2, "gine": [(n, 1.0)]} for n in (16, 64)]
    assert curve_lines(parts) == []
    assert curve_lines([*parts, {"gine": []}]) == []
    rows = curve_lines([*parts, {"wl": [(256, 0.0625)] * 2}])[-1:]
    assert rows[0].startswith("| Weisfeiler-Lehman kernel NN | 0.2500 ± 0.0000 (2) | 0.1250 ± ")
    assert "| -29.3 % (-29.3 to -29.3) | 0.001 (0.001 to 0.001) | 0.1058 |" in rows[0]


@pytest.fixture(scope="module")
def request_(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    lines = [f"{'C' * (1 + i // 3)}{'ONS'[i % 3]},{1 + i / 9}" for i in range(40)]
    (root / "cep-processed.csv").write_text("smiles,PCE\n" + "\n".join(lines) + "\n", "utf-8")
    sets = ("cep", "cep-quarter", "cep-sixteenth")
    return Request(root, root / "out", smoke=True, threads=1, cells=("wl",), datasets=sets)


def test_parts_are_nested_and_tested_on_the_same_molecules(request_):
    path = request_.data / "cep-processed.csv"
    whole, quarter, sixteenth = (read_molecule_set(path, request_, share) for share in (1, 4, 16))
    assert (len(quarter.train), len(sixteenth.train)) == (len(whole.train) // 4, 2)
    assert set(sixteenth.train) < set(quarter.train) < set(whole.train)
    assert quarter.test.tolist() == whole.test.tolist()
    assert len({whole.digest, quarter.digest, sixteenth.digest}) == 3


def test_the_command_writes_the_curve_below_the_table(request_):
    page = RECIPES["graph-molecules"].run(request_).read_text("utf-8")
    head = page[page.index("## Fewer molecules") :].split("\n\n")[2].splitlines()[0]
    assert head == "| | 2 | 8 | 35 | twice as many | 1,900,000 | L17 |"
    assert molecules.TRAINING == 1_900_000
