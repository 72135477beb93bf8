from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.errors import ArgumentError
from representer.functional import NONLINEARITIES, Cell, rkm

NAMED = {name: value for name, value in vars(rkm).items() if isinstance(value, Cell)}
names = st.sampled_from(list(NONLINEARITIES))
cells = st.builds(
    Cell,
    st.sampled_from(["dynamic", "coupled", "static"]),
    st.sampled_from(["dynamic", "static", "none"]),
    st.booleans(),
    names,
    names,
    st.sampled_from(["all", "gates", "none"]),
    st.sampled_from(["cell", "output", "expm1"]),
    st.booleans(),
)


@given(cell=cells)
def test_parsing_the_code_of_a_cell_returns_the_cell(cell):
    assert Cell.parse(cell.code) == cell


@given(a=cells, b=cells)
def test_two_cells_have_the_same_code_only_if_they_are_equal(a, b):
    assert (a.code == b.code) == (a == b)


@given(cell=cells)
def test_recurrent_and_biased_gates_are_the_last_ones(cell):
    assert cell.gates[len(cell.gates) - len(cell.recurrent_gates) :] == cell.recurrent_gates
    assert cell.gates[len(cell.gates) - len(cell.biased_gates) :] == cell.biased_gates
    assert cell.gates[0] == "candidate"
    assert ("candidate" in cell.recurrent_gates) == (cell.feedback == "all")
    assert ("candidate" in cell.biased_gates) == cell.candidate_bias


@pytest.mark.parametrize(
    ("name", "gates", "recurrent"),
    [
        ("LSTM", 4, 4),
        ("RKM_LSTM", 4, 4),
        ("RKM_CIFG", 3, 3),
        ("LINEAR_KERNEL_GATED", 2, 2),
        ("LINEAR_KERNEL", 1, 1),
        ("GATED_CNN", 2, 0),
        ("CNN", 1, 0),
        ("RAN", 3, 2),
    ],
)
def test_a_named_cell_has_the_matrices_of_its_table_row(name, gates, recurrent):
    cell = NAMED[name]
    assert (len(cell.gates), len(cell.recurrent_gates)) == (gates, recurrent)


def test_only_the_convolutional_cells_have_no_memory():
    assert {name for name, cell in NAMED.items() if not cell.has_memory} == {"GATED_CNN", "CNN"}


def test_a_cell_is_immutable():
    with pytest.raises(FrozenInstanceError):
        rkm.LSTM.output = "identity"


@pytest.mark.parametrize(
    ("option", "value"),
    [("input_gate", "none"), ("forget_gate", "off"), ("candidate", "swish"), ("output", "exp"),
     ("feedback", "some"), ("memory", "long")],
)  # fmt: skip
def test_an_unknown_option_is_refused_with_the_known_ones(option: str, value: str):
    with pytest.raises(ArgumentError, match=f"{option} is '{value}'; expected one of "):
        replace(rkm.LSTM, **{option: value})
