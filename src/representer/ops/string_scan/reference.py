"""string_scan in torch: a loop over the sequential part alone.

The products with the input, and the gates that do not depend on h, are computed for all steps at
once. The gradient is that of the whole sequence, written by hand (no autograd graph per step).

Shapes: T time, B batch, n order, P = n plus the gates, S = n or 2 n with the masses, H units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import ShapeError
from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.string_chain import StringChain
from representer.functional.string_scan import string_states
from representer.ops.operand import LENGTHS, Operand
from representer.ops.products import input_products
from representer.ops.sequence import Steps, previous


def _has_filters(p: Any) -> bool:
    return p.input_weight is not None


def _needs_carry(p: Any) -> bool | None:
    if not p.chain.highway:
        return False
    return None if _has_filters(p) else True  # x is carried by default


def _keeps(p: Any) -> bool:
    return p.keep


def _restored(p: Any, kept: Mapping[str, Tensor]) -> Tensor:
    """Return the products, from those with gates after their sigmoid."""
    n = p.chain.order
    tokens, gates = kept["products"].split([n, kept["products"].shape[2] - n], dim=2)
    z = torch.cat((tokens, gates.logit()), dim=2)
    if p.weight is not None:
        fed = previous(kept["output"], p.h0, p.lengths, p.reverse)
        z[:, :, n] -= (fed if p.mask is None else p.mask * fed) @ p.weight.t()
    return z


class Operands(NamedTuple):
    """Operands of string_scan."""

    x: Annotated[
        Tensor,
        Operand(
            "time batch products units",
            instead=("time batch features", _has_filters),
            saved=_has_filters,
            restored=_restored,
            on_request=True,
        ),
    ]
    input_weight: Annotated[Tensor | None, Operand("products units features")]
    bias: Annotated[
        Tensor | None,
        Operand("biased units", needed=lambda p: None if _has_filters(p) else False),
    ]
    decay: Annotated[Tensor | None, Operand("units |", needed=lambda p: not p.chain.is_gated)]
    weight: Annotated[
        Tensor | None, Operand("units units", needed=lambda p: p.chain.is_state_gated)
    ]
    h0: Annotated[Tensor, Operand("batch units")]
    c0: Annotated[Tensor, Operand("batch states units")]
    carry: Annotated[Tensor | None, Operand("time batch units", needed=_needs_carry)]
    mask: Annotated[Tensor | None, Operand("batch units", differentiable=False)]
    lengths: Annotated[Tensor | None, LENGTHS]
    chain: StringChain
    reverse: bool
    keep: bool

    @property
    def carried(self) -> Tensor | None:
        """The input that the highway carries, or None."""
        return self.x if self.carry is None and self.chain.highway else self.carry


class Results(NamedTuple):
    """Results of string_scan: h of every step, the last h and states, and tensors for the gradient.

    The latter are the products with the input, gates after their sigmoid, and the states.
    """

    output: Annotated[Tensor, Operand("time batch units")]
    h: Annotated[Tensor, Operand("batch units", saved=False)]
    c: Annotated[Tensor, Operand("batch states units", saved=False)]
    products: Annotated[
        Tensor, Operand("time batch products units", needed=_keeps, differentiable=False)
    ]
    states: Annotated[
        Tensor, Operand("time batch states units", needed=_keeps, differentiable=False)
    ]


def sizes(p: Operands) -> dict[str, int]:
    """Return the sizes that the chain determines."""
    return {"products": len(p.chain.products), "states": p.chain.states}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check the number of biases, and that the highway can carry the input.

    Raises:
        ShapeError: If they do not fit the chain.
    """
    if p.bias is not None and not 1 <= sizes["biased"] <= sizes["products"]:
        wanted = f"(1 to {sizes['products']}, {sizes['units']})"
        raise ShapeError("bias", tuple(p.bias.shape), wanted)
    if p.chain.highway and p.carry is None and sizes["features"] != sizes["units"]:
        wanted = f"(time, batch, {sizes['units']}), as the highway carries it"
        raise ShapeError("x", tuple(p.x.shape), wanted)


def forward(p: Operands, new: Results) -> Results:
    """Return the results, in the memory of ``new`` as far as they are written step by step."""
    chain, n = p.chain, p.chain.order
    z_TBPH = _products(p)
    if chain.highway:
        z_TBPH[:, :, -1].sigmoid_()
    if chain.is_gated and not chain.is_state_gated:
        z_TBPH[:, :, n].sigmoid_()
    carried, weight_HH = p.carried, None if p.weight is None else p.weight.t()
    sigma = NONLINEARITIES[chain.activation].value
    output, *_, states = new

    h, c = p.h0, p.c0
    steps = Steps(len(output), p.lengths, p.reverse)
    for t in steps:
        z = z_TBPH[t]
        if weight_HH is not None:
            fed = h if p.mask is None else p.mask * h
            z[:, n] = torch.sigmoid(torch.addmm(z[:, n], fed, weight_HH))
        fresh_c = _advance(chain, z[:, :n], _decay(p, z), c)
        read = string_states(chain, fresh_c)
        h_new = sigma(read[:, -1] if chain.readout == "last" else read.sum(1))
        if carried is not None:
            kept_h = h_new if p.mask is None else p.mask * h_new
            h_new = torch.lerp(carried[t], kept_h, z[:, -1])
        if steps.is_whole(t):
            h, c = h_new, fresh_c
            output[t] = h
        else:
            real = steps.real(t)
            h, c = torch.where(real, h_new, h), torch.where(real[:, None], fresh_c, c)
            output[t] = torch.where(real, h_new, 0.0)
        if p.keep:
            states[t] = c
    products = z_TBPH if p.keep else new.products
    return new._replace(h=h.clone(), c=c.clone(), products=products)


def _products(p: Operands) -> Tensor:
    """Return z ``(T, B, P, H)``, in memory that nothing else reads."""
    if p.input_weight is None:
        return p.x.clone(memory_format=torch.contiguous_format)
    z = input_products(p.x, p.input_weight, None)
    if p.bias is not None:
        z[:, :, -len(p.bias) :] += p.bias
    return z


def _decay(p: Operands, z: Tensor) -> Tensor:
    """Return lam_t, broadcastable to ``(B, 1, H)``."""
    return z[:, p.chain.order, None] if p.decay is None else p.decay


def _advance(chain: StringChain, tokens: Tensor, lam: Tensor, c: Tensor) -> Tensor:
    """Return the states of step t from those of step t - 1, ``(B, S, H)``."""
    n, fresh = chain.order, lam * c
    w = 1 - lam if chain.normalized == "paper" else None
    mass = c[:, n:]
    if chain.combine == "multiply":
        joined = tokens.clone()
        joined[:, 1:] *= c[:, : n - 1]
    else:
        joined = tokens.clone()
        if chain.combine == "add_exact":
            joined[:, 1:] *= mass[:, : n - 1]
        joined[:, 1:] += c[:, : n - 1]
    if chain.has_mass:
        ones = torch.ones_like(mass[:, :1])
        joined = torch.cat((joined, ones, mass[:, : n - 1]), dim=1)
    return fresh + (joined if w is None else w * joined)
