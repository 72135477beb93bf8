"""Recordings that a table lists with their classes and subjects, one label a file."""

from __future__ import annotations

import math
from pathlib import Path

from representer.data.signals.mne_files import LISTED, read_mne
from representer.data.signals.preparation import cut, resampled
from representer.data.signals.recordings import Recordings, recordings
from representer.data.signals.sample_table import SampleTable
from representer.data.tables import read_grid
from representer.data.tables.columns import LABEL_NAMES
from representer.data.tables.formats import format_of
from representer.data.tables.grid import name_of, number_of, text_of
from representer.data.tables.roles import find_roles
from representer.data.tables.suggest import listing
from representer.errors import DataError

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

    Returns:
        Each file with its windows, and notes for the user.

    Raises:
        DataError: If a table is invalid, or a sampling rate is not clear.
    """
    grid = read_grid(path, [], header=True)
    optional = ("fs",) if is_labeled else ("fs", "label", "subject")
    places = find_roles(grid, _ROLES, path, optional=optional)
    parts: list[tuple[Path, Recordings]] = []
    rates, is_resampled, listed = set[str](), False, dict[Path, int]()
    for line, row in zip(grid.lines, grid.rows, strict=True):
        cells = {role: name_of(row[at]) for role, at in places.items()}
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
        rates.add(f"{rate:g} Hz" + (f" by the times in {unit}" if unit else ""))
        labels = [cells["label"]] * len(signals) if "label" in cells else None
        subjects = [cells.get("subject") or file.stem] * len(signals)
        whole = recordings(signals, labels, subjects, rate, channels, file=file, is_labeled=False)
        is_resampled |= sampling_rate not in (0, rate)
        part = resampled(whole, sampling_rate or rate)
        parts.append((file, cut(part, window_seconds, file=file) if window_seconds else part))
    columns = ", ".join(f"{role} {grid.columns[at]!r}" for role, at in places.items())
    count, seconds = sum(len(part) for _, part in parts), [part.seconds for _, part in parts]
    notes = [
        f"columns: {columns}",
        f"channels: {listing(parts[0][1].channels)}",
        " and ".join(sorted(rates)),
        f"resampled to {sampling_rate:g} Hz" if is_resampled else "",
        f"{len(parts)} recordings, {count} windows of {min(seconds):g} s",
        "as long as the shortest (--window-seconds cuts windows)" if len({*seconds}) > 1 else "",
    ]
    return parts, ("; ".join(filter(None, notes)),)
