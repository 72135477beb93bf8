"""Reading of windows around events with MNE, from FIF, EDF, BDF, BrainVision and EEGLAB files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from representer.data.signals.mne_layout import (
    check_brainvision,
    check_edf,
    check_eeglab,
    check_fif,
    require_plausible,
)
from representer.data.signals.recordings import Recordings, recordings
from representer.data.tables.source import beside, regular_file
from representer.errors import DataError, MissingExtraError
from representer.printable import reason

_CHECKS = {
    ".edf": check_edf, ".bdf": check_edf, ".vhdr": check_brainvision, ".set": check_eeglab,
}  # fmt: skip
_ANONYMOUS = ("x", "anonymous", "anonymized", "unknown", "none", "n/a")  # in place of a subject
# S001 of S001R04 and A01 of A01T, with a run behind, and SC400 of SC4001E0, with a night
_PERSON = re.compile(r"S[CT]\d{3}(?=\d[A-Z]\d)|[A-Za-z]+\d+(?=[A-Z]\d*$)")
FROM_NAMES = (
    "Files without a subject have that of their name, up to a run or _. If several are of one "
    "person, name the subjects in a recordings.csv."
)
LISTED = ".fif, .edf, .bdf, .vhdr or .set"


def read_mne(
    path: str | Path,
    *,
    events: Sequence[str] = (),
    start: float = 0.0,
    seconds: float | None = None,
    is_whole: bool | None = False,
) -> Recordings:
    """Read the windows of one ``.fif``, ``.edf``, ``.bdf``, ``.vhdr`` or ``.set`` file.

    Epochs are used unchanged. A continuous recording is cut at its annotations: each gives one
    window that starts ``start`` seconds after its onset. Annotations that begin with BAD or EDGE
    are not events, and windows that overlap with a BAD annotation are dropped, as in MNE. Bad
    channels and channels other than brain signals (ECG, triggers) are dropped.

    Args:
        path: A file of epochs or of a continuous recording.
        events: Names of the events to use; all by default.
        start: Seconds from the onset of an event to the start of its window.
        seconds: Length of a window; by default the shortest duration of the selected annotations.
        is_whole: Read a continuous recording as one window, without its bad segments and whatever
            its events; None does so only if there are no events.

    Returns:
        The recordings of one subject, in volts; the classes are the names of the events.

    Raises:
        DataError: If the file is missing or damaged, lacks one of the events, is shorter than a
            window, or has samples that are not finite.
        MissingExtraError: If mne is not installed.
    """
    try:
        import mne
    except ImportError as error:
        raise MissingExtraError(f"reading {LISTED} files", "mne", "signals") from error
    path = Path(path)
    regular_file(path)
    try:
        # warnings are about file names, dates and damaged parts
        with warnings.catch_warnings(action="ignore"), mne.use_log_level("error"):
            epochs = _epochs(mne, path, events, start, seconds, is_whole)
            if isinstance(epochs, mne.io.BaseRaw):
                data: Any = epochs.get_data(reject_by_annotation="omit")
                signals, labels = data[None], ["unknown"]
            else:
                names = {number: name for name, number in epochs.event_id.items()}
                labels = [names[number] for number in epochs.events[:, 2]]
                signals = epochs.get_data(copy=False)
    except DataError:
        raise
    except Exception as error:  # the readers of MNE raise many types on damaged files
        raise DataError(f"cannot be read: {reason(error)}", file=path) from error
    if not labels:
        raise DataError(
            "no window lies within the recording and outside of its bad segments",
            file=path,
            fix="Shorten the windows with --event-seconds.",
        )
    subject, notes = _subject(epochs.info, path)
    found = recordings(
        signals, labels, [subject] * len(labels), epochs.info["sfreq"], epochs.ch_names, file=path,
        is_labeled=False,
    )  # fmt: skip
    return replace(found, notes=notes)


def _epochs(
    mne: Any, path: Path, events: Sequence[str], start: float, seconds: float | None,
    is_whole: bool | None,
) -> Any:  # fmt: skip
    _CHECKS.get(path.suffix.lower(), check_fif)(path)
    raw = _opened(mne, path)
    stem = path.with_suffix("")  # the samples may be in a file beside
    files = {one for one in path.parent.iterdir() if one.with_suffix("") == stem and one.is_file()}
    files |= {beside(path, str(one)) for one in getattr(raw, "filenames", ()) if one}
    size = sum(one.stat().st_size for one in files)
    if isinstance(raw, mne.BaseEpochs):
        epochs = raw
        require_plausible(len(epochs.events) * len(epochs.ch_names) * len(epochs.times), size)
        epochs.load_data()
        _require_events(events, list(epochs.event_id), path)
        picked = epochs[list(events)] if events else epochs
        return picked.pick("data", exclude="bads")
    require_plausible(raw.n_times * len(raw.ch_names), size)
    raw = raw.load_data(verbose="error").pick("data", exclude="bads")
    marks = [a for a in raw.annotations if not re.match(r"(?i)bad|edge", a["description"])]
    named = sorted({str(a["description"]) for a in marks})
    if is_whole or (is_whole is None and not named and not events):
        return raw
    _require_events(events, named, path)
    taken = set(events or named)
    if seconds is None:
        seconds = min(a["duration"] for a in marks if str(a["description"]) in taken)
        if not seconds:
            problem = "its events have no duration, so the length of a window is unknown"
            raise DataError(problem, file=path, fix="Set it with --event-seconds.")
    numbers = {name: k for k, name in enumerate(sorted(taken), 1)}
    at, numbers = mne.events_from_annotations(raw, event_id=numbers)
    last = start + seconds - 1 / raw.info["sfreq"]
    require_plausible(len(at) * len(raw.ch_names) * round((last - start) * raw.info["sfreq"]), size)
    options = {"tmin": start, "tmax": last, "baseline": None, "preload": True}
    return mne.Epochs(raw, at, numbers, **options, event_repeated="drop")


def _opened(mne: Any, path: Path) -> Any:
    """Return the epochs or the continuous recording of a file, without its samples."""
    if re.search(r"[-_]epo(-\d+)?\.fif(\.gz)?$", path.name):
        return mne.read_epochs(path, preload=False)
    try:
        return mne.io.read_raw(path, preload=False)
    except TypeError:  # of a .set file of several trials
        if path.suffix.lower() != ".set":
            raise
        return mne.read_epochs_eeglab(path)


def _require_events(wanted: Sequence[str], marked: list[str], path: Path) -> None:
    missing = sorted(set(wanted) - set(marked))
    if missing or not marked:
        what = f"the events {', '.join(missing)} are" if missing else "no event is"
        if missing:
            what += f" not marked in it; the file has {', '.join(marked) or 'none'}"
        else:
            what += " marked in it"
        fix = "In a continuous recording, events are annotations. For one label a file, list the "
        fix += "files in recordings.csv (file, label, subject)."
        raise DataError(what, file=path, fix=fix)


def _subject(info: Any, path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the subject in the file or, with a note, in its name, before a run and ``_``."""
    known = str((info.get("subject_info") or {}).get("his_id") or "").strip()
    if known.strip("0") and known.lower() not in _ANONYMOUS:
        return known, ()
    name = re.split(r"[-_]epo\b|\.", path.name)[0].split("_")[0]
    found = _PERSON.match(name)
    return found[0] if found else name, (FROM_NAMES,)
