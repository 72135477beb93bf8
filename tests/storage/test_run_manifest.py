"""The manifest of a run and the checks of its fields."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from representer.checks import LIMITS
from representer.errors import ArgumentError
from representer.storage.files import from_values
from representer.storage.run import MANIFEST, Entry, manifest_text, read_manifest

# The manifest: sizes and digests, the same text for the same files.


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
        {"format": "another"}, {"format": 1}, {"files": []}, {"files": {"a": {"size": 1}}},
        {"files": {"a": {"size": 1, "sha256": "x" * 64}}},
        {"files": {"a": {"size": "1", "sha256": "0" * 64}}}, {"written_by": None},
    ],
)  # fmt: skip
def test_another_or_a_damaged_manifest_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    values = json.loads(manifest_text(ENTRIES)) | changes
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"."):
        read_manifest(tmp_path)


# Values of a file become a dataclass only if every one is of its type and size.


@dataclass(frozen=True)
class Inner:
    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise ArgumentError("name", self.name, "a name")


@dataclass(frozen=True)
class Outer:
    num_layers: int
    rate: float = 0.5
    flag: bool = False
    inner: Inner | None = None
    kind: Literal["a", "b"] = "a"
    decay: float | Literal["learned"] = "learned"
    sizes: tuple[int, ...] = ()
    pair: tuple[str, float] = ("", 0.0)
    units: int | dict[int, int] = 1
    anything: Any = None


def test_values_become_what_the_hints_say() -> None:
    values = {
        "num_layers": 2, "rate": 1, "inner": {"name": "x"}, "decay": 0.25, "sizes": [1, 2],
        "pair": ["a", 1], "units": {"1": 5}, "anything": [{}],
    }  # fmt: skip
    expected = Outer(
        2, 1.0, False, Inner("x"), "a", 0.25, (1, 2), ("a", 1.0), {1: 5}, [{}]
    )  # fmt: skip
    result = from_values(Outer, values)
    assert result == expected
    assert type(result.rate) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "it holds a list; expected an object"),
        ({}, "'num_layers' is missing"),
        ({"num_layers": 1, "other": 1}, "unknown key 'other'"),
        ({"num_layers": "1"}, "num_layers is '1'; expected an integer"),
        ({"num_layers": True}, "num_layers is True; expected an integer"),
        ({"num_layers": 1.0}, r"num_layers is 1.0; expected an integer"),
        ({"num_layers": None}, "num_layers is None"),
        ({"num_layers": 10**7}, "expected an integer of at most 256"),
        ({"num_layers": 10**3000}, "num_layers is a huge integer"),
        ({"num_layers": -(2**60)}, "expected an integer of at most"),
        ({"num_layers": 1, "rate": "x"}, "rate is 'x'; expected a finite number"),
        ({"num_layers": 1, "rate": math.inf}, "expected a finite number"),
        ({"num_layers": 1, "rate": 10**400}, "expected a finite number"),
        ({"num_layers": 1, "rate": True}, "expected a finite number"),
        ({"num_layers": 1, "flag": 1}, "flag is 1; expected true or false"),
        ({"num_layers": 1, "inner": {"name": ""}}, "name is ''; expected a name"),
        ({"num_layers": 1, "inner": {"name": "x" * 10**6}}, "at most 65,536 characters"),
        ({"num_layers": 1, "inner": "x"}, "it holds 'x'; expected an object"),
        ({"num_layers": 1, "kind": "c"}, "kind is 'c'; expected 'a' or 'b'"),
        ({"num_layers": 1, "kind": ["a"]}, "kind is a list"),
        ({"num_layers": 1, "decay": {}}, "decay is an object"),
        ({"num_layers": 1, "sizes": "12"}, "sizes is '12'; expected a list"),
        ({"num_layers": 1, "sizes": [1, None]}, "sizes is None"),
        ({"num_layers": 1, "pair": ["a"]}, "pair has 1 entries; expected 2"),
        ({"num_layers": 1, "units": {"x": 1}}, "units is 'x'"),
        ({"num_layers": 1, "units": {"1" * 10: 1}}, "units is '1111111111'"),
    ],
)
def test_other_values_are_refused_in_one_short_line(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        from_values(Outer, values)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


def test_every_limit_is_a_positive_integer() -> None:
    assert all(type(limit) is int and limit > 0 for limit in LIMITS.values())
