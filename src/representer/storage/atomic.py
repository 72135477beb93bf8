"""Atomic writes: a reader sees either the complete old file or the complete new one.

The protocol: create a temporary file in the same folder, write, fsync, rename, fsync the folder. A
crash before the rename leaves the old file and possibly a temporary one, which `remove_leftovers`
identifies by its name. The name is random, so that nobody can plant a link under it. Each stage is
a failpoint named ``SUFFIX.STAGE``, for example ``ckpt.synced``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import signal
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from representer.errors import MissingExtraError, RunFolderError, StorageError
from representer.machine import (
    BINARY,
    CLOSED_ON_EXEC,
    IS_WINDOWS,
    NO_FOLLOW,
    NON_BLOCK,
    read_at,
    windows_refuses,
)

if TYPE_CHECKING:
    from filelock import BaseFileLock

# Failpoints: named places where a test can make the process fail. No-ops unless armed.
#
# ``REPRESENTER_FAILPOINT=name[:ordinal]:action`` arms one place. The action happens when the place
# is reached for the ordinal-th time (the first, if left out) in this process:
#
#     kill    the process ends at once, as by SIGKILL: nothing is cleaned up
#     raise   a RuntimeError
#     enospc  the OSError of a full disk
#     eio     the OSError of a faulty disk

VARIABLE = "REPRESENTER_FAILPOINT"

_visits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Fail here if the environment arms this failpoint.

    Raises:
        OSError: For the actions ``enospc`` and ``eio``.
        RuntimeError: For the action ``raise``.
    """
    armed = os.environ.get(VARIABLE)
    if armed is None:
        return
    armed_name, *ordinal, action = armed.split(":")
    if armed_name != name:
        return
    _visits[name] += 1
    if _visits[name] == int(ordinal[0] if ordinal else 1):
        _fail(name, action)


def reset() -> None:
    """Reset the counts of all failpoints."""
    _visits.clear()


def _fail(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action in ("enospc", "eio"):
        code = getattr(errno, action.upper())
        raise OSError(code, os.strerror(code))
    raise RuntimeError(f"failpoint {name}")


_TEMPORARY = re.compile(r"\.representer-[0-9a-f]{16}\.tmp")
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)  # some file systems cannot sync a folder


def write_bytes(path: str | Path, *chunks: bytes) -> None:
    """Write a file, or leave it as it was; see `write_chunks`."""
    write_chunks(path, chunks)


def write_chunks(path: str | Path, chunks: Iterable[bytes]) -> None:
    """Write a file, or leave it as it was; every file that the library writes is written here.

    The pieces of the content may be computed while it is written.
    """
    path = Path(path)
    temporary = path.with_name(f".representer-{secrets.token_hex(8)}.tmp")
    stage = path.suffix.removeprefix(".")
    try:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
        if name := windows_refuses(path):
            raise OSError(errno.EINVAL, f"{name!r} is not a name that Windows takes")
        try:
            _write_and_sync(temporary, chunks, stage)
            failpoint(f"{stage}.synced")
            temporary.replace(path)
        except BaseException:  # even a second Ctrl-C must not leave the temporary file
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        failpoint(f"{stage}.replaced")
        sync_folder(path.parent)
        failpoint(f"{stage}.recorded")
    except OSError as error:
        raise StorageError(path, error) from error


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically, see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def append(path: str | Path, data: bytes) -> None:
    """Append to a file, or leave it as it was unless the process is killed."""
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | CLOSED_ON_EXEC | NO_FOLLOW | BINARY
        with open(os.open(path, flags, 0o666), "ab", buffering=0) as file:  # noqa: PTH123
            size = os.fstat(file.fileno()).st_size
            try:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        raise StorageError(path, error) from error


def write_json(path: str | Path, value: Any) -> None:
    """Write a JSON file atomically, indented, see `write_bytes`."""
    write_text(path, as_json(value))


def as_json(value: Any) -> str:
    """Return a value as the text of a JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file atomically, see `write_bytes`.

    Tensors that share memory are written separately. With more than one entry of metadata, equal
    content no longer gives equal bytes, because safetensors writes them in no fixed order.
    """
    write_bytes(path, as_safetensors(tensors, metadata))


