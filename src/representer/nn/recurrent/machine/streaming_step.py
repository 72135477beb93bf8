"""The steps of a kernel machine on the compiled core, see ``core_steps``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from representer.nn.recurrent.core_steps import CoreSteps, weight
from representer.nn.recurrent.machine.static_gates import StaticGates
from representer.ops.rkm_scan.step import Operands, Step

if TYPE_CHECKING:
    from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


def core_steps(layer: RecurrentKernelMachine, x_t: Tensor) -> CoreSteps | None:
    """Return the step of the core for each layer, or None if it has none for the options."""
    if layer.psi is not None or any(layer.zoneout) or (layer.weight_drop and layer.training):
        return None
    step = _STEPS.get(layer)
    if step is None or step.cell is not layer.cell:
        step = _STEPS[layer] = Step(layer.cell, layer.hidden_size)
    if not step.is_known:
        return None
    steps, features = [], x_t.shape[1]
    for k in range(layer.num_layers):
        operands = _operands(layer, k)
        if operands is None or not step.fits(features, x_t.dtype, operands):
            return None
        steps.append((step, operands))
        features = layer.hidden_size
    return tuple(steps)


_STEPS: WeakKeyDictionary[RecurrentKernelMachine, Step] = WeakKeyDictionary()


def _operands(layer: RecurrentKernelMachine, k: int) -> Operands | None:
    """Return the current weights of a layer, or None if its filters are not a single matrix."""
    bank, suffix = layer.banks[k], layer.suffixes[k]
    if not bank.is_plain or bank.reach:
        return None
    bias = weight(layer, "bias" + suffix)
    if layer.forget_bias and bias is not None:
        full = layer.full_bias(k)
        bias = None if full is None else full.flatten()
    norm, static = (
        cast(Any, layer._modules[name + suffix]) for name in ("cell_norm", "static_gates")
    )
    input_weight = weight(layer, "weight_ih" + suffix)
    return Operands(
        input_weight,
        bias,
        weight(layer, "weight_hh" + suffix),
        None if static is None else _gates(static, input_weight),
        None if norm is None else torch.stack((norm.weight, norm.bias)),
    )


def _gates(static: StaticGates, like: Tensor) -> Tensor:
    if static.is_learned:
        return static(like)
    return _fixed(static.start, static.hidden_size, like.dtype)


@lru_cache(maxsize=64)
def _fixed(start: tuple[float, float], units: int, dtype: torch.dtype) -> Tensor:
    """Return fixed gates on the CPU; making them takes as long as a third of a step."""
    return torch.tensor(start, dtype=dtype)[:, None].repeat(1, units)
