"""The recurrence of any string-kernel cell on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.functional import StringChain
from representer.ops import core
from representer.ops.checks import (
    check_input,
    check_lengths,
    check_like,
    check_operands,
    may_need_gradient,
)
from representer.ops.op import Backend, Op
from representer.ops.recurrence import gradient_rule
from representer.ops.string_scan import cpp, reference
from representer.ops.string_scan.arguments import (
    Backward,
    Forward,
    Gradients,
    backward_layout,
    layout,
)
from representer.ops.string_scan.samples import samples


def string_scan(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    *,
    chain: StringChain,
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    decay: Tensor | None = None,
    weight: Tensor | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    carry: Tensor | None = None,
    backend: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run any string-kernel cell over a sequence, as ``functional.string_scan`` defines it.

    Args:
        x: Input; or, without ``input_weight``, the products z with it, in the order of
            ``chain.products``.
        h0: Output before the first step.
        c0: States before the first step, the masses behind them where the chain has any.
        chain: The cell.
        input_weight: References and gates W that turn x into z = W x + b, inside the op.
        bias: b of the last products, which are the gates; with ``input_weight``.
        decay: lambda, where the chain takes it as given.
        weight: V, output by input, where the decay gate sees h.
        mask: k, on h where it is fed back or leaves through a highway; a constant.
        lengths: True lengths; beyond them the state does not change and the output is 0.
        reverse: Whether to run from the last true step to the first.
        carry: What the highway carries; x itself by default, with ``input_weight``.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - x ``(T, B, I)`` with input_weight ``(P, H, I)`` and bias ``(b, H)``, b up to P; or
          ``(T, B, P, H)``; h0 ``(B, H)``; c0 ``(B, S, H)``; decay ``()`` or ``(H,)``;
          weight ``(H, H)``; mask ``(B, H)``; lengths ``(B,)``; carry ``(T, B, H)``
        - returns h of every step ``(T, B, H)``, the last h ``(B, H)`` and the last states
          ``(B, S, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or the chain needs what is not given.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (3), (4), section 4 and 6.1, Tables 4 and 5.
    """
    products = len(chain.products)
    time, batch, units = check_input("x", x, input_weight, products)
    check_like("h0", h0, x, (batch, units))
    check_like("c0", c0, x, (batch, chain.states, units))
    biased = 1 if bias is None or not bias.dim() else len(bias)
    of_decay = () if decay is None or not decay.dim() else (units,)
    wants_carry = chain.highway and (input_weight is None or carry is not None)
    expected = {
        "input_weight": (input_weight, (products, units, x.shape[-1]), input_weight is not None),
        "bias": (bias, (biased, units), input_weight is not None and bias is not None),
        "decay": (decay, of_decay, not chain.is_gated),
        "weight": (weight, (units, units), chain.is_state_gated),
        "mask": (mask, (batch, units), mask is not None),
        "carry": (carry, (time, batch, units), wants_carry),
    }
    check_operands(expected, x, "chain")
    if biased not in range(1, products + 1):
        raise ShapeError("bias", (biased, units), f"(1 to {products}, {units})")
    if chain.highway and carry is None and x.shape[2] != units:
        raise ShapeError("x", x.shape, f"(time, batch, {units}), as the highway carries it")
    check_lengths(lengths, time, batch)
    if OP.is_forward_mode(backend):
        return _definition(
            x, h0, c0, chain=chain, input_weight=input_weight, bias=bias, carry=carry, decay=decay,
            weight=weight, mask=mask, lengths=lengths, reverse=reverse,
        )  # fmt: skip
    keep = may_need_gradient((x, input_weight, bias, decay, weight, h0, c0, carry))
    operands = Forward(
        x, input_weight, bias, decay, weight, h0, c0, carry, mask, lengths, chain.code, reverse,
        keep,
    )  # fmt: skip
    name = OP.choose(backend, x.device.type, operands)
    output, h, c, *_ = OP.call(name, operands)
    return output, h, c


def _fake(*operands: Any) -> tuple[Tensor, ...]:
    p = Forward(*operands[:-1])
    time, batch, _, _, units = p.sizes
    shapes = ((time, batch, units), p.h0.shape, p.c0.shape, *p.kept_shapes)
    return tuple(p.h0.new_empty(shape) for shape in shapes)


def _backward_fake(*operands: Any) -> Gradients:
    p = Backward(*operands[:-1])
    dx = p.products.shape
    if p.input_weight is not None:
        dx = p.x.shape if p.needs_x else (0,)
    optional = (p.input_weight, p.bias, p.decay, p.weight)
    of_input, of_bias, of_decay, of_weight = ((0,) if x is None else x.shape for x in optional)
    of_carry = (0,) if p.carry is None else p.carry.shape
    shapes = (dx, of_input, of_bias, of_decay, of_weight, p.h0.shape, p.c0.shape, of_carry)
    return Gradients(*(p.h0.new_empty(shape) for shape in shapes))


def _definition(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    *,
    chain: StringChain,
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    carry: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run ``functional.string_scan`` on the op's arguments."""
    z = x
    if input_weight is not None:
        z = torch.einsum("tbi,phi->tbph", x, input_weight)
        carry = x if carry is None and chain.highway else carry
        if bias is not None:
            rows = (len(input_weight) - len(bias), 0)
            z = z + torch.nn.functional.pad(bias, (0, 0, *rows))
    return functional.string_scan(z, h0, c0, chain=chain, carry=carry, **options)


_save, _gradient = gradient_rule(
    "string_scan",
    Forward,
    Gradients,
    needs_input=lambda p: p.input_weight is not None,
    optional=("x",),
)
OP = Op("string_scan", string_scan, _definition, samples)
OP.register(
    Forward.SCHEMA,
    Backward.SCHEMA,
    layout=layout,
    backward_layout=backward_layout,
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
    batch_axes={"x": 1, "h0": 0, "c0": 0, "carry": 1, "mask": 0, "lengths": 0},
    result_axes=(1, 0, 0, 1, 1),
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
