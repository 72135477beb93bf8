"""Filters of a signal run in its report."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from representer.data.signals import Standardization, synthetic_recordings, write_npz
from representer.estimators import SignalClassifier
from representer.explain import band_importance, combined_lags, phase_lags
from representer.options.signal import SignalConfig
from representer.report import pictures
from representer.tasks.signal.flow import FLOW
from undrawn import undrawn

TINY = {
    "hidden_size": 3, "filter_length": 20, "stride": 10, "epochs": 1, "baselines": "none",
    "answer": "network", "jobs": 1,
}  # fmt: skip


@pytest.fixture(scope="session")
def drawn():
    return synthetic_recordings(subjects=3, windows=4)


@pytest.fixture(scope="session")
def runs(drawn, tmp_path_factory):
    """A run with wavelets, and one with dense filters."""
    folder = tmp_path_factory.mktemp("filters")
    write_npz(folder / "drawn.npz", drawn)
    chosen = SignalConfig(data=str(folder / "drawn.npz"), **TINY)
    with undrawn():
        FLOW.fit(replace(chosen, out=str(folder / "wavelet"), filters="wavelet"))
        out = str(folder / "dense")
        FLOW.fit(replace(chosen, out=out, filters="dense", test_subjects="subject 0"))
    return folder


@pytest.fixture(scope="session")
def found(runs):
    return json.loads((runs / "wavelet" / "details.json").read_text())["filters"]


def test_what_came_back_is_counted_over_folds(found):
    shares = {row["models"] for row in found["recurring"]}
    assert shares <= {1 / 3, 2 / 3, 1.0}
    assert sum(row["energy"] for row in found["recurring"]) <= 1 + 1e-9


@pytest.fixture(scope="session")
def tested(runs, drawn):
    """Each fold's model, with the signals and labels of the windows that it is tested on."""
    folds = []
    for number, subject in enumerate(["subject_0", "subject_1", "subject_2"]):
        one = SignalClassifier.load(runs / "wavelet" / "folds" / f"{number:03d}-{subject}")
        own = Standardization("subject").apply(
            drawn.take(drawn.subjects == subject.replace("_", " "))
        )
        folds.append((one.network_, torch.from_numpy(own.signals), torch.from_numpy(own.labels)))
    return folds


def test_bands_are_those_of_the_folds_on_the_windows_they_are_tested_on(tested, found):
    losses = [band_importance(*fold, 100.0).loss for fold in tested]
    mean = torch.stack(losses).mean(0)
    np.testing.assert_allclose(found["importance"]["loss"], mean, atol=1e-6)  # of float32
    assert found["importance"]["best"] == 1.0 + int(mean.argmax())


def test_every_class_has_the_lags_that_the_models_of_all_folds_go_by(tested, drawn, found):
    assert [row["class"] for row in found["lags"]] == list(drawn.classes)
    best = found["importance"]["best"]
    for label, row in enumerate(found["lags"]):
        of_models = [
            phase_lags(model, signals, label, best, 100.0, width=4.0)
            for model, signals, _ in tested
        ]
        expected = combined_lags(of_models)
        np.testing.assert_allclose(row["lags"], expected.lags, atol=1e-2)  # of float32 models
        np.testing.assert_allclose(row["weights"], expected.weights, atol=1e-4)


def test_dense_filters_have_bands_and_lags_but_no_cards(runs):
    details = json.loads((runs / "dense" / "details.json").read_text())
    found = details["filters"]
    assert found["cards"] == found["recurring"] == []
    assert found["importance"]
    page = (runs / "dense" / "report.html").read_text()
    assert "Frequency bands" in page
    assert "Wavelets" not in page


def test_the_page_shows_all_of_it(runs, found):
    page = (runs / "wavelet" / "report.html").read_text()
    assert page.count('aria-label="Wavelet of the') == len(found["cards"])
    assert 'aria-label="Importance of each frequency band"' in page
    assert "Oscillations common to the folds" in page
    card = found["cards"][0]
    assert f"{card['gate']} gate, unit {card['unit']}: {card['frequency']:.1f} Hz" in page


def test_known_channels_have_a_map_of_the_scalp():
    pytest.importorskip("mne")
    values = [0.1, 0.2, 0.3, 0.4, 0.5]
    drawn = pictures.scalp(values, ["FZ", "cz", "Pz", "O1", "ch7"], "Weights")
    assert drawn.startswith('<svg role="img" aria-label="Weights"')
    assert pictures.scalp(values, ["a", "b", "c", "Cz", "Pz"], "Weights") == ""


def test_a_place_of_the_scalp_with_two_names_is_drawn_once():
    pytest.importorskip("mne")
    names, values = ["Fz", "Cz", "Pz", "T7"], [0.1, 0.2, 0.3, 0.4]
    once = pictures.scalp(values, names, "Weights")
    assert pictures.scalp([0.9, *values], ["T3", *names], "Weights") == once
