"""The folder of a run: written atomically by one writer, and read only as its manifest says."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from representer import __version__
from representer.errors import (
    ArgumentError,
    CheckpointError,
    DataError,
    RepresenterError,
    RunFolderError,
    StorageError,
    say,
)
from representer.storage import atomic
from representer.storage.atomic import (
    LOCK,
    from_values,
    is_main_process,
    is_own_lock,
    lock,
    parse_json,
    parse_yaml,
    physical_memory,
    read_bytes,
    reason_of,
    refuse_names,
    require_shallow,
)
from representer.storage.checkpoint import Forms, forms_of, read_tensors, require_same_forms

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from filelock import BaseFileLock

    Kind = TypeVar("Kind", bound=DataclassInstance)
    Model = TypeVar("Model", bound=nn.Module)
    Content = TypeVar("Content")


# The manifest of a run folder: a digest of every file that the run has written.
#
# ``manifest.json`` marks a folder as a run of this library. Digests are computed from the bytes in
# memory, never from the disk, so that any later damage is detected. The manifest protects against
# accidents only. It is not a signature: whoever can change a file can also change the manifest.

MANIFEST = "manifest.json"
FORMAT = "representer run 1"
_MOST_OF_MANIFEST = 2**20
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """Size and SHA-256 of a file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, chunks: Iterable[bytes]) -> Entry:
        """Return the entry of a file with this content."""
        digest, size = hashlib.sha256(), 0
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
        return cls(size, digest.hexdigest())


@dataclass(frozen=True)
class _Written:
    """Content of manifest.json."""

    format: str
    written_by: str
    files: dict[str, Entry]


def manifest_text(entries: dict[str, Entry]) -> str:
    """Return the text of manifest.json, which depends on the entries only."""
    ordered = {name: entries[name] for name in sorted(entries)}
    return json.dumps(asdict(_Written(FORMAT, __version__, ordered)), indent=2) + "\n"


def read_manifest(folder: Path) -> dict[str, Entry] | None:
    """Return the entries of a run folder's manifest, or None if it has no manifest.

    Raises:
        OSError: The manifest cannot be read.
    """
    try:
        data = read_bytes(folder / MANIFEST, _MOST_OF_MANIFEST)
    except FileNotFoundError:
        return None
    written = from_values(_Written, parse_json(data))
    if written.format != FORMAT:
        raise ValueError(f"its format is {written.format[:60]!r}; expected {FORMAT!r}")
    if not all(_DIGEST.fullmatch(entry.sha256) for entry in written.files.values()):
        raise ValueError("a digest is not a SHA-256 digest")
    return written.files


CHECKPOINTS = "checkpoints"
FOLDERS = (CHECKPOINTS, "folds", "gine")
# All files of a run. A folder that contains one of these names but is not a run is left alone.
_FILES = (
    "config.yaml", "metrics.jsonl", "metrics.json", "metrics.csv", "timings.jsonl", "model.json",
    "model.safetensors", "final.safetensors", "vocabulary.json", "labels.json", "splits.json",
    "details.json", "skipped.csv", "folds.json", "folds.jsonl",
    "explanations.json", "report.html", "kernel.json", "kernel.safetensors", "pool.json",
    "conformal.json",
)  # fmt: skip
# Not in the manifest: timings differ between runs, and other commands write the last two.
_UNLISTED = ("timings.jsonl", "explanations.json", "report.html")
# The first is not written again by a run that continues after a kill.
_LISTED_AT_ONCE = ("model.json", "metrics.json")


