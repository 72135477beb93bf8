"""The tasks that the command line, the report and the documentation know. Free of torch."""

from __future__ import annotations

from representer.errors import KindError
from representer.installed import installed
from representer.tasks.graph_options import GRAPH
from representer.tasks.language_options import LANGUAGE
from representer.tasks.molecule_options import MOLECULE
from representer.tasks.options import Task
from representer.tasks.sequence_options import SEQUENCE
from representer.tasks.series_options import SERIES
from representer.tasks.signal_options import SIGNAL
from representer.tasks.text_options import TEXT

_OWN = (TEXT, LANGUAGE, MOLECULE, GRAPH, SIGNAL, SERIES, SEQUENCE)
TASKS: dict[str, Task] = {task.name: task for task in (*_OWN, *installed("tasks").values())}


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
