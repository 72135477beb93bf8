"""Leaving subjects out: fresh weights, nothing of the test, each fold once, in any process."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from representer.data.signals import synthetic_recordings, write_npz
from representer.data.signals.recordings import KINDS
from representer.data.splits import Fold
from representer.errors import ArgumentError, Interrupted
from representer.estimators import SignalClassifier, kernel_machine
from representer.estimators.halves import Pool
from representer.options.signal import SignalConfig
from representer.storage import checkpoint
from representer.storage.run import RunFiles, RunFolder
from representer.tasks import flow
from representer.tasks.results import FoldResult, FoldResults
from representer.tasks.signal.data import (
    plan,
    windows_to_fit,
)
from representer.tasks.signal.flow import FLOW, SignalTask, run_loso
from representer.tasks.worklist import WorkList
from saved_weights import read_weights
from undrawn import undrawn

TINY = SignalConfig(
    answer="network", hidden_size=3, filter_length=10, stride=25, epochs=2, batch_size=8,
    patience=0, jobs=1,
)  # fmt: skip


def quiet(line: str) -> None:
    """Take a report and do nothing."""


def trained_on(of, config, folder, number) -> FoldResult:
    """Train and test a model on a fold alone, in a folder."""
    sources = {"all": windows_to_fit(of, config)}
    return FLOW.test_fold(config, sources, plan(of, config)[number], folder)


@pytest.fixture(scope="session")
def drawn():
    return synthetic_recordings(subjects=4, windows=6)


@pytest.fixture(scope="session")
def done(drawn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("loso")
    return folder, run_loso(drawn, TINY, folder, report=quiet)


def test_every_window_is_predicted_by_a_model_that_never_saw_its_subject(drawn, done):
    _, found = done
    assert found.rows.tolist() == list(range(24))
    assert np.allclose(found.probabilities.sum(axis=1), 1, atol=1e-6)
    for fold in found.folds:
        assert set(drawn.subjects[fold.rows]) == set(fold.fold.test)


def test_without_validation_the_last_weights_predict(drawn, tmp_path):
    config = replace(TINY, valid_fraction=0.0, patience=1, epochs=4)
    found = run_loso(drawn, config, tmp_path)
    assert {(f.epochs, f.best_epoch, f.stopped_by) for f in found.folds} == {(4, 4, "epochs")}
    assert len(found.folds[0].fold.train) == 3
    folder = min((tmp_path / "folds").iterdir())
    best, last = (read_weights(folder / f"{name}.safetensors")[0] for name in ("model", "final"))
    for name, weight in last.items():
        np.testing.assert_array_equal(weight, best[name])
    again = run_loso(drawn, config, tmp_path, report=quiet)
    np.testing.assert_array_equal(again.probabilities, found.probabilities)


def with_another(drawn, subject):
    """Return the recordings with other signals and labels of one subject."""
    changed = replace(drawn, signals=drawn.signals.copy(), labels=drawn.labels.copy())
    own = drawn.subjects == subject
    changed.signals[own] = 1e3 * changed.signals[own][::-1] + 7
    changed.labels[own] = 1 - changed.labels[own]
    return changed


@pytest.mark.parametrize(
    ("processors", "jobs", "expected"), [(4, None, 1), (4, 0, 4), (64, 0, 8), (4, 3, 3)]
)
def test_folds_run_in_as_many_processes_as_wanted(
    drawn, tmp_path, monkeypatch, processors, jobs, expected
):
    asked = []
    monkeypatch.setattr(flow.os, "cpu_count", lambda: processors)
    monkeypatch.setattr(WorkList, "run", lambda *own: asked.append(own[-1]) or [])
    with pytest.raises(KeyError):
        run_loso(drawn, replace(TINY, jobs=jobs), tmp_path, report=quiet)
    assert asked == [expected]


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_a_test_subject_change_nothing_in_training(drawn, tmp_path, kind):
    config = replace(TINY, epochs=1, standardize=kind)
    changed = with_another(drawn, "subject 2")
    found = []
    for place, of in (("given", drawn), ("changed", changed)):
        assert trained_on(of, config, tmp_path / place, 2).fold.test == ("subject 2",)
        row = (tmp_path / place / "metrics.jsonl").read_text()
        found.append((read_weights(tmp_path / place / "model.safetensors")[0], row))
    (ours, our_row), (theirs, their_row) = found
    assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)
    assert our_row == their_row


@pytest.mark.parametrize("answer", ["kernel", "both"])
def test_kernel_and_weights_are_fitted_without_the_test_subject(drawn, tmp_path, answer):
    config = replace(TINY, answer=answer)
    changed = with_another(drawn, "subject 2")
    found = []
    for place, of in (("given", drawn), ("changed", changed)):
        result = trained_on(of, config, tmp_path / place, 2)
        files = ("kernel.safetensors", "pool.json")
        found.append([(tmp_path / place / name).read_bytes() for name in files])
        trained = SignalClassifier.load(tmp_path / place)
        of_fold = windows_to_fit(of, config).recordings.signals[result.rows]
        np.testing.assert_allclose(trained.predict_proba(of_fold), result.probabilities, atol=1e-6)
        assert result.parts.keys() == trained.parts_.keys()
        assert sum(part["share"] for part in result.parts.values()) == pytest.approx(1)
        assert (result.epochs == 0) == (answer == "kernel")
    assert found[0] == found[1]
    again = trained_on(changed, config, tmp_path / "changed", 2)
    assert np.array_equal(again.probabilities, result.probabilities)


def test_a_fold_counts_subjects_in_its_cross_validation_and_weights(drawn, tmp_path, monkeypatch):
    seen, splits_of, counted, find = [], kernel_machine.splits_of, [], Pool.fit.__func__
    monkeypatch.setattr(
        Pool, "fit", classmethod(lambda cls, *own: counted.append(own[-1]) or find(cls, *own))
    )

    def recorded(target, values, groups, digests):
        seen.append((values, groups))
        return splits_of(target, values, groups, digests)

    monkeypatch.setattr(kernel_machine, "splits_of", recorded)
    config = replace(TINY, answer="kernel")
    fold = trained_on(drawn, config, tmp_path / "run", 0).fold
    ((values, groups),) = seen
    of_train = np.isin(drawn.subjects, fold.train)
    assert groups.tolist() == drawn.subjects[of_train].tolist()
    assert values.tolist() == drawn.labels[of_train].tolist()
    assert counted == [len(fold.valid)]


def test_a_fold_predicts_with_its_best_weights_on_windows_standardized_as_in_training(
    drawn, tmp_path
):
    config = replace(TINY, epochs=5, lr=0.3, standardize="training")
    found = run_loso(drawn, config, tmp_path, report=quiet)
    assert any(fold.best_epoch < fold.epochs for fold in found.folds)
    for folder, fold in zip(sorted((tmp_path / "folds").iterdir()), found.folds, strict=True):
        trained = SignalClassifier.load(folder)
        valid = drawn.take(np.isin(drawn.subjects, fold.fold.valid))
        chances = trained.predict_proba(valid.signals)[np.arange(len(valid)), valid.labels]
        assert fold.valid["valid_loss"] == pytest.approx(-np.log(chances).mean(), abs=1e-5)
        ours = trained.predict_proba(drawn.signals[fold.rows])
        assert np.allclose(ours, fold.probabilities, atol=1e-6)
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert fold.valid["valid_loss"] == min(row["valid_loss"] for row in rows)


def test_every_fold_begins_with_weights_of_its_own(drawn):
    sources = {"all": windows_to_fit(drawn, TINY)}
    folds = plan(drawn, TINY)
    assert len({FLOW.fold_data(TINY, sources, fold).seed for fold in folds}) == 4


def test_the_folds_that_are_missing_are_run(drawn, done, tmp_path, monkeypatch):
    _, found = done
    whole = SignalTask.train

    def stopped(task, run, config, data, **options):
        if data.folds[0].name == "subject 2":
            raise Interrupted("asked to stop", 143)
        return whole(task, run, config, data, **options)

    monkeypatch.setattr(SignalTask, "train", stopped)
    with pytest.raises(Interrupted):
        run_loso(drawn, TINY, tmp_path, report=quiet)
    monkeypatch.setattr(SignalTask, "train", whole)
    lines: list[str] = []
    again = run_loso(drawn, TINY, tmp_path, report=lines.append)
    assert lines[0] == "2 of 4 folds are finished already"
    assert len(lines) == 3
    assert np.array_equal(again.probabilities, found.probabilities)


@pytest.mark.parametrize("is_of_fit", [True, False])
def test_a_fold_names_the_way_in_which_its_run_continues(drawn, tmp_path, monkeypatch, is_of_fit):
    said = []

    def stopped(task, run, config, data, **options):
        said.append(run.how_to_continue)
        raise Interrupted("asked to stop", 143)

    if is_of_fit:
        (tmp_path / "config.yaml").write_text("jobs: 1\n")
    monkeypatch.setattr(SignalTask, "train", stopped)
    with pytest.raises(Interrupted):
        run_loso(drawn, TINY, tmp_path, report=quiet)
    option = "Continue with --resume." if is_of_fit else "The same command continues."
    assert said == [option]


@pytest.mark.parametrize(
    "change", [{"hidden_size": 4}, {"lr": 0.5}, {"seed": 1}, {"epochs": 1}, {"answer": "both"}]
)
def test_a_fold_of_other_settings_is_refused(drawn, done, change):
    with pytest.raises(ArgumentError, match="with which the run in"):
        run_loso(drawn, replace(TINY, **change), done[0], report=quiet)


def test_a_fold_of_other_data_is_refused(drawn, done):
    with pytest.raises(ArgumentError, match="data is"):
        run_loso(replace(drawn, signals=drawn.signals + 1), TINY, done[0], report=quiet)


@pytest.mark.parametrize("change", [lambda text: text[:-9], lambda text: text.replace("{", "[")])
def test_a_fold_without_a_whole_line_is_finished_again(drawn, done, tmp_path, change):
    folder, found = done
    shutil.copytree(folder, tmp_path / "run")
    path, lines = tmp_path / "run/folds.jsonl", []
    first, second, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, *others, change(second)]))
    again = run_loso(drawn, TINY, tmp_path / "run", report=lines.append)
    assert lines[0] == "3 of 4 folds are finished already"
    assert np.array_equal(again.probabilities, found.probabilities)


def test_a_fold_writes_its_predictions_as_plain_json(done):
    folder, found = done
    written = json.loads((folder / "folds.jsonl").read_text().partition("\n")[0])
    assert written["fold"]["test"] == ["subject 0"]
    assert written["rows"] == [0, 1, 2, 3, 4, 5]
    assert written["epochs"] == 2
    read = FoldResult.from_dict(written)
    assert np.array_equal(read.probabilities, found.folds[0].probabilities)
    assert FoldResults.of([read]).seconds == read.seconds


def test_groups_and_named_subjects_are_folds_too(drawn):
    assert len(plan(drawn, replace(TINY, folds=2))) == 2
    (fold,) = plan(drawn, replace(TINY, test_subjects="subject 1, subject 3"))
    assert fold.test == ("subject 1", "subject 3")


def test_a_run_that_is_killed_in_its_folds_with_other_options_continues(
    drawn, tmp_path, monkeypatch
):
    """The digests on the disk are those of its files at any time."""
    write_npz(tmp_path / "drawn.npz", drawn)
    config = replace(TINY, data=str(tmp_path / "drawn.npz"), out=str(tmp_path / "run"), epochs=1)
    with undrawn():
        FLOW.fit(config)
    longer = replace(config, epochs=2, test_subjects="subject 1", resume=True)
    read = []

    def killed(task, folder, *others):
        files = RunFiles(folder)
        read.append([files.yaml("config.yaml")["epochs"], len(files.json("splits.json")["folds"])])
        raise Interrupted("killed", 137)

    with monkeypatch.context() as patch:
        patch.setattr(SignalTask, "cross_validate", killed)
        with pytest.raises(Interrupted):
            FLOW.fit(longer)
    with undrawn():
        FLOW.fit(longer)
    files = RunFiles(tmp_path / "run")
    assert read == [[1, 4]]
    assert files.yaml("config.yaml")["epochs"] == 2
    assert [one["test"] for one in files.json("splits.json")["folds"]] == [["subject 1"]]


@pytest.mark.slow
def test_a_signal_stops_all_processes_where_they_can_go_on(tmp_path):
    out = tmp_path / "run"
    words = [sys.executable, "-m", "representer", "fit", "signal", "--demo", "--out", str(out)]
    words += ["--jobs", "2", "--epochs", "2000", "--patience", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and len(saved_steps(out)) < 2:
            time.sleep(0.2)
        time.sleep(2)  # in the midst of both
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 143
    assert "stopped: SIGTERM received; what is finished is kept" in said
    assert all(steps[-1] > 0 for steps in saved_steps(out))
    for folder in (out / "folds").iterdir():  # nobody holds it any more
        RunFolder(folder, resume=True).close()


def saved_steps(out) -> list[list[int]]:
    """Return the checkpoints of each fold that has any."""
    found = [checkpoint.steps(folder) for folder in out.glob("folds/*/checkpoints")]
    return [steps for steps in found if steps]


def test_probabilities_stay_with_their_windows_when_folds_are_joined():
    def fold(rows: list[int]) -> FoldResult:
        chances = np.asarray([[row / 10, 1 - row / 10] for row in rows])
        sides = Fold("f", ("a",), ("b",), ("c",))
        return FoldResult(sides, np.asarray(rows), chances, 1.0, 1, 1, {}, "epochs", {})

    joined = FoldResults.of([fold([2, 5]), fold([0, 4]), fold([1, 3])])
    assert joined.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert joined.probabilities[:, 0].tolist() == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
