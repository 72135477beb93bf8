from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import pytest
import torch

from representer.errors import ArgumentError
from representer.kernels import Gaussian, Linear, RecurrentKernel, StringKernel, gram
from representer.kernels.gram_journal import fingerprint

rng = np.random.default_rng(0)
X = [rng.normal(size=(n % 5, 2)) for n in range(13)]
Y = X[3:9]
kernel = StringKernel()


class Counting(StringKernel):
    """Counts its calls."""

    calls = 0

    def __call__(self, X, Y=None):
        Counting.calls += 1
        return super().__call__(X, Y)


def calls_of(*arguments, **options):
    Counting.calls = 0
    found = gram(*arguments, **options)
    return Counting.calls, found


@pytest.mark.parametrize("block", [1, 4, 5, 13, 100])
def test_the_file_holds_the_gram_matrix(tmp_path, block):
    whole = gram(kernel, X, out=tmp_path / "k.npy", block=block)
    np.testing.assert_allclose(whole, kernel(X), atol=1e-14)
    np.testing.assert_allclose(np.load(tmp_path / "k.npy", allow_pickle=False), kernel(X))
    cross = gram(kernel, X, Y, out=tmp_path / "c.npy", block=block)
    np.testing.assert_allclose(cross, kernel(X, Y), atol=1e-14)
    assert isinstance(cross, np.memmap)
    assert not cross.flags.writeable


def test_only_the_blocks_on_and_above_the_diagonal_are_computed(tmp_path):
    assert calls_of(Counting(), X, out=tmp_path / "k.npy", block=5)[0] == 6
    assert calls_of(Counting(), X, X, out=tmp_path / "c.npy", block=5)[0] == 9


def test_a_finished_file_is_recognized(tmp_path):
    _, first = calls_of(Counting(), X, out=tmp_path / "k.npy", block=5)
    calls, again = calls_of(Counting(), X, out=tmp_path / "k.npy", block=5)
    assert calls == 0
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_threads_and_processes_give_the_same_file(tmp_path, backend):
    with joblib.parallel_config(backend):
        gram(kernel, X, out=tmp_path / "k.npy", block=4, n_jobs=2)
    np.testing.assert_allclose(np.load(tmp_path / "k.npy", allow_pickle=False), kernel(X))


def test_strings_tensors_and_vectors_are_objects(tmp_path):
    words, tensors = ["ab", "", "abc"], [torch.from_numpy(x) for x in X]
    tokens = StringKernel(base="delta")
    np.testing.assert_allclose(gram(tokens, words, out=tmp_path / "w.npy", block=2), tokens(words))
    np.testing.assert_allclose(gram(kernel, tensors, out=tmp_path / "t.npy", block=4), kernel(X))
    vectors = rng.normal(size=(7, 2))
    found = gram(Linear(), vectors, out=tmp_path / "v.npy", block=3)
    np.testing.assert_allclose(found, vectors @ vectors.T)


PROGRAM = """
import sys, time
import numpy as np
from representer.kernels import StringKernel, gram

class Slow(StringKernel):
    def __call__(self, X, Y=None):
        time.sleep(0.05)
        return super().__call__(X, Y)

rng = np.random.default_rng(1)
X = [rng.normal(size=(n % 5, 2)) for n in range(40)]
Slow.__qualname__ = "StringKernel"
gram(Slow(), X, out=sys.argv[1], block=4)
"""


def test_a_killed_run_is_taken_up_where_it_was(tmp_path):
    path = tmp_path / "k.npy"
    journal = tmp_path / "k.npy.journal"
    run = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)])
    limit = time.monotonic() + 120
    while time.monotonic() < limit and run.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > 6:
            break
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    done = journal.read_bytes().count(b"\n") - 1
    assert 6 <= done < 55
    generator = np.random.default_rng(1)
    objects = [generator.normal(size=(n % 5, 2)) for n in range(40)]
    Counting.__qualname__ = "StringKernel"
    try:
        calls, found = calls_of(Counting(), objects, out=path, block=4)
    finally:
        Counting.__qualname__ = "Counting"
    assert calls == 55 - done
    np.testing.assert_allclose(found, kernel(objects), atol=1e-14)


