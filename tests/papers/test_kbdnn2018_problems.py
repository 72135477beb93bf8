"""The problems of M18 section 4."""

from __future__ import annotations

import pytest
import torch

from representer_papers.kbdnn2018.networks import CHARGES, FUNCTIONS, charging, parity, two_bits


def test_parity_of_two_and_four_bits():
    rows, targets = parity(2)
    assert rows.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert targets.tolist() == [0, 1, 1, 0]
    assert parity(4)[1].sum() == 8


@pytest.mark.parametrize("preset", CHARGES)
def test_a_charge_lasts_as_many_steps_as_its_size(preset: str):
    x, y = charging(300, preset, torch.Generator().manual_seed(0))
    assert x.shape == (30, 300, 1)
    assert set(x.unique().tolist()) - {0.0} == set(
        range(max(1, CHARGES[preset][0]), CHARGES[preset][1] + 1)
    )
    assert (x > 0).sum(0).max() == 3
    for b in range(300):
        left = 0
        for t in range(30):
            left = int(x[t, b]) + max(0, left - 1)
            assert y[t, b] == (left > 0)


def test_the_fraction_of_ones_is_that_of_the_paper():
    """0.384 for the text's charges and 0.455 for the code's, by simulation."""
    draw = torch.Generator().manual_seed(0)
    assert charging(20_000, "paper", draw)[1].mean().item() == pytest.approx(0.384, abs=0.005)
    assert charging(20_000, "authors_code", draw)[1].mean().item() == pytest.approx(
        0.455, abs=0.005
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_target_is_a_function_of_the_first_two_bits(function: str):
    x, y = two_bits(function, 7, 400, torch.Generator().manual_seed(0))
    assert x.shape == (7, 400, 1)
    python = {"or": lambda a, b: a or b, "and": lambda a, b: a and b,
              "xor": lambda a, b: a != b, "iff": lambda a, b: a == b}[function]  # fmt: skip
    wanted = [python(bool(a), bool(b)) for a, b in x[:2, :, 0].T.tolist()]
    assert y.tolist() == [float(w) for w in wanted]
    assert 0.4 < x.mean() < 0.6
