"""Checks shared by the ops: shapes, dtypes, devices, and modes of autograd."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from representer.errors import BackendError, KindError, ShapeError


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


def without_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which equations in Python keep their precision, as the ops do."""
    device = like.device.type
    is_known = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if is_known else nullcontext()


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
        raise wrong_device(name, tensor, like.device)
    if not dtypes_meet(tensor, like):
        raise KindError(
            name, str(tensor.dtype), str(like.dtype), hint=f"Use {name}.to({like.dtype})."
        )


def wrong_device(
    name: str, tensor: Tensor, device: torch.device, owner: str = "", advice: str = ""
) -> KindError:
    """Return the error of a tensor on another device than the others."""
    hint = f"Use {name}.to({str(device)!r}){advice}."
    if "meta" in (tensor.device.type, device.type):  # a layer reads parameters of its submodules
        hint += " If accelerate offloads the layer, name its class in preload_module_classes."
    return KindError(name, f"on {tensor.device}", f"{owner}{device}", hint=hint)


def may_need_gradient(tensors: Iterable[Tensor | None]) -> bool:
    """Return True if autograd may need the gradient of one of these tensors.

    Tensors inside ``torch.vmap`` do not expose this, so they always count.
    """
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return True  # a trace is for both modes
    if not torch.is_grad_enabled():
        return False
    is_eager = not torch.compiler.is_compiling()
    return any(
        x is not None and (x.requires_grad or (is_eager and is_functorch_wrapped_tensor(x)))
        for x in tensors
    )


def can_be_read(tensor: Tensor, *, may_wait: bool = False) -> bool:
    """Return True if values can be read at no cost: on a CPU, neither traced nor transformed.

    With ``may_wait``, also on another device, whose work is then waited for.
    """
    device = tensor.device.type
    return (
        type(tensor) in (Tensor, torch.nn.Parameter)
        and (device == "cpu" or (may_wait and device != "meta" and not is_captured(tensor)))
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]
        and not is_functorch_wrapped_tensor(tensor)
    )


def has_values(tensor: Tensor) -> bool:
    """Return False for a tensor that has a shape only."""
    return not (tensor.is_meta or isinstance(tensor, FakeTensor))


def is_captured(tensor: Tensor) -> bool:
    """Return True while a CUDA graph records what happens to a tensor: no value can be read."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def assert_in_graph(condition: Tensor, message: str) -> None:
    """Make a CUDA graph that is being recorded fail on the device if a condition does not hold."""
    torch._assert_async(condition, message)  # pyright: ignore[reportPrivateImportUsage]


def is_forward_mode() -> bool:
    """Return True inside a level of forward-mode AD, whose tangents no operator propagates."""
    return forward_ad._current_level >= 0


def check_no_forward_mode(name: str) -> None:
    """Check that an operator cannot silently drop tangents.

    Raises:
        BackendError: Inside a level of forward-mode AD.
    """
    if is_forward_mode():
        function = name.removesuffix("_backward")
        raise BackendError(
            f"representer::{name} has no forward-mode derivative; inside jvp, jacfwd or dual_level "
            f'call representer.ops.{function}(..., backend="reference") or its layer.'
        )
