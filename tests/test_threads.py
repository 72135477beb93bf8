"""representer.machine: numbers of threads, and how they wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from representer import machine
from representer.cli.main import entry_point
from representer.estimators.linear_models import SoftmaxRegression
from representer.kernels import subtree_kernel
from representer.machine import ROUNDS, busy_note, limited


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
