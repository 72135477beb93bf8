"""L19 Table 1, computed."""

from __future__ import annotations

import re

import pytest

from representer.errors import ArgumentError
from representer.estimators.parameters import TextParameters
from representer.functional import rkm
from representer.models.cells import CELLS
from representer.nn import TABLE1
from representer.tasks.doctor import cells_table, formula, memory_equation, output_equation

PRINTED = {  # L19 Table 2, thousands of parameters at m = d = 300
    "LSTM": (720, 1440), "RKM-LSTM": (720, 1440), "RKM-CIFG": (540, 1080),
    "Linear Kernel w/ o_t": (360, 720), "Linear Kernel": (180, 360),
    "Gated CNN": (180, 540), "CNN": (90, 270),
}  # fmt: skip


@pytest.mark.parametrize(("n", "column"), [(1, 0), (3, 1)])
def test_the_counts_are_those_of_l19_table_2(n, column):
    lines = {
        re.split("  +", f"{line}  ")[1]: line for line in cells_table(300, 300, n).splitlines()
    }
    for name, thousands in PRINTED.items():
        assert lines[name].endswith(f" {1000 * thousands[column]:,}")


def test_every_name_is_one_that_the_option_takes():
    table = cells_table(4, 4, 1)
    keys = [line.split()[0] for line in table.splitlines()[4:11]]
    (others,) = re.findall("Other values of --cell: (.*)\\.", table)
    assert sorted([*keys, *others.split(", ")]) == sorted(CELLS)
    for key in keys:
        TextParameters(cell=key).check()


@pytest.mark.parametrize("name", TABLE1)
def test_the_formula_gives_the_count(name):
    m, d, n = 5, 7, 3
    layer = TABLE1[name](m, d, bias=False, filter_length=n)
    expression = formula(layer.cell).replace("nm", "n*m").replace(")(", ")*(")
    for factor in "234":
        expression = expression.replace(f"{factor}d", f"{factor}*d")
    assert eval(expression, {"n": n, "m": m, "d": d}) == sum(p.numel() for p in layer.parameters())


def test_equations_read_as_in_the_paper():
    assert memory_equation(rkm.RKM_CIFG) == "c_t = (1 − f_t) ⊙ c̃_t + f_t ⊙ c_{t−1}"
    assert memory_equation(rkm.LSTM) == "c_t = η_t ⊙ tanh(c̃_t) + f_t ⊙ c_{t−1}"
    assert memory_equation(rkm.CNN) == "c_t = σ_i² c̃_t"
    assert output_equation(rkm.RKM_CIFG) == "h_t = o_t ⊙ c_t"
    assert output_equation(rkm.LINEAR_KERNEL) == "h_t = tanh(c_t)"


def test_a_cell_whose_candidate_does_not_see_h_has_its_own_formula():
    assert formula(rkm.RAN) == "(nm)(3d) + d(2d)"


def test_a_size_of_zero_is_refused_by_its_name():
    with pytest.raises(ArgumentError, match="filter_length is 0"):
        cells_table(3, 3, 0)
