"""Argument checks shared by the ops, of shapes, dtypes and devices only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore

from representer.errors import KindError, ShapeError


def check_floating(name: str, tensor: Tensor) -> None:
    """Check that a tensor has a real floating-point dtype.

    Raises:
        KindError: If it is not.
    """
    if not tensor.is_floating_point():
        raise KindError(name, str(tensor.dtype), "a floating-point dtype", hint="Use .float().")


def dtypes_meet(tensor: Tensor, like: Tensor) -> bool:
    """Return True if two tensors have one dtype, or autocast gives them one (never to float64)."""
    if tensor.dtype == like.dtype:
        return True
    is_double = torch.float64 in (tensor.dtype, like.dtype)
    return torch.is_autocast_enabled(like.device.type) and not is_double


def check_like(name: str, tensor: Tensor, like: Tensor, shape: tuple[int, ...]) -> None:
    """Check the shape of a tensor, and that its dtype and device match another's.

    Under autocast dtypes may differ, since the ops convert all of them to float32.

    Raises:
        ShapeError: If the shape differs.
        KindError: If dtype or device differ.
    """
    if tuple(tensor.shape) != shape:
        raise ShapeError(name, tensor.shape, str(shape))
    if tensor.device != like.device:
        raise KindError(
            name,
            f"on {tensor.device}",
            f"{like.device}",
            hint=f"Use {name}.to({str(like.device)!r}).",
        )
    if not dtypes_meet(tensor, like):
        raise KindError(
            name, str(tensor.dtype), str(like.dtype), hint=f"Use {name}.to({like.dtype})."
        )


def check_input(
    name: str, x: Tensor, input_weight: Tensor | None, products: int
) -> tuple[int, int, int]:
    """Check the input of a recurrence: the input and its filters, or their products.

    Args:
        name: Name of the argument.
        x: The input ``(T, B, I)``; without filters the products ``(T, B, P, H)``.
        input_weight: The filters ``(P, H, I)``.
        products: P.

    Returns:
        T, B and H.

    Raises:
        KindError: If x does not have a floating-point dtype.
        ShapeError: If the shape of x or the number of axes of the filters is wrong.
    """
    check_floating(name, x)
    if input_weight is None:
        if x.dim() != 4 or not len(x) or x.shape[2] != products:
            wanted = f"(time, batch, {products}, units) with at least one step"
            raise ShapeError(name, x.shape, wanted)
        return x.shape[0], x.shape[1], x.shape[3]
    if x.dim() != 3 or not len(x):
        raise ShapeError(name, x.shape, "(time, batch, features) with at least one step")
    if input_weight.dim() != 3:
        wanted = f"({products}, units, {x.shape[2]})"
        raise ShapeError("input_weight", input_weight.shape, wanted)
    return x.shape[0], x.shape[1], input_weight.shape[1]


def check_operands(
    expected: Mapping[str, tuple[Tensor | None, tuple[int, ...], bool]], like: Tensor, what: str
) -> None:
    """Check that exactly the needed operands are given, and that they fit.

    Args:
        expected: By name: the operand, its shape, and True if it is needed.
        like: A tensor with the expected dtype and device.
        what: What needs the operands, for the message.

    Raises:
        ShapeError: If a shape does not fit.
        KindError: If a dtype or device does not fit, or an operand is missing or not needed.
    """
    for name, (tensor, shape, needed) in expected.items():
        if (tensor is not None) != needed:
            got = "None" if tensor is None else f"a tensor {tuple(tensor.shape)}"
            wanted = f"a tensor {shape}" if needed else "None"
            raise KindError(name, got, f"{wanted} for this {what}")
        if tensor is not None:
            check_like(name, tensor, like, shape)


def check_lengths(lengths: Tensor | None, time: int, batch: int) -> None:
    """Check that lengths are integers, one per sequence.

    Their values are read where the op runs, since reading them would break a compiled graph.

    Raises:
        ShapeError: If there is not one length per sequence.
        KindError: If they are not integers.
    """
    if lengths is None:
        return
    if tuple(lengths.shape) != (batch,):
        raise ShapeError("lengths", lengths.shape, f"({batch},), one length per sequence")
    if lengths.is_floating_point() or lengths.is_complex():
        raise KindError("lengths", str(lengths.dtype), "integers", hint="Use lengths.long().")


def may_need_gradient(tensors: Iterable[Tensor | None]) -> bool:
    """Return True if autograd may need the gradient of one of these tensors.

    Tensors inside ``torch.vmap`` do not expose this, so they always count.
    """
    if not torch.is_grad_enabled():
        return False
    is_eager = not torch.compiler.is_compiling()
    return any(
        x is not None and (x.requires_grad or (is_eager and is_functorch_wrapped_tensor(x)))
        for x in tensors
    )
