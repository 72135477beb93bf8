"""A kernel of series: how often, and how far, fixed filters exceed thresholds; and the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from representer.errors import ArgumentError, ShapeError
from representer.kernels.kernel import StandardizedKernel, value_of
from representer.ops import core
from representer.ops.features import TAPS, filter_counts

TRIPLES = tuple(combinations(range(TAPS), 3))  # the taps of weight 2; the others have -1
_TAPS = np.array([*TRIPLES, (-1, -1, -1)])
FILTERS = len(TRIPLES) + 1  # the last one is the mean of all taps, which reads the level
LEVEL = FILTERS  # of a bank that stands for the values themselves
_SOURCES = ("values", "differences")
SHARE, EXCESS, VALUES = VIEWS = ("share", "excess", "values")
COUNTED = SHARE, EXCESS  # views of the outputs of filters
WEIGHT = 3.0  # of the values, relative to all filters
_TIMES = 100  # times of the values, at most
_DILATIONS = 8  # at most
_SAMPLED = 40  # series whose quantiles are thresholds
_DRAWN = 2**15  # outputs of a filter of which quantiles are taken
_GOLDEN = (5**0.5 - 1) / 2  # multiples of it, modulo 1, are spread evenly whatever their number
_BLOCK = 2**21  # values of filters in memory together
_COUNTED = 255  # steps whose count fits a byte
_ARRAYS = ("filters", "channels", "thresholds")  # of a saved bank
_LEAST = 1e-9  # deviation of a feature that varies
_LONGEST = 2**31  # dilation of a saved kernel
_MOST_VALUES = 2**25  # of features in memory; beyond, there are fewer features


class Bank(NamedTuple):
    """Filters of one dilation."""

    source: str  # ``"values"``, or ``"differences"`` of successive values
    dilation: int  # steps between two taps
    filters: NDArray[np.int64]  # the filter of each row, see `TRIPLES` ``(R,)``
    channels: NDArray[np.int64]  # the channel that it reads ``(R,)``
    thresholds: NDArray[np.float32]  # ``(R, J)``

    def name(self, row: int) -> str:
        """Return the signs of the taps of a row and the steps between them, in words."""
        what = "" if self.source == _SOURCES[0] else " of differences"
        step = "" if self.dilation == 1 else f", every {self.dilation} steps"
        if self.filters[row] == LEVEL:
            return "value"
        if self.filters[row] == len(TRIPLES):
            return f"mean of nine{what}{step}"
        taps = TRIPLES[self.filters[row]]
        return "".join("+" if tap in taps else "-" for tap in range(TAPS)) + what + step


@dataclass(frozen=True)
class Responses:
    """The features of series before they are standardized, and the filters that measured them."""

    banks: Sequence[Bank]  # the filters
    times: int  # S of the values
    views: Mapping[str, NDArray[np.float64]]  # the features of each view ``(N, F)``

    def __len__(self) -> int:
        return len(next(iter(self.views.values())))

    def __getitem__(self, rows: Any) -> Responses:
        views = {name: rows_of[rows] for name, rows_of in self.views.items()}
        return Responses(self.banks, self.times, views)


class ConvolutionKernel(StandardizedKernel):
    r"""Compares series of any lengths by the outputs of fixed filters, counted over time.

    A filter w of nine taps, of which three are 2 and six are -1, reads one channel, or its first
    differences, at steps that are d apart. Its features are means over the T steps of a series:

    .. math::
        \phi_{w,b}(x) = \frac1T \sum_{t=1}^T 1[z_t > b], \qquad
        \psi_{w,b}(x) = \frac1T \sum_{t=1}^T \max(z_t - b, 0), \qquad
        z_t = \sum_{i=-4}^{4} w_i\, x_{t+id}

    the share of the steps at which it exceeds a threshold, and its mean excess. The thresholds b
    are quantiles of its outputs on training series, which `fit` draws; it standardizes the
    features, whose inner product is the kernel. A series takes time proportional to its length.
    Values before and behind a series are 0. One more filter is the mean of the taps.

    Shares tell what happens, not when. So one more view has the values themselves: each channel at
    S times, the means of S equal spans of its steps. Their kernel is scaled as a whole, to three
    times that of all filters.

    A linear model on the features is a sum over steps, channels and filters, see `by_step`.

    Args:
        num_features: Number of features of the filters, approximately; of very many series fewer,
            so that they fit into memory.
        views: ``"share"`` for φ, ``"excess"`` for ψ, ``"values"`` for the values.

    Shape:
        - X, Y: sequences of arrays ``(C, T_i)`` of finite numbers, or what `read` returned
        - returns ``(N, M)``

    References:
        Dempster, Schmidt and Webb, MiniRocket: A Very Fast (Almost) Deterministic Transform for
        Time Series Classification, KDD 2021 (the weights, dilations and shares). Tan et al.,
        MultiRocket, Data Mining and Knowledge Discovery 2022 (the differences).
    """

    by_squares: ClassVar[bool] = True  # classes are separated by ridge regression
    leaves_one_out: ClassVar[float] = np.inf  # most series; left-out scores choose views, penalty
    by_errors: ClassVar[bool] = True  # of which, on small sets, squares tell more than logits

    def __init__(self, num_features: int = 10_000, views: Sequence[str] = COUNTED) -> None:
        self.num_features = num_features
        self.views = views
        self.check()

    def no_network(self) -> str:
        return "Its features count steps, so that they have no derivatives in a series."

    def read(self, X: Sequence[Any]) -> Responses:
        """Return the features of series before they are standardized.

        `fit`, `transform` and the kernel itself take them in place of the series. Before `fit`,
        the filters are drawn from these series.
        """
        self.check()
        series = _checked(X)
        banks, times = vars(self).get("banks_"), vars(self).get("times_", 0)
        if banks is None:
            banks, times = self._drawn(series), self._times(series)
        counted = [view for view in self.views if view != VALUES]
        views = _measured(series, banks, counted) if counted else {}
        if VALUES in self.views:
            views[VALUES] = np.array([spans(x, times).ravel() for x in series])
        return Responses(banks, times, views)

    def fit(self, X: Any, targets: NDArray[np.float64] | None = None) -> Self:
        responses = self._before_fit(X)
        features = np.concatenate([responses.views[view] for view in self.views], axis=1)
        deviations = features.std(axis=0)
        self.banks_, self.means_ = responses.banks, features.mean(axis=0)
        self.times_ = responses.times if VALUES in self.views else 0
        self.scales_, end = np.where(deviations > _LEAST, deviations, 1.0), 0
        widths = [responses.views[view].shape[1] for view in self.views]
        counted = sum(width for view, width in zip(self.views, widths, strict=True)
                      if view != VALUES)  # fmt: skip
        for view, width in zip(self.views, widths, strict=True):
            columns = slice(end, end := end + width)
            if view == VALUES:  # scaled together, so that what varies little weighs little
                total = float(np.linalg.norm(deviations[columns]))
                self.scales_[columns] = (total if total > _LEAST else 1.0) / WEIGHT**0.5
            else:
                self.scales_[columns] *= counted**0.5
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        views = self._features(X).views
        features = np.concatenate([views[view] for view in self.views], axis=1)
        return self._standardized(features)

    def by_step(
        self, x: Any, coefficients: NDArray[np.float64], width: int = 1
    ) -> list[tuple[Bank, NDArray[np.float64]]]:
        """Return the contributions of the steps of a series to a linear function of its features.

        Args:
            x: The series ``(C, T)``.
            coefficients: Of the standardized features ``(F,)``.
            width: Number of successive steps whose contributions are summed.

        Returns:
            Each bank with the contribution of each of its rows at each step ``(R, T / width)``,
            relative to the means of the features; the last one is that of the values, if they are a
            view. All of them sum to the linear function.
        """
        (series,) = _checked([x])
        steps, start, result = series.shape[1], 0, []
        starts = np.arange(0, steps, width)
        counts = np.diff(starts, append=steps)
        parts, means = (self._by_view(x) for x in (coefficients / self.scales_, self.means_))
        counted = [view for view in self.views if view != VALUES]
        for bank in self.banks_ if counted else ():
            shape, end = bank.thresholds.shape, start + bank.thresholds.size
            weights = {view: parts[view][start:end].reshape(shape) for view in counted}
            values = np.zeros((shape[0], len(starts)))
            for view, weight in weights.items():
                values -= (weight * means[view][start:end].reshape(shape)).sum(1)[:, None] * counts
            for rows, z in _outputs([series], bank):
                total = np.zeros((len(rows), steps))
                for j, b in enumerate(bank.thresholds[rows].T[..., None]):
                    for view, weight in weights.items():
                        exceeds = z[:, 0] > b if view == SHARE else np.maximum(z[:, 0] - b, 0)
                        total += weight[rows, j, None] * exceeds
                values[rows] += np.add.reduceat(total, starts, axis=1)
            result.append((bank, values / steps))
            start = end
        if VALUES in parts:
            slopes, offsets = (
                np.array([of_steps(x, steps) for x in weighted.reshape(len(series), -1)])
                for weighted in (parts[VALUES], parts[VALUES] * means[VALUES])
            )
            channels = np.arange(len(series))
            filters, none = np.full_like(channels, LEVEL), np.zeros((len(series), 0), np.float32)
            total = slopes * series - offsets
            level = Bank(_SOURCES[0], 1, filters, channels, none)
            result.append((level, np.add.reduceat(total, starts, axis=1)))
        return result

    def strongest(
        self, X: Any, coefficients: NDArray[np.float64], count: int, dilation: int | None = None
    ) -> tuple[int, NDArray[np.float32], NDArray[np.float32]]:
        """Return the filters of values with the largest share of linear functions of the shares.

        The share of a filter is the variance of what it adds to the functions.

        Args:
            X: Series ``(C, T_i)``, which the variances are those of.
            coefficients: Of the standardized features ``(W, F)``; the only view is ``"share"``.
            count: Number of filters, at most.
            dilation: Return filters of the dilation next to this one; None: of that whose filters
                have the largest share.

        Returns:
            The dilation of the filters, and as many as it has: their taps ``(K, C, 9)``, scaled to
            outputs of unit deviation, and, of each, the threshold with the largest coefficient.
        """
        series, start, choices = _checked(X), 0, []
        features = self.transform(series)
        for bank in self.banks_:
            shape, end = bank.thresholds.shape, start + bank.thresholds.size
            weights = coefficients[:, start:end].reshape(-1, *shape)
            each = features[:, start:end].reshape(-1, *shape)
            shares = np.einsum("nrj,wrj->nwr", each, weights).var(axis=0).sum(axis=0)
            order, start = np.argsort(-shares, kind="stable")[:count], end
            nearness = 0.0 if dilation is None else -abs(np.log(bank.dilation / dilation))
            if bank.source == _SOURCES[0]:
                choices.append((nearness, shares[order].sum(), bank, order, weights))
        *_, bank, rows, weights = max(choices, key=lambda choice: choice[:2])
        bank = bank._replace(**{name: getattr(bank, name)[rows] for name in _ARRAYS})
        taps = np.zeros((len(rows), len(series[0]), TAPS), np.float32)
        for k, number in enumerate(bank.filters):
            is_mean = number == len(TRIPLES)
            taps[k, bank.channels[k]] = 1 / TAPS if is_mean else -1
            taps[k, bank.channels[k], () if is_mean else TRIPLES[number]] = 2
        squares, steps = np.zeros(len(rows)), sum(x.shape[1] for x in series)
        for x in series:
            for some, z in _outputs([x], bank):
                squares[some] += np.square(z[:, 0], dtype=np.float64).sum(axis=1)
        deviations = np.maximum((squares / steps) ** 0.5, _LEAST).astype(np.float32)
        largest = np.abs(weights[:, rows]).sum(axis=0).argmax(axis=1)
        thresholds = bank.thresholds[np.arange(len(rows)), largest] / deviations
        return bank.dilation, taps / deviations[:, None, None], thresholds

    def _by_view(self, values: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Return values of all features by view."""
        width = sum(bank.thresholds.size for bank in self.banks_)
        counted = width * (len(self.views) - (VALUES in self.views))
        widths = [len(values) - counted if view == VALUES else width for view in self.views]
        parts = np.split(values, np.cumsum(widths)[:-1])
        return dict(zip(self.views, parts, strict=True))

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        arrays = {"means": self.means_, "scales": self.scales_}
        for k, bank in enumerate(self.banks_):
            arrays |= {f"{name}{k}": getattr(bank, name) for name in _ARRAYS}
        names = [f"{bank.source} {bank.dilation}" for bank in self.banks_]
        named = {"banks": names, "views": list(self.views), "times": [str(self.times_)]}
        return named, arrays

    def restore(
        self, tokens: Mapping[str, Sequence[str]], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Set what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        self.views, banks = tuple(tokens["views"]), []
        self.check()
        for k, name in enumerate(tokens["banks"]):
            source, _, dilation = name.partition(" ")
            bank = Bank(source, int(dilation), *(arrays[f"{array}{k}"] for array in _ARRAYS))
            rows = bank.filters.shape
            is_fine = source in _SOURCES and 0 < bank.dilation < _LONGEST and len(rows) == 1
            is_fine = is_fine and bank.channels.shape == rows == bank.thresholds.shape[:-1]
            is_fine = is_fine and ((bank.filters >= 0) & (bank.filters < FILTERS)).all()
            if not is_fine or not rows[0] or (bank.channels < 0).any():
                raise ValueError(f"the filters {name!r} are damaged")
            banks.append(bank)
        self.banks_, has_values = banks, VALUES in self.views
        self.times_ = int(tokens["times"][0]) if has_values else 0
        width = sum(bank.thresholds.size for bank in banks) * (len(self.views) - has_values)
        count, rest = divmod(len(arrays["means"]) - width, max(1, self.times_))
        last = max(int(bank.channels.max()) for bank in banks)
        if has_values and (rest or count <= last or self.times_ < 1):
            raise ValueError(f"{count} channels at {self.times_} times; channel {last} is read")
        return self._set_moments(arrays, width + count * self.times_)

    def _before_fit(self, X: Any) -> Any:
        vars(self).pop("banks_", None)  # so that `read` draws new ones
        return self._features(X)

    def check(self) -> None:
        if not value_of(self.num_features) >= 1:
            raise ArgumentError("num_features", self.num_features, "a positive integer")
        self._check_views(VIEWS)

    def _times(self, series: Sequence[NDArray[np.float32]]) -> int:
        """Return the number of times of the values: as many as a usual series has steps."""
        steps = int(np.median([x.shape[1] for x in series]))
        most = min(self.num_features, _MOST_VALUES // len(series)) // len(series[0])
        return max(1, min(_TIMES, steps, most))

    def _drawn(self, series: Sequence[NDArray[np.float32]]) -> list[Bank]:
        """Return filters with thresholds that are quantiles of their outputs on some series."""
        rng = np.random.default_rng(0)
        longest = (np.median([x.shape[1] for x in series]) - 1) / (TAPS - 1)
        exponents = np.linspace(0, np.log2(max(1.0, longest)), _DILATIONS)
        dilations = sorted({int(2**exponent) for exponent in exponents})
        some = [series[i] for i in rng.permutation(len(series))[:_SAMPLED]]
        most = min(self.num_features, _MOST_VALUES // len(series))
        views = max(1, len(self.views) - (VALUES in self.views))
        count = most // (views * FILTERS * len(dilations) * len(_SOURCES))
        stride = -(-sum(x.shape[1] for x in some) // _DRAWN)
        channels, banks = len(series[0]), []
        read = min(channels, max(1, count))  # by each filter, each with thresholds of its own
        for source in _SOURCES:
            for dilation in dilations:
                chosen = [rng.permutation(channels)[:read] for _ in range(FILTERS)]
                filters = np.repeat(np.arange(FILTERS), read)
                quantiles = np.arange(1, max(1, count // read) * len(filters) + 1) * _GOLDEN % 1
                table = quantiles.reshape(len(filters), -1)
                bank = Bank(source, dilation, filters, np.concatenate(chosen), table.astype("f4"))
                parts: list[list[NDArray[np.float32]]] = [[] for _ in filters]
                for block in [[some[i] for i in numbers] for numbers in _blocks(some)]:
                    lengths = np.array([x.shape[1] for x in block])
                    is_read = np.arange(0, lengths[-1], stride) < lengths[:, None]
                    for rows, z in _outputs(block, bank, stride):
                        for row, outputs in zip(rows, z[:, is_read], strict=True):
                            parts[row].append(outputs)
                thresholds = [_quantiles(np.concatenate(outputs), q)
                              for outputs, q in zip(parts, table, strict=True)]  # fmt: skip
                banks.append(bank._replace(thresholds=np.array(thresholds, dtype=np.float32)))
        return banks


class ConvolutionStream:
    """The features of one series as it grows, without reading all of it again.

    A value changes, of each filter, the nine outputs that read it at most; their old counts are
    subtracted, the new ones added. So the time of a step does not depend on the number of steps
    before. The values are kept, for the filters and for values that change later.

    Args:
        kernel: The fitted kernel.
        num_channels: C.
    """

    def __init__(self, kernel: ConvolutionKernel, num_channels: int) -> None:
        self._kernel, self.steps = kernel, 0
        self._totals = np.zeros((num_channels, 1))  # sums of the values before each step
        self._tables = {source: np.zeros((num_channels, 0), np.float32) for source in _SOURCES}
        counted = [view for view in kernel.views if view != VALUES]
        shapes = [bank.thresholds.shape for bank in kernel.banks_]
        self._sums = {view: [np.zeros(shape) for shape in shapes] for view in counted}

    def replace(self, start: int, values: NDArray[np.float32]) -> Responses:
        """Set the values from a step to the last one, and return the features.

        Args:
            start: The first step that changes, or the number of steps so far.
            values: ``(C, steps)``.
        """
        before, self.steps = self.steps, start + values.shape[1]
        changed = np.arange(start, self.steps)
        self._change(changed, before, -1)
        for source, table in self._tables.items():
            if table.shape[1] < self.steps:
                room = np.zeros((len(table), 2 * self.steps - table.shape[1]), np.float32)
                self._tables[source] = np.concatenate([table, room], axis=1)
        room = np.zeros((len(values), max(0, 2 * self.steps + 1 - self._totals.shape[1])))
        self._totals = np.concatenate([self._totals, room], 1) if room.size else self._totals
        table, differences = (self._tables[source] for source in _SOURCES)
        table[:, start : self.steps] = values
        first = max(start, 1)
        differences[:, first : self.steps] = np.diff(table[:, first - 1 : self.steps])
        for t in changed:
            self._totals[:, t + 1] = self._totals[:, t] + table[:, t]
        self._change(changed, self.steps, 1)
        views = {
            view: np.concatenate([entry.ravel() for entry in sums])[None] / self.steps
            for view, sums in self._sums.items()
        }
        times = self._kernel.times_
        if VALUES in self._kernel.views:
            views[VALUES] = _means(self._totals[:, : self.steps + 1], times).reshape(1, -1)
        return Responses(self._kernel.banks_, times, views)

    def _change(self, changed: NDArray[np.intp], steps: int, sign: int) -> None:
        """Add the counts of the outputs that read some steps of a series, or subtract them."""
        offsets = np.arange(TAPS) - (TAPS - 1) // 2
        triples = np.array([*TRIPLES, (0, 0, 0)])
        for k, bank in enumerate(self._kernel.banks_ if self._sums else ()):
            outputs = np.unique(changed[:, None] - offsets * bank.dilation)
            outputs = outputs[(outputs >= 0) & (outputs < steps)]
            places = outputs + (offsets * bank.dilation)[:, None]
            is_inside = (places >= 0) & (places < steps)
            table = self._tables[bank.source]
            if not len(outputs):
                continue
            taps = np.where(is_inside, table[:, np.where(is_inside, places, 0)], np.float32(0))
            total = sum((taps[:, tap] for tap in range(1, TAPS)), taps[:, 0])[bank.channels]
            a, b, c = (taps[bank.channels, taps_of] for taps_of in triples[bank.filters].T)
            is_mean = (bank.filters == len(TRIPLES))[:, None]
            z = np.where(is_mean, total / np.float32(TAPS), (a + b + c) * np.float32(3) - total)
            above = z[:, None] - bank.thresholds[..., None]
            for view, sums in self._sums.items():
                exceeds = z[:, None] > bank.thresholds[..., None]
                entry = exceeds if view == SHARE else np.maximum(above, 0)
                sums[k] += sign * entry.sum(-1, dtype=np.float64)


def _quantiles(values: NDArray[np.float32], shares: NDArray[Any]) -> NDArray[np.float64]:
    """Return what `numpy.quantile` does, by sorting, which takes a tenth of its time."""
    ordered, positions = np.sort(values), (len(values) - 1) * shares
    left = positions.astype(np.int64)
    a, b, t = ordered[left], ordered[np.minimum(left + 1, len(values) - 1)], positions - left
    return np.where(t < 0.5, a + (b - a) * t, b - (b - a) * (1 - t))


def spans(x: NDArray[Any], times: int) -> NDArray[np.float64]:
    """Return the means of equal spans of the steps of a series, from ``(C, T)`` to ``(C, S)``.

    A step in two spans belongs to both in parts.
    """
    return _means(np.pad(np.cumsum(x, axis=1, dtype=np.float64), ((0, 0), (1, 0))), times)


def _means(totals: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Return the means of equal spans from the sums of the values before each step ``(C, T + 1)``.

    The sums between two steps are interpolated.
    """
    steps = totals.shape[1] - 1
    ends = np.linspace(0, steps, times + 1)
    left = np.minimum(ends.astype(np.int64), steps - 1)
    between = totals[:, left] + (ends - left) * (totals[:, left + 1] - totals[:, left])
    return np.diff(between) * (times / steps)


def of_steps(coefficients: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Return the coefficient of each step ``(T,)`` from those of the spans ``(S,)``."""
    totals = np.concatenate([[0.0], np.cumsum(coefficients)])
    ends = np.linspace(0, steps, len(totals))
    return np.diff(np.interp(np.arange(steps + 1), ends, totals))


def _blocks(series: Sequence[NDArray[np.float32]]) -> list[list[int]]:
    """Return the positions of series that are read together, which have similar lengths."""
    blocks: list[list[int]] = []
    for i in sorted(range(len(series)), key=lambda i: series[i].shape[1]):
        if not blocks or (len(blocks[-1]) + 1) * series[i].shape[1] > _BLOCK // 32:
            blocks.append([])
        blocks[-1].append(i)
    return blocks


def _measured(
    series: Sequence[NDArray[np.float32]], banks: Sequence[Bank], views: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Return the features of all thresholds ``(N, F)``, of each view."""
    last = max(int(bank.channels.max()) for bank in banks)
    if series and len(series[0]) <= last:
        raise ShapeError("X[0]", series[0].shape, f"({last + 1} channels, steps)")
    width = sum(bank.thresholds.size for bank in banks)
    result = {view: np.empty((len(series), width)) for view in views}
    for block in _blocks(series):
        some, start = [series[i] for i in block], 0
        lengths = np.array([x.shape[1] for x in some])[:, None]
        for bank in banks:
            sums: dict[str, Any] = dict(
                zip(COUNTED, _sums(some, bank, has_excess=EXCESS in views), strict=True)
            )
            end = start + bank.thresholds.size
            for view in views:
                result[view][block, start:end] = sums[view].reshape(len(some), -1) / lengths
            start = end
    return result


def _sums(
    series: Sequence[NDArray[np.float32]], bank: Bank, *, has_excess: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of steps above each threshold, and the sum above it ``(N, R, J)``.

    The numbers are the same with and without the core.
    """
    counts, excess = np.empty((2, len(series), *bank.thresholds.shape))
    for channel in np.unique(bank.channels) if not core.MISSING else ():
        rows = np.flatnonzero(bank.channels == channel)
        counts[:, rows], above = filter_counts(
            _padded(series, bank, channel), np.array([x.shape[1] for x in series]), bank.dilation,
            _TAPS[bank.filters[rows]], bank.thresholds[rows], has_excess=has_excess,
        )  # fmt: skip
        excess[:, rows] = 0.0 if above is None else above
    for rows, z in _outputs(series, bank) if core.MISSING else ():
        for j, b in enumerate(bank.thresholds[rows].T[..., None, None]):
            counts[:, rows, j] = _counted(z > b).T
            if has_excess:
                excess[:, rows, j] = np.maximum(z - b, 0).sum(-1, dtype=np.float64).T
    return counts, excess


def _padded(series: Sequence[NDArray[np.float32]], bank: Bank, channel: int) -> NDArray[np.float32]:
    """Return what a bank reads of a channel, with zeros before and behind."""
    steps, reach = max(x.shape[1] for x in series), (TAPS - 1) // 2 * bank.dilation
    padded = np.zeros((len(series), steps + 2 * reach), np.float32)
    for row, item in enumerate(series):
        x = item[channel]
        x = x if bank.source == _SOURCES[0] else np.diff(x, prepend=x[:1])
        padded[row, reach : reach + len(x)] = x
    return padded


def _checked(X: Sequence[Any]) -> list[NDArray[np.float32]]:
    series = [np.asarray(x, dtype=np.float32) for x in X]
    for row, item in enumerate(series):
        if item.ndim != 2 or not item.size or len(item) != len(series[0]):
            raise ShapeError(f"X[{row}]", item.shape, f"({len(series[0])} channels, steps)")
    return series


def _counted(is_above: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the number of True values along the last axis, by sums of bytes, which are fast."""
    bytes_, total = is_above.view(np.uint8), np.zeros(is_above.shape[:-1])
    for start in range(0, is_above.shape[-1], _COUNTED):
        chunk = bytes_[..., start : start + _COUNTED]
        total += np.add.reduce(chunk, axis=-1, dtype=np.uint8)
    return total


def _outputs(
    series: Sequence[NDArray[np.float32]], bank: Bank, stride: int = 1
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
    """Yield rows of a bank with their outputs ``(rows, N, T)``, -inf behind the end of a series.

    With a stride, they are those of some steps only. They are sums in a fixed order, so that those
    of a series are the same in any block.
    """
    lengths = np.array([x.shape[1] for x in series])
    steps = int(lengths.max())
    is_behind = torch.from_numpy(np.arange(0, steps, stride) >= lengths[:, None])
    at_once = max(1, _BLOCK // is_behind.numel())
    for channel in np.unique(bank.channels):
        whole = torch.from_numpy(_padded(series, bank, channel))
        taps = [whole[:, k * bank.dilation :][:, :steps:stride] for k in range(TAPS)]
        total = sum(taps[1:], taps[0])
        rows = np.flatnonzero(bank.channels == channel)
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            z = torch.empty(len(some), *is_behind.shape)
            for x, k in zip(z, bank.filters[some].tolist(), strict=True):
                if k == len(TRIPLES):
                    torch.div(total, TAPS, out=x)
                    continue
                a, b, c = (taps[tap] for tap in TRIPLES[k])
                torch.add(a, b, out=x)
                x.add_(c).mul_(3).sub_(total)
            if is_behind.any():
                z.masked_fill_(is_behind, -torch.inf)
            yield some, z.numpy()
