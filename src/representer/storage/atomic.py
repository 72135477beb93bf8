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
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from representer.errors import StorageError
from representer.storage.failpoints import failpoint

_TEMPORARY = re.compile(r"\.representer-[0-9a-f]{16}\.tmp")
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)  # some file systems cannot sync a folder


def write_bytes(path: str | Path, *chunks: bytes) -> None:
    """Write a file, or leave it as it was; see `write_chunks`."""
    write_chunks(path, chunks)


def write_chunks(path: str | Path, chunks: Iterable[bytes]) -> None:
    """Write a file, or leave it as it was; every file that the library writes is written here.

    Args:
        path: The file, in an existing folder.
        chunks: Its content, in consecutive pieces, which may be computed while it is written.

    Raises:
        StorageError: The system refuses to write, or the path is a symbolic link, which may lead
            anywhere in a folder of someone else; an existing file is unchanged.
    """
    path = Path(path)
    temporary = path.with_name(f".representer-{secrets.token_hex(8)}.tmp")
    stage = path.suffix.removeprefix(".")
    try:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
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
    """Append to a file, or leave it as it was unless the process is killed.

    Raises:
        StorageError: The system refuses to write, or the path is a symbolic link.
    """
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
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

    Args:
        path: The file.
        tensors: By name, on any device; tensors that share memory are written separately.
        metadata: Short strings for the file's header. With more than one, equal content no longer
            gives equal bytes, because safetensors writes them in no fixed order.
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

    Args:
        folder: The folder, without its subfolders; it may be missing.
        report: Receives a message for each file that cannot be deleted.
    """
    for leftover in sorted(Path(folder).glob(".representer-*.tmp")):
        if not _TEMPORARY.fullmatch(leftover.name):
            continue
        try:
            leftover.unlink(missing_ok=True)
        except OSError as error:
            report(f"{leftover} is left over and cannot be deleted: {error.strerror}")


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder durable against power loss."""
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
