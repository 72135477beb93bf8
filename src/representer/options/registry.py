"""The tasks that the command line, the estimators, the report and the documentation know."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from representer import options
from representer.checks import installed
from representer.errors import KindError
from representer.options.task import Task

FIRST = ("text", "language", "molecule", "graph", "signal", "series")  # in the help; others follow


def _declared() -> Iterator[Task]:
    """Yield the `TASK` of each module of the package that has one, then those of others."""
    names = [module.name for module in pkgutil.iter_modules(options.__path__)]
    names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    for name in names:
        task = getattr(import_module(f"{options.__name__}.{name}"), "TASK", None)
        yield from [task] if task else []
    yield from installed("tasks").values()


TASKS: dict[str, Task] = {task.name: task for task in _declared()}


def classes() -> dict[str, str]:
    """Return the estimators of all tasks by name, as ``module:class``."""
    return {name.rpartition(":")[2]: name for task in TASKS.values() for name in task.estimators}


def task_of_run(run: str, command: str) -> Task:
    """Return the task of a run.

    Raises:
        DataError: The folder is no run of a known task.
    """
    from representer.storage.run import task_of

    task = task_of(run, TASKS)
    if command not in TASKS[task].options:
        others = [other.noun for other in TASKS.values() if command in other.options]
        hint = "The report shows what the model has learned: representer report RUN"
        expected = f"one of {' or '.join(others)}, since that is what `{command}` is for"
        raise KindError("the run", f"one of {TASKS[task].noun}", expected, hint=hint)
    return TASKS[task]
