"""The options of ``fit molecule``: ranges, presets, and the task's own defaults."""

from __future__ import annotations

import pytest

from representer.errors import ArgumentError
from representer.models import graph_regressor_config
from representer.tasks.molecule import molecule_config
from representer.tasks.molecule.molecule_config import MoleculeConfig, defaults


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"members": 0}, "members is 0; expected a positive integer"),
        ({"members": 101}, "members is 101; expected at most 100"),
        ({"features": 70}, "features is 70; expected 62 or 82"),
        ({"split": "time"}, "split is 'time'; expected one of random, scaffold"),
        ({"decay": "fast"}, "decay is 'fast'; expected a non-negative number, learned or gated"),
        ({"decay": "-1"}, "decay is '-1'"),
        ({"decay": "1_000"}, "decay is '1_000'"),
        ({"decay": "١٢"}, "decay is '١٢'"),
        ({"lr": 0.0}, "lr is 0.0; expected a positive number"),
        ({"balance": -1.0}, "balance is -1.0; expected 0 or more"),
        ({"valid_fraction": 1.0}, "valid_fraction is 1.0; expected a number between 0 and 1"),
        ({"valid_fraction": 0.5, "test_fraction": 0.5}, r"valid_fraction \+ test_fraction is 1.0"),
        ({"demo": True, "data": "x.csv"}, "data is 'x.csv'; expected nothing with --demo"),
        ({"demo": True, "target": "y"}, "target is 'y'; expected nothing with --demo"),
        ({"task": "classification", "balance": 1.0}, "balance is 1.0; expected 0 for a class"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_a_value_out_of_its_range_is_refused(wrong, expected):
    with pytest.raises(ArgumentError, match=expected):
        MoleculeConfig(**wrong)


def test_the_choices_are_those_of_the_model():
    for name in ("NETWORKS", "READOUTS", "INITIALS"):
        assert getattr(molecule_config, name) == getattr(graph_regressor_config, name)


@pytest.mark.parametrize("preset", ["paper", "authors_code"])
def test_the_presets_have_the_papers_schedule(preset):
    config = MoleculeConfig(**defaults(preset, demo=False))
    steps = 51 * config.lr_decay_every // config.batch_size  # the rate is 1e-3 · 0.9^51 = 5e-6
    assert config.lr * config.lr_decay**51 < 5e-6 < config.lr * config.lr_decay**50
    assert config.max_steps == steps == 255_000
    assert (config.members, config.standardize, config.balance) == (1, False, 0.05)
    assert (config.readout, config.gate_scale) == {
        "paper": ("sum", 1.0), "authors_code": ("last", 10.0)
    }[preset]  # fmt: skip


def test_a_classification_is_not_balanced_by_a_preset():
    config = MoleculeConfig(**defaults("paper", demo=False, task="classification")
                            | {"task": "classification"})  # fmt: skip
    assert config.balance == 0
