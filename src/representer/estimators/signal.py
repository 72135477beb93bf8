"""The estimator of signals: a kernel of spectra, and wavelet filters in a recurrent cell."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from representer import models
from representer.data.signals import augmented
from representer.errors import ArgumentError
from representer.estimators.containers import pair_of
from representer.estimators.explanation import KERNEL, Contribution, Explanation
from representer.estimators.kernel_selection import CANDIDATES
from representer.estimators.kinds import Classifier
from representer.estimators.pool import Explained
from representer.estimators.signal_epochs import (
    Montage,
    is_epochs,
    known_channels,
    read_epochs,
    rearranged,
)
from representer.estimators.signal_explanation import details_of, filter_sum
from representer.estimators.signal_inputs import SignalInputs, Windows, check_windows
from representer.estimators.signal_parameters import SignalParameters, in_samples
from representer.estimators.targets import columns_of
from representer.kernels.cross_spectral_kernel import CrossSpectralKernel
from representer.kernels.spectra import BANDS, POWER, VIEWS, Spectra
from representer.models import SignalClassifierConfig
from representer.storage.fields import from_values
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder

_MOST_VALUES = 2**26  # of cross-spectral matrices in memory; beyond, power alone is compared


class SignalClassifier(SignalParameters, Classifier):
    """A classifier of windows of a multichannel signal.

    Two parts predict together: a linear model on the power and the coupling of the channels in each
    frequency band (`CrossSpectralKernel`), and a network in which wavelet filters feed a recurrent
    cell (L19 section 6) and one linear layer classifies the mean and the power of its outputs. X is
    an array ``(N, C, T)``, a sequence of arrays ``(C, T)`` of one shape, or MNE's ``Epochs``, which
    give the sampling rate and the names of the channels, too. Pass subjects as `groups`:
    validation, and the cross-validation that chooses the kernel's features and its C, hold out
    whole subjects.

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

    _noun: ClassVar[str] = "window"
    _task: ClassVar[str] = "signal"
    _input_tags: ClassVar[tuple[str, ...]] = ("three_d_array",)
    _config: ClassVar[type[SignalClassifierConfig]] = SignalClassifierConfig
    _is_kernel_unsupervised: ClassVar[bool] = True
    _penalties: ClassVar[Sequence[float]] = (0.1, 0.3, *CANDIDATES)
    _montage: Montage = Montage()  # of epochs
    _window_length: int  # samples
    inputs_: SignalInputs
    network_: models.SignalClassifier

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
                known = Montage(start.inputs_.names, start.sampling_rate_)
                X, self._montage = rearranged(X, self._montage, known), known
        if not self.sampling_rate_:
            hint = "SignalClassifier(sampling_rate=250)"
            raise ArgumentError("sampling_rate", None, "the sampling rate in Hz", hint=hint)
        if validation is not None and is_epochs((pair := pair_of(validation))[0]):
            known = Montage(self._montage.channels, self.sampling_rate_)
            validation = known_channels(pair[0], known), pair[1]
        if self.warm_start:  # whose inputs do not tell the length, as `_learn_inputs` does
            X = self._objects(X)
            self._window_length = X.shape[2]
        super().fit(X, y, groups=groups, validation=validation, sample_weight=sample_weight)
        self.inputs_ = replace(self.inputs_, sampling_rate=self._montage.sampling_rate)
        return self

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

    def _learn_inputs(self, objects: Sequence[Windows], seed: int) -> SignalInputs:
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

    _make = staticmethod(models.SignalClassifier)

    @property
    def _network_name(self) -> str:
        return f"{self.cell} with {self.filters} filters"

    def _augmentation(self) -> Callable[[Tensor], tuple[Tensor]] | None:
        return (lambda signals: (augmented(signals),)) if self.augment else None

    def _new_kernel(self, views: Sequence[str] = VIEWS) -> CrossSpectralKernel:
        return CrossSpectralKernel(self.sampling_rate_, views=views)

    def _kernels(self, objects: Spectra) -> list[CrossSpectralKernel]:
        known = tuple(objects.views)
        choices = [(view,) for view in known] + ([known] if len(known) > 1 else [])
        return [self._new_kernel(views) for views in choices]

    def _for_kernel(self, objects: Any) -> Spectra:
        windows = np.asarray(self.inputs_.encode(np.asarray(objects)))
        if self._machines:
            known = {view for machine in self._machines for view in machine.kernel.views}
            return self._new_kernel([view for view in VIEWS if view in known]).read(windows)
        features = len(BANDS) * windows.shape[1] ** 2
        is_small = len(windows) * features <= _MOST_VALUES
        return self._new_kernel(VIEWS if is_small else (POWER,)).read(windows)

    def _explain_kernel(self, one: Windows, output: int) -> Explained:
        machine = self.machine_
        assert machine is not None
        objects = self._for_kernel(one[None])
        coefficients, constant = machine.centered(output)
        values = machine.kernel.transform(objects)[0] * coefficients
        sums: dict[tuple[Any, tuple[int, ...]], float] = {}  # over the features of a band
        for feature, value in zip(machine.kernel.features(), values.tolist(), strict=True):
            place = feature.band, feature.channels
            sums[place] = sums.get(place, 0.0) + value
        parts = [
            Contribution(f"{low:.3g} to {high:.3g} Hz, {self.inputs_.named(at)}", at, KERNEL, value)
            for ((low, high), at), value in sums.items()
        ]
        return machine.centered_score(objects, output), constant, parts

    def _explain_network(self, one: Windows, output: int) -> Explained:
        parameter = next(self.network_.parameters())
        signal = torch.from_numpy(self.inputs_.encode(one[None])[0]).to(parameter)
        width = columns_of(self.target_)[0].width
        return filter_sum(self.network_, signal, output, width)

    def _explanation_details(self, one: Windows, explanation: Explanation) -> dict[str, Any]:
        window, names = np.asarray(one), self.inputs_.names
        return details_of(explanation, window, names, self.sampling_rate_)

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        return asdict(self.inputs_)

    def _load_inputs(self, files: RunFiles, values: Any) -> SignalInputs:
        inputs = from_values(SignalInputs, values)
        self._montage = Montage(inputs.names, inputs.sampling_rate)
        return inputs
