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

import torch
from torch import Tensor

from representer.errors import KindError
from representer.estimators.explanation import NETWORK, Contribution
from representer.estimators.pool import Explained
from representer.estimators.targets import centered
from representer.explain import MemoryLedger, stack_readout, wavelet_frequencies
from representer.models import SignalClassifier
from representer.models.signal_pooling import pooled, step_weights
from representer.nn.recurrent.cells.syncnet import SyncNet
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


@torch.no_grad()
def filter_sum(model: SignalClassifier, signal: Tensor, label: int) -> Explained:
    """Return the score of a class as a sum over filters and steps.

    The contributions are exact, given the values of the gates and of the divisors of layer norms.

    Args:
        model: The network, in evaluation mode.
        signal: Standardized ``(C, T)``.
        label: The number of the class.

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
    outputs = centered(exact.head(features))
    skipped = signal.shape[1] % config.stride
    row = centered(exact.head.weight)[label]
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
    constant += centered(model.head.bias.double())[label].item()
    for values in of_powers:
        constant += (values @ exact.typical).item()
        effects = (values * (features[config.hidden_size :] - exact.typical)).tolist()
        parts += [
            Contribution(f"power of {name}, {start:.3f} to {end:.3f} s", at, NETWORK, value)
            for name, value in zip(units, effects, strict=True)
        ]
    return outputs[label].item(), constant, parts


def _names(cell: RecurrentKernelMachine | SyncNet, is_wavelet: bool) -> list[str]:
    if not is_wavelet:
        return [f"filter {unit}" for unit in range(cell.hidden_size)]
    return [f"filter {unit} ({hertz:.1f} Hz)" for unit, hertz in enumerate(
        wavelet_frequencies(cell))]  # fmt: skip
