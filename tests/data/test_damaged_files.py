"""Damaged files of every binary format are read or rejected in one line, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from damaged_files import campaign


def unexpected(outcomes: dict[str, dict[str, int]]) -> dict[str, list[str]]:
    """Return the files that were neither read nor rejected in one line, by format."""
    return {
        suffix: bad
        for suffix, counts in outcomes.items()
        if (bad := sorted(set(counts) - {"read", "one line"}))
    }


def test_damaged_files_are_read_or_rejected_in_one_line(tmp_path):
    assert unexpected(campaign(tmp_path, count=130)) == {}


@pytest.mark.slow
def test_two_thousand_damaged_files_need_little_memory(tmp_path):
    script = Path(__file__).with_name("damaged_files.py")
    run = subprocess.run(
        [sys.executable, script, tmp_path, "--seed", "1"], capture_output=True, check=True
    )
    found = json.loads(run.stdout)
    assert unexpected(found["outcomes"]) == {}
    assert sum(sum(counts.values()) for counts in found["outcomes"].values()) == 2000
    assert found["peak_mib"] < 1024  # most of it are torch and the readers themselves
