from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils import estimator_checks

from representer import jobs
from representer.errors import ArgumentError, KindError, StorageError
from representer.kernels import (
    Gaussian,
    GramTransformer,
    Linear,
    NgramKernel,
    Nystroem,
    Polynomial,
    RecurrentKernel,
    StringKernel,
    TextKernel,
    gram,
)

rng = np.random.default_rng(0)
X = [rng.normal(size=(n % 5, 2)) for n in range(13)]
Y = X[3:9]
kernel = StringKernel()


@pytest.fixture(name="counted")
def counted_fixture(monkeypatch):
    """Return a function that calls ``gram`` and also returns the number of computed blocks."""
    attempted, corners = jobs.attempted, []

    def counting(function, corner, *arguments):
        corners.append(corner)
        return attempted(function, corner, *arguments)

    def counted(*arguments, **options):
        corners.clear()
        matrix = gram(*arguments, **options)
        return len(corners), matrix

    monkeypatch.setattr(jobs, "attempted", counting)
    return counted


def test_only_the_blocks_on_and_above_the_diagonal_are_computed(tmp_path, counted):
    assert counted(kernel, X, out=tmp_path / "k.npy", block=5)[0] == 6
    assert counted(kernel, X, X, out=tmp_path / "c.npy", block=5)[0] == 9


def test_a_finished_file_is_recognized(tmp_path, counted):
    _, first = counted(kernel, X, out=tmp_path / "k.npy", block=5)
    calls, again = counted(kernel, X, out=tmp_path / "k.npy", block=5)
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
    matrix = gram(Linear(), vectors, out=tmp_path / "v.npy", block=3)
    np.testing.assert_allclose(matrix, vectors @ vectors.T)


@pytest.mark.parametrize("engine", [
    pytest.param("loky", marks=pytest.mark.slow),
    pytest.param("dask", marks=pytest.mark.peers),
    pytest.param("ray", marks=pytest.mark.peers),
])  # fmt: skip
def test_workers_of_which_one_is_killed_write_the_bits_of_one_process(tmp_path, engine):
    program = Path(__file__).with_name("cluster_workers.py")
    # in which Ray writes its token and its logs; its workers get no time on busy processors else
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_TMPDIR": tempfile.gettempdir()}
    environment["RAY_worker_niceness"] = "0"
    arguments = [sys.executable, str(program), engine, str(tmp_path)]
    subprocess.run(arguments, check=True, timeout=600, env=environment, cwd=tmp_path)
    for name in ("", "-features"):
        one, cluster = (tmp_path / f"{which}{name}.npy" for which in ("one", "cluster"))
        assert one.read_bytes() == cluster.read_bytes()
    workers = {path.name for path in tmp_path.iterdir() if path.name.isdigit()}
    assert len(workers) >= 2
    assert (tmp_path / "killed").read_text("ascii") in workers
    # 45 blocks of the matrix and 9 of the features; blocks that were not lost are computed once
    assert sum(len((tmp_path / name).read_bytes()) for name in workers) <= 70


@pytest.mark.parametrize("place", [(2, 7), (7, 2), (7, 8)])
def test_a_damaged_block_is_recomputed_also_below_the_diagonal(tmp_path, counted, place):
    path = tmp_path / "k.npy"
    gram(kernel, X, out=path, block=5)
    damaged = np.lib.format.open_memmap(path, "r+")
    damaged[place] += 1
    damaged.flush()
    calls, matrix = counted(kernel, X, out=path, block=5)
    assert calls == 1
    np.testing.assert_allclose(matrix, kernel(X), atol=1e-14)


@pytest.mark.parametrize("size", [0, 60, 128, 300, 128 + 8 * 13 * 13 - 1, 128 + 8 * 13 * 13 + 8])
def test_a_file_of_the_wrong_size_is_recomputed(tmp_path, counted, size):
    path = tmp_path / "k.npy"
    gram(kernel, X, out=path, block=5)
    os.truncate(path, size)
    calls, matrix = counted(kernel, X, out=path, block=5)
    assert calls == 6
    np.testing.assert_allclose(matrix, kernel(X), atol=1e-14)
    assert counted(kernel, X, out=path, block=5)[0] == 0


