"""Estimators of series: a kernel of fixed filters, and a cell on the values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from representer.errors import ArgumentError, DataError, KindError
from representer.estimators.explanation import (
    KERNEL,
    NETWORK,
    Contribution,
    Explained,
    Explanation,
    Places,
)
from representer.estimators.fitting import Inputs
from representer.estimators.kernel_machine import fit_machine
from representer.estimators.supervised import Classifier, Regressor, SupervisedEstimator
from representer.estimators.targets import centered, columns_of, known_values
from representer.explain import MemoryLedger, stack_readout
from representer.kernels.convolution_kernel import (
    EXCESS,
    SHARE,
    TAPS,
    VALUES,
    ConvolutionKernel,
    ConvolutionStream,
    Responses,
)
from representer.kernels.sequences import as_sequence, has_columns
from representer.models.sequence_classifier import SeriesNetwork, SeriesNetworkConfig
from representer.nn.recurrent.machine import RecurrentKernelMachine
from representer.options.series import SeriesParameters
from representer.storage.run import RunFolder
from representer.training import generators

Series = NDArray[np.float64]
POINTS, TRACES = 500, 4  # samples and channels of a picture, at most
_STARTING = 1000  # series of the kernel machine whose filters a network starts from
_MOST = 400_000  # contributions of an explanation; of longer series, successive steps are joined


# The inputs: series without gaps, standardized.


def filled(one: Series) -> Series:
    """Return a series with each gap filled by interpolation; NaN where a channel has no value."""
    gaps = np.isnan(one)
    if not gaps.any():
        return one
    result, steps = one.copy(), np.arange(one.shape[1])
    for values, missing in zip(result, gaps, strict=True):
        if missing.any() and not missing.all():
            values[missing] = np.interp(steps[missing], steps[~missing], values[~missing])
    return result


def standardized(
    one: Series, means: Sequence[float], scales: Sequence[float]
) -> NDArray[np.float32]:
    """Return a series without gaps, standardized; by itself if there are no means of training."""
    values = filled(one)
    if means:
        values = (values - np.array(means)[:, None]) / np.array(scales)[:, None]
    else:
        spread = values.std(axis=1, keepdims=True)
        least = 1e-9 * np.abs(values).max(axis=1, keepdims=True)  # of a flat channel
        values = values - values.mean(axis=1, keepdims=True)
        values /= np.where(spread > least, spread, 1.0)
    return np.nan_to_num(values).astype(np.float32)  # 0 where a channel has no value


@dataclass(frozen=True)
class SeriesInputs(Inputs):
    """Series as standardized arrays ``(C, T)`` in float32, without gaps.

    Args:
        means: Of each channel in training; none if each series is standardized by itself.
        scales: Its standard deviations.
        num_channels: C.
        names: Names of the channels, if they are known.
    """

    means: tuple[float, ...]
    scales: tuple[float, ...]
    num_channels: int
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("means", "scales", "names"):
            if len(getattr(self, name)) not in (0, self.num_channels):
                raise ValueError(f"the {name} are not those of {self.num_channels} channels")
        if len(self.means) != len(self.scales) or any(scale <= 0 for scale in self.scales):
            raise ValueError("the scales are not positive")

    @classmethod
    def learn(cls, kind: str, objects: Sequence[Series]) -> SeriesInputs:
        """Return the inputs for training series; `kind` is the parameter ``standardize``."""
        count = len(objects[0])
        if kind != "training":
            parts = ((), ()) if kind == "series" else ((0.0,) * count, (1.0,) * count)
            return cls(*parts, count)
        table = np.concatenate(objects, axis=1)
        present = [row[~np.isnan(row)] for row in table]
        means = tuple(float(row.mean()) if len(row) else 0.0 for row in present)
        spreads = [float(row.std()) if len(row) else 1.0 for row in present]
        return cls(means, tuple(spread or 1.0 for spread in spreads), count)

    def encode(self, X: Sequence[Series]) -> list[NDArray[np.float32]]:
        """Return each series standardized.

        Raises:
            DataError: The number of channels differs from that in training.
        """
        return [self._encode(series, row) for row, series in enumerate(X)]

    def _encode(self, one: Series, row: int) -> NDArray[np.float32]:
        if len(one) != self.num_channels:
            problem = f"X[{row}] has {len(one)} channels; the model has {self.num_channels}"
            raise DataError(problem, fix="Use the channels of the training data; X is (N, C, T).")
        return standardized(one, self.means, self.scales)

    def collate(
        self, encoded: Sequence[NDArray[np.float32]], multiple: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Return padded series ``(B, T, C)`` and lengths ``(B,)``."""
        lengths = torch.tensor([table.shape[1] for table in encoded])
        padded = pad_sequence([torch.from_numpy(table.T) for table in encoded], batch_first=True)
        rest = -padded.shape[1] % multiple
        return torch.nn.functional.pad(padded, (0, 0, 0, rest)), lengths

    def size(self, encoded: NDArray[np.float32]) -> int:
        """Return the number of steps."""
        return encoded.shape[1]

    def named(self, channel: int) -> str:
        """Return what names a channel in an explanation; nothing of an only one."""
        if self.num_channels == 1:
            return ""
        return f", {self.names[channel]}" if self.names else f", channel {channel}"


