"""Windows of signals in the live view: traces, filters over time, and bands by channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from representer.estimators.explanation import KERNEL, NETWORK, Explanation
from representer.serving.live.kind import Json, Kind

TRACES, POINTS = 16, 400  # channels that are drawn, and the points of each


class Signals(Kind):
    """Windows of recordings, which are chosen."""

    def typed(self, one: Any) -> None:
        """Return None: a window is an array."""

    def picture(self, one: Any, explanation: Explanation) -> Json:
        """Return traces, and all contributions by their filter or band.

        Those of ``filters`` are over time, those of ``bands`` over the channels. ``whole`` are
        those of filters in the whole window, and of the coupling of two channels in a band.
        """
        inputs, window = self.model.estimator.inputs_, np.asarray(one)
        names = [inputs.named([channel]) for channel in range(len(window))]
        filters: dict[str, dict[tuple[int, ...], float]] = {}
        bands: dict[str, list[float]] = {}
        whole: dict[str, float] = {}
        by_channel = np.zeros(len(window))
        for what, where, part, value in explanation.contributions:
            if part == NETWORK and not what.startswith("power of "):
                name, _, _ = what.rpartition(", ")
                own = filters.setdefault(name, {})
                own[where] = own.get(where, 0.0) + value
            elif part == KERNEL and len(where) == 1:
                name, _, _ = what.partition(", ")
                bands.setdefault(name, [0.0] * len(window))[where[0]] += value
                by_channel[where[0]] += abs(value)
            else:
                name = what.rpartition(", ")[0] if part == NETWORK else what
                whole[name] = whole.get(name, 0.0) + value
        spans = sorted({span for own in filters.values() for span in own})
        drawn = sorted(np.argsort(-by_channel, kind="stable")[:TRACES].tolist())
        every = max(1, window.shape[1] // POINTS)
        return {
            "seconds": window.shape[1] / self.model.estimator.sampling_rate_,
            "samples": window.shape[1],
            "channels": names,
            "traces": [
                {"name": names[channel], "values": window[channel, ::every].tolist()}
                for channel in drawn
            ],
            "spans": [list(span) for span in spans],
            "filters": [
                {"name": name, "values": [own.get(span, 0.0) for span in spans]}
                for name, own in sorted(filters.items(), key=_number)
            ],
            "bands": [
                {"name": name, "values": own} for name, own in sorted(bands.items(), key=_hertz)
            ],
            "whole": [{"name": name, "value": own} for name, own in whole.items()],
        }


def _hertz(pair: tuple[str, Any]) -> float:
    """Return the lower end of a band, whose name is ``8 to 13 Hz``."""
    return float(pair[0].split()[0])


def _number(pair: tuple[str, Any]) -> int:
    """Return the number of a filter, whose name is ``filter 3 (10.1 Hz)``."""
    return int(pair[0].split()[1])
