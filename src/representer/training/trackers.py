"""The metrics of a run in TensorBoard or MLflow, by the trackers of Accelerate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from representer.errors import ArgumentError


class Tracker:
    """A run of an experiment tracker; of several processes, only the first writes.

    Args:
        name: ``"tensorboard"``, which writes to the folder `name` of the run folder, or
            ``"mlflow"``, which writes to the store that ``MLFLOW_TRACKING_URI`` names, as a run of
            the experiment ``representer``, within a run that is active already.
        folder: The run folder, after which MLflow's run is named.

    Raises:
        ArgumentError: It cannot be started; the message has its reason.
    """

    def __init__(self, name: str, folder: Path) -> None:
        from accelerate.tracking import MLflowTracker, TensorBoardTracker

        title = folder.resolve().name
        self._tracker: Any = (
            TensorBoardTracker(name, str(folder))
            if name == "tensorboard"
            else MLflowTracker("representer", run_name=title, nested_run=True)
        )
        try:
            self._tracker.start()
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ArgumentError("log_with", name, "a tracker that starts", hint=reason) from error

    def log(self, row: dict[str, Any]) -> None:
        """Add the finite metrics of an evaluation at its step."""
        numbers = {key: value for key, value in row.items() if value is not None and key != "step"}
        self._tracker.log(numbers, step=row["step"])

    def close(self) -> None:
        """End the run."""
        self._tracker.finish()
