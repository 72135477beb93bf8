"""Figures that explain signal classifiers: wavelets, frequency bands and scalp maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from representer.report.canvas import (
    BASELINE,
    INK,
    MODEL,
    VALID,
    canvas,
    canvases,
    plain,
    svg,
)

_DRAWN = 8  # strongest channels of a waveform
_MIN_POSITIONS = 4  # known positions required for a map


def wavelet(card: Mapping[str, Any], channels: Sequence[str]) -> str:
    """Plot a wavelet: the waveforms of its strongest channels, and its spectrum.

    Args:
        card: An entry of ``signal_filters.describe_filters``.
        channels: Names of the channels.
    """
    import numpy as np

    figure, (waves, spectrum) = canvases(7.2, 2.2, 2)
    wave, times = np.asarray(card["waveform"]), np.asarray(card["times"])
    strongest = np.argsort(-np.asarray(card["amplitudes"]))[:_DRAWN]
    for place, channel in enumerate(strongest):
        shade = 0.35 + 0.65 * (1 - place / len(strongest))
        waves.plot(1000 * times, wave[channel], color=MODEL, alpha=shade, linewidth=1.2,
                   label=plain(channels[int(channel)]))  # fmt: skip
    waves.set_xlabel("ms from the middle of the window")
    waves.legend(frameon=False, labelcolor=INK, fontsize=7, ncols=2)
    power = (np.abs(np.fft.rfft(wave, 1024)) ** 2).sum(0)
    step = times[1] - times[0] if len(times) > 1 else 1.0
    spectrum.plot(np.fft.rfftfreq(1024, step), power / power.max(), color=MODEL)
    spectrum.axvline(card["frequency"], color=VALID, linewidth=1, linestyle=":")
    spectrum.set_xlabel("Hz")
    spectrum.set_ylabel("power, relative to the maximum")
    return svg(figure, f"Wavelet of the {card['gate']} gate, unit {card['unit']}")


def importance(bands: Mapping[str, Any]) -> str:
    """Plot the decrease of the margin without each frequency band."""
    figure, axes = canvas(7.2, 2.4)
    axes.bar(bands["frequencies"], bands["loss"], color=MODEL, width=0.8)
    axes.axhline(0, color=BASELINE, linewidth=0.7)
    axes.set_xlabel("center of the removed band (Hz)")
    axes.set_ylabel("decrease of the margin")
    return svg(figure, "Importance of each frequency band")


def scalp(values: Sequence[float], channels: Sequence[str], title: str) -> str:
    """Plot values of channels as a scalp map, for channel names of the 10-5 system.

    Args:
        values: One value per channel.
        channels: Names of the channels, in any case.
        title: Label for screen readers.

    Returns:
        SVG; empty if fewer than four channels are known, or mne is not installed.
    """
    import numpy as np

    try:
        import mne
    except ImportError:
        return ""
    built_in = mne.channels.get_builtin_montages()
    system = next(name for name in ("colin27_1005", "standard_1005") if name in built_in)
    places = mne.channels.make_standard_montage(system).get_positions()["ch_pos"]
    known = {name.lower(): name for name in places}
    found = {known[name.lower()]: k for k, name in enumerate(channels) if name.lower() in known}
    # T3 is the old name of T7: each position is plotted once
    rows = sorted({tuple(places[name]): k for name, k in found.items()}.values())
    if len(rows) < _MIN_POSITIONS:
        return ""
    names = [known[channels[k].lower()] for k in rows]
    info = mne.create_info(names, 100.0, "eeg", verbose="error")
    info.set_montage(system, on_missing="ignore", verbose="error")
    figure, axes = canvas(2.4, 2.2)
    shown = np.asarray([values[k] for k in rows])
    mne.viz.plot_topomap(shown, info, axes=axes, show=False, cmap="Blues", contours=3)
    return svg(figure, title)
