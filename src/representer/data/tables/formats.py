"""The format of a file by its suffix: every reader asks here, and so does the guess of a task."""

from __future__ import annotations

from pathlib import Path

from representer.data.tables.source import uncompressed

FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet",
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "workbook"),
    **dict.fromkeys((".sdf", ".sd", ".mol"), "sdf"), **dict.fromkeys((".smi", ".smiles"), "smiles"),
    ".npz": "npz", ".mat": "mat",
    **dict.fromkeys((".fif", ".edf", ".bdf", ".vhdr", ".set"), "mne"),
    # any text, whose content tells what it is; the suffix may name a part of the data
    **dict.fromkeys(("", ".txt", ".text", ".tab", ".dat", ".data", ".tokens", ".raw"), "lines"),
    **dict.fromkeys((".train", ".valid", ".val", ".dev", ".test"), "lines"),
}  # fmt: skip
TABLES = [suffix for suffix, kind in FORMATS.items()
          if kind in ("csv", "tsv", "jsonl", "parquet", "workbook")]  # fmt: skip
TASKS = {"npz": "signal", "mat": "signal", "mne": "signal", "sdf": "molecule", "smiles": "molecule"}
"""The task of a format, where it has one."""


def format_of(path: Path) -> str | None:
    """Return the format of a file by its suffix, without that of a compression; None if unknown."""
    return FORMATS.get(uncompressed(path).suffix.lower())
