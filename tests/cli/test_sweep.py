"""``sweep``: options are searched on validation data, and a folder continues."""

from __future__ import annotations

import re
import shlex

import pytest
from tests.cli.conftest import write_table

from representer.tasks import packages

TINY = ["--epochs", "1", "--embedding-size", "4", "--device", "cpu", "--threads", "1"]
TINY += ["--space", "lr,hidden-size"]


def trials(text):
    return re.findall(r"trial (\d) of \d: valid_loss (\S+) with lr (\S+), hidden_size (\d+)", text)


def test_a_missing_optuna_and_wrong_options_are_errors(run, tmp_path, monkeypatch):
    data = write_table(tmp_path / "data.csv")
    assert "--trials is 0; expected 1 or more" in run("sweep", "text", data, "--trials", "0").err
    assert (
        "--sampler is 'grid'; expected tpe or"
        in run("sweep", "text", data, "--sampler", "grid").err
    )
    monkeypatch.setattr(packages, "is_importable", lambda module: module != "optuna")
    outcome = run("sweep", "text", data)
    assert outcome.code == 2
    assert 'needs optuna: pip install "representer[sweep]"' in outcome.err
    assert run("sweep", "language", data).code == 2


@pytest.mark.peers
@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_folder_continues_and_the_best_command_works(run, tmp_path, sampler):
    data, out = write_table(tmp_path / "data.csv"), tmp_path / "sweep"
    options = [data, *TINY, "--out", out, "--sampler", sampler]
    first = trials(run("sweep", "text", *options, "--trials", "2").err)
    assert [number for number, *_ in first] == ["1", "2"]
    outcome = run("sweep", "text", *options, "--trials", "3")
    ((number, *third),) = trials(outcome.err)
    assert number == "3"
    assert tuple(third[1:]) not in [chosen[2:] for chosen in first]  # another draw
    _, _, lr, units = min([*first, (number, *third)], key=lambda row: float(row[1]))
    assert float(shlex.split(outcome.out)[shlex.split(outcome.out).index("--lr") + 1]) == \
        pytest.approx(float(lr), rel=1e-2)  # fmt: skip
    assert f"--hidden-size {units}" in outcome.out
    again = run("sweep", "text", *options, "--trials", "3")
    assert (again.out, trials(again.err)) == (outcome.out, [])
    fitted = run(*shlex.split(outcome.out)[1:], "--out", tmp_path / "run", "--answer", "network")
    assert fitted.code == 0
    changed = run("sweep", "text", *options, "--trials", "4", "--pooling", "mean")
    assert "--pooling is 'mean'; expected 'attention'" in changed.err


@pytest.mark.peers
def test_the_test_part_has_no_effect(run, tmp_path):
    data, found = write_table(tmp_path / "data.csv"), []
    for name in ("one", "other"):
        test = write_table(tmp_path / f"{name}.csv", seed=len(name))
        out = tmp_path / name
        options = [data, *TINY, "--out", out, "--test", test, "--trials", "1", "--seeds", "2"]
        found.append(trials(run("sweep", "text", *options).err))
    assert found[0] == found[1]
    assert len(found[0]) == 1
