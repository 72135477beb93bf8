"""The manifest of a run folder: a digest of every file that the run has written.

``manifest.json`` marks a folder as a run of this library. Digests are computed from the bytes in
memory, never from the disk, so that any later damage is detected. The manifest protects against
accidents only. It is not a signature: whoever can change a file can also change the manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from representer import __version__
from representer.storage.fields import from_values
from representer.storage.files import parse_json, read_bytes

MANIFEST = "manifest.json"
FORMAT = "representer run 1"
_MOST = 2**20
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
        ValueError: The manifest is damaged, or a file of another program.
    """
    try:
        data = read_bytes(folder / MANIFEST, _MOST)
    except FileNotFoundError:
        return None
    written = from_values(_Written, parse_json(data))
    if written.format != FORMAT:
        raise ValueError(f"its format is {written.format[:60]!r}; expected {FORMAT!r}")
    if not all(_DIGEST.fullmatch(entry.sha256) for entry in written.files.values()):
        raise ValueError("a digest is not a SHA-256 digest")
    return written.files
