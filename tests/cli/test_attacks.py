"""Damaged and hostile run folders end in one clear line, and change nothing: see attacks.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from .attacks import Target, campaign, make_targets


def problems(targets: list[Target], folder: Path, count: int, seed: int) -> list[str]:
    cases = campaign(targets, folder, count, seed)
    return [f"{case}" for case in cases if case.problem]


def test_a_sample_of_hostile_run_folders_is_harmless(tmp_path):
    targets = make_targets(tmp_path, ("graph",))  # and texts with a kernel
    assert problems(targets, tmp_path, 3, seed=0) == []


@pytest.mark.slow
def test_2000_hostile_run_folders_are_harmless(tmp_path):
    assert problems(make_targets(tmp_path), tmp_path, 2000, seed=1) == []
