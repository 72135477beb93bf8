"""Arrays in valid and damaged .npz files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from representer.data import array_files
from representer.data.array_files import DEFLATE_RATIO, read_arrays
from representer.errors import DataError


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.npz"


def header(shape: object, descr: str = "<f8", *, major: int = 1) -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    width = 2 if major == 1 else 4
    return b"\x93NUMPY" + bytes((major, 0)) + len(text).to_bytes(width, "little") + text


def archive(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("X.npy", content)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_all_dtypes_round_trip(path, save):
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6, dtype=">i2").reshape(3, 2)),
        "c": np.array(["größer", ""]),
        "d": np.array(2.5),
        "e": np.empty((0, 3)),
    }
    save(path, **arrays, other=np.ones(3))
    read, others = read_arrays(path, list(arrays))
    assert others == ["other"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            header((2**40,)) + bytes(16),
            r"the array X declares 8,796,093,022,208 bytes and holds 16",
        ),
        (header((3,)) + bytes(16), "declares 24 bytes and holds 16"),
        (header((1,)) + bytes(16), "declares 8 bytes and holds 16"),
        (header((-1, -2)) + bytes(16), "declares 16 bytes and holds 16"),
        (header((2**62,), "<U0"), "declares 0 bytes"),
        (header((2,), "|O") + bytes(16), "holds objects"),
        (header("two"), "cannot be read"),
        (b"\x93NUMPY\x09\x00", r"version \(9, 0\)"),
        (b"", "cannot be read"),
    ],
)
def test_a_declared_size_larger_than_the_data_is_rejected(path, content, problem):
    with pytest.raises(DataError, match=problem):
        read_arrays(archive(path, content), ["X"])


def test_version_two_of_the_format_is_read(path):
    read, _ = read_arrays(archive(path, header((2,), major=2) + bytes(16)), ["X"])
    assert read["X"].tolist() == [0, 0]


def test_an_entry_beyond_the_expansion_limit_of_deflate_is_rejected(path):
    held = header((2**24,)) + bytes(16)
    archive(path, held)
    content = bytearray(path.read_bytes())
    size = (DEFLATE_RATIO * len(held) + 1).to_bytes(4, "little")
    for magic, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = content.index(magic) + offset
        content[at : at + 4] = size
    path.write_bytes(content)
    with pytest.raises(DataError, match="declares more bytes than it can hold"):
        read_arrays(path, ["X"])


def test_pickles_are_never_loaded(path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"holds objects"):
        read_arrays(archive(path, buffer.getvalue()), ["X"])


def test_arrays_expand_to_a_limit_together(path, monkeypatch):
    monkeypatch.setattr(array_files, "most_bytes", lambda size: 1_000_000)
    zeros = np.zeros(80_000)
    np.savez_compressed(path, a=zeros, b=zeros)
    assert read_arrays(path, ["a"])[0]["a"].shape == zeros.shape
    with pytest.raises(DataError, match="arrays of 1,280,256 bytes are compressed to"):
        read_arrays(path, ["a", "b"])
