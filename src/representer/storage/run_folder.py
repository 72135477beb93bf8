"""The folder of a run: locked by one writer, with atomic writes only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from representer.errors import ArgumentError, RunFolderError, StorageError
from representer.printable import say
from representer.storage import atomic
from representer.storage.files import physical_memory, read_bytes
from representer.storage.lock import LOCK, is_own_lock, lock, reason_of
from representer.storage.main_process import is_main_process
from representer.storage.manifest import MANIFEST, Entry, manifest_text, read_manifest

CHECKPOINTS = "checkpoints"
FOLDERS = (CHECKPOINTS, "folds", "gine")
# All files of a run. A folder that contains one of these names but is not a run is left alone.
_FILES = (
    "config.yaml", "metrics.jsonl", "metrics.json", "metrics.csv", "timings.jsonl", "model.json",
    "model.safetensors", "final.safetensors", "vocabulary.json", "labels.json", "splits.json",
    "details.json", "skipped.csv", "fold.json",
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
        self._lock: int | None = None
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
        return "The same command continues." if self.resume else "Continue with --resume."

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
    """Make a folder if it is missing, with its parents unless `parents` is False.

    Raises:
        RunFolderError: It is a symbolic link or a file, or cannot be made.
    """
    refuse_links(folder)
    try:
        folder.mkdir(parents=parents, exist_ok=True)
    except OSError as error:
        reason = reason_of(error)
        raise RunFolderError(f"{folder} cannot be made: {reason}. Choose another --out.") from error


def refuse_links(*folders: Path) -> None:
    """Refuse folders that are links or files.

    Raises:
        RunFolderError: One is a symbolic link or not a folder.
    """
    for folder in folders:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise RunFolderError(
                f"{folder} is not a folder but a link or a file. Choose another --out."
            )
