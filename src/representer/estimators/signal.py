"""The estimator of signals: a kernel of spectra, and wavelet filters in a recurrent cell."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from representer import models
from representer.data.signals import Recordings, Standardization, augmented
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
from representer.estimators.kernel_machine import CANDIDATES
from representer.estimators.supervised import Classifier
from representer.estimators.targets import centered, columns_of, pair_of, require_same_length
from representer.explain import MemoryLedger, stack_readout, wavelet_frequencies
from representer.kernels.cross_spectral_kernel import (
    BANDS,
    OF_SUBJECTS,
    POWER,
    VIEWS,
    WAVEFORM,
    CrossSpectralKernel,
    Recentering,
    Spectra,
    class_covariances,
)
from representer.kernels.sequences import as_sequence, column_of, has_columns
from representer.models import SignalClassifierConfig, SignalNetwork
from representer.models.signal_classifier import pooled, step_weights
from representer.nn.recurrent.cells import SyncNet
from representer.nn.recurrent.machine import RecurrentKernelMachine
from representer.options.signal import SignalParameters, in_samples
from representer.storage.atomic import from_values
from representer.storage.run import RunFiles, RunFolder

# The output of a signal network as an exact sum over filters and windows of the signal.
#
# A logit is a linear function of the cell's outputs, given which of them are the largest and the
# weights of attention. ``representer.explain`` decomposes it into what each filter of the first
# layer's candidate adds at each step; SyncNet has no later steps that depend on it, so its outputs
# are the parts. The logarithm of the power of each unit in the window contributes what it is above
# its mean over the training. As for texts, the explained score is the logit of a class minus the
# mean.


def _positions(where: tuple[int, ...], part: str) -> list[tuple[int, ...]]:
    return [where] if part == NETWORK else [(channel,) for channel in where]


TRACES, POINTS = 5, 250  # channels of a picture, and samples of each


@torch.no_grad()
def filter_sum(model: SignalNetwork, signal: Tensor, label: int, width: int) -> Explained:
    """Return the score of a class as a sum over filters and steps.

    The contributions are exact, given the values of the gates and of the divisors of layer norms.
    The score is from a forward pass of the network in float64; beside it come the contribution of
    the biases, and that of each filter at each step and of each power, whose place is the first and
    the last sample. ``width`` is the number of classes of the first target, which is explained.
    """
    config, cell = model.config, model.cell
    if not isinstance(cell, RecurrentKernelMachine | SyncNet):
        expected = "one of the recurrent kernel machines, or SyncNet"
        hint = "Its output is not a sum of contributions."
        raise KindError("the cell", config.cell, expected, hint=hint)
    exact = copy.deepcopy(model).double()
    read = exact.read(signal[None].double())
    features = pooled(read, config, exact.scores(read))[0]
    outputs = centered(exact.head(features)[:width])
    skipped = signal.shape[1] % config.stride
    row = centered(exact.head.weight[:width])[label]
    row, *of_powers = row.split(config.hidden_size) if config.pooling == "power" else [row]
    weights = step_weights(read, config, exact.scores(read), row)
    later = 0
    if isinstance(cell, SyncNet):
        by_filter, constant = weights * read[:, 0], 0.0
        later = config.filter_length - 1 - config.filter_length // 2  # samples after a step
    else:
        readout = stack_readout(cell, signal[:, skipped:].T, weights)
        ledger = readout.readouts[0]
        assert isinstance(ledger, MemoryLedger)
        by_filter, constant = ledger.by_ngram, readout.constant
    names = _names(cell, config.filters == "wavelet")
    units = names if config.num_layers == 1 else [f"unit {k}" for k in range(config.hidden_size)]
    last = [skipped + (step + 1) * config.stride - 1 + later for step in range(len(read))]
    parts = []
    for step, values in enumerate(by_filter.tolist()):
        first = last[step] - config.filter_length + 1
        samples = max(skipped, first), min(last[step], signal.shape[1] - 1)
        start, end = (sample / config.sampling_rate for sample in samples)
        parts += [
            Contribution(f"{name}, {start:.3f} to {end:.3f} s", samples, NETWORK, value)
            for name, value in zip(names, values, strict=True)
        ]
    samples = skipped, signal.shape[1] - 1
    start, end = (sample / config.sampling_rate for sample in samples)
    constant += centered(exact.head.bias[:width])[label].item()
    for values in of_powers:
        constant += (values @ exact.typical).item()
        effects = (values * (features[config.hidden_size :] - exact.typical)).tolist()
        parts += [
            Contribution(f"power of {name}, {start:.3f} to {end:.3f} s", samples, NETWORK, value)
            for name, value in zip(units, effects, strict=True)
        ]
    return outputs[label].item(), constant, parts


def details_of(
    explanation: Explanation, window: NDArray[Any], channels: Sequence[str], sampling_rate: float
) -> dict[str, Any]:
    """Return what a picture shows of a window.

    These are ``moments``, the end in seconds and the contribution of each step of the network;
    ``channels`` and ``by_channel``, what the kernel takes from each; ``traces``, up to `TRACES`
    channels of `POINTS` samples, those with the largest contributions first; ``seconds``.
    """
    count, length = window.shape
    moments: dict[int, float] = {}
    by_channel = [0.0] * count
    for term in explanation.contributions:
        if term.part == KERNEL:
            for channel in term.where:
                by_channel[channel] += term.contribution / len(term.where)
        elif term.where[1] - term.where[0] < length - 1:  # else the power in the whole window
            moments[term.where[1]] = moments.get(term.where[1], 0.0) + term.contribution
    order = sorted(range(count), key=lambda channel: -abs(by_channel[channel]))[:TRACES]
    samples = np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(int))
    names = list(channels) or [str(channel) for channel in range(count)]
    return {
        "seconds": length / sampling_rate,
        "moments": [[end / sampling_rate, value] for end, value in sorted(moments.items())],
        "channels": names,
        "by_channel": by_channel,
        "traces": {names[k]: window[k, samples].astype(float).round(3).tolist() for k in order},
    }


def _names(cell: RecurrentKernelMachine | SyncNet, is_wavelet: bool) -> list[str]:
    if not is_wavelet:
        return [f"filter {unit}" for unit in range(cell.hidden_size)]
    return [f"filter {unit} ({hertz:.1f} Hz)" for unit, hertz in enumerate(
        wavelet_frequencies(cell))]  # fmt: skip


# Windows of MNE: ``Epochs`` with their channels, sampling rate and events.


@dataclass(frozen=True)
class Montage:
    """The channels and the sampling rate of windows that name them."""

    channels: tuple[str, ...] = ()
    sampling_rate: float = 0.0


def is_epochs(X: Any) -> bool:
    """Return True for MNE's ``Epochs``."""
    if not (hasattr(X, "get_data") and hasattr(X, "ch_names")):
        return False
    if not hasattr(X, "events"):
        fix = "Cut it into windows, such as mne.make_fixed_length_epochs(raw, duration=2)."
        raise DataError(f"X is a {type(X).__name__}; expected mne.Epochs", fix=fix)
    return True


