"""A part of the suite of hostile text and links, and what its checks see."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest


@pytest.fixture
def suite(bench):
    found = bench("faults.hostile_text")
    found._folder = found.temporary_folder()
    return found


@pytest.mark.slow
def test_a_sample_of_hostile_texts_and_links_does_no_harm(suite, failures):
    chosen = [
        case for case in suite.cases(0, 1.0)
        if any(words in case.name for words in (
            "manifest-an unfinished string of escaped quotes-40000", "JSON Lines-3,000 lists-40000",
            "configuration of a run-an open list-10000", "--config-code-10000",
            "CSV cells-nearly a number-20000", "a file of a run-", "checkpoints-folder",
            "a folder to share-folder", "results of compare-file",
        ))
    ]  # fmt: skip
    assert len(chosen) == 11
    assert failures(chosen) == []


@pytest.mark.slow  # seven processes; the campaign itself runs them all
def test_time_code_errors_and_files_outside_are_seen(suite):
    def fails(call, words: str) -> None:
        with pytest.raises(AssertionError, match=words):
            suite._tried(call)

    def spend() -> None:
        while time.process_time() < end:
            pass

    end = time.process_time() + 1.2
    suite.SECONDS = 1.0
    fails(spend, r"took \d\.\d s|ended with hang")  # a busy machine
    fails(lambda: os.system("true"), "touched os.system")
    fails(lambda: {}["a"], "ended with 99")
    fails(lambda: print("a\nb"), "several lines")

    def follow(folder: Path) -> None:
        (folder / "a").write_text("new", encoding="utf-8")

    with pytest.raises(AssertionError, match="outside is now"):
        suite._linked("file", follow, "a")
