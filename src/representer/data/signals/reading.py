"""Reading of recordings from a file or a folder of files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from representer.data.signals.arrays import read_mat, read_npz
from representer.data.signals.mne_files import LISTED, read_mne
from representer.data.signals.recordings import Recordings, cut, recordings, resampled
from representer.data.tables import read_grid
from representer.data.tables.columns import (
    LABEL_NAMES,
    data_columns,
    find_roles,
    ignored_split,
    name_of,
    number_of,
    plain,
    text_of,
)
from representer.data.tables.files import format_of, listing
from representer.data.tables.reading import kind_of, named_table, read_blocks
from representer.errors import DataError

# A recording as a table: a row is a sample, a column a channel or the time.

_TIME = re.compile(r"time(stamp)?s?(_.*)?")
_SLOWEST, _FASTEST = 1.0, 20_000.0  # Hz
_JITTER = 0.02  # two rates by the times of one device differ by no more: late packets, lost samples
_UNITS = {"s": 1.0, "ms": 1e-3}


@dataclass(frozen=True)
class SampleTable:
    """The samples of one recording."""

    path: Path  # the file
    signals: np.ndarray  # ``(C, T)``, float32
    channels: list[str]  # names of the channels
    # ``(T,)``, in the unit of the file, NaN where a cell is no number; empty if there are none
    times: np.ndarray

    @classmethod
    def read(cls, path: Path) -> SampleTable:
        """Read a table; columns whose names begin with time or timestamp are no channels."""
        blocks, channels, names = [], list[int](), list[str]()
        for grid in read_blocks(path, []):
            columns = data_columns(grid)
            clocks = [i for i in columns if _TIME.fullmatch(plain(grid.columns[i]))][:1]
            channels = [i for i in columns if not _TIME.fullmatch(plain(grid.columns[i]))]
            cells = [[row[i] for i in (*channels, *clocks)] for row in grid.rows]
            block = np.array([[_number(cell) for cell in row] for row in cells])
            for row, column in np.argwhere(~np.isfinite(block[:, : len(channels)]))[:1].tolist():
                raise DataError(
                    f"{text_of(cells[row][column])!r:.60} is not a finite number", file=path,
                    line=grid.lines[row], column=grid.columns[channels[column]],
                    fix="Interpolate the sample, or remove the column if it is no channel.",
                )  # fmt: skip
            names = [grid.columns[i] for i in channels]
            blocks.append(block)
        table = np.concatenate(blocks).T
        signals = table[: len(channels)].astype(np.float32)
        return cls(path, signals, names, table[len(channels) :].ravel())

    def sampling_rate(self, listing: Path) -> tuple[float, str]:
        """Return the sampling rate in Hz by the times, and their unit.

        It is that of the median difference and of all differences near it, since times may be
        rounded. The unit is seconds or milliseconds, if one of them alone gives 1 to 20,000 Hz.
        ``fs`` can be added to ``listing``, which a message says.
        """
        steps = np.diff(self.times)
        step = float(np.median(steps)) if steps.size else math.nan
        problem = "the sampling rate is unknown, since the table has no column of increasing times"
        if step > 0:
            step = float(steps[np.abs(steps - step) <= step / 2].mean())
            rates = {unit: 1 / (step * seconds) for unit, seconds in _UNITS.items()}
            likely = [(rate, unit) for unit, rate in rates.items() if _SLOWEST <= rate <= _FASTEST]
            if len(likely) == 1:
                ((rate, unit),) = likely
                return round(rate, 1) if rate < 100 else float(round(rate)), unit
            shown = " or ".join(f"{rate:.4g} Hz if in {unit}" for unit, rate in rates.items())
            problem = f"the times are {step:.4g} apart, which is {shown}"
        fix = f"Add a column fs with the sampling rate in Hz to {listing.name}."
        raise DataError(problem, file=self.path, fix=fix)


def _number(cell: object) -> float:
    number = number_of(cell)
    return math.nan if number is None else number


# Recordings that a table lists with their classes and subjects, one label a file.

_ROLES = {
    "file": {"file", "path", "filename", "file_name"},
    "label": LABEL_NAMES,
    "subject": {"subject", "subject_id", "participant", "participant_id", "person", "patient"},
    "fs": {"fs", "sampling_rate", "sfreq"},
}
EXAMPLE = (
    f"recordings.csv (file, label, subject), where each file is a table of samples or {LISTED}"
)


def read_listed(
    path: Path, *, sampling_rate: float, window_seconds: float, is_labeled: bool
) -> tuple[list[tuple[Path, Recordings]], tuple[str, ...]]:
    """Read the recordings that a table lists, see `read_recordings`.

    With the windows of each file come notes for the user.
    """
    grid = read_grid(path, [], header=True)
    optional = ("fs",) if is_labeled else ("fs", "label", "subject")
    places = find_roles(grid, _ROLES, path, optional=optional)
    parts: list[tuple[Path, Recordings]] = []
    rates, first_rate, is_resampled, listed = set[str](), 0.0, False, dict[Path, int]()
    for line, row in zip(grid.lines, grid.rows, strict=True):
        cells = {role: name_of(row[i]) for role, i in places.items()}
        cells["file"] = text_of(row[places["file"]]).strip()  # as the system spells it
        file, fs = path.parent / cells["file"], number_of(cells.get("fs"))
        for role, cell in cells.items():
            problem = "" if cell or role in optional else f"the cell is empty; expected the {role}"
            if role == "file" and not file.is_file():
                problem = f"there is no file {cell!r:.200}; expected a path from {path.parent}"
            elif role == "file" and not file.resolve().is_relative_to(path.parent.resolve()):
                problem = f"the file {cell!r:.200} is not in {path.parent}"
            if role == "fs" and cell and not 0 < (fs or 0) < math.inf:
                problem = f"the sampling rate is {cell!r:.60}; expected a positive number of Hz"
            if problem:
                column = grid.columns[places[role]]
                fix = f"The form is {EXAMPLE}."
                raise DataError(problem, file=path, line=line, column=column, fix=fix)
        if (before := listed.setdefault(file.resolve(), line)) != line:
            problem, fix = f"{cells['file']} is listed on line {before}, too", "Remove one of them."
            raise DataError(problem, file=path, line=line, fix=fix)
        if format_of(file) == "mne":
            raw = read_mne(file, is_whole=True)
            signals, channels, rate, unit = raw.signals, [*raw.channels], raw.sampling_rate, ""
            if fs not in (None, rate):
                problem, fix = (
                    f"fs is {fs:g} Hz; the file has {rate:g} Hz",
                    "Leave this cell empty.",
                )
                raise DataError(problem, file=path, line=line, fix=fix)
        else:
            table = SampleTable.read(file)
            signals, channels = table.signals[None], table.channels
            rate, unit = (fs, "") if fs else table.sampling_rate(path)
        told = f"{rate:g} Hz" + (f" by the times in {unit}" if unit else "")
        if unit and first_rate != rate and abs(rate - first_rate) <= _JITTER * first_rate:
            rate, told = first_rate, f"{told}, taken as {first_rate:g} Hz"
        first_rate = first_rate or rate
        rates.add(told)
        labels = [cells["label"]] * len(signals) if "label" in cells else None
        subjects = [cells.get("subject") or file.stem] * len(signals)
        whole = recordings(signals, labels, subjects, rate, channels, file=file, is_labeled=False)
        is_resampled |= sampling_rate not in (0, rate)
        windows = resampled(whole, sampling_rate or rate)
        parts.append((file, cut(windows, window_seconds, file=file) if window_seconds else windows))
    columns = ", ".join(f"{role} {grid.columns[i]!r}" for role, i in places.items())
    count, seconds = sum(len(p) for _, p in parts), [p.seconds for _, p in parts]
    notes = [
        f"columns: {columns}",
        f"channels: {listing(parts[0][1].channels)}",
        " and ".join(sorted(rates)),
        f"resampled to {sampling_rate:g} Hz" if is_resampled else "",
        f"{len(parts)} recordings, {count} windows of {min(seconds):g} s",
        "as long as the shortest (--window-seconds cuts windows)" if len({*seconds}) > 1 else "",
    ]
    return parts, ("; ".join(filter(None, notes)), *ignored_split(grid))


_ARRAYS: dict[str, Callable[..., Recordings]] = {"npz": read_npz, "mat": read_mat}
_FORMS = (
    f"List recordings in {EXAMPLE}, or save the windows of all subjects in one .npz file: "
    "X (windows, channels, samples), y, subject, fs in Hz and channels."
)
_RESAMPLE = "Resample them to one rate with --resample HZ."


def read_recordings(
    path: str | Path, *, events: Sequence[str] = (), start: float = 0.0,
    seconds: float | None = None, is_labeled: bool = True, signals: str = "X", labels: str = "y",
    sampling_rate: float = 0.0, window_seconds: float = 0.0, is_whole: bool = False,
) -> Recordings:  # fmt: skip
    """Read recordings.

    Args:
        path: An ``.npz`` or ``.mat`` file of arrays, see :func:`read_npz`; a file that
            :func:`read_mne` reads, or a folder of them, of all subjects; or a table such as
            ``recordings.csv``, see below, or its folder.
        events: For files of MNE: names of the events, which become the classes.
        start: For continuous recordings: seconds from an event to the start of its window.
        seconds: For continuous recordings: length of a window.
        is_labeled: Require the classes; if False, they may be missing or all the same.
        signals: For ``.npz`` and ``.mat``: name of the array of the windows.
        labels: For ``.npz`` and ``.mat``: name of the array of the classes.
        sampling_rate: Of recordings that a table lists, or that differ in it, or that are not cut
            at events: resample each to this rate in Hz; 0 for no resampling.
        window_seconds: Of recordings that a table lists or that are not cut at events: cut each
            into windows of this length, without overlap and without the remainder; 0 for one
            window each, as long as the shortest.
        is_whole: Without `is_labeled` and `events`, do not cut a continuous recording at its
            events, either; one without events is never.

    A table lists the recordings, a line each: the file, relative to its folder, the class, the
    subject, and optionally ``fs``, the sampling rate in Hz. Each file is one that :func:`read_mne`
    reads, whatever its events, or a table, too: a row is a sample, a column a channel. A column
    ``time`` or ``timestamp`` is none; it gives the sampling rate where there is no ``fs``. A rate
    by the times within 2 % of that of the first recording is taken as that, with a note.

    Raises:
        DataError: If a file cannot be read, or the files of a folder are inconsistent.
        MissingExtraError: If mne is needed and not installed.
    """
    path = Path(path)
    listing = named_table(path, "recordings") if path.is_dir() else path
    if listing and kind_of(listing):
        parts, notes = read_listed(
            listing, sampling_rate=sampling_rate, window_seconds=window_seconds,
            is_labeled=is_labeled,
        )  # fmt: skip
        return replace(_joined(parts, listing, is_labeled), notes=notes)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if format_of(file) == "mne")
        if not files:
            problem = f"the folder has no {LISTED} file, and no recordings.csv"
            raise DataError(problem, file=path, fix=_FORMS)
    elif reader := _ARRAYS.get(format_of(path) or ""):
        return reader(path, is_labeled=is_labeled, signals=signals, labels=labels)
    elif format_of(path) == "mne":
        files = [path]
    else:
        problem = f"the suffix is {path.suffix!r}; expected .csv, .npz, .mat, {LISTED}"
        raise DataError(problem, file=path, fix=_FORMS)
    whole = False if is_labeled else ((is_whole and not events) or None)
    options = {"events": events, "start": start, "seconds": seconds, "is_whole": whole}
    read = [read_mne(file, **options) for file in files]
    if sampling_rate and (not is_labeled or len({r.sampling_rate for r in read}) > 1):
        read = [resampled(r, sampling_rate) for r in read]
    if window_seconds and not is_labeled:
        read = [cut(r, window_seconds, file=file) for file, r in zip(files, read, strict=True)]
    notes = dict.fromkeys(note for r in read for note in r.notes)
    joined = _joined(list(zip(files, read, strict=True)), path, is_labeled)
    return replace(joined, notes=tuple(notes))


def _joined(
    parts: list[tuple[Path, Recordings]], path: Path, is_labeled: bool, fix: str = _RESAMPLE,
) -> Recordings:  # fmt: skip
    """Concatenate the windows of several files, with the channels in the order of the first."""
    name, first = parts[0][0].name, parts[0][1]
    for file, r in parts:
        if r.sampling_rate != first.sampling_rate:
            raise DataError(
                f"the sampling rate of subject {r.subjects[0]} is {r.sampling_rate:g} Hz, "
                f"and that of {name} {first.sampling_rate:g} Hz",
                file=file,
                fix=fix,
            )
        if other := sorted(set(r.channels) ^ set(first.channels)):
            raise DataError(
                f"its channels differ from those of {name}; {', '.join(other)} are in only one of "
                "the two",
                file=file,
                fix="Pick the same channels in every file.",
            )
    every = [r.in_order(first.channels) for _, r in parts]
    samples = min(r.signals.shape[2] for r in every)
    return recordings(
        np.concatenate([r.signals[:, :, :samples] for r in every]),
        np.concatenate([np.asarray(r.classes)[r.labels] for r in every]),
        np.concatenate([r.subjects for r in every]),
        first.sampling_rate, first.channels, file=path, is_labeled=is_labeled,
    )  # fmt: skip