def read_epochs(epochs: Any, sampling_rate: float | None) -> tuple[NDArray[Any], Montage]:
    """Return the good data channels of training epochs ``(N, C, T)``, and which they are."""
    rate = float(epochs.info["sfreq"])
    if sampling_rate is not None and sampling_rate != rate:
        hint = f"Leave it out, or use epochs.resample({sampling_rate:g})."
        raise ArgumentError("sampling_rate", sampling_rate, f"{rate:g}, as of X", hint=hint)
    try:
        good = epochs.copy().pick("data", exclude="bads", verbose="error")
    except ValueError:
        kinds = ", ".join(sorted(set(epochs.get_channel_types())))
        problem = f"X has no good data channel, only channels of the types {kinds}"
        raise DataError(problem, fix='Set them, such as epochs.set_channel_types({"Fz": "eeg"}).') \
            from None  # fmt: skip
    return good.get_data(copy=False), Montage(tuple(good.ch_names), rate)


def known_channels(epochs: Any, known: Montage) -> NDArray[Any]:
    """Return the channels of the training data of MNE's ``Epochs``, see `rearranged`."""
    return rearranged(*read_epochs(epochs, None), known)


def rearranged(data: NDArray[Any], montage: Montage, known: Montage) -> NDArray[Any]:
    """Return the channels of the training data, in its order, of epochs ``(N, C, T)``.

    If the training has no channels, all are returned.
    """
    if montage.sampling_rate != known.sampling_rate:
        problem = f"X has {montage.sampling_rate:g} Hz; the model has {known.sampling_rate:g} Hz"
        raise DataError(problem, fix=f"Use epochs.resample({known.sampling_rate:g}).")
    if missing := [name for name in known.channels if name not in montage.channels]:
        problem = f"X lacks the channels {', '.join(missing)} of the training data"
        raise DataError(problem, fix="Rename or interpolate them.")
    order = [montage.channels.index(name) for name in known.channels]
    return np.asarray(data)[:, order] if order else data


