"""Pictures of the gallery from signals: planted waves, and what networks find."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from gallery_pictures import INK, LOWERS, RAISES
from representer.data.signals.synthetic import Coupling, synthetic_recordings
from representer.estimators import SignalClassifier
from representer.explain import band_importance, combined_lags, phase_lags, wavelet_cards
from representer.models import SignalStream

ELECTRODES = ["Fz", "F3", "F4", "Cz", "C3", "C4", "Pz", "P3", "P4", "O1", "O2"]
RATE = 100.0


@cache
def signals() -> tuple[list[Any], Any, torch.Tensor, Any, np.ndarray]:
    """Return four networks, the electrodes, test windows, their classes and the planted lags."""
    import mne

    info = mne.create_info(ELECTRODES, RATE, "eeg", verbose="error").set_montage("colin27_1020")
    place = np.array([channel["loc"][1] for channel in info["chs"]])
    lags = 900 * (place.max() - place)
    waves = (Coupling("independent", 10.0, 0.0, (0.0,) * len(lags)),
             Coupling("traveling", 10.0, 0.6, tuple(lags)))  # fmt: skip
    drawn = synthetic_recordings(waves, subjects=6, windows=80)
    is_test = np.isin(drawn.subjects, ["subject 4", "subject 5"])
    models = []
    for seed in range(4):
        model = SignalClassifier(
            sampling_rate=RATE, cell="gated-cnn", pooling="mean", standardize="window", epochs=20,
            answer="network", random_state=seed, verbose=0,
        )  # fmt: skip
        models.append(model.fit(drawn.signals[~is_test], drawn.labels[~is_test],
                                groups=drawn.subjects[~is_test]).network_.eval())  # fmt: skip
    windows = torch.as_tensor(drawn.signals[is_test])
    windows = (windows - windows.mean(2, keepdim=True)) / windows.std(2, keepdim=True)
    return models, info, windows, torch.as_tensor(drawn.labels[is_test]), lags - lags[0]


def scalp() -> Figure:
    import mne

    models, info, windows, _, planted = signals()
    found = combined_lags([phase_lags(m, windows, 1, 10.0, RATE) for m in models]).lags.numpy()
    figure, panels = plt.subplots(1, 2, figsize=(6, 3))
    for axes, title, values in zip(panels, ("planted", "found"), (planted, found), strict=True):
        picture, _ = mne.viz.plot_topomap(
            values, info, axes=axes, show=False, cmap="Blues", contours=4, vlim=(0, planted.max()),
            res=48,
        )  # fmt: skip
        axes.set_title(title)
    figure.colorbar(picture, ax=panels, label="lag (degrees)", shrink=0.7)
    return figure


def bands() -> Figure:
    models, _, windows, labels, _ = signals()
    figure, axes = plt.subplots(figsize=(6, 2.6))
    for model in models:
        found = band_importance(model, windows, labels, RATE, highest=30.0)
        axes.plot(found.frequencies, found.loss, linewidth=1.5)
    axes.axvline(10, color=INK, linestyle=":")
    axes.set(xlabel="removed band (Hz)", ylabel="decrease of the margin")
    return figure


def wavelets() -> Figure:
    cards = wavelet_cards(signals()[0][0].cell)[:3]
    figure, panels = plt.subplots(1, 3, figsize=(8, 2.4), sharey=True)
    for axes, card in zip(panels, cards, strict=True):
        for channel in ("Fz", "Cz", "O1"):
            axes.plot(1000 * card.times, card.waveform[ELECTRODES.index(channel)], label=channel)
        axes.set(title=f"{card.frequency:.1f} Hz", xlabel="milliseconds")
    panels[0].legend(fontsize=8)
    return figure


def stream() -> Figure:
    models, _, windows, labels, _ = signals()
    stride = models[0].config.stride
    figure, axes = plt.subplots(figsize=(6, 2.8))
    for window, label in list(zip(windows.float(), labels.tolist(), strict=True))[:24]:
        stream = SignalStream(models[0])
        starts = range(0, window.shape[1] - stride + 1, stride)
        chances = [stream.step(window[:, s : s + stride])[1].item() for s in starts]
        axes.plot([(s + stride) / RATE for s in starts], chances, linewidth=0.9,
                  color=LOWERS if label else RAISES)  # fmt: skip
    axes.set(xlabel="seconds of the window read so far", ylabel="probability of “traveling”")
    return figure