def read_series(X: Any) -> list[Series]:
    """Return series as arrays ``(C, T_i)``, in which NaN is a missing value.

    They are an array ``(N, T)`` or ``(N, C, T)``, a sequence of arrays ``(T_i,)`` or ``(C, T_i)``,
    or a data frame with a column for each step. Steps at the end whose values are all missing are
    padding, and left out.
    """
    if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__len__"):
        fix = "Put a single series into a list."
        raise DataError(f"X is a {type(X).__name__}; expected an array (N, C, T)", fix=fix)
    rows = np.asarray(X) if has_columns(X) else as_sequence(X, "X")
    tables = [_series(value, row) for row, value in enumerate(rows)]
    for row, table in enumerate(tables):
        if len(table) != len(tables[0]):
            problem = f"X[{row}] has {len(table)} channels, X[0] has {len(tables[0])}"
            raise DataError(problem, fix="Give all series the same channels; X is (N, C, T).")
    return tables


def _series(value: Any, row: int) -> Series:
    try:
        if isinstance(value, Tensor):
            value = value.detach().cpu().numpy()
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        problem = f"X[{row}] is no array of numbers (T,) or (C, T)"
        fix = "Give its channels equal lengths, with NaN where values are missing."
        raise DataError(problem, fix=fix) from None
    array = array[None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.size:
        problem = f"X[{row}] has the shape {np.shape(value)}; expected (T,) or (C, T) with a step"
        raise DataError(problem, fix="" if array.ndim else "Pass a single series as [series].")
    if np.isinf(array).any():
        fix = "Write NaN for a missing value, which is interpolated."
        raise DataError(f"X[{row}] contains infinity", fix=fix)
    filled = np.flatnonzero(~np.isnan(array).all(axis=0))
    return array[:, : filled[-1] + 1 if len(filled) else 1]


class SeriesHalves(SeriesParameters, SupervisedEstimator):
    """Both halves of an estimator of series, see `SeriesClassifier`."""

    noun: ClassVar[str] = "series"
    _task: ClassVar[str] = "series"
    _input_tags: ClassVar[tuple[str, ...]] = ("three_d_array", "allow_nan")
    _config: ClassVar[type[SeriesNetworkConfig]] = SeriesNetworkConfig
    _make = staticmethod(SeriesNetwork)
    is_kernel_unsupervised: ClassVar[bool] = True
    penalties: ClassVar[Sequence[float]] = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
    candidates: ClassVar[Sequence[Sequence[str]]] = (
        (SHARE,), (SHARE, EXCESS), (SHARE, VALUES), (SHARE, EXCESS, VALUES),
    )  # fmt: skip
    _inputs: ClassVar[type[SeriesInputs]] = SeriesInputs
    inputs_: SeriesInputs
    network_: SeriesNetwork

    def _check_objects(self, X: Any) -> Any:
        return X if isinstance(X, Responses) else read_series(X)

    def _has_content(self, one: Any) -> bool:
        return isinstance(one, Responses) or not bool(np.isnan(one).all())

    def stream(self) -> SeriesStream:
        """Return a reader of one series, step by step, with a prediction after each.

        Raises:
            ArgumentError: The estimator has a network, several targets, or series that are
                standardized as a whole.
        """
        return SeriesStream(self)

    def learn_inputs(self, objects: Sequence[Series], seed: int) -> SeriesInputs:
        return SeriesInputs.learn(self.standardize, objects)

    def _configure(self, inputs: SeriesInputs, width: int) -> SeriesNetworkConfig:
        names = {field.name for field in fields(SeriesParameters)} & {
            field.name for field in fields(SeriesNetworkConfig)
        }
        chosen: dict[str, Any] = {name: getattr(self, name) for name in names}
        chosen["dilation"] = self.dilation or 1  # `_started` may choose another one
        return SeriesNetworkConfig(inputs.num_channels, width, **chosen)

    def _require_sizes(self, config: SeriesNetworkConfig) -> None:
        got = config.num_channels, config.outputs
        if got != (self.inputs_.num_channels, self.target_.width):
            raise ValueError(f"the network has {got} channels and outputs")

    @property
    def network_name(self) -> str:
        return self.cell

    def _new_kernel(self, candidate: int = -1) -> ConvolutionKernel:
        return ConvolutionKernel(self.num_features, self.candidates[candidate])

    def fit_parts(self, run: RunFolder, network: Any, parts: Any, seed: int, **more: Any) -> Any:
        """Train both halves, see `halves.fit_parts`; the network starts as `initial` says."""
        is_long = self.initial is None and self.filter_length >= TAPS
        if network is not None and not self.warm_start and (is_long or self.initial == KERNEL):
            network = self._started(network, parts["train"], seed)
        return super().fit_parts(run, network, parts, seed, **more)

    def _started(self, network: Any, train: Any, seed: int) -> Any:
        """Return a network with filters of a kernel machine in its first layer.

        Their dilation is that of both layers. The output gate of a cell that has one opens where
        the output of the filter exceeds its threshold, as a share counts it.
        """
        rows, values = known_values(self.target_, train[1], 0)
        some = np.unique(np.linspace(0, len(rows) - 1, _STARTING).astype(np.int64))
        column, kernel = columns_of(self.target_)[0], self._new_kernel(0)
        series, config = self.inputs_.encode([train[0][i] for i in rows[some]]), network.config
        parts = kernel.read(series), values[some], len(some), None
        machine, _ = fit_machine([kernel], column, *parts, self.penalties)
        dilation, filters, thresholds = machine.kernel.strongest(
            series, machine.coefficients, config.hidden_size, self.dilation
        )
        with generators.initializing(seed):
            network = self._make(replace(config, dilation=dilation))
        cell: Any = network.cell
        count, gates = len(filters), cell.cell.gates
        with torch.no_grad():
            # the newest slot first, as the last tap
            taps = torch.from_numpy(filters[:, :, ::-1].copy()).transpose(1, 2).flatten(1)
            weight = cell.weight_ih_l0.unflatten(0, (len(gates), -1))
            weight[gates.index("candidate"), :count, : taps.shape[1]] = taps
            weight[:, :count, taps.shape[1] :] = 0.0
            if "output" in gates:
                weight[gates.index("output"), :count, : taps.shape[1]] = taps
                gate = cell.bias_l0.view(-1, config.hidden_size)[-1]
                gate[:count] = -torch.from_numpy(thresholds)
        return network

    def leaves_one_out(self, count: int) -> bool:
        """Return True: views and penalty are chosen by ridge regressions without each series."""
        return True

    def kernel_candidates(self, objects: Any) -> list[ConvolutionKernel]:
        return [self._new_kernel(k) for k in range(len(self.candidates))]

    def kernel_objects(self, objects: Any) -> Any:
        if isinstance(objects, Responses):
            return objects
        series = self.inputs_.encode(objects)
        return series if self.machines_ else self._new_kernel().read(series)

    def explain_kernel(self, one: Series, output: int) -> Explained:
        machine = self.machine_
        assert machine is not None
        (x,) = series = self.inputs_.encode([one])
        coefficients, constant = machine.centered(output)
        width = _width(x.shape[1], sum(len(bank.filters) for bank in machine.kernel.banks_))
        banks = machine.kernel.by_step(x, coefficients, width)
        names = [
            bank.name(row) + self.inputs_.named(channel)
            for bank, _ in banks
            for row, channel in enumerate(bank.channels.tolist())
        ]
        values = np.concatenate([values for _, values in banks])
        parts = _contributions(names, values, x.shape[1], width, KERNEL)
        return machine.centered_score(series, output), constant, parts

    @torch.no_grad()
    def _explain_network(self, one: Series, output: int) -> Explained:
        cell, width = self.network_.cell, columns_of(self.target_)[0].width
        if not isinstance(cell, RecurrentKernelMachine):
            hint = "Its output is not a sum of contributions."
            raise KindError("the cell", self.cell, "a recurrent kernel machine", hint=hint)
        exact = copy.deepcopy(self.network_).double()
        x, lengths = self.inputs_.collate(self.inputs_.encode([one]))
        score = centered(exact(x.double(), lengths)[0, :width])[output].item()
        row = centered(exact.head.weight[:width])[output] / len(x[0])
        readout = stack_readout(cell, x[0], row.expand(len(x[0]), -1))
        ledger = readout.readouts[0]
        assert isinstance(ledger, MemoryLedger)
        values = ledger.by_ngram.T.numpy()
        names = [f"filter {unit}" for unit in range(len(values))]
        constant = readout.constant + centered(exact.head.bias[:width])[output].item()
        joined = _width(values.shape[1], len(values))
        sums = np.add.reduceat(values, np.arange(0, values.shape[1], joined), axis=1)
        parts = _contributions(names, sums, values.shape[1], joined, NETWORK)
        return score, constant, parts

    def places_of(self, one: Series, contributions: Sequence[Contribution]) -> Places:
        names = {(step,): f"step {step}" for step in range(one.shape[1])}
        return Places(names, "whole series", ("step", "filter"), (), _steps)

    def explanation_details(self, one: Series, explanation: Explanation) -> dict[str, Any]:
        """Return what a report shows of an explained object besides its contributions.

        Returns:
            ``series``, up to `TRACES` channels by name, of up to `POINTS` values each; ``shown``,
            their steps; and ``by_step``, the contributions from each of these to the next.
        """
        count, totals = one.shape[1], np.array(explanation.values_by_place())
        shown = np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))
        sums = np.add.reduceat(totals, shown)
        names = self.inputs_.names or [str(channel) for channel in range(len(one))]
        values = np.nan_to_num(filled(one))[:TRACES, shown]
        return {
            "series": dict(zip(names, values.tolist(), strict=False)),
            "shown": shown.tolist(),
            "by_step": sums.tolist(),
        }


