"""A cell, a kernel, an estimator and a task of another package are where those of this one are."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from representer import checks, estimators
from representer.errors import DataError
from representer.estimators import base
from representer.options import registry
from toy_lists.lists import ListClassifier
from toy_lists.task import LISTS

MODULES = {
    "toy_cell": """
from representer.functional.rkm import Cell

CELL = Cell("coupled", "dynamic", False)
ONLY_IN_PYTHON = Cell("coupled", "dynamic", False, feedback="gates")  # the core has no kernel
""",
    "toy_kernel": """
from representer.kernels import RecurrentKernel


def example():
    return RecurrentKernel("linear", filter_length=3)
""",
    "toy_task": """
from dataclasses import dataclass

from representer.options.task import option
from representer.options.task import Task


@dataclass(frozen=True)
class Config:
    data: str | None = option(None, "file of numbers")
    out: str | None = option(None, "run folder")


TASK = Task(
    name="toy", summary="Take a mean.", noun="numbers", config=Config, defaults=lambda given: {},
    options={}, functions={"fit": "toy_task:print"},
)
""",
}
ENTRIES = """
[representer.cells]
toy-cell = toy_cell:CELL
toy-python = toy_cell:ONLY_IN_PYTHON
[representer.kernels]
toy-kernel = toy_kernel:example
[representer.tasks]
toy = toy_task:TASK
lists = toy_lists.task:LISTS
"""
PROGRAM = """
import pathlib

from representer.cli.main import entry_point
from representer.options.text import TextParameters

entry_point(["cells", "--hidden-size", "7"])
entry_point(["doctor"])
entry_point(["fit", "--help"])
TextParameters(cell="toy-cell").check()
pathlib.Path("t.csv").write_text("text,label\\n" + "good film,pos\\nbad day,neg\\n" * 20)
tiny = "--epochs 1 --hidden-size 4 --embedding-size 4 --baselines none --out run".split()
assert entry_point(["fit", "text", "t.csv", "--cell", "toy-cell", *tiny]) == 0
"""
COMMANDS = """
from representer.cli.main import entry_point

for command in (
    "fit lists train.jsonl --out run --epochs 2 --batch-size 32 --threads 1",
    "evaluate run train.jsonl",
    "predict run train.jsonl --output predictions.csv",
    "explain run train.jsonl --limit 2 --report",
    "report run",
):
    assert entry_point(command.split()) == 0, command

from representer.estimators import load

load("run").report("page.html", [[1.0], [2.0, 3.0]], ["a", "b"])
"""


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """Return the environment of a process in which a package with one of each is installed."""
    site = tmp_path_factory.mktemp("site")
    for name, text in MODULES.items():
        (site / f"{name}.py").write_text(text)
    shutil.copytree(Path(__file__).with_name("toy_lists"), site / "toy_lists")
    about = site / "toy_extension-1.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-extension\nVersion: 1.5\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *filter(None, paths)])}


@pytest.mark.slow
def test_one_of_each_is_in_the_table_the_command_line_and_doctor(environment, tmp_path):
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    row = next(line for line in rows if line.startswith("toy-cell "))
    assert "c_t = (1 − f_t) ⊙ c̃_t + f_t ⊙ c_{t−1} h_t = c_t" in row
    assert row.endswith(f"{(300 + 7) * 2 * 7:,}")  # a candidate and one gate
    checked = r"ok +toy-cell +differs by \S+ from its recurrence"
    assert re.search(checked, done.stdout)
    for kind in ("cells: toy-cell", "kernels: toy-kernel", "tasks: toy"):
        assert re.search(rf"ok +{kind} +of toy-extension 1\.5", done.stdout)
    assert re.search(r"toy +Take a mean\.", done.stdout)


@pytest.mark.slow
def test_every_command_takes_a_task_of_another_package(environment, tmp_path):
    rows = [{"values": [i % 7, -i, 0.5][: 1 + i % 3], "label": "ab"[i % 2]} for i in range(60)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    predictions = list(csv.DictReader((tmp_path / "predictions.csv").read_text().splitlines()))
    assert [row["list"] for row in predictions] == [str(i) for i in range(1, 61)]
    explained = json.loads((tmp_path / "run/explanations.json").read_text())
    assert [len(entry["contributions"]) for entry in explained] == [1, 2]
    for entry in explained:
        total = sum(one["contribution"] for one in entry["contributions"]) + entry["constant"]
        assert total == pytest.approx(entry["score"], abs=1e-5)  # sums of float32
    assert "numbers per list" in (tmp_path / "run/report.html").read_text()
    page = (tmp_path / "page.html").read_text()
    assert "<h1>ListClassifier: classification of lists</h1>" in page
    assert page.count(">Test results</h2>") == 1


@pytest.mark.slow
def test_the_generated_tests_run_on_a_kernel_and_on_a_cell(environment):
    tests = Path(__file__).parent
    for files, name, least in (
        (["kernels/test_examples.py"], "toy-kernel", 5),
        (["ops/test_ops.py"], "toy-cell", 10),
        (["ops/test_ops.py"], "toy-python", 10),
    ):
        paths = [str(tests / file) for file in files]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", name, *paths]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stdout
        (passed,) = re.findall(r"(\d+) passed", done.stdout)
        assert int(passed) >= least


def test_an_estimator_of_a_package_is_that_of_its_task_or_announced_itself(monkeypatch, tmp_path):
    from importlib.metadata import EntryPoint, EntryPoints

    entry = EntryPoint("Alone", "toy_lists.lists:ListInputs", "representer.estimators")
    monkeypatch.setattr(checks, "entry_points", lambda group: EntryPoints([entry]))
    monkeypatch.setitem(registry.TASKS, "lists", LISTS)
    assert estimators.ListClassifier is ListClassifier
    assert "ListClassifier" in estimators.ESTIMATORS
    plain = {key: {} for key in ("parameters", "target", "inputs", "network", "examples")}
    described = {"format": base.FORMAT, "version": "0", **plain}
    for name, problem in (("Alone", "holds a ListInputs, not a ListClassifier"),
                          ("Nothing", "no installed package has a task with it")):  # fmt: skip
        (tmp_path / "model.json").write_text(json.dumps(described | {"estimator": name}))
        with pytest.raises(DataError, match=problem):
            base.load(tmp_path, ListClassifier)


def test_broken_entry_points_are_skipped_with_a_warning(monkeypatch):
    from importlib.metadata import EntryPoint, EntryPoints

    entries = EntryPoints(
        EntryPoint(name, value, "representer.cells")
        for name, value in (("broken", "no_such_module:CELL"), ("path", "os:sep"))
    )
    monkeypatch.setattr(checks, "entry_points", lambda group: entries.select(group=group))
    with pytest.warns(UserWarning, match="cells: broken cannot be loaded: ModuleNotFoundError"):
        assert checks.installed("cells") == {"path": os.sep}
    found = {what: error for what, _, error in checks.findings()}
    assert "no_such_module" in found["cells: broken"]
    assert found["cells: path"] == ""
