"""The gates of a recurrent cell without tanh for one sequence.

Given the gates, the output is a sum over the steps. Liang et al. 2019, (9), (10), (20).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.errors import KindError
from representer.explain.checks import refuse_layer
from representer.functional import Cell, ngram_product, rkm_scan
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine

SLOPES = {"identity": 1.0, "linear": 0.5}  # of output functions that are a multiple of the cell


def pre_activations(layer: RecurrentKernelMachine, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pre-activations of all gates ``(T, G, H)`` and the outputs ``(T, H)``.

    With a stride, T is the number of strides. The dtype is that of the input, which may be more
    precise than that of the layer.
    """
    cell, units = layer.cell, layer.hidden_size
    filters_GHIn = torch.stack(list(layer.filters().values())).to(x.dtype)
    reach = (filters_GHIn.shape[-1] - 1) * layer.dilation
    extended = torch.cat((x.new_zeros(reach, x.shape[1]), x))[:, None]
    z = ngram_product(extended, filters_GHIn.flatten(0, 1), layer.dilation)
    z = z[layer.stride - 1 :: layer.stride]
    z = z.unflatten(-1, (len(cell.gates), units))
    biases = layer.biases()
    for g, name in enumerate(cell.gates):
        if name in biases:
            z[:, :, g] += biases[name]
    recurrent = layer.recurrent()
    weight = torch.stack(list(recurrent.values())).to(x.dtype) if recurrent else None
    zeros = x.new_zeros(1, units)
    hold = x.new_tensor(layer.zoneout)[:, None, None, None].expand(2, len(z), 1, units)
    static, norm = static_gates(layer, x), norm_of(layer, x)
    h, _, _ = rkm_scan(z, weight, zeros, zeros, cell=cell, static=static, norm=norm, hold=hold)
    if weight is not None:
        before = torch.cat((zeros[None], h[:-1]))
        z[:, :, len(cell.gates) - len(weight) :] += torch.einsum("rij,tbj->tbri", weight, before)
    return z[:, 0], h[:, 0]


def static_gates(layer: RecurrentKernelMachine, x: Tensor) -> Tensor | None:
    """Return σ_i² and σ_f² ``(2, H)``, or None if the layer has none."""
    static = layer.static_gates()
    return None if static is None else static.to(x.dtype)


def norm_of(layer: RecurrentKernelMachine, x: Tensor) -> Tensor | None:
    """Return gain and bias of the layer norm ``(2, H)``, or None if the layer has none."""
    norm = layer.cell_norm()
    return None if norm is None else torch.stack((norm.weight, norm.bias)).detach().to(x.dtype)


def input_gate(cell: Cell, gate: dict[str, Tensor], static: Tensor | None, t: int) -> Tensor:
    """Return i_t, a scalar or one value per unit."""
    if cell.input_gate == "dynamic":
        return gate["input"][t]
    if cell.input_gate == "coupled":
        return 1 - gate["forget"][t]
    assert static is not None
    return static[0]


def forget_gate(gate: dict[str, Tensor], static: Tensor | None, t: int) -> Tensor:
    """Return f_t, a scalar or one value per unit."""
    if "forget" in gate:
        return gate["forget"][t]
    assert static is not None
    return static[1]


def check_decomposable(layer: Any, *, with_factors: bool = False) -> None:
    """Check that the output of a layer is a sum over the steps, given its gates.

    Args:
        layer: The object to check.
        with_factors: Also treat the divisor of a layer norm and tanh(c)/c as constants, and allow
            a constant part.

    Raises:
        KindError: If the output is not such a sum; the message states the reason.
    """
    if not isinstance(layer, RecurrentKernelMachine):
        raise KindError("layer", type(layer).__name__, "a layer of the recurrent kernel machines")
    cell = layer.cell
    reasons = {
        f"The candidate passes through {cell.candidate}.": cell.candidate != "identity",
        f"The output is {cell.output} of the cell.": (
            cell.output not in SLOPES and not (with_factors and cell.output == "tanh")
        ),
        "The layer norm divides by a statistic of all steps.": (
            layer.layer_norm and not with_factors
        ),
        "The candidate has a bias.": ("candidate" in layer.biases() and not with_factors),
        "The output nonlinearity is learned.": layer.psi is not None,
    }
    refuse_layer(layer, reasons)