class SeriesStream:
    """Reads one series step by step, with the prediction for the series so far after each.

    The predictions are those of `predict_proba`, or `predict` of a regressor, for these steps. Time
    does not depend on the number of steps before. A missing value is the one before it until the
    next one comes, which interpolates; the steps without any value wait for the next with one.

    Args:
        model: A fitted `SeriesClassifier` or `SeriesRegressor` whose kernel predicts alone, for
            one target. ``standardize="series"`` needs whole series.

    Raises:
        ArgumentError: For other estimators.

    Attributes:
        steps: Number of steps read since the last `reset`.
    """

    def __init__(self, model: Any) -> None:
        check_is_fitted(model)
        if len(model.targets_) > 1 or model.machine_ is None or model.targets_[0].pool.network:
            raise ArgumentError("answer", model.answer, "'kernel', and one target, for a stream")
        if not model.inputs_.means:
            expected = "'training' or 'none' for a stream, which does not know the whole series"
            raise ArgumentError("standardize", model.standardize, expected)
        self._model = model
        self._predict = getattr(model, "predict_proba", self._model.predict)
        self.reset()

    def reset(self) -> None:
        """Start a new series."""
        count = self._model.inputs_.num_channels
        self._stream = ConvolutionStream(self._model.machine_.kernel, count)
        self._last = np.full(count, -1)  # the last step with a value of each channel
        self._filled, self._prediction = np.full((count, 64), np.nan), None
        self.steps = 0

    def step(self, values: Any) -> Any:
        """Return the prediction after one step more.

        Args:
            values: A number, or one for each channel ``(C,)``; NaN where a value is missing.

        Returns:
            The probability of each class ``(classes,)``, or a number; None before the first value.

        Raises:
            DataError: The values are not those of the channels, or infinite.
        """
        inputs = self._model.inputs_
        try:
            row = np.atleast_1d(np.asarray(values, np.float64))
        except (TypeError, ValueError):
            row = np.empty(0)
        if row.shape != (inputs.num_channels,) or np.isinf(row).any():
            problem = f"a step has the values {values!r}"
            fix = f"Give a finite number, or NaN, for each of {inputs.num_channels} channels."
            raise DataError(problem, fix=fix)
        t, is_there = self.steps, ~np.isnan(row)
        self.steps += 1
        if self._filled.shape[1] <= t:
            self._filled = np.concatenate([self._filled, np.full_like(self._filled, np.nan)], 1)
        self._filled[:, t] = np.where(is_there, row, self._filled[:, t - 1] if t else np.nan)
        if not is_there.any():
            return self._prediction
        for c in np.flatnonzero(is_there & (self._last < t - 1)):
            last = self._last[c]
            ends = [last, t] if last >= 0 else [t]
            gap = np.arange(last + 1, t)
            self._filled[c, gap] = np.interp(gap, ends, self._filled[c, ends])
        start = min(self._stream.steps, int(self._last[is_there].min()) + 1)
        self._last[is_there] = t
        means, scales = np.array(inputs.means)[:, None], np.array(inputs.scales)[:, None]
        values = np.nan_to_num((self._filled[:, start : t + 1] - means) / scales)
        responses = self._stream.replace(start, values.astype(np.float32))
        (self._prediction,) = self._predict(responses)
        return self._prediction