def test_a_matrix_in_use_survives_the_recomputation_of_its_file(tmp_path, monkeypatch):
    matrix, expected = gram(kernel, X, out=tmp_path / "k.npy", block=5), kernel(X)
    values = jobs.attempted

    def checked(*arguments):
        np.testing.assert_allclose(matrix, expected, atol=1e-14)
        return values(*arguments)

    monkeypatch.setattr(jobs, "attempted", checked)
    os.truncate(tmp_path / "k.npy", 2000)
    gram(kernel, X, out=tmp_path / "k.npy", block=5)


def test_a_truncated_journal_only_causes_recomputation_of_blocks(tmp_path, counted):
    path, journal = tmp_path / "k.npy", tmp_path / "k.npy.journal"
    gram(kernel, X, out=path, block=5)
    whole = journal.read_bytes()
    for end in range(whole.index(b"\n") + 1, len(whole), 7):
        journal.write_bytes(whole[:end])
        calls, matrix = counted(kernel, X, out=path, block=5)
        assert calls == 6 - (whole[:end].count(b"\n") - 1)
        np.testing.assert_allclose(matrix, kernel(X), atol=1e-14)
        assert len(journal.read_bytes()) == len(whole)
    journal.write_bytes(whole[:10])
    with pytest.raises(ArgumentError, match="expected a file written by this function"):
        gram(kernel, X, out=path, block=5)


@pytest.mark.parametrize("damage", [b"\0\0\0\n", b"[0, 5]\n", b'{"a": 1}\n', b"[0, 0, null]\n"])
def test_a_damaged_line_of_the_journal_costs_its_own_block_alone(tmp_path, counted, damage):
    path, journal = tmp_path / "k.npy", tmp_path / "k.npy.journal"
    gram(kernel, X, out=path, block=5)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], damage, *lines[4:]]))
    calls, matrix = counted(kernel, X, out=path, block=5)
    assert calls == 1
    np.testing.assert_allclose(matrix, kernel(X), atol=1e-14)
    assert counted(kernel, X, out=path, block=5)[0] == 0


@pytest.mark.parametrize(("other", "objects", "block"), [
    (StringKernel(3), X, 5), (StringKernel(base=Gaussian()), X, 5), (RecurrentKernel(), X, 5),
    (StringKernel(), [*X[:-1], X[-1] + 1e-9], 5), (StringKernel(), X[::-1], 5),
    (StringKernel(), X, 4),
])  # fmt: skip
def test_the_file_of_another_kernel_or_other_objects_is_rejected(tmp_path, other, objects, block):
    gram(kernel, X, out=tmp_path / "k.npy", block=5)
    before = (tmp_path / "k.npy").read_bytes()
    with pytest.raises(ArgumentError, match=r"k.npy'; expected the Gram matrix of this kernel"):
        gram(other, objects, out=tmp_path / "k.npy", block=block)
    assert (tmp_path / "k.npy").read_bytes() == before


