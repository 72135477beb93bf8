"""Recordings in MATLAB files and NumPy archives, whose declared sizes are checked first."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from representer.data.signals import arrays as mat_layout
from representer.data.signals import read_mat, read_npz, synthetic_recordings
from representer.data.signals.arrays import check_layout
from representer.errors import DataError

scipy_io = pytest.importorskip("scipy.io")


# Recordings in a MATLAB file.


def written(path, **changed):
    arrays = {"X": np.ones((3, 2, 4)), "y": [0, 1, 0], "subject": [1, 1, 2], "fs": 100.0, **changed}
    scipy_io.savemat(path, {k: v for k, v in arrays.items() if v is not None})
    return path


def test_arrays_are_read(tmp_path):
    drawn = synthetic_recordings(subjects=2, windows=4)
    path = written(
        tmp_path / "a.mat", X=drawn.signals,
        y=np.asarray(drawn.classes, dtype=object)[drawn.labels], subject=drawn.subjects,
        fs=drawn.sampling_rate, channels=np.asarray(drawn.channels, dtype=object),
    )  # fmt: skip
    read = read_mat(path)
    assert np.array_equal(read.signals, drawn.signals)
    assert np.array_equal(read.labels, drawn.labels)
    assert read.subjects.tolist() == drawn.subjects.tolist()
    assert (read.classes, read.channels) == (drawn.classes, drawn.channels)
    assert read.sampling_rate == 100


def test_names_can_be_numbers_and_columns(tmp_path):
    path = written(tmp_path / "a.mat", y=[[0], [1], [0]], subject=[[1], [1], [2]])
    read = read_mat(path)
    assert (read.classes, read.subjects.tolist()) == (("0", "1"), ["1", "1", "2"])
    assert read.channels == ("ch0", "ch1")


@pytest.mark.parametrize("shape", [(3, 1, 4), (1, 2, 4), (1, 1, 4)])
def test_a_single_channel_or_window_keeps_its_axis(tmp_path, shape):
    path = written(tmp_path / "a.mat", X=np.ones(shape), y=None, subject=[1] * shape[0])
    assert read_mat(path, is_labeled=False).signals.shape == shape


def test_padding_of_char_rows_is_dropped(tmp_path):
    path = written(tmp_path / "a.mat", channels=np.asarray(["Fz ", "FC1"]))
    assert read_mat(path).channels == ("Fz", "FC1")


def test_missing_arrays_are_reported(tmp_path):
    path = written(tmp_path / "a.mat", y=None, fs=None)
    with pytest.raises(
        DataError, match=r"a\.mat: there is no array y and no fs; the file has X, subje"
    ):
        read_mat(path)


def test_invalid_matlab_files_are_rejected(tmp_path):
    (tmp_path / "a.mat").write_text("no arrays")
    with pytest.raises(
        DataError, match=r"a\.mat: cannot be read as a MATLAB file: it has no MATLAB header"
    ):
        read_mat(tmp_path / "a.mat")


def test_version_7_3_is_rejected_with_the_fix(tmp_path):
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124, b" ") + b"\x00\x02IM"
    (tmp_path / "a.mat").write_bytes(head + b"\x00" * 512)
    with pytest.raises(
        DataError, match=r"a\.mat: MATLAB files of version 7\.3 are not supported\. Save it with"
    ):
        read_mat(tmp_path / "a.mat")


# Sizes declared in MATLAB files are checked before anything is allocated.


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


# Recordings in an .npz file.


def test_channels_are_optional(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3, 4)), y=[0, 1], subject=["a", "b"], fs=250)
    assert read_npz(tmp_path / "a.npz").channels == ("ch0", "ch1", "ch2")


def test_missing_keys_are_reported(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3, 4)), label=[0, 1])
    expected = (
        r"a\.npz: there is no array y and no subject and no fs; the file has "
        r"X float64 \(2, 3, 4\), label int64 \(2,\)\. X, y.*--signals NAME, --labels NAME"
    )
    with pytest.raises(DataError, match=expected):
        read_npz(tmp_path / "a.npz")


def test_objects_are_not_unpickled(tmp_path):
    x = np.ones((2, 3, 4))
    who = np.asarray(["a", None], dtype=object)
    np.savez(tmp_path / "a.npz", X=x, y=[0, 1], subject=who, fs=250)
    with pytest.raises(
        DataError, match=r"the array subject holds objects\. Save it .*: plain arrays"
    ):
        read_npz(tmp_path / "a.npz")


def test_a_single_array_is_not_an_archive(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(DataError, match=r"a\.npz: cannot be read as \.npz"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(("subject", "rate"), [("groups", "sfreq"), ("subjects", "sampling_rate")])
def test_subjects_and_rate_may_have_another_common_name(tmp_path, subject, rate):
    arrays = {"X": np.ones((4, 2, 8)), "y": [0, 1, 0, 1], subject: [1, 1, 2, 2], rate: 100.0}
    np.savez(tmp_path / "a.npz", **arrays)
    data = read_npz(tmp_path / "a.npz")
    assert (data.subjects.tolist(), data.sampling_rate) == (["1", "1", "2", "2"], 100.0)
