"""The recurrence of any string-kernel cell on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.functional import StringChain
from representer.ops import core, gpu
from representer.ops.checks import may_need_gradient
from representer.ops.op import Backend, Op
from representer.ops.string_scan import cpp, gradient, reference
from representer.ops.string_scan.reference import Operands, Results, check, sizes
from representer.ops.string_scan.samples import samples
from representer.ops.table import Table


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
        weight: V, output by input, if the decay gate depends on h.
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
        KindError: If dtypes or devices do not, or the chain needs an operand that is missing.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (3), (4), section 4 and 6.1, Tables 4 and 5.
    """
    tensors = (x, input_weight, bias, decay, weight, h0, c0, carry)
    keep = may_need_gradient(tensors)
    output, h, c, *_ = OP(Operands(*tensors, mask, lengths, chain, reverse, keep), backend)
    return output, h, c


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


OP = Op("string_scan", string_scan, _definition, samples)
OP.register(Table(Operands, Results, sizes, check))
OP.add_backend(Backend("reference", (), reference.forward, gradient.backward))
OP.add_backend(gpu.backend("string_scan"))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
