"""The recipe of the two-bits problem: training, resumption, table."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from representer_papers.kbdnn2018 import long_term
from representer_papers.kbdnn2018.long_term import LongTermSetting
from representer_papers.shared import tables

SETTING = LongTermSetting("iff", 4, "kbrn-fitted", "paper", 0, 40, tiny=True)


def run_of(out, setting):
    return tables.Run(out / setting.name, setting, "updates")


def run_one(out, setting):
    tables.run_one(run_of(out, setting), (), long_term.train_long_term, lambda *_: None)


@pytest.fixture(scope="session")
def solved(tmp_path_factory):
    """Return the folder of a run that solves a short problem."""
    out = tmp_path_factory.mktemp("out")
    setting = LongTermSetting("or", 3, "kbrn-fitted", "paper", 0, 400)
    run_one(out, setting)
    return out, setting


def metrics(out, setting):
    return json.loads((out / setting.name / "metrics.json").read_text("utf-8"))


@pytest.mark.slow
def test_a_run_stops_once_an_epoch_solves_the_problem(solved):
    out, setting = solved
    found = metrics(out, setting)
    assert found["stopped_by"] == "solved"
    assert found["updates"] % 10 == 0
    assert found["accuracy"] > 0.99
    assert found["test"] > 0.99  # 99.5 % by three standard errors on other sequences
    assert found["test_running"] > 0.9
    assert len(found["functions"]) == 20
    assert 0 <= found["steep"] <= 20
    assert run_of(out, setting).is_done()
    assert run_of(out, replace(setting, updates=10**6)).is_done()  # it is solved


def test_a_resumed_run_has_the_metrics_of_an_uninterrupted_one(tmp_path, monkeypatch):
    monkeypatch.setattr(long_term, "SAVE", 20)
    monkeypatch.setattr(long_term, "BATCH", 20)
    run_one(tmp_path / "whole", SETTING)
    run_one(tmp_path / "parts", replace(SETTING, updates=20))
    assert run_of(tmp_path / "parts", replace(SETTING, updates=20)).is_done()
    assert not run_of(tmp_path / "parts", SETTING).is_done()
    run_one(tmp_path / "parts", SETTING)
    whole, parts = (metrics(tmp_path / name, SETTING) for name in ("whole", "parts"))
    assert whole == parts
    assert whole["stopped_by"] == "updates"


@pytest.mark.slow
def test_sequences_grow_once_their_length_is_solved(tmp_path, monkeypatch):
    monkeypatch.setattr(long_term, "STAGES", (3, 4))
    setting = LongTermSetting("or", 5, "kbrn-grown", "paper", 0, 200)
    assert setting.stages == (3, 4, 5)
    assert replace(setting, time=4).stages == (3, 4)
    assert replace(setting, cell="kbrn-fitted").stages == (5,)
    lengths, draw = [], long_term.networks.two_bits
    monkeypatch.setattr(
        long_term.networks,
        "two_bits",
        lambda f, time, *rest: lengths.append(time) or draw(f, time, *rest),
    )
    norms, cut = [], torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(
        torch.nn.utils, "clip_grad_norm_", lambda p, norm: norms.append(norm) or cut(p, norm)
    )
    monkeypatch.setattr(long_term, "SAVE", 30)
    run_one(tmp_path, setting)
    found = metrics(tmp_path, setting)
    assert found["stopped_by"] == "solved"
    assert set(norms) == {1.0}
    assert replace(setting, cell="kbrn-long-grown").clip == 0.1
    assert replace(setting, cell="kbrn-long").clip == math.inf
    trained = lengths[: found["updates"]]
    assert trained == sorted(trained)
    assert set(trained) == {3, 4, 5}
    assert set(lengths[found["updates"] :]) == {5}  # what it is tested on


def test_test_sequences_differ_from_training_sequences(tmp_path, monkeypatch):
    draws, draw = [], long_term._batch
    monkeypatch.setattr(
        long_term, "_batch", lambda *given: draws.append(given[1:4]) or draw(*given)
    )
    monkeypatch.setattr(long_term, "BATCH", 20)
    run_one(tmp_path, replace(SETTING, cell="lstm", updates=10))
    assert draws[:10] == [("train", update, 20) for update in range(1, 11)]
    assert draws[10:] == [("test", number, 1000) for number in range(5)]
    assert (long_term.ENOUGH, long_term.SOLVED) == (0.99, 0.995)  # as the page says


def test_the_figure_shows_the_fraction_of_solved_runs_and_mean_updates():
    def run(time, updates, stopped_by="solved"):
        return {"time": time, "updates": updates, "stopped_by": stopped_by}

    runs = [run(5, 10), run(5, 90, "updates"), run(10, 20), run(10, 40), run(20, 9, "diverged")]
    rates, updates = long_term._points(runs)
    assert rates == [(5, 0.5), (10, 1.0), (20, 0.0)]
    assert updates == [(5, 10.0), (10, 30.0)]


def test_a_non_finite_gradient_ends_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(long_term, "BATCH", 20)
    make = long_term.networks.long_term_network

    def broken(*arguments):
        network = make(*arguments)
        network.readout.weight.data.fill_(float("nan"))
        return network

    monkeypatch.setattr(long_term.networks, "long_term_network", broken)
    run_one(tmp_path, SETTING)
    found = metrics(tmp_path, SETTING)
    assert (found["stopped_by"], found["updates"]) == ("diverged", 1)
