"""A part of the suite of hostile run folders, and what its checks see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def suite(bench):
    return bench("faults.run_folders")


@pytest.mark.slow
def test_a_sample_of_hostile_run_folders_is_harmless(suite, failures):
    suite.setup(["graph"])
    cases = [case for case in suite.cases(0, 0.003) if case.name.startswith("graph")]
    assert failures(cases) == []


@pytest.mark.slow
def test_hostile_run_folders_of_every_task_are_harmless(suite, failures):
    suite.setup()
    assert failures(suite.cases(1, 0.1)) == []


def test_a_child_is_ended_in_time_and_what_it_touches_is_listed(bench, tmp_path: Path):
    child = bench("faults.forked")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("x")
    (tmp_path / "link").symlink_to("secret/file")

    def curious() -> int:
        (tmp_path / "link").read_text()
        return os.system("true")

    ended = child.forked(curious, tmp_path, seconds=20, forbidden=[tmp_path / "secret"])
    assert [one.split()[0] for one in ended.touched] == ["open", "os.system"]
    assert child.forked(lambda: bytearray(2**31) and 0, tmp_path, seconds=20).code == 99
    endless = child.forked(lambda: [None for _ in iter(int, 1)] and 0, tmp_path, seconds=0.2)
    assert endless.code == child.HANG
