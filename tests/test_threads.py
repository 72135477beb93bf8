"""representer.machine: numbers of threads, and how they wait."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from joblib import parallel_config
from threadpoolctl import threadpool_info, threadpool_limits

from representer import jobs, machine
from representer.cli.main import entry_point
from representer.errors import ArgumentError, KindError
from representer.estimators.linear_models import SoftmaxRegression
from representer.kernels import Linear, subtree_kernel
from representer.kernels.gram import compute_blocks
from representer.machine import ROUNDS, busy_note, is_device_name, limited, require_device


def numbers() -> set[int]:
    """Return the numbers of threads of torch and of every BLAS."""
    blas = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
    assert blas
    return {torch.get_num_threads(), *blas}


def test_torch_and_blas_compute_on_so_many_threads_within_the_block_alone() -> None:
    with threadpool_limits(3, user_api="blas"):
        torch.set_num_threads(3)
        try:
            with limited(2):
                assert numbers() == {2}
            assert numbers() == {3}
            with limited(None):
                assert numbers() == {3}
            with pytest.raises(ZeroDivisionError), limited(2):
                _ = 1 / 0
            assert numbers() == {3}
        finally:
            torch.set_num_threads(1)


@pytest.mark.parametrize(("small", "expected"), [(machine.SMALL, {1}), (1, {3})])
def test_small_matrices_are_computed_with_on_one_thread(
    small: int, expected: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: seen.append(numbers()) or function(*arguments)

    monkeypatch.setattr(machine, "SMALL", small)
    monkeypatch.setattr(subtree_kernel, "_loss", watched(subtree_kernel._loss))
    monkeypatch.setattr(SoftmaxRegression, "_newton_step", watched(SoftmaxRegression._newton_step))
    x = np.random.default_rng(0).normal(size=(9, 2))
    labels = np.arange(9) % 3
    with limited(3):
        subtree_kernel.block_weights([x @ x.T], np.eye(3)[labels])
        evidences = len(seen)
        SoftmaxRegression(x, labels).fit(1.0)
        assert numbers() == {3}
    assert 0 < evidences < len(seen)
    assert set().union(*seen) == expected


@pytest.mark.parametrize(("given", "expected"), [
    ({}, {"GOMP_SPINCOUNT": ROUNDS}),
    ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
    ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
])  # fmt: skip
def test_threads_of_the_command_line_sleep_while_they_wait_unless_the_user_says_otherwise(
    given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, text in given.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    assert entry_point(["--version"]) == 0
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    assert {name: os.environ[name] for name in names if name in os.environ} == expected


@pytest.mark.parametrize(
    ("load", "processors", "is_said"),
    [(7.0, 2, True), (0.1, 2, False), (3.0, 16, False), (5, 1, False)],
)
def test_a_busy_machine_is_named_with_the_option_that_helps(
    monkeypatch, load, processors, is_said
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    note = busy_note()
    assert ("--threads 1" in note) == is_said
    assert bool(note) == is_said


# Devices by name: an explicit request is obeyed or refused, never replaced.


@pytest.fixture(params=[0, 2], ids=["without a GPU", "with two GPUs"])
def count(request, monkeypatch) -> int:
    """Return the number of CUDA devices that torch seems to find."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: request.param)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    return request.param


def test_auto_is_a_cuda_device_if_there_is_one(count: int):
    assert require_device("auto").type == ("cuda" if count else "cpu")
    assert require_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_cuda_device_is_taken_by_its_number_or_refused(count: int, name: str):
    if count:
        assert require_device(name) == torch.device(name)
    else:
        with pytest.raises(ArgumentError, match=f"'{name}'; expected auto or cpu"):
            require_device(name)


@pytest.mark.parametrize("name", ["cuda:2", "mps"])
def test_a_device_that_is_not_there_is_refused(count: int, name: str):
    with pytest.raises(ArgumentError, match=f"device is '{name}'"):
        require_device(name)


def test_an_apple_gpu_is_taken_on_request_alone(count: int, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert require_device("mps").type == "mps"
    assert require_device("auto").type == ("cuda" if count else "cpu")


def test_several_processes_take_no_numbered_device(count: int):
    assert require_device("auto", processes=2).type == ("cuda" if count else "cpu")
    if count:
        with pytest.raises(ArgumentError, match="a CUDA device of its own"):
            require_device("cuda:1", processes=2)


@pytest.mark.parametrize(
    "name", ["gpu", "cuda:", "cuda:-1", "cpu:0", "CUDA", "cuda:٣", "", None, 0]
)
def test_other_names_are_not_devices(name: object):
    assert not is_device_name(name)
    with pytest.raises(ArgumentError, match="expected auto, cpu, cuda, cuda:N or mps"):
        require_device(name)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("variable", ["", "cp1252"])
def test_letters_that_a_code_page_lacks_are_written_to_a_pipe_unless_it_is_requested(
    variable: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    if variable:
        monkeypatch.setenv("PYTHONIOENCODING", variable)
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="cp1252"))
    machine.write_utf8()
    print("é ≥ 猫", end="", flush=True)
    assert pipe.getvalue() == ("é ? ?".encode("cp1252") if variable else "é ≥ 猫".encode())


X = np.random.default_rng(0).normal(size=(12, 3))


def compute(kernel, n_jobs=None):
    places = range(0, len(X), 2)
    return dict(compute_blocks(kernel, places, lambda i: (X[i : i + 2], X), n_jobs))


class Watched(Linear):
    """Records torch's number of threads in each call; fails on its last block if told to."""

    threads: list[int]
    fails = False

    def __call__(self, X, Y=None):
        self.threads.append(torch.get_num_threads())
        if self.fails and len(self.threads) == 4:
            raise KindError("X", "odd", "even")
        return super().__call__(X, Y)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_each_block_is_computed_on_one_thread_and_the_number_is_restored(n_jobs):
    kernel, before = Watched(), torch.get_num_threads()
    kernel.threads = []
    torch.set_num_threads(2)
    try:
        with parallel_config("threading"):
            values = compute(kernel, n_jobs)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert kernel.threads == [1] * 6
    np.testing.assert_allclose(np.vstack([values[i] for i in range(0, 12, 2)]), X @ X.T)


def test_an_error_of_the_kernel_is_raised_at_once(capsys):
    kernel = Watched()
    kernel.threads, kernel.fails = [], True
    with pytest.raises(KindError, match="X is odd; expected even"):
        compute(kernel)
    assert len(kernel.threads) == 4
    assert capsys.readouterr().err == ""


def test_blocks_that_a_failed_backend_has_not_computed_are_computed_again(monkeypatch, capsys):
    attempted, left = jobs.attempted, [0]

    def lose(*arguments):
        left[0] += 1
        if left[0] in (3, 4, 7):
            raise OSError("a worker is lost")
        return attempted(*arguments)

    monkeypatch.setattr(jobs, "attempted", lose)
    found = compute(Linear())
    assert sorted(found) == [0, 2, 4, 6, 8, 10]
    assert left[0] == 6 + 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "workers are started again for 4 blocks (a worker is lost)"
    assert len(lines) == 3


def test_a_backend_that_finishes_nothing_in_three_attempts_is_an_error(monkeypatch):
    calls = []

    def lose(*arguments):
        calls.append(arguments)
        raise OSError("no workers")

    monkeypatch.setattr(jobs, "attempted", lose)
    with pytest.raises(OSError, match="no workers"):
        compute(Linear())
    assert len(calls) == 3
