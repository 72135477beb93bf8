"""The folder of a run: locked while a process writes to it, and written to in whole files only."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from representer.errors import ArgumentError, RunFolderError, StorageError
from representer.tasks.storage import atomic
from representer.tasks.training.progress import say

LOCK = ".lock"
CHECKPOINTS = "checkpoints"
_TRACES = ("config.yaml", "metrics.jsonl", "metrics.json", "model.safetensors", CHECKPOINTS)


class RunFolder:
    """A folder that this process alone writes to, until `close` or the end of the process.

    It and its parents are made when missing. The lock is the kernel's (``flock``), so a killed
    process never leaves it behind. Used as a context manager, a folder that was made here and into
    which nothing was written is removed again.

    Where several processes train one model (torchrun), the first alone locks and writes; in the
    others the write methods do nothing.

    Args:
        path: The folder.
        resume: Whether the folder may hold a run already, which will be continued.
        report: Is told of what is worth knowing and no reason to stop.

    Attributes:
        is_writer: Whether this process is the one that writes.

    Raises:
        ArgumentError: The folder holds a run, and `resume` is not set.
        RunFolderError: It is in use by another process, cannot be made, or is no folder.
        StorageError: Something cannot be written in it.
    """

    def __init__(
        self, path: str | Path, *, resume: bool = False, report: Callable[[str], None] = say
    ) -> None:
        self.path = Path(path)
        self.resume = resume
        self.report = report
        self.is_writer = os.environ.get("RANK", "0") == "0"
        self._lock: int | None = None
        if not self.is_writer:
            return
        self._is_new = not os.path.exists(self.path)  # noqa: PTH110  (raises for no path)
        self._lock = _lock(self.path)
        try:
            self._prepare(resume)
        except BaseException:
            self.close()
            raise

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie; made when first asked for."""
        folder = self.path / CHECKPOINTS
        try:
            if self.is_writer:
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{folder} cannot be made: {_reason(error)}.") from error
        return folder

    def write_bytes(self, name: str, *chunks: bytes) -> Path:
        """Write a file of the folder, whole or not at all, and return its path."""
        if self.is_writer:
            atomic.write_bytes(self.path / name, *chunks)
        return self.path / name

    def write_text(self, name: str, text: str) -> Path:
        """Write a UTF-8 text file of the folder, whole or not at all."""
        return self.write_bytes(name, text.encode("utf-8"))

    def write_json(self, name: str, value: Any) -> Path:
        """Write a JSON file of the folder, whole or not at all."""
        if self.is_writer:
            atomic.write_json(self.path / name, value)
        return self.path / name

    def write_tensors(
        self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
    ) -> Path:
        """Write a safetensors file of the folder, whole or not at all."""
        if self.is_writer:
            atomic.write_tensors(self.path / name, tensors, metadata)
        return self.path / name

    def remove(self, name: str) -> None:
        """Delete a file of the folder, if it is there."""
        if self.is_writer:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(self.path / name, error) from error

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            if self._is_new:
                self._remove_if_empty()
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self, resume: bool) -> None:
        traces = [name for name in _TRACES if (self.path / name).exists()]
        if traces and not resume:
            raise ArgumentError(
                "out",
                str(self.path),
                f"a folder without a run (this one has {traces[0]})",
                hint="Continue that run with --resume, or choose another --out.",
            )
        for folder in (self.path, self.path / CHECKPOINTS):
            atomic.remove_leftovers(folder, self.report)

    def _remove_if_empty(self) -> None:
        with contextlib.suppress(OSError):  # to leave an empty folder behind does no harm
            if [entry.name for entry in self.path.iterdir()] == [LOCK]:
                (self.path / LOCK).unlink()
                self.path.rmdir()


def _lock(folder: Path) -> int:
    """Make the folder, lock it, and return the descriptor that holds the lock."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except (FileExistsError, NotADirectoryError) as error:
            place = folder if isinstance(error, FileExistsError) else folder.parent
            raise RunFolderError(f"{place} is a file; expected a folder for the run.") from error
        except (OSError, ValueError) as error:
            mend = "Choose another --out."
            raise RunFolderError(f"{folder} cannot be used: {_reason(error)}. {mend}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            raise _refusal(folder, error, holder) from error
        if _is_still_there(descriptor, folder / LOCK):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
        os.close(descriptor)  # the holder before removed folder and lock: start over


def _refusal(folder: Path, error: OSError, holder: str) -> RunFolderError:
    if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
        return RunFolderError(f"{folder} is in use by {holder}; choose another --out")
    return RunFolderError(f"{folder} cannot be locked: {_reason(error)}. Choose another --out.")


def _read_holder(descriptor: int) -> str:
    for _ in range(20):  # the holder writes its number just after it has the lock
        text = os.pread(descriptor, 32, 0).strip()
        if text.isdigit():
            return f"process {int(text)}"
        time.sleep(0.01)
    return "another process"


def _is_still_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
