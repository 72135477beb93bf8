"""The manifest: sizes and digests, the same text for the same files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from representer.storage.run import MANIFEST, Entry, manifest_text, read_manifest

ENTRIES = {"b": Entry.of([b"x", b"y"]), "a": Entry.of([])}


def test_an_entry_is_the_size_and_the_digest_of_all_chunks() -> None:
    assert ENTRIES["b"] == Entry(2, hashlib.sha256(b"xy").hexdigest())


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    (tmp_path / MANIFEST).write_text(manifest_text(ENTRIES))
    assert read_manifest(tmp_path) == ENTRIES
    assert manifest_text(dict(reversed(ENTRIES.items()))) == manifest_text(ENTRIES)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "another"},
        {"format": 1},
        {"files": []},
        {"files": {"a": {"size": 1}}},
        {"files": {"a": {"size": 1, "sha256": "x" * 64}}},
        {"files": {"a": {"size": "1", "sha256": "0" * 64}}},
        {"written_by": None},
    ],
)
def test_another_or_a_damaged_manifest_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    values = json.loads(manifest_text(ENTRIES)) | changes
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"."):
        read_manifest(tmp_path)
