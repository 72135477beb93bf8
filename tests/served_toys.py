"""Models that a server can load in another process, without training one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from representer.errors import DataError
from representer.serving import Limits


class Toy:
    """Answers numbers with their double; some words do harm."""

    task = "toy"
    limits = Limits()
    takes_objects_of_several_requests = True

    def describe(self) -> dict[str, Any]:
        """Return the process that answers."""
        return {"task": self.task, "process": os.getpid()}

    def read(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs."""
        return list(inputs)

    def check_size(self, name: str, one: Any) -> None:
        """Accept every object."""

    def predict(self, objects: Sequence[Any]) -> list[Any]:
        """Return twice each number; "hang" never returns, "end" ends the process."""
        if "hang" in objects:
            threading.Event().wait()
        if "end" in objects:
            os._exit(7)
        if "wrong" in objects:
            raise DataError(f"X[{objects.index('wrong')}] is wrong")
        return [2 * one for one in objects]

    def explain(self, objects: Sequence[Any], top: int) -> list[Any]:
        """Return the row of each object."""
        return [{"row": k + 1} for k, _ in enumerate(objects)]

    def stream(self) -> Callable[[Any], Any]:
        """Return a stream that sums its parts."""
        parts: list[Any] = []
        return lambda part: (parts.append(part), {"sum": sum(parts)})[1]


def broken() -> Any:
    """Refuse to load a model."""
    raise DataError("there is no model", file="runs/none")
