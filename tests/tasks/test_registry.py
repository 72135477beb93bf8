"""Every task of the registry can do what it declares."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib.metadata import EntryPoints
from pathlib import Path
from pkgutil import resolve_name

import pytest

from representer import checks, estimators
from representer.cli import main
from representer.errors import ArgumentError, DataError, KindError, MissingExtraError
from representer.functional import rkm
from representer.models.cells import CELLS, cells_table, formula
from representer.options import task as options
from representer.options.registry import TASKS, task_of_run
from representer.options.task import (
    PACKAGES,
    Task,
    is_importable,
    package_version,
    require_packages,
)
from representer.options.text import TextParameters
from representer.tasks.recipe import Request, installed_recipes

every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
ARGUMENTS = {"evaluate": ["run", "data"], "predict": ["run", "data", "output"],
             "generate": ["run", "prompt", "tokens"], "drift": ["first", "second"]}  # fmt: skip


@every_task
def test_every_function_exists_and_takes_what_the_commands_pass(task: Task):
    others = {"fit", "comparison", "as_text", "opened", "examples"}
    assert set(task.functions) - others == set(task.options)
    for name, kinds in task.options.items():
        signature = inspect.signature(task.function(name))
        positional = [p for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        leading = ARGUMENTS.get(name, ["run", "data"])
        assert [p.name for p in positional][: len(leading)] == leading
        signature.bind_partial(*leading, *kinds)  # a task may lack options of others
    assert callable(task.function("fit"))
    if "comparison" in task.functions:
        comparison = inspect.signature(task.function("comparison"))
        assert comparison.bind("config", splits=range(2), variants={})
    assert ("explain" in task.functions) == ("as_text" in task.functions)


@every_task
def test_every_task_has_a_position_for_its_data_and_no_option_twice(task: Task):
    assert {"data", "out", "resume", "demo"} <= {field.name for field in fields(task.config)}
    for kinds in task.options.values():
        names = [field.name for kind in kinds for field in fields(kind)]
        assert len(names) == len(set(names))


TESTED_ON_FILES = {"text", "molecule", "graph", "signal", "series", "language"}  # in test_fit.py
DEMOS = [
    pytest.param(name, marks=[pytest.mark.slow] if name in TESTED_ON_FILES else [])
    for name in TASKS
]


@pytest.mark.parametrize("name", DEMOS)
def test_the_demo_of_a_task_is_fitted_explained_and_loaded(name: str, tmp_path: Path):
    run, task = tmp_path / "run", TASKS[name]
    words = ["fit", name, "--demo", "--epochs", "1", "--max-steps", "3", "--out", str(run)]
    assert main.entry_point([*words, "--quiet"]) == 0
    assert {"report.html", "model.json", "metrics.json"} <= {path.name for path in run.iterdir()}
    model = estimators.load(run)
    assert type(model).__name__ in [place.partition(":")[2] for place in task.estimators]
    if name == "language":
        return  # its demo is a text
    flow = resolve_name(task.functions["fit"].removesuffix(".fit"))
    objects = flow.demo().objects[:4]
    assert len(model.predict(objects)) == len(objects)
    for explanation in model.explain(objects):
        total = sum(one.contribution for one in explanation.contributions)
        assert explanation.baseline + total == pytest.approx(explanation.score, rel=1e-4, abs=1e-5)


def test_the_registry_imports_neither_torch_nor_numpy():  # --help would take twice as long
    code = "import sys, representer.options.registry as _; "
    code += "sys.exit(not {'torch', 'numpy'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_runs_of_unknown_tasks_and_commands_that_a_task_lacks_are_refused(tmp_path: Path):
    (tmp_path / "model.json").write_text('{"task": "weather"}')
    with pytest.raises(DataError, match="is of the task 'weather'; expected one of text, "):
        task_of_run(str(tmp_path), "evaluate")
    (tmp_path / "model.json").write_text('{"task": "molecule"}')
    with pytest.raises(KindError, match="one of molecules; expected one of running text, since"):
        task_of_run(str(tmp_path), "generate")


# L19 Table 1, computed.


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
    rows = table.partition("-\n")[2].partition("\n\n")[0]
    keys = [line.split()[0] for line in rows.splitlines()]
    (others,) = re.findall("Other values of --cell: (.*)\\.", table)
    assert sorted([*keys, *others.split(", ")]) == sorted(CELLS)
    for key in keys:
        TextParameters(cell=key).check()


def test_a_cell_whose_candidate_does_not_see_h_has_its_own_formula():
    assert formula(rkm.RAN) == "(nm)(3d) + d(2d)"


def test_a_size_of_zero_is_refused_by_its_name():
    with pytest.raises(ArgumentError, match="filter_length is 0"):
        cells_table(3, 3, 0)


# Optional packages: what is there, and what is refused without them.


def test_every_package_is_in_the_extra_that_is_named():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for package in PACKAGES:
        listed = project["optional-dependencies"][package.extra]
        assert package.name in [re.split(r"[\[>=]", line)[0] for line in listed]


def test_a_missing_package_is_refused_at_the_beginning_with_its_fix(monkeypatch):
    monkeypatch.setattr(options, "is_importable", lambda module: module != "jinja2")
    with pytest.raises(
        MissingExtraError, match=r'needs jinja2: pip install "representer\[train\]"'
    ):
        require_packages("fit text", "accelerate", "jinja2")
    require_packages("fit text", "accelerate")


def test_what_is_not_installed_has_no_version():
    assert package_version("no-such-package-at-all") is None
    assert not is_importable("no_such_module_at_all")
    assert is_importable("torch")


# Recipes come from whatever package brings them.


def test_without_any_recipe_the_package_is_not_installed(monkeypatch):
    monkeypatch.setattr(checks, "entry_points", lambda group: EntryPoints([]))
    with pytest.raises(MissingExtraError, match="pip install"):
        installed_recipes()


def test_a_run_needs_a_seed():
    with pytest.raises(ArgumentError, match="at least one seed"):
        Request(Path(), Path(), seeds=())
