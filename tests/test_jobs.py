from __future__ import annotations

import numpy as np
import pytest
import torch
from joblib import parallel_config

from representer import jobs
from representer.errors import KindError
from representer.kernels import Linear
from representer.kernels.gram import compute_blocks

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
