"""Long work in a folder: what is finished is kept line by line, and the rest runs by joblib."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from representer.errors import (
    ArgumentError,
    DataError,
    Interrupted,
    RepresenterError,
    TrainingError,
    say,
)
from representer.jobs import Finished, Unit, Value
from representer.storage import atomic
from representer.storage.atomic import parse_json, read_bytes, reason_of
from representer.training.config import plain, require_same
from representer.training.generators import keep_freed_memory
from representer.training.interruption import Interruption, Stopped

_MOST_SETTINGS = 2**26  # bytes
_POLL = 0.2  # seconds between looks at a signal, and at the process that started a worker


class WorkList(Finished[Unit, Value]):
    """The finished units of some work, in a JSON Lines file, with the settings that determine them.

    Other settings are refused, unless nothing was begun with those before. Only the holder of the
    folder's lock may open one, see `Finished`.

    Args:
        folder: The folder.
        names: Of the files of the settings and of the results.
        settings: Everything that determines the results, but the units themselves.
        line: From a unit and its value to a line, a mapping of plain values.
        entry: The reverse; it may raise any error of a damaged line.
    """

    def __init__(
        self, folder: Path, names: tuple[str, str], settings: Mapping[str, Any],
        line: Callable[[Unit, Value], Mapping[str, Any]],
        entry: Callable[[dict[str, Any]], tuple[Unit, Value]],
    ) -> None:  # fmt: skip
        path, results = (folder / name for name in names)
        self.folder, chosen = folder, plain(settings)
        atomic.remove_leftovers(folder, say)
        before = None
        if path.exists():
            try:
                before = parse_json(read_bytes(path, _MOST_SETTINGS))
                if not isinstance(before, dict):
                    raise ValueError("it is no object")
            except (OSError, ValueError) as error:
                problem, fix = f"cannot be used: {reason_of(error)}", "Choose another --out."
                raise DataError(problem, file=path, fix=fix) from None
            # of a command that failed before it finished anything, only the settings are left
            if any(file.name != path.name and file.name[0] != "." for file in folder.iterdir()):
                require_same(before, chosen, folder)
        if before != chosen:  # new, or with more epochs
            atomic.write_json(path, chosen)
        super().__init__(results, line, entry)

    def run(
        self, function: Callable[..., Value], units: Collection[Unit],
        arguments: Callable[[Unit], tuple[Any, ...]], jobs: int,
    ) -> Iterator[tuple[Unit, Value | TrainingError]]:  # fmt: skip
        """Run units, and keep and yield each value when it comes, or the error of its training.

        The value of a unit is that of ``function`` for its ``arguments``; one job is this process.

        Raises:
            Interrupted: A signal arrived, and every process has saved what it can.
            TrainingError: A process was killed.
            RepresenterError: Another error of a unit.
        """
        for unit, outcome in outcomes(function, units, arguments, jobs):
            if isinstance(outcome, TrainingError):
                yield unit, outcome
            elif isinstance(outcome, RepresenterError):
                raise outcome
            else:
                self.add(unit, outcome)
                yield unit, outcome


@contextmanager
def locked(folder: Path, settings: str, what: str, option: str = "out") -> Iterator[None]:
    """Lock the folder of a work list, which has no other files than those of one.

    ``settings`` is the file that a folder with such work has; ``what`` and ``option`` name work and
    folder in messages.

    Raises:
        RunFolderError: Another process writes into it.
    """
    others = (
        {file.name for file in folder.iterdir() if file.name[0] != "."} if folder.is_dir() else ()
    )
    if others and not (folder / settings).exists():
        expected = f"a new folder, or that of {what}"
        raise ArgumentError(option, str(folder), expected, hint=f"Choose another --{option}.")
    held = atomic.lock(folder)
    try:
        yield
    finally:
        held.release()


# Processes: each runs units until the list is empty, and saves what it can when a signal arrives.


def outcomes(
    function: Callable[..., Value], units: Collection[Unit],
    arguments: Callable[[Unit], tuple[Any, ...]], jobs: int,
) -> Iterator[tuple[Unit, Value | RepresenterError]]:  # fmt: skip
    """Yield units with their value, or their error, in the order in which they end.

    A signal, or the end of the iteration, reaches the worker processes, too; their trainings save
    their state, and what has ended by then is yielded before `Interrupted` is raised. Workers end
    with this process, so that no training holds a folder that a new call continues.
    """
    from joblib import Parallel, delayed

    jobs, token = max(1, min(jobs, len(units))), os.urandom(8).hex()
    ended: Any = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_attempt)(function, unit, arguments(unit), (os.getpid(), token)) for unit in units
    )
    if jobs == 1:
        yield from ended
        return
    is_leaving, is_over = threading.Event(), threading.Event()
    with Interruption() as interruption:
        ending = (lambda: bool(interruption) or is_leaving.is_set()), is_over
        threading.Thread(target=_end_workers, args=ending, daemon=True).start()
        try:
            for unit, outcome in ended:
                if not (interruption and isinstance(outcome, Interrupted)):
                    yield unit, outcome
        except BrokenProcessPool:
            if not interruption:
                problem = "a process was killed, possibly for lack of memory"
                raise TrainingError(f"{problem}. Continue with fewer --jobs.") from None
        finally:
            is_leaving.set()
            with suppress(BrokenProcessPool):
                for _ in ended:  # until all have saved their state
                    pass
            is_over.set()
    if interruption:
        kept = "what is finished is kept, and the trainings are saved"
        message = f"{interruption.name} received; {kept}. Continue with --resume."
        raise Interrupted(message, interruption.exit_code)


def _end_workers(is_ending: Callable[[], bool], is_over: threading.Event) -> None:
    """Send SIGTERM to the workers; again and again, as one may begin another unit meanwhile."""
    while not is_over.wait(_POLL):
        for worker in active_children() if is_ending() else ():
            if worker.pid is not None and worker.name.startswith("LokyProcess"):
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)


class _Worker:
    """The state of a worker process."""

    parent = 0
    token = ""  # of the list whose units it runs
    stopped = ""  # that of a list that has been stopped
    is_running = False


def _attempt(
    function: Callable[..., Value], unit: Unit, arguments: tuple[Any, ...], call: tuple[int, str]
) -> tuple[Unit, Value | RepresenterError]:
    parent, token = call
    if os.getppid() == parent:  # else this is the process itself, or one of another machine
        _prepare(parent, token)
    try:
        _Worker.is_running = True
        if _Worker.stopped == token:
            raise Stopped(signal.SIGTERM)
        return unit, function(*arguments)
    except Stopped as stopped:
        return unit, Interrupted(str(stopped), stopped.exit_code)
    except RepresenterError as error:
        return unit, error
    finally:
        _Worker.is_running = False


def _prepare(parent: int, token: str) -> None:
    """Prepare a worker: signals reach it from its parent alone, with which it ends."""
    _Worker.token = token
    if _Worker.parent == parent:
        return
    _Worker.parent = parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches all processes
    signal.signal(signal.SIGTERM, _stop)  # a training has its own handler
    keep_freed_memory()
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _stop(number: int, frame: Any) -> None:
    _Worker.stopped = _Worker.token
    if _Worker.is_running:
        raise Stopped(number)


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL)
    os._exit(1)