def as_safetensors(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Return the content of a safetensors file, see `write_tensors`."""
    import safetensors.torch

    return safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()},
        metadata=dict(metadata) if metadata else None,
    )


def remove_leftovers(folder: str | Path, report: Callable[[str], None]) -> None:
    """Delete the temporary files that a killed process left in a folder.

    Only the holder of the folder's lock may call this.
    """
    for leftover in sorted(Path(folder).glob(".representer-*.tmp")):
        if not _TEMPORARY.fullmatch(leftover.name):
            continue
        try:
            leftover.unlink(missing_ok=True)
        except OSError as error:
            report(f"{leftover} is left over and cannot be deleted: {error.strerror}")


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder durable against power loss, where folders can be opened."""
    if IS_WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def _write_and_sync(path: Path, chunks: Iterable[bytes], stage: str) -> None:
    with path.open("xb") as file:  # "x": never follow a link or overwrite a file
        failpoint(f"{stage}.opened")
        for chunk in chunks:
            file.write(chunk)
            file.flush()
            failpoint(f"{stage}.begun")
        failpoint(f"{stage}.written")
        os.fsync(file.fileno())


# The lock of a run folder: held by one process, released by the kernel when it ends.

LOCK = ".lock"
_CONTENT = re.compile(rb"\d{0,20}\n?")  # ID of the process that holds the lock
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # of some network file systems


def refuse_names(folder: Path) -> None:
    """Refuse a folder whose name is that of a device, on Windows."""
    if name := windows_refuses(folder):
        raise RunFolderError(
            f"{name!r} in {folder} is not a name that Windows takes. Choose another --out."
        )


def lock(folder: Path) -> BaseFileLock:
    """Create a folder and lock it, until the lock is released or no longer referenced.

    The lock file is opened without following links, and changed only if it is empty or was written
    by this library.
    """
    try:
        from filelock import FileLock, Timeout
    except ImportError as error:
        raise MissingExtraError("a run folder", "filelock", "train") from error
    refuse_names(folder)

    def sign(descriptor: int) -> None:
        if not _is_own(descriptor):
            raise _not_ours(folder)
        os.truncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid()}\n".encode())

    holder = ""
    try:
        held = FileLock(folder / LOCK, thread_local=False, on_acquired=sign)
        for _ in range(20):  # a holder may be about to write its ID, or to remove folder and lock
            try:
                held.acquire(blocking=False)
                return held
            except Timeout:
                if holder := _read_holder(folder / LOCK):
                    break
            time.sleep(0.01)
    except (FileExistsError, NotADirectoryError) as error:
        path = folder if isinstance(error, FileExistsError) else folder.parent
        raise RunFolderError(f"{path} is a file; expected a folder for the run.") from error
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _not_ours(folder) from None
        problem = f"cannot be {'locked' if number in _NO_LOCKS else 'used'}: {reason_of(error)}"
        raise RunFolderError(f"{folder} {problem}. Choose another --out.") from error
    user = holder or "another process"
    raise RunFolderError(f"{folder} is in use by {user}; choose another --out")


def is_own_lock(path: Path) -> bool:
    """Return True if a path is a lock file of this library."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW | NON_BLOCK | CLOSED_ON_EXEC)
    except OSError:
        return False
    try:
        return _is_own(descriptor)
    finally:
        os.close(descriptor)


def reason_of(error: Exception) -> str:
    """Return the system's error message in lower case."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def _is_own(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink <= 1 and status.st_size <= 21
    return is_plain and _CONTENT.fullmatch(read_at(descriptor, 32, 0)) is not None


def _not_ours(folder: Path) -> RunFolderError:
    return RunFolderError(f"{folder / LOCK} is not the lock of a run. Choose another --out.")


def _read_holder(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        return f"process {int(file.read(32))}"
    return ""


# Determine which process of a distributed training run writes the files.

PATIENCE = timedelta(seconds=120)  # with torch's 30 minutes, a dead process goes unnoticed
_LAUNCHED = ("LOCAL_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")


def is_main_process() -> bool:
    """Return True if this process writes the files.

    Accelerate decides, as in `training.workers.accelerator_for`: a stale ``RANK`` in the
    environment alone does not imply a process group. A process not started by a launcher is the
    main one and does not need Accelerate.
    """
    if not any(name in os.environ for name in _LAUNCHED):
        return True
    try:
        from accelerate import PartialState
        from accelerate.utils import parse_flag_from_env
    except ImportError as error:
        raise MissingExtraError("training in several processes", "accelerate", "train") from error
    state = PartialState(cpu=bool(parse_flag_from_env("ACCELERATE_USE_CPU")), timeout=PATIENCE)
    return state.is_main_process
