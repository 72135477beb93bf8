"""The options of ``fit molecule``: ranges, presets, and the task's own defaults."""

from __future__ import annotations

import json

import pytest

from representer.errors import ArgumentError
from representer.estimators import MoleculeClassifier, MoleculeRegressor
from representer.options.molecule import MoleculeConfig, MoleculeRegressorParameters, defaults_of
from representer.options.task import parameters_of, refuse_parameters_of_others
from representer.tasks.molecule import FLOW
from representer.tasks.objects import Objects


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([("1.5", "0"), ("2", "1")], True),  # 0 and 1 are numbers beside others
        ([("1.5", "low"), ("2", "high")], True),  # the texts are then reported with their lines
        ([("0", ""), ("1", "yes")], False),
    ],
)
def test_several_targets_are_classes_only_if_none_is_a_number(labels, expected):
    objects = Objects("t", "t", ["C", "CC"], labels, [1, 2], targets=("a", "b"))
    assert FLOW.numbers(objects) is expected


@pytest.mark.parametrize("decay", ["fast", "-1", "1_000", "١٢"])
def test_a_decay_is_a_number_in_plain_notation(decay):
    chosen = parameters_of(MoleculeConfig(decay=decay), MoleculeRegressor)
    with pytest.raises(ArgumentError, match="expected a non-negative number, learned or gated"):
        MoleculeRegressor(**chosen).check()


@pytest.mark.parametrize("preset", ["paper", "authors_code"])
def test_the_presets_have_the_papers_schedule(preset):
    config = MoleculeConfig(**defaults_of(MoleculeConfig(preset=preset)))
    steps = 51 * config.lr_decay_every // config.batch_size  # the rate is 1e-3 · 0.9^51 = 5e-6
    assert config.lr * config.lr_decay**51 < 5e-6 < config.lr * config.lr_decay**50
    assert config.max_steps == steps == 255_000
    assert (config.members, config.standardize, config.balance) == (1, False, 0.05)
    assert (config.readout, config.gate_scale, config.share_references) == {
        "paper": ("sum", 1.0, False), "authors_code": ("last", 10.0, True)
    }[preset]  # fmt: skip
    other = defaults_of(MoleculeConfig(preset=preset, network="gine"))
    assert other["share_references"]  # there are no levels


def test_a_preset_sets_no_options_that_a_classification_lacks():
    given = MoleculeConfig(preset="paper", task="classification")
    config = MoleculeConfig(**defaults_of(given) | {"task": "classification"})
    refuse_parameters_of_others(config, MoleculeClassifier, MoleculeRegressorParameters)
    with pytest.raises(ArgumentError, match=r"balance is 0\.5; expected nothing"):
        refuse_parameters_of_others(
            MoleculeConfig(balance=0.5), MoleculeClassifier, MoleculeRegressorParameters
        )


@pytest.mark.parametrize(("values", "is_noted"), [("0 1 2", True), ("0.5 1.25 2.5", False)])
def test_a_note_names_few_integers_that_are_taken_as_numbers(tmp_path, capsys, values, is_noted):
    path, labels = tmp_path / "a.csv", values.split()
    rows = [f"{'C' * k}O,{labels[k % 3]}" for k in range(1, 13)]
    path.write_text("\n".join(["smiles,y", *rows]))
    FLOW.sources(MoleculeConfig(data=str(path), target="y"))
    note = "y is 0, 1, 2 only, taken as numbers to predict; --task classification predicts classes"
    assert (note in capsys.readouterr().err) == is_noted


@pytest.mark.parametrize("values", [[1.0, 2.5], ["low", "high"]])
def test_a_report_explains_a_cliff_with_its_sums(tmp_path, values):
    smiles = [f"{'C' * n}{end}" for n in range(6, 30) for end in ("O", "CO")]
    table = tmp_path / "a.csv"
    rows = [f"{one},{values[len(one) % 2]}" for one in smiles]
    table.write_text("\n".join(["smiles,y", *rows]))
    run = tmp_path / "run"
    FLOW.fit(MoleculeConfig(data=str(table), target="y", answer="kernel", out=str(run), threads=1))
    first, second = json.loads((run / "details.json").read_text())["cliff"]
    assert {first["truth"], second["truth"]} == {
        f"{v:g}" if isinstance(v, float) else v for v in values
    }
    for entry in (first, second):
        parts = sum(row["contribution"] for row in entry["by_place"])
        assert parts + entry["constant"] == pytest.approx(entry["score"], abs=1e-6)
    page = (run / "report.html").read_text()
    assert "Two similar molecules, different values" in page
    assert ("Their scores differ by" in page) == isinstance(values[0], float)


def test_a_report_of_molecules_without_a_cliff_has_none(tmp_path):
    table, run = tmp_path / "a.csv", tmp_path / "run"
    smiles = ["C" * k + end for k in range(1, 9) for end in "ONSP"]
    table.write_text("\n".join(["smiles,y", *(f"{one},1.5" for one in smiles[:-1]), "F,2.5"]))
    FLOW.fit(MoleculeConfig(data=str(table), target="y", answer="kernel", out=str(run), threads=1))
    assert json.loads((run / "details.json").read_text())["cliff"] == []
    assert "Two similar molecules" not in (run / "report.html").read_text()
