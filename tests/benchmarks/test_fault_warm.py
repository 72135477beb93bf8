"""The server of forked commands, which the suites of the campaign share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def server(bench) -> Iterator[Any]:
    server = bench("faults.warm").Server()
    yield server
    server.close()


def test_a_command_has_its_folder_its_variables_its_output_and_its_exit_code(
    server: Any, tmp_path: Path
) -> None:
    words = [["--version"], ["fit"], ["--version"]]
    assert server.run(tmp_path / "log", words=words, folder=str(tmp_path)) == 2
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["representer", "error:"]


def test_a_command_that_does_not_end_is_killed_and_reported(server: Any, tmp_path: Path) -> None:
    pid = server.start(tmp_path / "log", words=[], faults=[["stop"]])
    with pytest.raises(AssertionError, match="did not end within"):
        server.wait(pid, 0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert server.run(tmp_path / "log", words=[["--version"]]) == 0