def test_a_file_without_a_journal_is_not_modified(tmp_path):
    np.save(tmp_path / "k.npy", np.ones(3))
    with pytest.raises(ArgumentError, match="expected a file written by this function"):
        gram(kernel, X, out=tmp_path / "k.npy")
    assert np.load(tmp_path / "k.npy", allow_pickle=False).tolist() == [1, 1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["k.npy"]


@pytest.mark.parametrize(("arguments", "options", "message"), [
    ((X,), {"block": 0}, "block is 0; expected a positive integer"),
    (([],), {}, r"X is \[\]; expected at least one object"),
    ((X, []), {}, r"Y is \[\]; expected at least one object"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(tmp_path, arguments, options, message):
    with pytest.raises(ArgumentError, match=message):
        gram(kernel, *arguments, out=tmp_path / "k.npy", **options)


def test_a_second_call_says_so_waits_and_computes_nothing(tmp_path, monkeypatch, capsys):
    begun, may_go_on, corners = threading.Event(), threading.Event(), []
    values = jobs.attempted

    def slow(*arguments):
        corners.append(arguments[1])
        begun.set()
        assert may_go_on.wait(30)
        return values(*arguments)

    monkeypatch.setattr(jobs, "attempted", slow)
    results = []

    def compute():
        results.append(gram(kernel, X, out=tmp_path / "k.npy", block=5))

    threads = [threading.Thread(target=compute) for _ in range(2)]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    threads[1].join(0.3)
    assert threads[1].is_alive()
    assert len(corners) == 1
    may_go_on.set()
    for thread in threads:
        thread.join(30)
    assert len(corners) == 6  # each block once
    line = f"{tmp_path / 'k.npy'} is being written by another call; waiting until it ends\n"
    assert capsys.readouterr().err == line
    for matrix in results:
        np.testing.assert_allclose(matrix, kernel(X), atol=1e-14)
    assert len(results) == 2


@pytest.mark.parametrize(("owner", "call"), [(os, "posix_fallocate"), (np.memmap, "flush")])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch, owner, call):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(owner, call, refuse)
        with pytest.raises(StorageError, match=r"k.npy cannot be written: no space left on device"):
            gram(kernel, X, out=tmp_path / "k.npy", block=5)
    assert (tmp_path / "k.npy.journal").read_bytes().count(b"\n") == 1  # no block is recorded
    matrix = gram(kernel, X, out=tmp_path / "k.npy", block=5)
    np.testing.assert_allclose(matrix, kernel(X), atol=1e-14)


def test_the_space_of_the_file_is_reserved_before_a_block_is_computed(tmp_path, monkeypatch):
    """Otherwise a disk that fills up would end the process, which writes to mapped memory."""

    def reserved(*arguments):
        status = (tmp_path / "k.npy").stat()
        assert 512 * status.st_blocks >= status.st_size == 128 + 8 * 200**2
        raise ZeroDivisionError

    monkeypatch.setattr(jobs, "attempted", reserved)
    with pytest.raises(ZeroDivisionError):
        gram(Linear(), rng.normal(size=(200, 2)), out=tmp_path / "k.npy")


def test_a_missing_folder_is_not_created(tmp_path):
    with pytest.raises(StorageError, match=r"k.npy cannot be written: .*[Nn]o such"):
        gram(kernel, X, out=tmp_path / "missing" / "k.npy")
    assert list(tmp_path.iterdir()) == []


def test_the_error_for_a_file_system_without_locks_names_it(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ArgumentError, match=r"a file system with locks \(No locks available\)"):
        gram(kernel, X, out=tmp_path / "k.npy")


def test_the_lock_is_released_also_after_an_error(tmp_path):
    first = gram(kernel, X, out=tmp_path / "k.npy", block=5)
    with pytest.raises(ArgumentError):
        gram(kernel, Y, out=tmp_path / "k.npy", block=5)
    with (tmp_path / "k.npy.journal").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises an error if it is held
    np.testing.assert_array_equal(gram(kernel, X, out=tmp_path / "k.npy", block=5), first)


@pytest.mark.parametrize("name", ["k.npy", "k.npy.journal"])
@pytest.mark.parametrize("target", ["precious", "new"])
def test_a_link_is_refused_and_its_target_is_as_it_was(tmp_path: Path, name: str, target: str):
    folder, precious = tmp_path / "k", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("precious")
    (folder / name).symlink_to(tmp_path / target)
    with pytest.raises(StorageError, match="symbolic link"):
        gram(kernel, X, out=folder / "k.npy")
    assert precious.read_text() == "precious"
    assert not (tmp_path / "new").exists()


# Kernels as transformers of scikit-learn, with its checks of estimators.


WORDS = ["abcab", "ab", "", "cabca", "bb", "acacab"] * 4


TRANSFORMERS = [GramTransformer, Nystroem]
WITHOUT_DATA = [  # checks of scikit-learn without 2-D data
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_mixin_order,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_valid_tag_types,
]


@pytest.mark.suite
@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_scikit_learn_estimator_checks_pass_with_kernels_of_vectors(transformer):
    results = estimator_checks.check_estimator(transformer(Gaussian()), on_skip=None)
    assert len(results) > 40
    others = {result["check_name"] for result in results if result["status"] != "passed"}
    assert others <= {"check_array_api_input"}  # requires an environment variable


@pytest.mark.suite
@pytest.mark.parametrize("check", WITHOUT_DATA)
@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_scikit_learn_estimator_checks_pass_with_kernels_of_sequences(transformer, check):
    """The tags declare that the input is not 2-D, so scikit-learn's 2-D data are skipped."""
    tags = transformer(StringKernel()).__sklearn_tags__()
    assert tags.no_validation
    assert not tags.input_tags.two_d_array
    check(transformer.__name__, transformer(StringKernel()))


def test_transform_returns_the_kernel_with_the_objects_of_fit():
    kernel = StringKernel(base="delta")
    transformer = GramTransformer(kernel)
    np.testing.assert_allclose(transformer.fit_transform(WORDS), kernel(WORDS))
    np.testing.assert_allclose(transformer.transform(WORDS[:2]), kernel(WORDS[:2], WORDS))
    tensors = [torch.randn(n, 2, requires_grad=True) for n in (3, 4)]
    gram = GramTransformer(StringKernel()).fit(tensors).transform(tensors)
    assert isinstance(gram, np.ndarray)
    assert gram.dtype == np.float64


def test_invalid_kernels_and_unfitted_transformers_are_rejected():
    with pytest.raises(NotFittedError):
        GramTransformer(StringKernel()).transform(WORDS)
    transformer = GramTransformer(StringKernel())
    transformer.kernel = "rbf"
    with pytest.raises(KindError, match="kernel is 'rbf'; expected a kernel"):
        transformer.fit(WORDS)
    with pytest.raises(ArgumentError, match="order is 0"):
        GramTransformer(StringKernel()).set_params(kernel__order=0).fit_transform([[[1.0]]])


class Table:
    """The part of a table of pandas or polars that counts here."""

    shape, columns = (2, 1), ("text",)

    def __iter__(self):
        return iter(self.columns)


def test_a_table_is_not_read_as_the_names_of_its_columns():
    kernels = StringKernel(base="delta"), NgramKernel(), TextKernel().fit
    for call in (*kernels, *(transformer(kernels[0]).fit for transformer in TRANSFORMERS)):
        with pytest.raises(
            KindError, match=r"X is Table; expected a list.*Pass one of its columns"
        ):
            call(Table())


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_a_kernel_that_must_be_fitted_learns_from_the_training_objects(transformer):
    kernel = TextKernel(str.split, (1,), (1, 2), 1, 1)
    texts = [" ".join(word) for word in WORDS]
    fitted = clone(kernel).fit(texts)
    for given in (kernel, kernel.cosine(), fitted):
        pipeline = make_pipeline(transformer(given), SVC())
        scores = cross_val_score(pipeline, texts, ["a" in w for w in texts], error_score="raise")
        assert scores.min() > 0.9
    assert not hasattr(kernel, "views_")
    assert transformer(fitted).fit(texts[:4]).kernel_ is fitted


def test_sizes_of_a_grid_may_be_integers_of_numpy():
    sizes = np.arange(1, 3)
    grid = {"nystroem__kernel__order": sizes, "nystroem__n_components": sizes + 3}
    pipeline = make_pipeline(Nystroem(StringKernel(base="delta"), random_state=0), SVC())
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise")
    kernel = search.fit(WORDS, ["a" in word for word in WORDS]).best_estimator_[0].kernel
    expected = StringKernel(int(kernel.order), base="delta")
    np.testing.assert_array_equal(kernel(WORDS), expected(WORDS))
    assert StringKernel(kernel.order).network(3, 2).order == kernel.order
    two, vectors = np.int64(2), np.eye(3)
    assert np.array_equal(Polynomial(two)(vectors), Polynomial(2)(vectors))
    assert np.array_equal(NgramKernel((two,), max_gap=two)(WORDS), NgramKernel((2,))(WORDS))
    with pytest.raises(ArgumentError, match="order is True; expected a positive integer"):
        StringKernel(True)
