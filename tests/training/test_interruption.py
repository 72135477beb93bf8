"""Signals: saved, gone at once, with the right exit code, and resumable to the bit."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from representer.storage import checkpoint
from representer.training.interruption import SIGNALS, Interruption, Stopped, stopping

Digests = Callable[[Path], dict[str, str]]
EXIT_CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture(autouse=True)
def _default_handlers() -> Iterator[None]:
    """Start from Python's handlers: a parent such as nohup may have set signals to be ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), EXIT_CODES)
def test_a_signal_is_remembered_with_its_exit_code(number: signal.Signals, code: int) -> None:
    with Interruption() as interruption:
        assert not interruption
        assert interruption.exit_code == 0
        signal.raise_signal(number)
        assert interruption
        assert (interruption.name, interruption.exit_code) == (number.name, code)


def test_the_handlers_from_before_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interruption():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_second_ctrl_c_leaves_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is before


def test_a_second_sigterm_changes_nothing() -> None:
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert interruption.exit_code == 129


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGHUP)
            assert not interruption
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_it_does_nothing() -> None:
    seen: list[Any] = []

    def work() -> None:
        with Interruption() as interruption:
            seen.append(bool(interruption))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


@pytest.mark.parametrize(("number", "code"), EXIT_CODES)
def test_outside_of_training_a_signal_is_an_exception_with_the_way_to_continue(
    number: signal.Signals, code: int
) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(Stopped, match=f"{number.name} received; .* --resume") as end, stopping():
        signal.raise_signal(number)
    assert end.value.exit_code == code
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_signal_that_came_too_late_for_training_is_raised_after_it() -> None:
    with stopping():
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Stopped, match="SIGTERM"):
            interruption.repeat()


def test_a_process_in_a_long_call_of_c_code_is_ended() -> None:
    code = (
        "import ctypes, signal; from representer.training import interruption\n"
        "interruption._PATIENCE = 0.1\n"
        "lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)\n"
        "with interruption.stopping():\n"
        "    print(flush=True)\n"
        "    lock(mutex), lock(mutex)\n"  # waits for itself
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)  # until it is in the call
    process.terminate()
    assert "stopped: SIGTERM received; " in process.communicate(timeout=20)[1]
    assert process.returncode == 143


def test_a_signal_in_a_step_saves_that_step_and_leaves(
    server: Any, digests: Digests, uninterrupted: Any, tmp_path: Path
) -> None:
    out, (number, code) = tmp_path / "run", EXIT_CODES[2]  # the others are raised above
    assert server.run("train", out, signal_at=["load", 9], signals=[number]) == code
    assert checkpoint.steps(out / "checkpoints")[-1] == 9
    log = (tmp_path / "run.log").read_text()
    assert f"error: stopped by {number.name} after step 9; everything up to this step" in log
    assert "Continue with --resume." in log
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests


@pytest.mark.parametrize("after", [7, 10])
def test_a_signal_in_an_evaluation_does_not_wait_for_its_end(
    server: Any, digests: Digests, uninterrupted: Any, tmp_path: Path, after: int
) -> None:
    """After step 10 the evaluation is that of an epoch's end."""
    out = tmp_path / "run"
    code = server.run("train", out, signal_at=["evaluate", after], signals=[signal.SIGTERM])
    assert code == 143
    found = checkpoint.latest(out / "checkpoints", report=pytest.fail)
    assert found is not None
    assert found.step == after
    assert found.state["progress"]["evaluated_at"] < after
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests


def test_a_signal_in_the_last_evaluation_leaves_a_run_that_can_be_finished(
    server: Any, digests: Digests, uninterrupted: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert server.run("train", out, signal_at=["evaluate", 80], signals=[signal.SIGTERM]) == 143
    assert not (out / "final.safetensors").exists()
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests


def test_a_double_ctrl_c_in_a_step_leaves_a_folder_that_can_be_resumed(
    server: Any, digests: Digests, uninterrupted: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    twice = [signal.SIGINT, signal.SIGINT]
    assert server.run("train", out, signal_at=["load", 11], signals=twice) == 130
    assert checkpoint.steps(out / "checkpoints")[-1] < 11
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests
