"""Long work: independent jobs on the backends of joblib, and the record of those that are finished.

The workers are processes here, or Dask and Ray clusters.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast

import joblib
import torch
from threadpoolctl import threadpool_limits

from representer.errors import DataError, MissingExtraError, StorageError, reason, say
from representer.storage import atomic
from representer.storage.atomic import parse_json, physical_memory, read_bytes

# Jobs, each on one thread, on workers.

Backend = Literal["loky", "dask", "ray"]
Place = TypeVar("Place", bound=Hashable)
Value = TypeVar("Value")
ATTEMPTS = 3  # in succession without a finished job
_QUEUE = 16  # results per worker that may wait for the caller, which bounds the memory
_ONE: Any = 1  # job per task; joblib declares a string
_lock = threading.Lock()
_running: list[int] = []  # torch's number of threads before each job that this process runs
_limits: threadpool_limits


def completed(
    function: Callable[..., Value], places: Iterable[Place],
    select: Callable[[Place], tuple[Any, ...]], n_jobs: int | None, noun: str = "jobs",
) -> Iterator[tuple[Place, Value]]:  # fmt: skip
    """Yield the results of jobs in the order in which they are finished.

    The backend is that of ``joblib.parallel_config``. Each job runs on one thread, so its bits do
    not depend on the number of threads, processes and machines. The jobs that are missing after the
    loss of a worker are given to new workers, so a job may run more than once. ``select`` returns
    the arguments of the function for a place; ``noun`` is what jobs are called where workers are
    started again.

    Raises:
        Exception: An error of `function`, or of the backend after `ATTEMPTS` attempts.
    """
    waiting, attempt = dict.fromkeys(places), 0
    while waiting:
        failure: Exception | None = None
        try:
            for name, value in _run(function, list(waiting), select, n_jobs):
                if isinstance(value, Exception):
                    failure = value
                    break
                yield name, value
                del waiting[name]
                attempt = 0
        except Exception as error:  # of the backend: errors of the function are returned
            attempt += 1
            if attempt == ATTEMPTS:
                raise
            lost = reason(error) if str(error) else type(error).__name__
            say(f"workers are started again for {len(waiting)} {noun} ({lost})")
        if failure is not None:
            raise failure


@contextmanager
def workers(backend: Backend, n_jobs: int, address: str | None = None) -> Iterator[None]:
    """Let joblib use workers within a block.

    These are processes of this machine, or a Dask or Ray cluster. An address is that of a Dask
    scheduler, ``"HOST:8786"``, or of a Ray cluster, ``"auto"`` on one of its machines; without one,
    ``n_jobs`` workers are started.
    """
    if backend == "loky":
        with joblib.parallel_config("loky", n_jobs=n_jobs):
            yield
    elif backend == "dask":
        try:
            from dask.distributed import Client, LocalCluster  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtraError("a Dask cluster", "dask", "cluster") from error
        if address is not None:
            with Client(address), joblib.parallel_config("dask"):
                yield
            return
        cluster = LocalCluster(n_workers=n_jobs, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster) as client, joblib.parallel_config("dask"):
            client.wait_for_workers(n_jobs)  # without them, joblib would use this process alone
            yield
    else:
        try:
            import ray  # pyright: ignore[reportMissingImports]
            from ray.util.joblib import register_ray  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtraError("a Ray cluster", "ray", "cluster") from error
        local = {"num_cpus": n_jobs, "include_dashboard": False} if address is None else {}
        ray.init(address=address, log_to_driver=False, **local)
        try:
            register_ray()
            with joblib.parallel_config("ray", n_jobs=-1 if address else n_jobs):
                yield
        finally:
            ray.shutdown()


def _run(
    function: Callable[..., Value], places: list[Place], select: Callable[[Place], tuple[Any, ...]],
    n_jobs: int | None,
) -> Iterator[tuple[Place, Value | Exception]]:  # fmt: skip
    backend, _ = joblib.parallel.get_active_backend()
    can_stream = getattr(backend, "supports_return_generator", False)  # Ray's cannot
    return_as = "generator_unordered" if can_stream else "list"
    with joblib.Parallel(n_jobs=n_jobs, return_as=return_as, batch_size=_ONE) as parallel:
        size = _QUEUE * max(1, cast(int, parallel._effective_n_jobs()))
        rest = iter(places)
        while some := list(islice(rest, size)):
            tasks = (joblib.delayed(attempted)(function, name, *select(name)) for name in some)
            yield from cast(Iterator[Any], parallel(tasks))


def attempted(
    function: Callable[..., Value], place: Place, *arguments: Any
) -> tuple[Place, Value | Exception]:
    """Return the name of a job with its result, or with the error of the function."""
    try:
        with _one_thread():
            return place, function(*arguments)
    except Exception as error:
        return place, error


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit this process to one thread for each job that one of its threads runs."""
    global _limits
    with _lock:
        if not _running:
            _limits = threadpool_limits(1)  # of NumPy's products
        _running.append(_running[0] if _running else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            before = _running.pop()
            if not _running:
                torch.set_num_threads(before)
                _limits.restore_original_limits()


# The one record of long work: what is finished is kept line by line.

Unit = TypeVar("Unit", bound=Hashable)


class Finished(Generic[Unit, Value]):
    """The values of finished units, in a JSON Lines file.

    A unit is on the disk before it counts, and a line that a kill has cut off or that is damaged
    costs its own unit alone. Only the holder of a lock may open one; the file is never replaced, so
    that it may be the one that is locked.

    Args:
        path: The file.
        line: From a unit and its value to a line of plain values.
        entry: The reverse; it may raise any error of a damaged line.

    Raises:
        DataError: The file cannot be read.
    """

    def __init__(
        self, path: Path, line: Callable[[Unit, Value], Any],
        entry: Callable[[Any], tuple[Unit, Value]],
    ) -> None:  # fmt: skip
        self._path, self._line = path, line
        self.finished, size = finished(path, entry)
        try:
            if size is not None:
                os.truncate(path, size)  # a new line must not continue one that was cut off
        except OSError as error:
            raise StorageError(path, error) from error

    def add(self, unit: Unit, value: Value) -> None:
        """Append the value of a unit."""
        line = json.dumps(self._line(unit, value), allow_nan=False)
        atomic.append(self._path, f"{line}\n".encode())
        self.finished[unit] = value  # on a full disk it is not


def finished(
    path: Path, entry: Callable[[Any], tuple[Unit, Value]]
) -> tuple[dict[Unit, Value], int | None]:
    """Return the values of a file by their units, and the size of its complete lines, if any."""
    try:
        content = read_bytes(path, physical_memory())
    except FileNotFoundError:
        return {}, None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    size = content.rfind(b"\n") + 1

    def parsed(line: bytes) -> tuple[Unit, Value] | None:
        try:
            return entry(parse_json(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    return dict(filter(None, map(parsed, content[:size].split(b"\n")[:-1]))), size
