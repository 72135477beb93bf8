"""MNE's epochs as windows: channels, sampling rate and events are taken from them."""

from __future__ import annotations

from dataclasses import replace

import mne
import numpy as np
import pytest
from sklearn.base import clone

from representer.errors import ArgumentError, DataError
from representer.estimators import SignalClassifier

RATE, COUNT = 100.0, 24
NAMES = ["Fz", "Cz", "Pz", "EOG"]
KERNEL = {"answer": "kernel", "random_state": 0, "verbose": 0}


def epochs(seed=0, rate=RATE, names=NAMES, kinds=("eeg", "eeg", "eeg", "eog")):
    """Return epochs of two rhythms in the channel Cz, in volts, with an artifact in EOG."""
    rng, codes = np.random.default_rng(seed), np.array([3, 7] * (COUNT // 2))
    time = np.arange(int(rate)) / rate
    data = 1e-6 * rng.normal(size=(COUNT, 4, len(time)))
    data[:, names.index("Cz")] += 3e-6 * np.sin(2 * np.pi * codes[:, None] * 3 * time)
    info = mne.create_info(list(names), rate, list(kinds))
    events = np.c_[np.arange(COUNT) * 200, np.zeros(COUNT, dtype=int), codes]
    return mne.EpochsArray(data, info, events=events, verbose="error")


def test_channels_rate_and_classes_are_those_of_the_epochs(tmp_path):
    train, test = epochs(), epochs(seed=1)
    model = SignalClassifier(**KERNEL).fit(train)
    assert model.sampling_rate_ == RATE
    assert model.inputs_.names == ("Fz", "Cz", "Pz")
    assert model.classes_.tolist() == [3, 7]
    array = test.get_data(picks="eeg")
    given = SignalClassifier(**KERNEL, sampling_rate=RATE).fit(
        train.get_data(picks="eeg"), train.events[:, 2], validation=None
    )
    np.testing.assert_array_equal(model.predict_proba(test), given.predict_proba(array))
    assert model.score(test, test.events[:, 2]) > 0.9
    model.save(tmp_path / "run")
    again = SignalClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(test), model.predict_proba(test))
    assert any("Cz" in one.what for one in again.explain(test[:1])[0].contributions)


def test_the_network_has_the_rate_of_the_epochs():
    model = SignalClassifier(answer="network", epochs=1, hidden_size=2, random_state=0, verbose=0)
    train = epochs()
    labels = np.where(train.events[:, 2] == 3, "low", "high")
    model.fit(train, labels, validation=(epochs(seed=1), labels))
    assert model.network_.config.sampling_rate == RATE
    assert model.predict(train).shape == (COUNT,)


def test_channels_are_found_by_name():
    model = SignalClassifier(**KERNEL).fit(epochs())
    test = epochs(seed=1)
    order = ["EOG", "Pz", "Cz", "Fz"]
    expected = model.predict_proba(test)
    moved = test.copy().reorder_channels(order)
    np.testing.assert_array_equal(model.predict_proba(moved), expected)
    with pytest.raises(DataError, match="X lacks the channels Pz of the training data"):
        model.predict(test.copy().drop_channels("Pz"))
    test.info["bads"] = ["Cz"]
    with pytest.raises(DataError, match="X lacks the channels Cz"):
        model.predict(test)


def test_a_warm_start_takes_channels_by_name_and_keeps_the_rate(tmp_path, monkeypatch):
    train, labels = epochs(), epochs().events[:, 2]
    options = {"epochs": 1, "hidden_size": 2, "random_state": 0, "verbose": 0}
    start = SignalClassifier(**options, sampling_rate=RATE).fit(train.get_data("eeg"), labels)
    start.inputs_ = replace(start.inputs_, names=("Fz", "Cz", "Pz"))  # as `fit signal` writes
    start.save(tmp_path / "start")
    warm = SignalClassifier(**options, warm_start=str(tmp_path / "start")).fit(train)
    reads, get_data = [], mne.EpochsArray.get_data
    with monkeypatch.context() as patch:
        patch.setattr(
            mne.EpochsArray, "get_data", lambda *a, **b: reads.append(1) or get_data(*a, **b)
        )
        moved = clone(warm).fit(train.copy().reorder_channels(["Pz", "Fz", "EOG", "Cz"]))
    assert len(reads) == 1
    expected = warm.predict_proba(train)
    np.testing.assert_array_equal(moved.predict_proba(train), expected)
    warm.save(tmp_path / "warm")
    again = SignalClassifier.load(tmp_path / "warm")
    np.testing.assert_array_equal(again.predict_proba(train), expected)
    with pytest.raises(DataError, match="X has 50 Hz; the model has 100 Hz"):
        clone(warm).fit(epochs(rate=50.0))


def test_errors_name_the_fix():
    with pytest.raises(DataError, match=r"X has 50 Hz; the model has 100 Hz.*resample\(100\)"):
        SignalClassifier(**KERNEL).fit(epochs()).predict(epochs(rate=50.0))
    with pytest.raises(ArgumentError, match=r"sampling_rate is 250; expected 100.*resample\(250\)"):
        SignalClassifier(**KERNEL, sampling_rate=250).fit(epochs())
    with pytest.raises(DataError, match=r"X has no good data channel, only channels of .* misc"):
        SignalClassifier(**KERNEL).fit(epochs(kinds=["misc"] * 4))
    raw = mne.io.RawArray(np.zeros((1, 300)), mne.create_info(1, RATE, "eeg"), verbose="error")
    with pytest.raises(DataError, match=r"X is a RawArray; expected mne\.Epochs.*fixed_length"):
        SignalClassifier(**KERNEL).fit(raw)
    model = SignalClassifier(**KERNEL).fit(epochs())
    with pytest.raises(ArgumentError, match="sampling_rate is None"):
        model.fit(epochs().get_data(), epochs().events[:, 2])