def _steps(where: tuple[int, ...], part: str) -> list[tuple[int, ...]]:
    return [(step,) for step in range(where[0], where[-1] + 1)]


def _width(steps: int, filters: int) -> int:
    """Return how many successive steps to join, so that contributions are at most `_MOST`."""
    return -(-steps // max(1, _MOST // filters))


def _contributions(
    names: Sequence[str], values: NDArray[Any], steps: int, width: int, half: str
) -> list[Contribution]:
    """Return the contribution of each filter at each step, or at the first and last of several."""
    ends = [(k, min(k + width, steps) - 1) for k in range(0, steps, width)]
    places = [tuple(dict.fromkeys(names)) for names in ends]
    return [
        Contribution(name, where, half, value)
        for name, row in zip(names, values.tolist(), strict=True)
        for where, value in zip(places, row, strict=True)
    ]


class SeriesClassifier(SeriesHalves, Classifier):
    """A classifier of series of one channel or many, of equal or unequal lengths.

    X is an array ``(N, T)`` or ``(N, C, T)``, channels before steps, or a sequence of arrays
    ``(T_i,)`` or ``(C, T_i)``. NaN is a missing value, which is interpolated; at the end of all
    channels, it is padding.

    The kernel half is ridge regression of the classes on the features of `ConvolutionKernel`: how
    often fixed filters exceed thresholds, and the values themselves if the error of series left out
    is smaller with them. The network half (``answer="network"`` or ``"both"``) is
    a cell on the values, whose outputs are averaged over time.

    `explain` returns the contribution of each filter, and so of each channel, at each step, whose
    number is in ``where``; a filter of the kernel is centered there, one of the network ends there.
    Of a long series, successive steps are joined, and ``where`` has the first and the last one.

    Examples:
        >>> import numpy as np
        >>> from representer.estimators import SeriesClassifier
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(20, 50))
        >>> X[::2, 20:25] += 5
        >>> model = SeriesClassifier(num_features=1000, random_state=0, verbose=0)
        >>> model.fit(X, ["bump", "none"] * 10).predict(X[:2]).shape
        (2,)

    References:
        Dempster, Schmidt and Webb, MiniRocket: A Very Fast (Almost) Deterministic Transform for
        Time Series Classification, KDD 2021. Liang et al., Kernel-Based Approaches for Sequence
        Modeling, NeurIPS 2019, section 4.2 (convolutions as cells without memory).
    """

    penalties: ClassVar[Sequence[float]] = (0.01, 1.0, 100.0, 1e4)
    candidates: ClassVar[Sequence[Sequence[str]]] = (SHARE,), (SHARE, VALUES)


class SeriesRegressor(SeriesHalves, Regressor):
    """A regressor of series; X, kernel and network are those of `SeriesClassifier`."""
