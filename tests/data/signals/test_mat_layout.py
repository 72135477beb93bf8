"""Sizes declared in MATLAB files are checked before anything is allocated."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from representer.data.signals import arrays as mat_layout
from representer.data.signals.arrays import check_layout

scipy_io = pytest.importorskip("scipy.io")


def element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(shape: tuple[int, ...], data: bytes, *, mx_class: int = 6, flags: int = 0) -> bytes:
    head = element(6, struct.pack("<II", mx_class | flags << 8, 0))
    head += element(5, struct.pack(f"<{len(shape)}i", *shape)) + element(1, b"X")
    return element(14, head + data)


def names(path, content: bytes, wanted=("X",)) -> list[str]:
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    path.write_bytes(header + content)
    with path.open("rb") as file:
        return check_layout(file, wanted)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.mat"


SOUND = matrix((2, 3), element(9, bytes(48)))


@pytest.mark.parametrize("form", ["4", "5"])
@pytest.mark.parametrize("packed", [False, True])
def test_names_in_files_written_by_scipy_are_found(path, form, packed):
    arrays = {"X": np.ones((2, 3)), "name": "Fz", "z": np.ones((2, 2)) * 1j, "n": np.arange(3)}
    if form == "5":
        arrays |= {
            "cells": np.asarray(["a", "größer"], object), "s": {"a": 1}, "c": np.ones((2, 3, 4)),
        }  # fmt: skip
    scipy_io.savemat(path, arrays, format=form, do_compression=packed)
    with path.open("rb") as file:
        assert check_layout(file, set(arrays) - {"s"}) == list(arrays)


def test_a_valid_array_passes_plain_and_deflated(path):
    assert names(path, SOUND) == ["X"]
    packed = zlib.compress(SOUND)
    assert names(path, struct.pack("<II", 15, len(packed)) + packed) == ["X"]


@pytest.mark.parametrize(("content", "problem"), [
    (matrix((2**30, 2**30), element(9, bytes(48))), "declares 1,152,921,504,606,846,976 entries"),
    (matrix((2, 4), element(9, bytes(48))), "declares 8 entries and holds 6"),
    (matrix((2, 2), element(9, bytes(48))), "declares 4 entries and holds 6"),
    (matrix((2, 3), element(9, bytes(48)), flags=8), "ends too early"),
    (matrix((-2, -3), element(9, bytes(48))), r"shape \(-2, -3\)"),
    (matrix((2, 3), element(99, bytes(48))), "holds 0"),
    (matrix((2**31 - 1, 1), element(14, b""), mx_class=1), "2,147,483,647 cells are declared in"),
    (matrix((2**31 - 1, 1), element(16, b"ab"), mx_class=4), "holds 2"),
    (matrix((1, 1), b"", mx_class=5), "sparse"),
    (struct.pack("<II", 14, 2**31) + SOUND[8:], "declares 2,147,483,648 bytes"),
    (element(9, bytes(64)), "ends too early|not a variable|declares"),
])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_an_excessive_size_is_rejected(path, content, problem, packed):
    if packed:
        content = zlib.compress(content)
        content = struct.pack("<II", 15, len(content)) + content
    with pytest.raises(ValueError, match=problem):
        names(path, content)


def test_the_nesting_of_cells_is_limited(path):
    content = matrix((1, 1), element(9, bytes(8)))
    for _ in range(12):
        content = matrix((1, 1), content, mx_class=1)
    with pytest.raises(ValueError, match="too deeply nested"):
        names(path, content)


def test_other_variables_are_not_checked(path):
    assert names(path, matrix((9, 9), b"", mx_class=5), wanted=("y",)) == ["X"]


@pytest.mark.parametrize(("header", "problem"), [
    ((0, 2**30, 2**30, 0, 2), "more bytes than the file has"),
    ((0, 1, 1, 0, 10**6), "more bytes than the file has"), ((0, -1, 1, 0, 2), "damaged header"),
    ((90, 1, 1, 0, 2), "damaged header"), ((2, 1, 1, 0, 2), "sparse"),
])  # fmt: skip
def test_an_excessive_size_in_version_4_is_rejected(path, header, problem):
    path.write_bytes(struct.pack("<5i", *header) + b"X\0" + bytes(64))
    with path.open("rb") as file, pytest.raises(ValueError, match=problem):
        check_layout(file, ("X",))


def structure(shape: tuple[int, ...], names: bytes, *values: bytes, mx_class: int = 2) -> bytes:
    fields = element(5, struct.pack("<i", 8)) + element(1, names)
    return matrix(shape, fields + b"".join(values), mx_class=mx_class)


ONE = matrix((1, 1), element(9, bytes(8)))


def test_the_fields_of_structures_are_checked_where_all_variables_are_read(path):
    two = b"a".ljust(8, b"\0") + b"b".ljust(8, b"\0")
    assert names(path, structure((1, 1), two, ONE, ONE), wanted=None) == ["X"]
    with pytest.raises(ValueError, match="2,147,483,646 cells are declared"):
        names(path, structure((2**30 - 1, 1), two, ONE, ONE), wanted=None)
    with pytest.raises(ValueError, match="declares 4 entries and holds 1"):
        names(
            path,
            structure((1, 1), b"a".ljust(8, b"\0"), matrix((2, 2), element(9, bytes(8)))),
            None,
        )
    with pytest.raises(ValueError, match="a structure"):
        names(path, structure((1, 1), two, ONE, ONE))


def test_sparse_arrays_and_functions_are_left_to_the_reader_where_all_variables_are_read(path):
    for mx_class in (5, 16, 17):
        assert names(path, matrix((9, 9), b"", mx_class=mx_class), wanted=None) == ["X"]


def test_deep_structures_are_read_to_a_limit(path):
    content = ONE
    for depth in range(60):
        content = structure((1, 1), b"a".ljust(8, b"\0"), content)
        if depth == 20:
            assert names(path, content, wanted=None) == ["X"]
    with pytest.raises(ValueError, match="too deeply nested"):
        names(path, content, wanted=None)


def test_variables_expand_to_a_limit_together(path, monkeypatch):
    monkeypatch.setattr(mat_layout, "most_bytes", lambda size: 1_000_000)
    zeros = zlib.compress(matrix((1, 80_000), element(9, bytes(640_000))))
    packed = struct.pack("<II", 15, len(zeros)) + zeros
    assert names(path, packed) == ["X"]
    with pytest.raises(ValueError, match="compressed too far"):
        names(path, packed * 2)
