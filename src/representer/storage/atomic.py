"""Files that are written whole or not at all, and read without trust in what they hold.

A reader sees either the complete old file or the complete new one.

The protocol: create a temporary file in the same folder, write, fsync, rename, fsync the folder. A
crash before the rename leaves the old file and possibly a temporary one, which `remove_leftovers`
identifies by its name. The name is random, so that nobody can plant a link under it. Each stage is
a failpoint named ``SUFFIX.STAGE``, for example ``ckpt.synced``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import signal
import stat
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from representer.checks import LARGEST_INTEGER, LIMITS
from representer.errors import (
    DataError,
    MissingExtraError,
    RepresenterError,
    RunFolderError,
    StorageError,
)
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
    from _typeshed import DataclassInstance
    from filelock import BaseFileLock
    from torch import Tensor

    Kind = TypeVar("Kind", bound=DataclassInstance)

# Read untrusted files: regular files only, with bounded size and nesting.
#
# A run folder can come from an untrusted source. Named pipes and devices block or never end,
# symbolic links point out of the folder, sparse files declare terabytes, and deeply nested text
# overflows the stack. Every reader of a run folder uses this module, which refuses all of these
# before reading or parsing.

MAX_DEPTH = 64  # of JSON and YAML; files of this library have fewer than 12 levels
MAX_YAML = 2**17  # characters; PyYAML is written in Python and reads 100,000 in a second
_CHUNK = 2**20  # bytes whose depth is computed at once


@contextmanager
def opened(path: str | Path, most: int, *, follow_links: bool = False) -> Iterator[tuple[int, int]]:
    """Open a regular file for reading and yield its descriptor and its size.

    ``follow_links`` accepts a symbolic link as the last component, as for a path given by the user.
    """
    flags = os.O_RDONLY | NON_BLOCK | CLOSED_ON_EXEC | BINARY  # a pipe must not block
    flags |= 0 if follow_links else NO_FOLLOW
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise OSError(errno.EINVAL, "it is not a regular file", str(path)) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if status.st_size > most:
            problem = f"it has {status.st_size:,} bytes; at most {most:,} are read"
            raise OSError(errno.EFBIG, problem, str(path))
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def read_bytes(path: str | Path, most: int, *, follow_links: bool = False) -> bytes:
    """Return the content of a regular file of at most `most` bytes, see `opened`."""
    with opened(path, most, follow_links=follow_links) as (descriptor, size):
        return read_exactly(descriptor, size, path)


def read_exactly(descriptor: int, size: int, path: str | Path) -> bytes:
    """Return the next `size` bytes of a file."""
    chunks = []
    while size:
        chunk = os.read(descriptor, min(size, 2**30))
        if not chunk:
            raise OSError(errno.EIO, "it became shorter while it was read", str(path))
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


ASSUMED_MEMORY = 4 * 2**30  # where the system does not tell, as on Windows


def physical_memory() -> int:
    """Return the memory of this machine in bytes, an upper bound for readable files."""
    if not hasattr(os, "sysconf"):
        return ASSUMED_MEMORY
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def parse_json(data: bytes | str, *, max_depth: int = MAX_DEPTH, **hooks: Any) -> Any:
    """Return the value of a JSON text."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    require_shallow(data, max_depth)
    try:
        return json.loads(text, parse_constant=_refuse_constant, **hooks)
    except RecursionError:  # the caller's own stack is nearly full
        raise ValueError("it is nested too deeply") from None


