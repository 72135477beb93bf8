"""The output of a signal network as an exact sum over filters and windows of the signal.

A logit is a linear function of the mean of the cell's outputs, or of the last one, which
``representer.explain`` decomposes into what each filter of the first layer's candidate adds at each
step, and of the logarithm of the power of each unit in the window, which contributes what it is
above its mean over the training. As for texts, the explained score is the logit of a class minus
the mean.
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
    if not isinstance(cell, RecurrentKernelMachine):
        expected = "one of the recurrent kernel machines"
        hint = "Its output is not a sum of contributions."
        raise KindError("the cell", config.cell, expected, hint=hint)
    exact = copy.deepcopy(model).double()
    pooled = exact.encode(signal[None].double())[0]
    outputs = centered(exact.head(pooled))
    skipped = signal.shape[1] % config.stride
    x = signal[:, skipped:].T
    steps = len(x) // config.stride
    row, *of_powers = centered(exact.head.weight)[label].split(config.hidden_size)
    weights = torch.zeros(steps, config.hidden_size, dtype=torch.float64)
    weights[:] = row / steps
    if config.pooling == "last":
        weights[:-1], weights[-1] = 0.0, row
    readout = stack_readout(cell, x, weights)
    ledger = readout.readouts[0]
    assert isinstance(ledger, MemoryLedger)
    names = _names(cell, config.filters == "wavelet")
    units = names if config.num_layers == 1 else [f"unit {k}" for k in range(config.hidden_size)]
    last = [skipped + (step + 1) * config.stride - 1 for step in range(steps)]
    parts = []
    for step, values in enumerate(ledger.by_ngram.tolist()):
        at = max(skipped, last[step] - config.filter_length + 1), last[step]
        start, end = (sample / config.sampling_rate for sample in at)
        parts += [
            Contribution(f"{name}, {start:.3f} to {end:.3f} s", at, NETWORK, value)
            for name, value in zip(names, values, strict=True)
        ]
    at = skipped, signal.shape[1] - 1
    start, end = (sample / config.sampling_rate for sample in at)
    constant = centered(model.head.bias.double())[label].item() + readout.constant
    for values in of_powers:
        constant += (values @ exact.typical).item()
        effects = (values * (pooled[config.hidden_size :] - exact.typical)).tolist()
        parts += [
            Contribution(f"power of {name}, {start:.3f} to {end:.3f} s", at, NETWORK, value)
            for name, value in zip(units, effects, strict=True)
        ]
    return outputs[label].item(), constant, parts


def _names(cell: RecurrentKernelMachine, is_wavelet: bool) -> list[str]:
    if not is_wavelet:
        return [f"filter {unit}" for unit in range(cell.hidden_size)]
    return [f"filter {unit} ({hertz:.1f} Hz)" for unit, hertz in enumerate(
        wavelet_frequencies(cell))]  # fmt: skip
