"""The lock of a run folder: held by one process, released by the kernel when it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from pathlib import Path

from representer.errors import RunFolderError

LOCK = ".lock"
_CONTENT = re.compile(rb"\d{0,20}\n?")  # ID of the process that holds the lock


def lock(folder: Path) -> int:
    """Create a folder, lock it, and return the descriptor that holds the lock.

    The lock file is opened without following links, and changed only if it is empty or was written
    by this library.

    Raises:
        RunFolderError: The folder is in use, cannot be created, or has a foreign ``.lock``.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(folder / LOCK, flags, 0o666)
        except (FileExistsError, NotADirectoryError) as error:
            place = folder if isinstance(error, FileExistsError) else folder.parent
            raise RunFolderError(f"{place} is a file; expected a folder for the run.") from error
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise _not_ours(folder) from None
            reason = reason_of(error)
            raise RunFolderError(
                f"{folder} cannot be used: {reason}. Choose another --out."
            ) from error
        try:
            _require_own_file(descriptor, folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_there(descriptor, folder / LOCK):
                os.truncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                return descriptor
        except OSError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            raise _refusal(folder, error, holder) from error
        except RunFolderError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed folder and lock: start over


def is_own_lock(path: Path) -> bool:
    """Return True if a path is a lock file of this library."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
    return is_plain and _CONTENT.fullmatch(os.pread(descriptor, 32, 0)) is not None


def _require_own_file(descriptor: int, folder: Path) -> None:
    if not _is_own(descriptor):
        raise _not_ours(folder)


def _not_ours(folder: Path) -> RunFolderError:
    return RunFolderError(f"{folder / LOCK} is not the lock of a run. Choose another --out.")


def _refusal(folder: Path, error: OSError, holder: str) -> RunFolderError:
    if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
        return RunFolderError(f"{folder} is in use by {holder}; choose another --out")
    return RunFolderError(f"{folder} cannot be locked: {reason_of(error)}. Choose another --out.")


def _read_holder(descriptor: int) -> str:
    for _ in range(20):  # the holder writes its process ID just after locking
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
