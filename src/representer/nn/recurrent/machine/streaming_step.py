"""The fast path of ``step()``: streaming with the compiled core, without gradients.

It computes the same as the general path with less overhead. Uncommon calls and errors are left to
the general path. All arguments are checked here, since the core accesses raw memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from representer.nn.recurrent.machine.static_gates import StaticGates
from representer.nn.recurrent.states import RecurrentState
from representer.ops.rkm_scan import step as core_step

if TYPE_CHECKING:
    from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


def streaming_step(
    layer: RecurrentKernelMachine, x_t: Tensor, state: Any
) -> tuple[Tensor, RecurrentState] | None:
    """Run one step of a layer with one direction, or return None if the general path is needed."""
    if type(state) is not RecurrentState or x_t.dim() != 2 or not core_step.is_usable(x_t):
        return None
    if layer.psi is not None or any(layer.zoneout) or (layer.weight_drop and layer.training):
        return None
    shape = (layer.num_layers, x_t.shape[0], layer.hidden_size)
    if not all(core_step.is_ready(part, shape, x_t.dtype) for part in state):
        return None
    step = _STEPS.get(layer)
    if step is None or step.cell is not layer.cell:
        step = _STEPS[layer] = core_step.Step(layer.cell, layer.hidden_size)
    if not step.is_known:
        return None
    hs, cs, x = [], [], x_t.contiguous()
    for k in range(layer.num_layers):
        operands = _operands(layer, k)
        if operands is None or not step.fits(x, operands):
            return None
        x, h, c = step(x, state.h[k], state.c[k], operands)
        hs.append(h)
        cs.append(c)
    single = len(hs) == 1
    h, c = (hs[0][None], cs[0][None]) if single else (torch.stack(hs), torch.stack(cs))
    return x, RecurrentState._make((h, c))


_STEPS: WeakKeyDictionary[RecurrentKernelMachine, core_step.Step] = WeakKeyDictionary()


def _operands(layer: RecurrentKernelMachine, k: int) -> core_step.Operands | None:
    """Return the current weights of a layer, or None if its filters are not a single matrix."""
    bank, suffix = layer.banks[k], layer.suffixes[k]
    if not bank.is_plain or bank.reach:
        return None
    bias = getattr(layer, "bias" + suffix)
    if layer.forget_bias and bias is not None:
        full = layer.full_bias(k)
        bias = None if full is None else full.flatten()
    norm, static = (
        cast(Any, layer._modules[name + suffix]) for name in ("cell_norm", "static_gates")
    )
    input_weight = getattr(layer, "weight_ih" + suffix)
    return core_step.Operands(
        input_weight,
        bias,
        getattr(layer, "weight_hh" + suffix),
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
