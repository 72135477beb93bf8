"""Reading of windows around events with MNE, from FIF, EDF, BDF, BrainVision and EEGLAB files."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import struct
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from representer.data.signals.arrays import check_layout
from representer.data.signals.recordings import Recordings, recordings
from representer.data.tables.files import MAX_EXPANSION, beside, open_regular, regular_file
from representer.data.tables.reading import Limited
from representer.errors import DataError, MissingExtraError, reason

# Checks of the sizes that a file of MNE declares, and of the files that it names.
#
# The readers of MNE allocate declared sizes, follow cyclic links, and open referenced files. So the
# tags of a FIF file, the variables of an EEGLAB file, and the header of another file are checked
# first.

_FILE_ID, _DIR_POINTER, _DIRECTORY, _REF_NUMBER, _REF_NAME = 100, 101, 102, 117, 118
_MAX_CHANNELS, _MAX_HEADER = 10_000, 1 << 24
_MAX_PARTS = 100  # files into which one recording is split


def check_fif(path: Path) -> None:
    """Check the tags of a FIF file, and of the files that continue it.

    Raises:
        DataError: If it, or a file that continues it, is not a regular file, or in another folder.
    """
    waiting, seen = [path], set()
    while waiting:
        current = waiting.pop()
        if current in seen or len(seen) == _MAX_PARTS:
            raise ValueError(f"{current.name} continues itself")
        seen.add(current)
        with open_regular(current) as file:
            size = os.fstat(file.fileno()).st_size
            if current.suffix != ".gz":
                names = _walk(file, size, current)
            else:
                limit = max(1 << 20, MAX_EXPANSION * size)
                with gzip.open(file) as stream:
                    size = _length(io.BufferedReader(Limited(stream, limit, current), 1 << 16))
                    stream.seek(0)
                    names = _walk(stream, size, current)
        for name in names:
            if (following := beside(current, name)).exists():
                waiting.append(following)


def check_edf(path: Path) -> None:
    """Check the sizes in the header of an EDF or BDF file against the size of the file.

    Raises:
        DataError: If the file is missing or not a regular file.
    """
    width = 3 if path.suffix.lower() == ".bdf" else 2  # bytes of a sample
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(256)
        if len(head) < 256:
            raise ValueError("the header ends too early")
        signals = _count(head[252:256], "signals")
        columns = file.read(256 * signals)
        if not signals or len(columns) < 256 * signals:
            raise ValueError(f"the header declares {signals} signals and ends too early")
    fields = columns[216 * signals : 224 * signals]
    samples = [_count(fields[8 * k : 8 * k + 8], "samples") for k in range(signals)]
    records, _ = divmod(size - 256 - len(columns), width * sum(samples) or 1)
    if records < 1:
        raise ValueError("it holds no complete data record")
    # all signals are resampled to the highest rate
    require_plausible(signals * max(samples) * records, size)


def check_brainvision(path: Path) -> None:
    """Check the files that the header of a BrainVision file names, and its number of channels.

    Raises:
        DataError: If a file is in another folder, or not a regular file.
    """
    with open_regular(path) as file:
        content = file.read(_MAX_HEADER + 1)
    if len(content) > _MAX_HEADER:
        raise ValueError(f"the header has more than {_MAX_HEADER:,} bytes")
    content = content.replace(b"\0", b"")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    named = [
        value for _, value in re.findall(r"(?im)^\s*(Data|Marker)File\s*[=:]\s*(.*?)\s*$", text)
    ]
    for name in (*named, f"{path.stem}.vmrk"):
        beside(path, name)
    for count in re.findall(r"(?im)^\s*NumberOfChannels\s*[=:]\s*(\d+)", text):
        _require_channels(int(count))


def check_eeglab(path: Path) -> None:
    """Check the variables of an EEGLAB file, and the file of samples that it names.

    Raises:
        ValueError: If a variable declares more than the file has, or there are too many channels.
        NotImplementedError: If the file has version 7.3.
        DataError: If the file of samples is in another folder, or not a regular file.
    """
    from scipy.io import loadmat

    with open_regular(path) as file:
        check_layout(file)
        content = loadmat(file, simplify_cells=True)
    for _ in range(2):  # a structure EEG, which may contain another one, or its fields alone
        content = content.get("EEG", content)
    data, size = content.get("data"), path.stat().st_size
    for name in {f"{path.stem}.fdt", data if isinstance(data, str) and data else path.name}:
        size += beside(path, name).stat().st_size if (path.parent / name).exists() else 0
    channels, *axes = (int(content.get(name, 1)) for name in ("nbchan", "pnts", "trials"))
    _require_channels(channels)
    require_plausible(math.prod(max(1, count) for count in (channels, *axes)), size)


def _require_channels(count: int) -> None:
    if count > _MAX_CHANNELS:
        raise ValueError(f"{count:,} channels are declared; at most {_MAX_CHANNELS:,} are read")


def require_plausible(samples: int, size: int) -> None:
    """Check that the number of samples is plausible for the size of the file."""
    if samples > 10_000_000 + 100 * size:
        raise ValueError(f"{samples:,} samples are declared in {size:,} bytes")


def _count(field: bytes, name: str) -> int:
    if not re.fullmatch(rb"[0-9]+ *", field):
        raise ValueError(f"the number of {name} is {field.decode('latin-1')!r}")
    return int(field)


def _length(stream: io.BufferedReader) -> int:
    length = 0
    while chunk := stream.read(1 << 20):
        length += len(chunk)
    return length


def _walk(file: gzip.GzipFile | io.BufferedReader, size: int, path: Path) -> list[str]:
    """Return the names of the files that a file refers to."""
    i, names, following = 0, [], 0
    while 0 <= i <= size - 16:
        file.seek(i)
        tag, _, length, following = struct.unpack(">iIii", file.read(16))
        if i == 0 and (tag, length) != (_FILE_ID, 20):
            raise ValueError("it does not start like a FIF file")
        end = i + 16 + length
        if length < 0 or end > size:
            raise ValueError(f"a tag declares {length:,} bytes, and {size - i - 16:,} are left")
        if tag == _DIR_POINTER and length == 4:
            _check_directory(file, struct.unpack(">i", file.read(4))[0], size)
        elif tag == _REF_NAME:
            names.append(file.read(length).decode("latin-1"))
        elif tag == _REF_NUMBER and length == 4 and not names:
            names.append(_numbered(path.name, struct.unpack(">i", file.read(4))[0]))
        if 0 < following < end:
            raise ValueError("a tag links backwards")
        i = following or end
    return names


def _check_directory(file: gzip.GzipFile | io.BufferedReader, i: int, size: int) -> None:
    """Check that the entries of the directory of tags, if any, are within the file."""
    if i <= 0:
        return
    if i > size - 16:
        raise ValueError("the directory of tags is after the end of the file")
    file.seek(i)
    tag, _, length, _ = struct.unpack(">iIii", file.read(16))
    if tag != _DIRECTORY or length < 0 or length % 16 or i + 16 + length > size:
        raise ValueError("the directory of tags is damaged")
    for *_, entry_size, start in struct.iter_unpack(">iIii", file.read(length)):
        if start >= 0 and (entry_size < 0 or start + 16 + entry_size > size):
            raise ValueError("the directory of tags has an entry after the end of the file")


def _numbered(name: str, number: int) -> str:
    """Return the name of part ``number`` of a recording that is split into files."""
    stem, dot, suffixes = name.partition(".")
    return f"{re.sub(r'-[0-9]+$', '', stem)}-{number}{dot}{suffixes}"


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
    path: str | Path, *, events: Sequence[str] = (), start: float = 0.0,
    seconds: float | None = None, is_whole: bool | None = False,
) -> Recordings:  # fmt: skip
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
    result = recordings(
        signals, labels, [subject] * len(labels), epochs.info["sfreq"], epochs.ch_names, file=path,
        is_labeled=False,
    )  # fmt: skip
    return replace(result, notes=notes)


def _epochs(
    mne: Any, path: Path, events: Sequence[str], start: float, seconds: float | None,
    is_whole: bool | None,
) -> Any:  # fmt: skip
    _CHECKS.get(path.suffix.lower(), check_fif)(path)
    raw = _opened(mne, path)
    stem = path.with_suffix("")  # the samples may be in a file beside
    files = {p for p in path.parent.iterdir() if p.with_suffix("") == stem and p.is_file()}
    files |= {beside(path, str(p)) for p in getattr(raw, "filenames", ()) if p}
    size = sum(p.stat().st_size for p in files)
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
    rows, numbers = mne.events_from_annotations(raw, event_id=numbers)
    last = start + seconds - 1 / raw.info["sfreq"]
    require_plausible(
        len(rows) * len(raw.ch_names) * round((last - start) * raw.info["sfreq"]), size
    )
    options = {"tmin": start, "tmax": last, "baseline": None, "preload": True}
    return mne.Epochs(raw, rows, numbers, **options, event_repeated="drop")


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
    subject = str((info.get("subject_info") or {}).get("his_id") or "").strip()
    if subject.strip("0") and subject.lower() not in _ANONYMOUS:
        return subject, ()
    name = re.split(r"[-_]epo\b|\.", path.name)[0].split("_")[0]
    match = _PERSON.match(name)
    return match[0] if match else name, (FROM_NAMES,)
