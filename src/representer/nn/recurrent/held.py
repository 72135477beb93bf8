"""The gates of recurrent layers, held for the kernel that a layer has learned.

A unit is linear in its reference once its gates and h_{t−1} are given: the reference of a memory
cell consists of the filter, the row of the recurrent matrix and the bias of the candidate,
and that of a string chain of n tokens. Liang et al. 2019, (10), (18); Lei et al. 2017, section 4.

Shapes: T time, B batch, I features, H units, n slots of the filters or tokens of a reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional import held_gates, ngram_windows
from representer.ops.held import HeldChain, before, chain_states

if TYPE_CHECKING:
    from representer.nn.recurrent.machine import CellDirection, RecurrentKernelMachine
    from representer.nn.recurrent.string import StringDirection


def held_cell(direction: CellDirection, x: Tensor, lengths: Tensor) -> HeldChain:
    """Return the gates of a cell and the features [X_t, h_{t−1}, 1] of its candidate.

    The direction is a forward one in evaluation mode, and the sequences are padded ``(T, B, I)``.
    """
    cell, bank = direction.cell, direction.bank
    batch, units = x.shape[1], sum(bank.lengths.values())
    zeros = x.new_zeros(batch, units)
    window = x.new_zeros(batch, bank.reach, x.shape[2])
    h, _, _ = direction(x, (zeros, zeros) if cell.has_memory else (), window, None, False)
    h = before(h)
    extended = F.pad(x, (0, 0, 0, 0, bank.reach, 0))
    a = dict(zip(cell.gates, direction.products(extended).unbind(-2), strict=True))
    if direction.weight is not None:
        recurrent = torch.einsum("rij,tbj->rtbi", direction.weight, h)
        for gate, product in zip(cell.recurrent_gates, recurrent, strict=True):
            a[gate] = a[gate] + product
    write, decay, output = held_gates(cell, a, direction.static)
    windows = ngram_windows(extended, max(bank.lengths), bank.dilation)
    features = [windows[bank.stride - 1 :: bank.stride]]
    features += [h] if cell.feedback == "all" else []
    features += [torch.ones_like(h[..., :1])] if cell.candidate_bias else []
    lengths = lengths // bank.stride
    held = HeldChain.of(torch.cat(features, dim=-1), decay, write, lengths)
    if cell.memory == "output":  # of q = z/2
        return held._replace(read=held.read / 2)
    if output is None or cell.output != "identity" or direction.psi is not None:
        return held
    last = output[(lengths - 1).clamp(min=0), torch.arange(batch, device=x.device)]
    return held._replace(read=last[:, None])


def cell_references(direction: CellDirection) -> Tensor:
    """Return each unit's filter, row of the recurrent matrix and bias, if any ``(1, H, F)``."""
    bank, cell = direction.bank, direction.cell
    if direction.wavelets is not None:
        filters = direction.wavelets.effective()[0]
    else:
        filters = bank.effective(direction.filters, len(cell.gates))[0]
    parts = [filters.transpose(1, 2).flatten(1)]
    if cell.feedback == "all" and direction.weight is not None:
        parts.append(direction.weight[cell.recurrent_gates.index("candidate")])
    if cell.candidate_bias:
        bias = parts[0].new_zeros(len(filters)) if direction.bias is None else direction.bias[0]
        parts.append(bias[:, None])
    return torch.cat(parts, dim=1)[None]


def held_string(direction: StringDirection, x: Tensor, lengths: Tensor) -> HeldChain:
    """Return the decays of a string chain; arguments as in `held_cell`."""
    chain = direction.chain
    decay = direction.decays(x, z := direction.products(x)).expand_as(z[:, :, 0])
    write = 1 - decay if chain.normalized == "paper" else torch.ones_like(decay)
    held = HeldChain.of(x, decay, write, lengths)
    orders = (chain.order,) if chain.readout == "last" else tuple(range(1, chain.order + 1))
    read = torch.ones_like(held.read).expand(-1, len(orders), -1)
    if chain.normalized == "exact":
        ones = torch.ones_like(z[:, :, : chain.order])
        _, masses = chain_states(ones, held.decay, held.write, "multiply", with_mass=True)
        mass = torch.stack([masses[j - 1][-1] for j in orders], dim=1)
        read = torch.where(mass == 0, 0.0, 1 / torch.where(mass == 0, 1.0, mass))
    share = torch.ones_like(read[0]) if direction.alpha is None else direction.alpha
    return held._replace(read=read, share=share, orders=orders, combine=chain.combine)


def not_linear(layer: RecurrentKernelMachine) -> str:
    """Return why a unit of a cell is not linear in its reference, given its gates; "" if it is."""
    cell = layer.cell
    is_linear = cell.memory == "cell" or (cell.output == "linear" and layer.psi is None)
    reasons = {
        f"Its candidate passes through {cell.candidate}.": cell.candidate != "identity",
        "Its input passes through the functions of input_layer.": layer.input_layer is not None,
        "The layer norm subtracts the mean of all units, so a unit is not linear in its own "
        "reference.": layer.layer_norm,
        "Zoneout mixes each state with the previous one.": any(layer.zoneout),
        "Its q is applied to the memory at every step.": not is_linear,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