class RunFolder:
    """A folder that only this process writes to, until `close` or the end of the process.

    The folder and its parents are created if missing. The kernel releases the lock (``flock``) of a
    killed process. As a context manager, it removes a folder that it created and that is still
    empty.

    ``manifest.json`` marks the folder as a run and lists a digest of each file. It is written
    before the first file, after model.json and each weights file, and at the end.

    Where several processes train one model (torchrun), Accelerate's main process locks and writes;
    in the others the write methods do nothing.

    Args:
        path: The folder.
        resume: Continue the run that the folder may hold.
        has_resume: Messages may name the option ``--resume``, which only ``fit`` has.
        report: Is called with a line on what is worth knowing but no reason to stop.

    Attributes:
        is_writer: True in the process that writes.
        is_saved: True if the main process writes.

    Raises:
        ArgumentError: The folder holds a run and `resume` is not set, or it holds files that the
            run would overwrite and is not a run.
        RunFolderError: It is in use by another process, cannot be made, is not a folder, or links
            to somewhere else.
        StorageError: Something cannot be written in it.
    """

    is_saved = True

    def __init__(
        self,
        path: str | Path,
        *,
        resume: bool = False,
        has_resume: bool = True,
        report: Callable[[str], None] = say,
    ) -> None:
        self.path = Path(path)
        self.resume = resume
        self._has_resume = has_resume
        self.report = report
        self.is_writer = is_main_process()
        self._lock: BaseFileLock | None = None
        self._entries: dict[str, Entry] | None = None
        self._is_dirty = False
        if not self.is_writer:
            return
        self._is_new = not os.path.exists(self.path)  # noqa: PTH110  (raises for no path)
        if not self._is_new and self.path.is_dir():
            self._require_usable(resume=True)  # before creating a lock in a foreign folder
        self._lock = lock(self.path)
        try:
            self._require_usable(resume)
            for folder in (self.path, self.path / CHECKPOINTS):
                atomic.remove_leftovers(folder, self.report)
        except BaseException:
            self.close()
            raise

    @property
    def how_to_continue(self) -> str:
        """The way to continue an interrupted run; only ``fit`` has an option for it."""
        is_option = self._has_resume and not self.resume
        return "Continue with --resume." if is_option else "The same command continues."

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints, created on first use."""
        folder = self.path / CHECKPOINTS
        refuse_links(folder)
        if self.is_writer:
            self._mark()
            make_folder(folder, parents=False)
        return folder

    def write_bytes(self, name: str, *chunks: bytes) -> Path:
        """Write a file of the folder atomically, and return its path."""
        if self.is_writer:
            self._mark()
            atomic.write_bytes(self.path / name, *chunks)
            self._record(name, Entry.of(chunks))
        return self.path / name

    def write_text(self, name: str, text: str) -> Path:
        """Write a UTF-8 text file of the folder atomically."""
        return self.write_bytes(name, text.encode("utf-8"))

    def write_json(self, name: str, value: Any) -> Path:
        """Write a JSON file of the folder atomically."""
        return self.write_text(name, atomic.as_json(value))

    def write_tensors(
        self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
    ) -> Path:
        """Write a safetensors file of the folder atomically."""
        if not self.is_writer:
            return self.path / name
        return self.write_bytes(name, atomic.as_safetensors(tensors, metadata))

    def remove(self, name: str) -> None:
        """Delete a file of the folder if it exists."""
        if self.is_writer:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(self.path / name, error) from error
            if name in (self._entries or {}):
                self._record(name, None)

    def close(self) -> None:
        """Write the manifest and release the lock."""
        if self._lock is None:
            return
        try:
            if self._is_dirty:
                self._write_manifest()
        finally:
            if self._is_new:
                self._remove_if_empty()
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # the original error is more informative than a second failure of the same disk
        with contextlib.suppress(*(() if error is None else (StorageError,))):
            self.close()

    def _require_usable(self, resume: bool) -> None:
        """Refuse a folder with another run, foreign files of the same names, or links."""
        refuse_links(*(self.path / name for name in FOLDERS))
        try:
            self._entries = read_manifest(self.path)
        except (OSError, ValueError) as error:
            expected = "a folder without a file of this name that is not a run's"
            hint = f"{MANIFEST} cannot be used: {reason_of(error)}. Choose another --out."
            raise ArgumentError("out", str(self.path), expected, hint=hint) from None
        present = [name for name in (*_FILES, *FOLDERS) if os.path.lexists(self.path / name)]
        is_run = self._entries is not None or is_own_lock(self.path / LOCK)
        if present and is_run and not resume:
            raise ArgumentError(
                "out",
                str(self.path),
                f"a folder without a run (this one has {present[0]})",
                hint="Continue that run with --resume, or choose another --out."
                if self._has_resume
                else "Choose another folder.",
            )
        if present and not is_run:
            raise ArgumentError(
                "out",
                str(self.path),
                f"a run, or a folder without files that a run writes (this one has {present[0]})",
                hint="Choose another --out.",
            )

    def _mark(self) -> None:
        """Mark the folder as a run, before the first of its files."""
        if self._entries is None:
            self._entries = {}
            for name in _FILES:  # a run of an older version, without a manifest
                if name not in _UNLISTED and (self.path / name).is_file():
                    with contextlib.suppress(OSError):
                        data = read_bytes(self.path / name, physical_memory())
                        self._entries[name] = Entry.of([data])
            self._write_manifest()

    def _record(self, name: str, entry: Entry | None) -> None:
        """Record the digest of a file; the manifest is written after weights and results."""
        assert self._entries is not None
        if name in _UNLISTED:
            return
        if self._entries.get(name) != entry:
            if entry is None:
                del self._entries[name]
            else:
                self._entries[name] = entry
            self._is_dirty = True
        # these are read before the run ends, together with files written earlier, whose entries may
        # have changed even if theirs has not
        if self._is_dirty and (name.endswith(".safetensors") or name in _LISTED_AT_ONCE):
            self._write_manifest()

    def _write_manifest(self) -> None:
        atomic.write_text(self.path / MANIFEST, manifest_text(self._entries or {}))
        self._is_dirty = False

    def _remove_if_empty(self) -> None:
        with contextlib.suppress(OSError):  # a leftover empty folder is harmless
            if [entry.name for entry in self.path.iterdir()] == [LOCK]:
                (self.path / LOCK).unlink()
                self.path.rmdir()


class UnsavedRun(RunFolder):
    """Stands in for the folder of a run that is not saved."""

    is_saved = False

    def __init__(self, report: Callable[[str], None] = say) -> None:
        self.path, self.resume, self.report, self.is_writer = Path(), False, report, False
        self._lock = None


def make_folder(folder: Path, *, parents: bool = True) -> None:
    """Make a folder if it is missing, with its parents unless `parents` is False."""
    refuse_links(folder)
    refuse_names(folder)
    try:
        folder.mkdir(parents=parents, exist_ok=True)
    except OSError as error:
        reason = reason_of(error)
        raise RunFolderError(f"{folder} cannot be made: {reason}. Choose another --out.") from error


def refuse_links(*folders: Path) -> None:
    """Refuse folders that are links or files."""
    for folder in folders:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise RunFolderError(
                f"{folder} is not a folder but a link or a file. Choose another --out."
            )


# Read the files of a run folder, each checked against the manifest.

MODEL, WEIGHTS = "model.json", "model.safetensors"
OF_PREDICTIONS = (
    MODEL, WEIGHTS, "vocabulary.json", "kernel.json", "kernel.safetensors", "pool.json",
    "conformal.json",
)  # fmt: skip
_MOST = {"vocabulary.json": 2**29, "kernel.json": 2**29, "metrics.jsonl": 2**26}  # bytes
_MOST_OTHERS = 2**26
_CHANGES = {  # of values alone
    "normal_", "uniform_", "kaiming_uniform_", "trunc_normal_", "mul_", "add_", "sub_", "div_",
}  # fmt: skip
_PAUSE = 0.2  # seconds; a writer updates the manifest shortly after a file
_NAME_A_RUN = "Name the folder that `representer fit ... --out` wrote."
_TRAIN_AGAIN = "Train again, or take the file from a copy of the run."


class _DiffersError(ValueError):
    """A file does not match the manifest."""


class RunFiles:
    """A run folder that may be damaged or come from a stranger.

    Every file must be a regular file of bounded size and agree with ``manifest.json``. A run of an
    older version has no manifest: it is read with the other checks, after a notice on stderr.

    Raises:
        DataError: The folder does not exist, or its manifest is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise DataError("there is no such run folder", file=folder, fix=_NAME_A_RUN)
        try:
            self._entries = read_manifest(self.folder)
        except (OSError, ValueError) as error:
            raise self._damaged(MANIFEST, error) from None

    def has(self, name: str) -> bool:
        """Return True if the run has a file with this name."""
        if self._entries is not None:
            return name in self._entries
        return (self.folder / name).exists()

    def bytes(self, name: str) -> bytes:
        """Return the content of a file."""

        def read() -> bytes:
            data = read_bytes(self.folder / name, _MOST.get(name, _MOST_OTHERS))
            self._verify(name, data)
            return data

        try:
            return self._again_if_it_differs(read)
        except FileNotFoundError:
            problem = f"there is no {name}; this is no run"
            raise DataError(problem, file=self.folder, fix=_NAME_A_RUN) from None
        except (OSError, ValueError) as error:
            raise self._damaged(name, error) from None

    def text(self, name: str) -> str:
        """Return the text of a UTF-8 file; JSON must not be nested deeply."""
        data = self.bytes(name)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._damaged(name, ValueError("it is not UTF-8")) from None
        if name.endswith(".json"):
            self.parsed(name, lambda: require_shallow(data))
        return text

    def json(self, name: str) -> Any:
        """Return the value of a JSON file, see `bytes`."""
        data = self.bytes(name)
        return self.parsed(name, lambda: parse_json(data))

    def yaml(self, name: str) -> dict[str, Any]:
        """Return the options of a YAML file, with the checks of a file of ``--config``."""
        text = self.text(name)
        return self.parsed(name, lambda: dict(parse_yaml(text)[0]))

    def read(self, name: str, kind: type[Kind]) -> Kind:
        """Return a JSON file as a dataclass, checking every name, type and size."""
        values = self.json(name)
        return self.parsed(name, lambda: from_values(kind, values))

    def parsed(self, name: str, parse: Callable[[], Any]) -> Any:
        """Return the content of a file, parsed by `parse`.

        Raises:
            DataError: It raises an error of the content, such as ValueError.
        """
        try:
            return parse()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._damaged(name, error) from None

    def tensors(
        self, name: str, check: Callable[[Forms], None], *, is_nan_allowed: bool = False
    ) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return the tensors of a safetensors file and its metadata, see `read_tensors`."""
        path = self.folder / name

        def read() -> tuple[dict[str, Tensor], dict[str, str]]:
            verify = partial(self._verify, name)
            return read_tensors(path, check=check, verify=verify, is_nan_allowed=is_nan_allowed)

        try:
            return self._again_if_it_differs(read)
        except FileNotFoundError:
            fix = "Train it to its first evaluation, with `representer fit ... --resume`."
            raise DataError("there are no weights yet", file=path, fix=fix) from None
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} does not hold this model's weights: {_reason(error)}. {_TRAIN_AGAIN}"
            ) from None

    def load_model(self, build: Callable[[], Model], description: str = MODEL) -> Model:
        """Create a model with the weights of the run, in evaluation mode.

        ``build`` is called on the meta device first: names, shapes and dtypes are compared with the
        file before memory is allocated.

        Raises:
            DataError: There are no weights, or the description is of a model that cannot be built.
            CheckpointError: The weights are damaged, not finite, or of another model.
        """
        try:
            with torch.device("meta"), _WithoutValues():
                described = build()
        except (RepresenterError, RuntimeError, TypeError, ValueError, ArithmeticError) as error:
            raise self._damaged(description, error) from None
        if self._entries is None:
            say(f"{self.folder}: a run of an older version, without {MANIFEST}; damage to its "
                "files may go unnoticed")  # fmt: skip
        weights = self._weights(described)
        model = build()
        model.load_state_dict(weights)
        return model.eval()

    def _weights(self, model: nn.Module) -> dict[str, Tensor]:
        """Return the weights of the run for a model."""
        expected = forms_of(model.state_dict())
        weights, _ = self.tensors(WEIGHTS, lambda forms: require_same_forms(forms, expected))
        return weights

    def _verify(self, name: str, data: bytes) -> None:
        if self._entries is None:
            return
        if name not in self._entries:
            raise _DiffersError(f"{MANIFEST} does not list it")
        if self._entries[name] != Entry.of([data]):
            raise _DiffersError(f"its SHA-256 is not that of {MANIFEST}")

    def _again_if_it_differs(self, read: Callable[[], Content]) -> Content:
        """Retry once: a training run may have replaced the file but not yet the manifest."""
        try:
            return read()
        except _DiffersError:
            time.sleep(_PAUSE)
            self._entries = read_manifest(self.folder)
            return read()

    def _damaged(self, name: str, error: Exception) -> DataError:
        problem = f"cannot be used: {_reason(error)}"
        return DataError(problem, file=self.folder / name, fix=_TRAIN_AGAIN)


def require_finite(run: str | Path, values: NDArray[Any] | Sequence[float] | float) -> None:
    """Check that predictions are finite, which finite weights do not guarantee."""
    if not np.isfinite(values).all():
        raise CheckpointError(f"{run}: the model's predictions are not finite. {_TRAIN_AGAIN}")


def task_of(folder: str | Path, known: Collection[str] | None = None) -> str:
    """Return the task of a run, for example ``"text"``."""
    described = RunFiles(folder).json(MODEL)
    task = described.get("task") if isinstance(described, dict) else None
    if not isinstance(task, str):
        raise DataError("names no task", file=Path(folder) / MODEL, fix=_TRAIN_AGAIN)
    if known is not None and task not in known:
        problem = f"is of the task {task!r:.40}; expected one of {', '.join(known)}"
        raise DataError(problem, file=Path(folder) / MODEL, fix=_NAME_A_RUN)
    return task


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0].rstrip(".")


class _WithoutValues(TorchFunctionMode):
    """Changes no values, for which torch on the meta device would import its compiler: a second."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _CHANGES:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