def test_a_torn_block_is_recomputed(tmp_path):
    path = tmp_path / "k.npy"
    gram(Counting(), X, out=path, block=5)
    torn = np.lib.format.open_memmap(path, "r+")
    torn[2, 7] += 1
    torn.flush()
    calls, found = calls_of(Counting(), X, out=path, block=5)
    assert calls == 1
    np.testing.assert_allclose(found, kernel(X), atol=1e-14)


def test_a_torn_line_of_the_journal_counts_as_none(tmp_path):
    path, journal = tmp_path / "k.npy", tmp_path / "k.npy.journal"
    gram(Counting(), X, out=path, block=5)
    journal.write_bytes(journal.read_bytes()[:-4])
    assert calls_of(Counting(), X, out=path, block=5)[0] == 1
    assert calls_of(Counting(), X, out=path, block=5)[0] == 0


@pytest.mark.parametrize(
    ("other", "objects", "block"),
    [
        (StringKernel(3), X, 5),
        (StringKernel(base=Gaussian()), X, 5),
        (RecurrentKernel(), X, 5),
        (StringKernel(), [*X[:-1], X[-1] + 1e-9], 5),
        (StringKernel(), X[::-1], 5),
        (StringKernel(), X, 4),
    ],
)
def test_the_file_of_another_kernel_or_other_objects_is_refused(tmp_path, other, objects, block):
    gram(kernel, X, out=tmp_path / "k.npy", block=5)
    before = (tmp_path / "k.npy").read_bytes()
    with pytest.raises(ArgumentError, match=r"k.npy'; expected the Gram matrix of this kernel"):
        gram(other, objects, out=tmp_path / "k.npy", block=block)
    assert (tmp_path / "k.npy").read_bytes() == before


def test_a_file_without_a_journal_is_not_touched(tmp_path):
    np.save(tmp_path / "k.npy", np.ones(3))
    with pytest.raises(ArgumentError, match="expected a file that this function wrote"):
        gram(kernel, X, out=tmp_path / "k.npy")
    assert np.load(tmp_path / "k.npy", allow_pickle=False).tolist() == [1, 1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["k.npy"]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X,), {"block": 0}, "block is 0; expected a whole number from 1 on"),
        (([],), {}, r"X is \[\]; expected at least one object"),
        ((X, []), {}, r"Y is \[\]; expected at least one object"),
    ],
)
def test_arguments_without_meaning_are_refused(tmp_path, arguments, options, message):
    with pytest.raises(ArgumentError, match=message):
        gram(kernel, *arguments, out=tmp_path / "k.npy", **options)


def test_the_fingerprint_tells_contents_apart():
    contents = [
        ["ab", "c"], ["a", "bc"], [["ab"], "c"], [1, 2], ["1", "2"], np.zeros(2), np.zeros((1, 2)),
        np.zeros(2, np.float32), None, [None], [], [[]], True, 1, 1.0, torch.exp, torch.sinh,
    ]  # fmt: skip
    marks = [fingerprint(kernel, content) for content in contents]
    assert len(set(marks)) == len(marks)
    assert fingerprint(kernel, torch.zeros(2)) == fingerprint(kernel, np.zeros(2, np.float32))


def test_who_comes_second_waits_and_computes_nothing(tmp_path):
    begun, may_go_on, calls = threading.Event(), threading.Event(), []

    class Slow(StringKernel):
        def __call__(self, X, Y=None):
            calls.append(len(calls))
            begun.set()
            assert may_go_on.wait(30)
            return super().__call__(X, Y)

    found = []

    def compute():
        found.append(gram(Slow(), X, out=tmp_path / "k.npy", block=5))

    threads = [threading.Thread(target=compute) for _ in range(2)]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    threads[1].join(0.3)
    assert threads[1].is_alive()
    assert len(calls) == 1
    may_go_on.set()
    for thread in threads:
        thread.join(30)
    assert len(calls) == 6  # each block once
    for matrix in found:
        np.testing.assert_allclose(matrix, kernel(X), atol=1e-14)
    assert len(found) == 2


def test_the_lock_ends_with_the_call_also_where_it_fails(tmp_path):
    first = gram(kernel, X, out=tmp_path / "k.npy", block=5)
    with pytest.raises(ArgumentError):
        gram(kernel, Y, out=tmp_path / "k.npy", block=5)
    with (tmp_path / "k.npy.journal").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # which raises where it is held
    np.testing.assert_array_equal(gram(kernel, X, out=tmp_path / "k.npy", block=5), first)
