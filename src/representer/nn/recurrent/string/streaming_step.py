"""The steps of a string-kernel layer on the compiled core, see ``core_steps``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from representer.nn.recurrent.core_steps import CoreSteps, weight
from representer.ops.string_scan.step import Operands, Step

if TYPE_CHECKING:
    from representer.nn.recurrent.string.string_kernel_rnn import StringKernelRNN


def string_core_steps(layer: StringKernelRNN, x_t: Tensor) -> CoreSteps | None:
    """Return the step of the core for each layer, or None if it has none for the options."""
    if layer.hidden_dropout and layer.training:
        return None
    steps, features = [], x_t.shape[1]
    for k in range(layer.num_layers):
        operands, step = _operands(layer, k), _step(layer, k)
        if not step.fits(features, x_t.dtype, operands):
            return None
        steps.append((step, operands))
        features = layer.hidden_size
    return tuple(steps)


_STEPS: WeakKeyDictionary[StringKernelRNN, dict[int, Step]] = WeakKeyDictionary()


def _step(layer: StringKernelRNN, k: int) -> Step:
    steps = _STEPS.setdefault(layer, {})
    if k not in steps or steps[k].chain is not layer.chains[k]:
        steps[k] = Step(layer.chains[k], layer.hidden_size, layer.decay == "learned")
    return steps[k]


def _operands(layer: StringKernelRNN, k: int) -> Operands:
    """Return the current weights."""
    suffix, decay = layer.suffixes[k], layer.decay
    input_weight, logit = weight(layer, "weight_ih" + suffix), weight(layer, "decay_logit" + suffix)
    if logit is not None:
        value = torch.sigmoid(logit)
    else:
        value = None if isinstance(decay, str) else input_weight.new_full((), decay)
    bias, recurrent = weight(layer, "bias" + suffix), weight(layer, "weight_hh" + suffix)
    return Operands(input_weight, bias, value, recurrent)
