"""The list of long work: what is finished is kept, and processes end as their parent wants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from representer.errors import ArgumentError, DataError, StorageError, TrainingError
from representer.jobs import finished
from representer.tasks.worklist import WorkList, locked, outcomes

NAMES = "settings.json", "results.jsonl"
SETTINGS = {"lr": 0.1, "trainer": {"epochs": 2}}


def work_in(folder: Path, **changes: Any) -> WorkList[str, int]:
    return WorkList(folder, NAMES, SETTINGS | changes, line, entry)


def line(unit: str, value: int) -> dict[str, Any]:
    return {"unit": unit, "value": value}


def entry(parsed: dict[str, Any]) -> tuple[str, int]:
    return parsed["unit"], parsed["value"]


def length(unit: str) -> int:
    if unit == "diverges":
        raise TrainingError("the loss is NaN")
    if unit == "wrong":
        raise DataError("a text is empty")
    return len(unit)


def run(work: WorkList[str, int], *units: str) -> list[tuple[str, Any]]:
    return [*work.run(length, units, lambda unit: (unit,), 1)]


def test_each_value_is_on_the_disk_when_it_is_yielded(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    for number, (unit, value) in enumerate(work.run(length, ("a", "bb"), lambda u: (u,), 1), 1):
        assert value == len(unit)
        assert len(finished(tmp_path / NAMES[1], entry)[0]) == number
    assert work_in(tmp_path).finished == {"a": 1, "bb": 2}


def test_an_error_of_training_is_yielded_and_not_kept_and_another_one_is_raised(
    tmp_path: Path,
) -> None:
    work = work_in(tmp_path)
    (_, error), (_, value) = run(work, "diverges", "a")
    assert (str(error), value) == ("the loss is NaN", 1)
    with pytest.raises(DataError, match="a text is empty"):
        run(work, "wrong", "bb")
    assert work_in(tmp_path).finished == {"a": 1}


def test_other_settings_are_refused_but_for_more_epochs(tmp_path: Path) -> None:
    run(work_in(tmp_path), "a")
    with pytest.raises(ArgumentError, match=r"lr is 0\.2; expected 0\.1"):
        work_in(tmp_path, lr=0.2)
    assert work_in(tmp_path, trainer={"epochs": 3}).finished == {"a": 1}
    with pytest.raises(ArgumentError, match="epochs is 2; expected 3"):
        work_in(tmp_path)
    (tmp_path / NAMES[0]).write_text("[]")
    with pytest.raises(DataError, match=r"settings\.json: cannot be used: it is no object"):
        work_in(tmp_path)


def test_a_folder_with_other_files_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with (
        pytest.raises(ArgumentError, match=r"output is .*; expected a new folder, or that of work"),
        locked(tmp_path, NAMES[0], "work", option="output"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def die(unit: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return unit


@pytest.mark.slow  # processes of their own
def test_a_process_that_is_killed_is_reported() -> None:
    with pytest.raises(TrainingError, match="a process was killed, possibly for lack of memory"):
        list(outcomes(die, (0, 1), lambda unit: (unit,), 2))


def wait(unit: int, folder: Path) -> int:
    (folder / f"{unit}.pid").write_text(str(os.getpid()))
    time.sleep(600 if unit else 0)
    return unit


@pytest.mark.slow
def test_units_of_a_list_that_nobody_reads_any_more_are_stopped(tmp_path: Path) -> None:
    ended = outcomes(wait, range(4), lambda unit: (unit, tmp_path), 2)
    assert next(iter(ended)) == (0, 0)
    started = time.monotonic()
    ended.close()  # type: ignore[attr-defined]
    assert time.monotonic() - started < 60


PARENT = """
import sys
from pathlib import Path
from representer.errors import Interrupted
from representer.tasks.worklist import outcomes
sys.path.insert(0, str(Path(sys.argv[1])))
from test_worklist import wait
folder = Path(sys.argv[2])
try:
    for unit, value in outcomes(wait, range(1, 3), lambda unit: (unit, folder), 2):
        pass
except Interrupted as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-c", PARENT, str(Path(__file__).parent), str(tmp_path)]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        workers = wait_for(lambda: [int(p.read_text() or 0) for p in tmp_path.glob("*.pid")], 2)
        parent.send_signal(number)
        said, _ = parent.communicate(timeout=60)
    finally:
        parent.kill()
    wait_for(lambda: [pid for pid in workers if not Path(f"/proc/{pid}/stat").exists()], 2)
    assert parent.returncode == (-9 if number == signal.SIGKILL else 143)
    assert ("SIGTERM received; what is finished is kept" in said) == (number == signal.SIGTERM)


def test_a_unit_that_did_not_reach_the_disk_is_not_finished(tmp_path: Path, monkeypatch):
    def full(*_: Any) -> None:
        raise StorageError(tmp_path, OSError(28, "No space left on device"))

    work = work_in(tmp_path)
    work.add("a", 1)
    monkeypatch.setattr("representer.storage.atomic.append", full)
    with pytest.raises(StorageError):
        work.add("b", 2)
    assert work.finished == {"a": 1} == work_in(tmp_path).finished


def wait_for(found: Any, count: int) -> list[int]:
    """Return what a function finds once it is enough."""
    deadline = time.monotonic() + 120
    while len(values := [value for value in found() if value]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return values
