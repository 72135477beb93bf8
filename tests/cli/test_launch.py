"""``fit ... --launch torchrun``."""

from __future__ import annotations

import os
import sys

import pytest

from representer.cli import main
from representer.cli.errors import describe

FIT = ("fit", "text", "--demo", "--out", "run")


@pytest.fixture
def started(monkeypatch):
    """Record what would replace the process."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    def execve(path: str, words: list[str], variables: dict[str, str]) -> None:
        calls.append((words, variables))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return calls


def test_torchrun_gets_the_command_and_the_variables(run, started, monkeypatch):
    words = [*FIT, "--device", "cpu", "--launch", "torchrun", "--nproc", "3", "--max-restarts", "2"]
    monkeypatch.setattr(sys, "argv", ["representer", *words])
    with pytest.raises(SystemExit):
        run(*words)
    ((command, variables),) = started
    end = command.index("--")
    assert command[end:] == ["--", "representer", *words]
    assert command[1:end] == [
        "-m", "torch.distributed.run", "--nproc-per-node", "3", "--nnodes", "1",
        "--max-restarts", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "-m",
    ]  # fmt: skip
    assert variables["ACCELERATE_USE_CPU"] == "true"
    assert variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert int(variables["OMP_NUM_THREADS"]) == max(1, (os.cpu_count() or 1) // 3)


def test_several_machines_have_the_address_of_the_first(run, started, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    words = [*FIT, "--launch=torchrun", "--nnodes=2", "--rdzv-endpoint=host:29500"]
    with pytest.raises(SystemExit):
        run(*words)
    ((command, variables),) = started
    assert command[command.index("--rdzv-endpoint") + 1] == "host:29500"
    assert command[command.index("--nnodes") + 1] == "2"
    assert variables["OMP_NUM_THREADS"] == "5"


def test_a_process_of_torchrun_trains_and_continues_after_a_restart(run, started, monkeypatch):
    trained = []
    task = launch_task(monkeypatch, trained)
    words = ("fit", task, "--demo", "--out", "run", "--launch", "torchrun")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    for restarts in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restarts)
        assert run(*words).code == 0
    assert [config.resume for config in trained] == [False, True]
    assert not started


def launch_task(monkeypatch, trained) -> str:
    """Replace the training of texts by an entry into a list."""
    from representer.tasks import options as task

    monkeypatch.setattr(task.Task, "function", lambda self, name: trained.append)
    return "text"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nproc", "2"), "--nproc is 2; expected nothing without --launch"),
        (("--max-restarts", "1"), "--max-restarts is 1; expected nothing without --launch"),
        (("--launch", "mpirun"), "--launch"),
        (("--launch", "torchrun", "--nproc", "0"), "--nproc is 0; expected 1 or more"),
        (("--launch", "torchrun", "--nnodes", "2"), "--rdzv-endpoint is None; expected HOST:PORT"),
        (("--launch", "torchrun", "--rdzv-endpoint", "a:1"), "expected nothing on one"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(run, started, words, message):
    outcome = run(*FIT, *words)
    assert outcome.code == 2
    assert message in outcome.error
    assert not started


def test_the_usual_values_are_those_of_the_options():
    from representer.cli.main import load
    from representer.cli.parser import build

    defaults = {one.dest: one.default for one in build("fit text", load("fit text"))._actions}
    assert {name: defaults[name] for name in main.USUAL} == main.USUAL


def test_the_end_of_another_process_is_not_called_a_bug():
    error = RuntimeError("[pytorch/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer")
    line, code = describe(error)
    assert line.startswith("error: another process of the training ended or does not answer")
    assert "bug" not in line
    assert code == 70
    assert "a bug" in describe(RuntimeError("something else"))[0]