def require_shallow(data: bytes | str, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a JSON text that is nested too deeply, in linear time and without parsing it."""
    opening = ("[", "{") if isinstance(data, str) else (b"[", b"{")
    if sum(map(data.count, opening)) <= max_depth:  # type: ignore[arg-type]
        return
    import numpy as np  # only here, since `--help` reads no file

    steps = np.zeros(256, np.int8)  # of the depth at a byte
    steps[list(b"[{")], steps[list(b"]}")] = 1, -1
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    # without the escaped characters, every quote begins or ends a string
    codes = np.frombuffer(data.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    depth, is_inside = np.int64(0), np.uint8(0)
    for start in range(0, len(codes), _CHUNK):
        chunk = codes[start : start + _CHUNK]
        inside = np.bitwise_xor.accumulate((chunk == ord('"')).view(np.uint8)) ^ is_inside
        depths = depth + np.cumsum(np.where(inside, 0, steps[chunk]), dtype=np.int64)
        if depths.max() > max_depth:
            raise ValueError(f"it is nested more than {max_depth} levels deep")
        depth, is_inside = depths[-1], inside[-1]


def parse_yaml(text: str, *, file: str | Path | None = None) -> tuple[Any, dict[str, str]]:
    """Return the value of a YAML text, and the entries of its mapping as they are written."""
    import yaml

    line = None
    try:
        _require_plain_yaml(text)
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        value = None if root is None else loader.construct_document(root)
        repr(value)  # raises for an integer of thousands of digits
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        problem = getattr(error, "problem", None) or "it is not YAML"
    except ValueError as error:
        problem = str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # of PyYAML's constructors
        problem = "a value is not of its type"
    else:
        entries = root.value if isinstance(root, yaml.MappingNode) else []
        return value, {key.value: entry.value for key, entry in entries}
    raise DataError(problem, file=file, line=line, fix="Write it as KEY: VALUE.")


def _require_plain_yaml(text: str) -> None:
    """Refuse a YAML text that is too long or deep, or has an alias or a merge key."""
    import yaml

    if len(text) > MAX_YAML:
        raise ValueError(f"it has {len(text):,} characters; at most {MAX_YAML:,} are read")
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):  # iterative, unlike yaml.load
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has an alias; write the value out")
        if isinstance(event, yaml.ScalarEvent) and (
            (event.value == "<<" and event.implicit[0]) or str(event.tag).endswith(":merge")
        ):
            raise ValueError("it has a merge key; write the values out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


# Build a dataclass from the values of a file, checking every name, type and size.

_LONGEST_TEXT = 2**16
_LONGEST_LIST = 2**22
_NAMES = {int: "an integer", float: "a finite number", bool: "true or false", str: "a text"}


def from_values(kind: type[Kind], values: Any) -> Kind:
    """Return an instance of a dataclass from values read from JSON.

    Integers must be within `limits.LIMITS`, so that a file cannot request absurd sizes.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"it holds {_shown(values)}; expected an object")
    hints = _hints(kind)
    unknown = [name for name in values if name not in hints]
    if unknown:
        raise ValueError(f"unknown key {_shown(unknown[0])}")
    arguments = {}
    for field in fields(kind):
        if field.name in values:
            arguments[field.name] = _checked(hints[field.name], values[field.name], field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{field.name!r} is missing")
    try:
        return kind(**arguments)
    except (RepresenterError, TypeError, ValueError) as error:
        raise ValueError(str(error)) from None


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _checked(hint: Any, value: Any, name: str) -> Any:
    """Convert a value to its type hint: JSON lists become tuples, objects become dataclasses."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if is_dataclass(hint) and isinstance(hint, type):
        return from_values(hint, value)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, name)
    if origin is Literal:
        if isinstance(value, str | bool) and value in arguments:
            return value
        raise ValueError(f"{name} is {_shown(value)}; expected {' or '.join(map(repr, arguments))}")
    if origin is tuple:
        return _tuple(arguments, value, name)
    if origin is dict:
        if not isinstance(value, Mapping) or len(value) > _LONGEST_LIST:
            raise ValueError(f"{name} is {_shown(value)}; expected an object")
        key_hint, item_hint = arguments
        return {_key(key_hint, k, name): _checked(item_hint, v, name) for k, v in value.items()}
    return _plain(hint, value, name)


def _one_of(hints: tuple[Any, ...], value: Any, name: str) -> Any:
    problem = ValueError(f"{name} is {_shown(value)}")
    for hint in hints:
        if hint is type(None):
            if value is None:
                return None
            continue
        try:
            return _checked(hint, value, name)
        except ValueError as error:
            problem = error
    raise problem


def _tuple(hints: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) > _LONGEST_LIST:
        raise ValueError(f"{name} is {_shown(value)}; expected a list")
    if len(hints) == 2 and hints[1] is ...:
        return tuple(_checked(hints[0], item, name) for item in value)
    if len(value) != len(hints):
        raise ValueError(f"{name} has {len(value)} entries; expected {len(hints)}")
    return tuple(_checked(hint, item, name) for hint, item in zip(hints, value, strict=True))


def _key(hint: Any, key: Any, name: str) -> Any:
    if hint is int and isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 10:
        return int(key)  # JSON keys are strings
    return _plain(hint, key, name)


def _plain(hint: Any, value: Any, name: str) -> Any:
    expected = _NAMES[hint]
    if hint is float and type(value) in (int, float):
        if abs(value) <= LARGEST_INTEGER**2 and math.isfinite(value):
            return float(value)
    elif type(value) is hint:
        limit = LIMITS.get(name, LARGEST_INTEGER)
        if hint is int and not -LARGEST_INTEGER <= value <= limit:
            expected = f"an integer of at most {limit:,}"
        elif hint is str and len(value) > _LONGEST_TEXT:
            expected = f"a text of at most {_LONGEST_TEXT:,} characters"
        else:
            return value
    raise ValueError(f"{name} is {_shown(value)}; expected {expected}")


def _shown(value: Any) -> str:
    """Return a shortened value for a message."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else ""
    if isinstance(value, int) and not -(10**20) < value < 10**20:
        text = "a huge integer"
    text = text or {dict: "an object", list: "a list"}.get(type(value), type(value).__name__)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
