"""Every task of the registry can do what it declares, and a new one is declared in one place."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from representer.cli.main import load
from representer.cli.parser import build, parse
from representer.cli.train import Fit
from representer.errors import DataError, KindError
from representer.tasks import registry
from representer.tasks.options import Task, option
from representer.tasks.registry import TASKS, task_of_run

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


def test_the_registry_imports_neither_torch_nor_numpy():  # --help would take twice as long
    code = "import sys, representer.tasks.registry as _; "
    code += "sys.exit(not {'torch', 'numpy'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_runs_of_unknown_tasks_and_commands_that_a_task_lacks_are_refused(tmp_path: Path):
    (tmp_path / "model.json").write_text('{"task": "weather"}')
    with pytest.raises(DataError, match="is of the task 'weather'; expected one of text, "):
        task_of_run(str(tmp_path), "evaluate")
    (tmp_path / "model.json").write_text('{"task": "molecule"}')
    with pytest.raises(KindError, match="one of molecules; expected one of running text, since"):
        task_of_run(str(tmp_path), "generate")


@dataclass(frozen=True)
class ToyConfig:
    data: str | None = option(None, "file of numbers")
    out: str | None = option(None, "run folder")
    power: int = option(2, "exponent of the mean")


@dataclass(frozen=True)
class ToyOptions:
    scale: float = option(1.0, "factor of the result")


def fit_toy(config: ToyConfig) -> None:
    folder = Path(config.out or "")
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps({"task": "toy", "power": config.power}))


def evaluate_toy(run: str, data: str, options: ToyOptions, *, device: str) -> dict[str, Any]:
    power = json.loads(Path(run, "model.json").read_text())["power"]
    numbers = [float(line) for line in Path(data).read_text().split()]
    return {"mean": options.scale * sum(x**power for x in numbers) / len(numbers)}


TOY = Task(
    name="toy", summary="Take the mean of powers.", noun="numbers", config=ToyConfig,
    defaults=lambda given: {"power": 3} if given.data == "cubes" else {},
    options={"evaluate": (ToyOptions,)},
    functions={"fit": f"{__name__}:fit_toy", "evaluate": f"{__name__}:evaluate_toy"},
)  # fmt: skip


def test_a_task_declared_once_is_in_fit_evaluate_and_their_help(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(registry.TASKS, "toy", TOY)
    command = Fit(TOY)
    assert "exponent of the mean (default: 2)" in build("fit toy", command).format_help()
    data = tmp_path / "numbers"
    data.write_text("1 3")
    arguments = parse("fit toy", command, [str(data), "--out", str(tmp_path / "run")])
    assert arguments is not None
    command.run(arguments)
    capsys.readouterr()  # fit says what it reads
    words = [str(tmp_path / "run"), str(data), "--scale", "0.5"]
    evaluated = parse("evaluate", load("evaluate"), words)
    assert evaluated is not None
    load("evaluate").run(evaluated)
    assert json.loads(capsys.readouterr().out) == {"mean": 2.5}
    cubes = parse("fit toy", command, ["cubes"])
    assert cubes is not None
    assert cubes.power == 3
