"""The fast path of ``step()`` for string-kernel layers; see ``machine.streaming_step``.

Uncommon calls and errors are left to the general path. All arguments are checked here, since the
core accesses raw memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from representer.ops.rkm_scan.step import is_ready, is_usable
from representer.ops.string_scan.step import Operands, Step

if TYPE_CHECKING:
    from representer.nn.recurrent.string.string_kernel_rnn import StringKernelRNN


def string_streaming_step(
    layer: StringKernelRNN, x_t: Tensor, state: Any
) -> tuple[Tensor, Any] | None:
    """Run one step of a layer with one direction, or return None if the general path is needed."""
    if type(state) is not layer.layout.type or x_t.dim() != 2 or not is_usable(x_t):
        return None
    if layer.hidden_dropout and layer.training:
        return None
    layers, batch, units, order = layer.num_layers, *x_t.shape[:1], layer.hidden_size, layer.order
    h0, *before = state  # c and masses, if any
    if not all(is_ready(part, (layers, order, batch, units), x_t.dtype) for part in before):
        return None
    if not is_ready(h0, (layers, batch, units), x_t.dtype):
        return None
    hs, after, x = [], [], x_t.contiguous()
    for k in range(layers):
        operands, step = _operands(layer, k), _step(layer, k)
        if not step.fits(x, operands):
            return None
        states = before[0][k] if len(before) == 1 else torch.cat([part[k] for part in before])
        x, h, c = step(x, h0[k], states.transpose(0, 1).contiguous(), operands)
        hs.append(h)
        after.append(c.transpose(0, 1).contiguous())
    h = hs[0][None] if layers == 1 else torch.stack(hs)
    c = after[0][None] if layers == 1 else torch.stack(after)
    parts = (c,) if len(before) == 1 else (part.contiguous() for part in c.split(order, 1))
    return x, cast(Any, type(state))(h, *parts)


_STEPS: WeakKeyDictionary[StringKernelRNN, dict[int, Step]] = WeakKeyDictionary()


def _step(layer: StringKernelRNN, k: int) -> Step:
    steps = _STEPS.setdefault(layer, {})
    if k not in steps or steps[k].chain is not layer.chains[k]:
        steps[k] = Step(layer.chains[k], layer.hidden_size, layer.decay == "learned")
    return steps[k]


def _operands(layer: StringKernelRNN, k: int) -> Operands:
    """Return the current weights."""
    suffix, decay = layer.suffixes[k], layer.decay
    weight, logit = getattr(layer, "weight_ih" + suffix), getattr(layer, "decay_logit" + suffix)
    if logit is not None:
        value = torch.sigmoid(logit)
    else:
        value = None if isinstance(decay, str) else weight.new_full((), decay)
    bias, recurrent = getattr(layer, "bias" + suffix), getattr(layer, "weight_hh" + suffix)
    return Operands(weight, bias, value, recurrent)
