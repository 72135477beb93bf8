"""The output of a signal network as an exact sum over filters and windows of the signal.

A logit is a linear function of the cell's outputs, given which of them are the largest and the
weights of attention. ``representer.explain`` decomposes it into what each filter of the first
layer's candidate adds at each step; SyncNet has no later steps that depend on it, so its outputs
are the parts. The logarithm of the power of each unit in the window contributes what it is above
its mean over the training. As for texts, the explained score is the logit of a class minus the
mean.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.errors import KindError
from representer.estimators.explanation import KERNEL, NETWORK, Contribution, Explanation
from representer.estimators.pool import Explained
from representer.estimators.targets import centered
from representer.explain import MemoryLedger, stack_readout, wavelet_frequencies
from representer.models import SignalClassifier
from representer.models.signal_pooling import pooled, step_weights
from representer.nn.recurrent.cells.syncnet import SyncNet
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine

TRACES, POINTS = 5, 250  # channels of a picture, and samples of each


@torch.no_grad()
def filter_sum(model: SignalClassifier, signal: Tensor, label: int, width: int) -> Explained:
    """Return the score of a class as a sum over filters and steps.

    The contributions are exact, given the values of the gates and of the divisors of layer norms.

    Args:
        model: The network, in evaluation mode.
        signal: Standardized ``(C, T)``.
        label: The number of the class.
        width: Number of classes of the first target, which is explained.

    Returns:
        The score, from a forward pass of the network in float64; the contribution of the biases;
        and that of each filter at each step and of each power, whose place is the first and the
        last sample.

    Raises:
        KindError: If the output of the cell is not a sum over the steps.
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
        at = max(skipped, first), min(last[step], signal.shape[1] - 1)
        start, end = (sample / config.sampling_rate for sample in at)
        parts += [
            Contribution(f"{name}, {start:.3f} to {end:.3f} s", at, NETWORK, value)
            for name, value in zip(names, values, strict=True)
        ]
    at = skipped, signal.shape[1] - 1
    start, end = (sample / config.sampling_rate for sample in at)
    constant += centered(exact.head.bias[:width])[label].item()
    for values in of_powers:
        constant += (values @ exact.typical).item()
        effects = (values * (features[config.hidden_size :] - exact.typical)).tolist()
        parts += [
            Contribution(f"power of {name}, {start:.3f} to {end:.3f} s", at, NETWORK, value)
            for name, value in zip(units, effects, strict=True)
        ]
    return outputs[label].item(), constant, parts


def details_of(
    explanation: Explanation, window: NDArray[Any], channels: Sequence[str], sampling_rate: float
) -> dict[str, Any]:
    """Return what a picture shows of a window.

    Args:
        explanation: Its explanation.
        window: As the estimator takes it ``(C, T)``.
        channels: Their names; numbers if they have none.
        sampling_rate: In Hz.

    Returns:
        ``moments``, the end in seconds and the contribution of each step of the network;
        ``channels`` and ``by_channel``, what the kernel takes from each; ``traces``, up to `TRACES`
        channels of `POINTS` samples, those with the largest contributions first; ``seconds``.
    """
    count, length = window.shape
    moments: dict[int, float] = {}
    by_channel = [0.0] * count
    for one in explanation.contributions:
        if one.part == KERNEL:
            for channel in one.where:
                by_channel[channel] += one.contribution / len(one.where)
        elif one.where[1] - one.where[0] < length - 1:  # else the power in the whole window
            moments[one.where[1]] = moments.get(one.where[1], 0.0) + one.contribution
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
