"""Figures that explain signal classifiers: wavelets, bands, phase lags, scalp maps and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from representer.report.canvas import (
    BASELINE,
    INK,
    MODEL,
    VALID,
    Drawing,
    both_widths,
    canvas,
    canvases,
    plain,
    svg,
)

_DRAWN = 6  # strongest channels of a waveform
_MIN_POSITIONS = 4  # known positions required for a map
_CLASSES = (MODEL, VALID, "#4b9a6a", "#a05bb0", "#b0893b", "#5f6b76")
_AGAINST = "#d65c46"


@both_widths
def wavelet(width: float, card: Mapping[str, Any], channels: Sequence[str]) -> Drawing:
    """Plot a wavelet: the waveforms of its strongest channels below each other, and its spectrum.

    Args:
        width: Of the figure in inches.
        card: An entry of ``signal_filters.describe_filters``.
        channels: Names of the channels.
    """
    import numpy as np

    figure, (waves, spectrum) = canvases(width, 2.6, 2)
    wave, times = np.asarray(card["waveform"]), np.asarray(card["times"])
    strongest = np.argsort(-np.asarray(card["amplitudes"]))[:_DRAWN]
    _traces(waves, 1000 * times, {channels[int(k)]: wave[k] for k in strongest})
    waves.set_xlabel("ms from the middle of the window")
    power = (np.abs(np.fft.rfft(wave, 1024)) ** 2).sum(0)
    step = times[1] - times[0] if len(times) > 1 else 1.0
    spectrum.plot(np.fft.rfftfreq(1024, step), power / power.max(), color=MODEL)
    spectrum.axvline(card["frequency"], color=VALID, linewidth=1, linestyle=":",
                     label="center")  # fmt: skip
    spectrum.legend(frameon=False, labelcolor=INK, loc="best")
    spectrum.set_xlabel("frequency (Hz)")
    spectrum.set_ylabel("relative power")
    return Drawing(figure, f"Wavelet of the {card['gate']} gate, unit {card['unit']}")


def _traces(axes: Any, times: Any, traces: Mapping[str, Any]) -> None:
    """Plot channels below each other, each beside its name."""
    import numpy as np

    step = 2.1 * max(float(np.abs(np.asarray(own)).max()) for own in traces.values()) or 1.0
    for k, own in enumerate(traces.values()):
        axes.axhline(-k * step, color=BASELINE, linewidth=0.5)
        axes.plot(times, np.asarray(own) - k * step, color=MODEL, linewidth=1.1)
    axes.set_yticks([-k * step for k in range(len(traces))], [plain(name) for name in traces])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.01)


@both_widths
def importance(width: float, bands: Mapping[str, Any]) -> Drawing:
    """Plot the decrease of the margin without each frequency band."""
    figure, axes = canvas(width, 2.6)
    axes.bar(bands["frequencies"], bands["loss"], color=MODEL, width=0.8)
    axes.axhline(0, color=BASELINE, linewidth=0.7)
    axes.set_xlabel("center of the removed band (Hz)")
    axes.set_ylabel("decrease of the margin")
    return Drawing(figure, "Importance of each frequency band")


@both_widths
def phases(width: float, lags: Sequence[Mapping[str, Any]], channels: Sequence[str]) -> Drawing:
    """Plot the phase lag of each channel behind the first, for each class.

    Args:
        width: Of the figure in inches.
        lags: ``class``, ``lags`` in degrees and ``weights`` of the channels, for each class.
        channels: Their names.
    """
    figure, axes = canvas(width, 0.8 + 0.24 * len(channels))
    rows = range(len(channels) - 1, -1, -1)
    for color, row in zip(_CLASSES * len(lags), lags, strict=False):
        largest = max(row["weights"], default=0.0) or 1.0
        sizes = [8 + 70 * weight / largest for weight in row["weights"]]
        axes.scatter(_wrapped(row["lags"]), list(rows), s=sizes, color=color, alpha=0.8,
                     linewidth=0, label=plain(row["class"]))  # fmt: skip
    axes.axvline(0, color=INK, linewidth=1, linestyle=":")
    axes.set_yticks(list(rows), [plain(name) for name in channels])
    axes.set_xlim(-190, 190)
    axes.set_xticks([-180, -90, 0, 90, 180], ["−180°", "−90°", "0°", "90°", "180°"])
    axes.set_xlabel(plain(f"phase lag behind {channels[0]}"))
    axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
    axes.legend(frameon=False, labelcolor=INK, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return Drawing(figure, f"Phase lag of each channel behind {channels[0]}, by class")


def _wrapped(degrees: Sequence[float]) -> list[float]:
    return [(one + 180) % 360 - 180 for one in degrees]


def window(entry: Mapping[str, Any]) -> Markup:
    """Plot an explained window: its strongest channels, the evidence over time, and over the scalp.

    Args:
        entry: An explanation with ``traces``, ``moments``, ``by_channel``, ``channels`` and
            ``seconds``.
    """
    drawn = _window(entry) if entry["traces"] else Markup("")
    if any(entry["by_channel"]):
        drawn += scalp(entry["by_channel"], entry["channels"], "Evidence of the kernel by channel")
    return drawn


@both_widths
def _window(width: float, entry: Mapping[str, Any]) -> Drawing:
    import numpy as np

    traces, moments = entry["traces"], entry["moments"]
    times = np.linspace(0, entry["seconds"], len(next(iter(traces.values()))))
    figure, axes = canvases(min(width, 5.2), 2.2, 2 if moments else 1, is_stacked=True)
    _traces(axes[0], times, traces)
    axes[-1].set_xlabel("seconds")
    if moments:
        ends, values = zip(*moments, strict=True)
        step = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else entry["seconds"]
        colors = [MODEL if value >= 0 else _AGAINST for value in values]
        axes[1].bar([end - step / 2 for end in ends], values, 0.9 * step, color=colors)
        axes[1].axhline(0, color=BASELINE, linewidth=0.7)
        axes[1].set_ylabel("contribution")
        axes[1].set_xlim(axes[0].get_xlim())
    return Drawing(figure, "Channels of the window, and the evidence over time")


def scalp(values: Sequence[float], channels: Sequence[str], title: str) -> Markup:
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
        return Markup("")
    built_in = mne.channels.get_builtin_montages()
    system = next(name for name in ("colin27_1005", "standard_1005") if name in built_in)
    places = mne.channels.make_standard_montage(system).get_positions()["ch_pos"]
    known = {name.lower(): name for name in places}
    found = {known[name.lower()]: k for k, name in enumerate(channels) if name.lower() in known}
    # T3 is the old name of T7: each position is plotted once
    rows = sorted({tuple(places[name]): k for name, k in found.items()}.values())
    if len(rows) < _MIN_POSITIONS:
        return Markup("")
    names = [known[channels[k].lower()] for k in rows]
    info = mne.create_info(names, 100.0, "eeg", verbose="error")
    info.set_montage(system, on_missing="ignore", verbose="error")
    figure, axes = canvas(3.2, 2.9)
    shown = np.asarray([values[k] for k in rows])
    largest = float(np.abs(shown).max())
    is_signed = shown.min() < 0
    low = -largest if is_signed else float(shown.min())
    mne.viz.plot_topomap(
        shown, info, axes=axes, show=False, contours=3, names=names,
        cmap="RdBu" if is_signed else "Blues",
        vlim=(1.5 * low if is_signed else low, low + 1.5 * (largest - low)),  # names stay readable
    )  # fmt: skip
    for outline in axes.lines:
        outline.set_color(INK)
    return svg(figure, title)
