from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from representer.errors import StorageError
from representer.kernels.gram import MatrixFile, checksum

VALUES = np.arange(6.0).reshape(2, 3)


def test_blocks_are_written_at_their_corners_also_in_small_pieces(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
    matrix = MatrixFile.create(tmp_path / "m.npy", (5, 4))
    matrix.write(((1, 1), VALUES), ((3, 0), VALUES.T[:2]))
    expected = np.zeros((5, 4))
    expected[1:3, 1:], expected[3:, :2] = VALUES, VALUES.T[:2]
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy", allow_pickle=False), expected)
    again = MatrixFile.open(tmp_path / "m.npy", (5, 4))
    assert again == matrix
    assert again.checksum((1, 1), (2, 3)) == checksum(VALUES)
    assert again.checksum((1, 1), (3, 2), transposed=True) == checksum(VALUES.T)
    assert again.checksum((1, 1), (2, 3)) != checksum(VALUES.T)


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    def refuse(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    matrix = MatrixFile.create(tmp_path / "m.npy", (2, 3))
    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(StorageError, match=r"m.npy cannot be written: no space left on device"):
        matrix.write(((0, 0), VALUES))