# The inputs of networks for signals: checked windows, standardized.

Windows = NDArray[np.float32]


@dataclass(frozen=True)
class SignalInputs(Inputs):
    """Windows of a signal as standardized tensors.

    Args:
        standardization: Learned from the training windows.
        num_channels: C.
        names: Names of the channels, if they are known.
        sampling_rate: That of epochs, in Hz; 0 if it is the parameter of the estimator.
    """

    standardization: Standardization
    num_channels: int
    names: tuple[str, ...] = ()
    sampling_rate: float = 0.0

    def __post_init__(self) -> None:
        self.standardization.require_channels(self.num_channels)
        if len(self.names) not in (0, self.num_channels):
            raise ValueError(f"{len(self.names)} names of {self.num_channels} channels")

    def named(self, channels: Sequence[int]) -> str:
        """Return the names of one channel or two, or their numbers."""
        if self.names:
            return " and ".join(self.names[c] for c in channels)
        return f"channel{'s' * (len(channels) > 1)} {' and '.join(map(str, channels))}"

    @classmethod
    def learn(cls, kind: str, windows: Windows, montage: Montage) -> SignalInputs:
        """Return the inputs for training windows ``(N, C, T)``."""
        standardization = Standardization.fit(kind, _recordings(windows))  # type: ignore[arg-type]
        return cls(standardization, windows.shape[1], montage.channels, montage.sampling_rate)

    def encode(self, X: Any) -> list[Any]:
        """Return each window standardized ``(C, T)``."""
        windows = np.asarray(X)
        if windows.shape[1] != self.num_channels:
            problem = f"X has {windows.shape[1]} channels; the model has {self.num_channels}"
            raise DataError(problem, fix="Use the channels of the training data.")
        return list(self.standardization.apply(_recordings(windows)).signals)

    def collate(self, encoded: Sequence[Windows], multiple: int = 1) -> tuple[Tensor]:
        """Return windows ``(B, C, T)``."""
        return (torch.from_numpy(np.stack(encoded)),)

    def size(self, encoded: Windows) -> int:
        """Return the number of samples."""
        return encoded.shape[1]


def _recordings(windows: Windows) -> Recordings:
    """Return windows as recordings, of which standardization reads signals and channels alone."""
    none, channels = np.zeros(len(windows), dtype=np.int64), map(str, range(windows.shape[1]))
    return Recordings(windows, none, (), none.astype(str), 1.0, tuple(channels))


def check_windows(X: Any, stride: int) -> Windows:
    """Return windows ``(N, C, T)`` in float32, after checking each.

    They are an array, or a sequence of arrays ``(C, T)`` of one shape, with at least ``stride``
    samples.
    """
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise DataError(f"X is a {type(X).__name__}; expected an array (N, C, T)")
    one_column = column_of(X) if has_columns(X) else X
    rows = [_window(window, row) for row, window in enumerate(as_sequence(one_column, "X"))]
    if not rows:
        return np.zeros((0, 1, stride), dtype=np.float32)
    for axis, what in enumerate(("channels", "samples")):
        sizes = [window.shape[axis] for window in rows]
        common = Counter(sizes).most_common(1)[0][0]
        for row, size in enumerate(sizes):
            if size != common:
                problem = f"X[{row}] has {size} {what}, the others have {common}"
                raise DataError(problem, fix="Pad or cut it, or leave this row out.")
    if rows[0].shape[1] < stride:
        problem = f"X has windows of {rows[0].shape[1]} samples, fewer than the stride, {stride}"
        fix = "Use longer windows or a smaller stride; X is (N, C, T)."
        raise DataError(problem, fix=fix)
    with np.errstate(over="ignore"):  # becomes infinity
        windows = np.stack(rows).astype(np.float32)
    broken = ~np.isfinite(windows)
    if broken.any():
        row, channel, sample = (int(i) for i in np.argwhere(broken)[0])
        what = "NaN" if np.isnan(windows[row, channel, sample]) else "infinity"
        problem = f"X[{row}] contains {what} in channel {channel}"
        raise DataError(problem, fix="Interpolate it, or leave this row out.")
    return windows


