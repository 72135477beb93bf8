"""Objects of a run to look at, from data that the user names or from its demo."""

from __future__ import annotations

from representer.estimators.explanation import Example
from representer.storage.run_files import RunFiles
from representer.tasks.registry import task_of_run


def examples_of(run: str, data: str | None) -> list[Example]:
    """Return objects of the data of a run; of the training's data, those of the test part alone.

    Nothing leads from a run folder to another file: it may be somebody else's.

    Args:
        run: The run folder.
        data: Their path; None for those of the demo if the run is one, and no objects otherwise.

    Raises:
        DataError: They cannot be used.
    """
    task, files = task_of_run(run, "explain"), RunFiles(run)
    if "examples" not in task.functions or (data is None and not _is_demo(files)):
        return []
    return task.function("examples")(run, data)


def _is_demo(files: RunFiles) -> bool:
    # a run that was saved from Python has no configuration
    return files.has("config.yaml") and files.yaml("config.yaml").get("demo") is True