def _window(one: Any, row: int) -> NDArray[Any]:
    """Return a window as an array ``(C, T)`` of numbers."""
    try:
        array = np.asarray(one)
        if array.dtype == object and array.ndim == 1:  # a list of channels, as tables hold them
            array = np.asarray([np.asarray(channel) for channel in array])
    except ValueError:  # channels of unequal lengths
        raise DataError(f"X[{row}] has channels of unequal lengths") from None
    if array.ndim != 2 or not len(array) or array.dtype.kind not in "fiu":
        problem = f"X[{row}] is {array.dtype} of shape {array.shape}; expected numbers (C, T)"
        fix = "Pass an array (N, C, T); one window is X[None], windows of one channel X[:, None]."
        raise DataError(problem, fix=fix)
    return array


_VIEWS = (*VIEWS, WAVEFORM)
# Subjects in training that tell the views apart. By two subjects, a headband's waveforms were
# chosen, which tell nothing of the third.
FEWEST = 6
_MOST_VALUES = 2**26  # of cross-spectral matrices in memory; beyond, power alone is compared


class SignalClassifier(SignalParameters, Classifier):
    """A classifier of windows of a multichannel signal.

    Two parts predict together: a linear model on the power and the coupling of the channels in each
    frequency band, on the waveform, or on all of them (`CrossSpectralKernel`), and a network in
    which wavelet filters feed a recurrent cell (L19 section 6) and one linear layer classifies the
    mean and the power of its outputs. X is an array ``(N, C, T)``, a sequence of arrays ``(C, T)``
    of one shape, or MNE's ``Epochs``, which give the sampling rate and the names of the channels,
    too. Pass subjects as `groups`: validation, and the cross-validation that chooses the kernel's
    features and its C, hold out whole subjects; of fewer than six, power and coupling are the
    features. With ``recenter="subject"``, the kernel standardizes its features by the windows of
    each subject, without their classes; pass subjects as `groups` to `predict`, too. In training,
    all classes of a subject weigh the same; in prediction, the scores tell the offset of a subject
    from the shares of its classes, see `Recentering`.

    `explain` returns the contribution of each channel and pair of channels in each band, with their
    numbers in ``where``; of each filter at each step, with the times of the first and the last
    sample that the filter covers; and of the power of each filter in the window. ``where`` has the
    numbers of these samples.

    Examples:
        >>> import numpy as np
        >>> from representer.estimators import SignalClassifier
        >>> time, rng = np.arange(200) / 100, np.random.default_rng(0)
        >>> waves = [np.sin(2 * np.pi * hertz * time) for hertz in (8, 20)]
        >>> X = np.stack([waves[i % 2] + rng.normal(size=(2, 200)) for i in range(20)])
        >>> model = SignalClassifier(sampling_rate=100, epochs=1, random_state=0, verbose=0)
        >>> model.fit(X, ["alpha", "beta"] * 10).predict(X[:3]).shape
        (3,)

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, section 6.
    """

    noun: ClassVar[str] = "window"
    _task: ClassVar[str] = "signal"
    _input_tags: ClassVar[tuple[str, ...]] = ("three_d_array",)
    _config: ClassVar[type[SignalClassifierConfig]] = SignalClassifierConfig
    is_kernel_unsupervised: ClassVar[bool] = True
    penalties: ClassVar[Sequence[float]] = (0.1, 0.3, *CANDIDATES)
    _montage: Montage = Montage()  # of epochs
    _window_length: int  # samples
    # subject and weight of windows by their digests, and the moments of subjects
    _known: tuple[dict[int, tuple[str, float]], Any] | None = None
    _is_of_few: bool = False  # subjects, fewer than `FEWEST`
    inputs_: SignalInputs
    network_: models.SignalNetwork

    def _has_content(self, one: Any) -> bool:
        return bool(np.ptp(one, axis=-1).any())  # else every channel is flat

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        validation: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Train on windows and their classes; see `SupervisedEstimator.fit`.

        Args:
            X: An array ``(N, C, T)``, a sequence of arrays ``(C, T)``, or MNE's ``Epochs``, of
                which the good data channels are used.
            y: The classes ``(N,)``; by default the event codes of epochs, ``epochs.events[:, 2]``.
            groups: The subject of each window ``(N,)``.
            validation: A pair ``(X, y)``.
            sample_weight: Weight of each window ``(N,)``.
        """
        self._check_parameters()
        self._montage = Montage()
        if is_epochs(X):
            y = X.events[:, 2] if y is None else y
            X, self._montage = read_epochs(X, self.sampling_rate)
            if self.warm_start:
                start = type(self).load(str(self.warm_start))
                montage = Montage(start.inputs_.names, start.sampling_rate_)
                X, self._montage = rearranged(X, self._montage, montage), montage
        if not self.sampling_rate_:
            hint = "SignalClassifier(sampling_rate=250)"
            raise ArgumentError("sampling_rate", None, "the sampling rate in Hz", hint=hint)
        if validation is not None and is_epochs((pair := pair_of(validation))[0]):
            montage = Montage(self._montage.channels, self.sampling_rate_)
            validation = known_channels(pair[0], montage), pair[1]
        if self.warm_start:  # whose inputs do not tell the length, as `learn_inputs` does
            X = self.checked_objects(X)
            self._window_length = X.shape[2]
        if self.recenter and groups is None:
            expected = "the subject of each window, with recenter='subject'"
            raise ArgumentError("groups", None, expected)
        if self.recenter:
            self._weights_of(map(str, as_sequence(groups, "groups")), as_sequence(y))
        super().fit(X, y, groups=groups, validation=validation, sample_weight=sample_weight)
        self.inputs_ = replace(self.inputs_, sampling_rate=self._montage.sampling_rate)
        return self

    def fit_parts(
        self,
        run: RunFolder,
        network: Any,
        parts: Any,
        seed: int,
        *,
        groups: Any = None,
        **more: Any,
    ) -> Any:
        """Train both halves, see `halves.fit_parts`; `groups` are subjects, whose classes count."""
        of_train = (groups or {}).get("train")
        self._is_of_few = of_train is not None and len({*map(str, of_train)}) < FEWEST
        if self.recenter:
            names, X, y = [], [], []
            for name, (objects, values) in parts.items():
                subjects = (groups or {}).get(name)
                names += [""] * len(objects) if subjects is None else map(str, subjects)
                X += [*objects]
                y += [*values]
            self._known = self._named(self.checked_objects(X), names, y), {}
        try:
            return super().fit_parts(run, network, parts, seed, groups=groups or {}, **more)
        finally:
            self._known = None

    @property
    def sampling_rate_(self) -> float:
        """The sampling rate in Hz: the parameter, or that of the epochs of the training."""
        return self._montage.sampling_rate or float(self.sampling_rate or 0)

    def _check_objects(self, X: Any) -> Any:
        if is_epochs(X):
            X = known_channels(X, Montage(self.inputs_.names, self.sampling_rate_))
        windows = check_windows(X, in_samples(self, self.sampling_rate_)["stride"])
        count, channels, samples = windows.shape
        if count and channels > samples and not self._montage.channels:
            text = f"X has {channels} channels of {samples} samples; it is (N, C, T). "
            warnings.warn(text + "Pass X.transpose(0, 2, 1) if it is (N, T, C).", stacklevel=2)
        return windows

    def learn_inputs(self, objects: Sequence[Windows], seed: int) -> SignalInputs:
        self._window_length = np.asarray(objects).shape[2]
        return SignalInputs.learn(self.standardize, np.asarray(objects), self._montage)

    def _configure(self, inputs: SignalInputs, width: int) -> SignalClassifierConfig:
        names = {f.name for f in fields(SignalParameters)} & {f.name for f in fields(self._config)}
        chosen = {name: getattr(self, name) for name in names}
        chosen["sampling_rate"] = self.sampling_rate_
        chosen |= in_samples(self, self.sampling_rate_)
        if self.pooling == "flatten":
            chosen["window_length"] = self._window_length
        return SignalClassifierConfig(inputs.num_channels, width, **chosen)

    _make = staticmethod(models.SignalNetwork)

    @property
    def network_name(self) -> str:
        return f"{self.cell} with {self.filters} filters"

    def _augmentation(self) -> Callable[[Tensor], tuple[Tensor]] | None:
        return (lambda signals: (augmented(signals),)) if self.augment else None

    def _new_kernel(self, views: Sequence[str] = VIEWS) -> CrossSpectralKernel:
        return CrossSpectralKernel(self.sampling_rate_, views=views)

    def kernel_candidates(self, objects: Spectra) -> list[CrossSpectralKernel]:
        if self._is_of_few:
            return [self._new_kernel(tuple(view for view in VIEWS if view in objects.views))]
        choices = [(view,) for view in objects.views]
        choices += [views for views in (VIEWS, _VIEWS) if {*views} <= {*objects.views}]
        return [self._new_kernel(views) for views in choices]

    def kernel_objects(self, objects: Any) -> Spectra:
        windows = np.asarray(self.inputs_.encode(np.asarray(objects)))
        if self.machines_:
            views = {view for machine in self.machines_ for view in machine.kernel.views}
            spectra = self._new_kernel([view for view in _VIEWS if view in views]).read(windows)
        else:
            features = len(BANDS) * windows.shape[1] ** 2
            is_small = len(windows) * features <= _MOST_VALUES
            spectra = self._new_kernel(_VIEWS if is_small else (POWER,)).read(windows)
        if not self.recenter:
            return spectra
        names, moments = self._known or ({}, {})
        pairs = [names.get(name, ("", 1.0)) for name in self.digests(objects).tolist()]
        subjects = np.array([subject for subject, _ in pairs])
        weights = np.array([weight for _, weight in pairs])
        moments = spectra.moments_of(subjects, weights) | moments
        return replace(spectra, subjects=subjects, moments=moments)

    def _named(self, X: Any, groups: Any, y: Any = None) -> dict[int, tuple[str, float]]:
        """Return the subject and the weight of each window; classes of a subject weigh the same."""
        names = [""] * len(X) if groups is None else [*map(str, as_sequence(groups, "groups"))]
        require_same_length(X, names, "groups")
        weights = [1.0] * len(X) if y is None or np.ndim(y) > 1 else self._weights_of(names, y)
        return dict(zip(self.digests(X).tolist(), zip(names, weights, strict=True), strict=True))

    def _weights_of(self, names: Iterable[str], y: Iterable[Any]) -> list[float]:
        pairs = [*zip(names, map(str, y), strict=False)]  # a wrong length is told later
        counts = Counter(pairs)
        if len(counts) == len({name for name, _ in pairs}):
            hint = "It would remove the differences of such subjects."
            expected = "None, since each subject has windows of one class only"
            raise ArgumentError("recenter", self.recenter, expected, hint=hint)
        return [1 / counts[pair] for pair in pairs]

    @contextmanager
    def recentered(self, X: Any, groups: Any = None) -> Iterator[Any]:
        """Standardize by the subjects of all windows of X until the end, also one by one.

        In training, the classes of a subject weigh the same. Here they are unknown, see
        `Recentering`.

        Args:
            X: The windows.
            groups: The subject of each ``(N,)``; by default, all are of one subject.
        """
        check_is_fitted(self)
        if not self.recenter or self._known or not self.machines_:
            yield X
            return
        X = self.checked_objects(X)
        self._known = self._named(X, groups), {}
        try:
            spectra: Any = self.kernel_objects(X)
            moments = self._recentering(self.machines_[0]).moments(spectra)
            self._known = self._known[0], moments
            yield X
        finally:
            self._known = None

    def predict_proba(self, X: Any, *, groups: Any = None) -> Any:
        """Return the probability of each class ``(N, C)``.

        Args:
            X: The windows.
            groups: With ``recenter="subject"``, the subject of each window ``(N,)``; by default,
                all are of one subject.
        """
        with self.recentered(X, groups) as windows:
            return super().predict_proba(windows)

    def predict(self, X: Any, *, groups: Any = None) -> NDArray[Any]:
        with self.recentered(X, groups) as windows:
            return super().predict(windows)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> float:
        """Return the accuracy; `groups` as in `predict_proba`."""
        with self.recentered(X, groups) as windows:
            return super().score(windows, y, sample_weight)

    def explain(self, X: Any, k: int = 10, *, groups: Any = None) -> list[Explanation]:
        with self.recentered(X, groups) as windows:
            return super().explain(windows, k)

    def _recentering(self, machine: Any) -> Recentering:
        kernel = machine.kernel
        moments = {name: kernel.subjects_[name] for name in OF_SUBJECTS}
        parts = kernel.means_, kernel.scales_, machine.coefficients, machine.intercepts
        return Recentering(kernel.views, *parts, **moments)

    def learn_subjects(
        self, machine: Any, objects: Spectra, scores: NDArray[np.float64], values: NDArray[Any]
    ) -> None:
        """Learn how scores vary with the class and from subject to subject, for `recenter`.

        Args:
            machine: Of all windows.
            objects: All windows.
            scores: Of windows held out ``(N, C)``.
            values: Their classes.
        """
        if objects.subjects is not None:
            kernel, intercepts = machine.kernel, machine.intercepts
            subjects = objects.subjects[-len(values) :]
            moments = class_covariances(scores, values, subjects, intercepts)
            kernel.subjects_ = dict(zip(OF_SUBJECTS, (*moments, 0 * moments[1]), strict=True))
            kernel.subjects_["between"] = self._recentering(machine).learned_between(objects)

    def explain_kernel(self, one: Windows, output: int) -> Explained:
        machine = self.machine_
        assert machine is not None
        objects = self.kernel_objects(one[None])
        coefficients, constant = machine.centered(output)
        values = machine.kernel.transform(objects)[0] * coefficients
        sums: dict[tuple[str, tuple[int, ...]], float] = {}  # over the features of a band
        for feature, value in zip(machine.kernel.features(), values.tolist(), strict=True):
            named = feature.name, feature.channels
            sums[named] = sums.get(named, 0.0) + value
        parts = [
            Contribution(f"{name}, {self.inputs_.named(channels)}", channels, KERNEL, value)
            for (name, channels), value in sums.items()
        ]
        return machine.centered_score(objects, output), constant, parts

    def _explain_network(self, one: Windows, output: int) -> Explained:
        parameter = next(self.network_.parameters())
        signal = torch.from_numpy(self.inputs_.encode(one[None])[0]).to(parameter)
        width = columns_of(self.target_)[0].width
        return filter_sum(self.network_, signal, output, width)

    def places_of(self, one: Windows, contributions: Sequence[Contribution]) -> Places:
        names: dict[tuple[int, ...], str]
        names = {(channel,): self.inputs_.named((channel,)) for channel in range(len(one))}
        if not any(term.part == KERNEL for term in contributions):
            names = {}
        rate = self.sampling_rate_
        for first, last in sorted({term.where for term in contributions if term.part == NETWORK}):
            names[first, last] = f"{first / rate:.3g} to {last / rate:.3g} s"
        nouns = "channel or time", "filter or band"
        return Places(names, "whole window", nouns, (), _positions)

    def explanation_details(self, one: Windows, explanation: Explanation) -> dict[str, Any]:
        window, names = np.asarray(one), self.inputs_.names
        return details_of(explanation, window, names, self.sampling_rate_)

    def _load_inputs(self, files: RunFiles, values: Any) -> SignalInputs:
        inputs = from_values(SignalInputs, values)
        self._montage = Montage(inputs.names, inputs.sampling_rate)
        return inputs
