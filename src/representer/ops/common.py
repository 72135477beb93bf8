"""Parts of all ops: matrix products, checks of operands, and the steps of padded sequences."""

from __future__ import annotations

import math
import platform
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.utils.weak import WeakTensorKeyDictionary

from representer.errors import ArgumentError, BackendError, KindError, ShapeError

# Parts of the scans that cover all steps at once: input products and sums over steps.
#
# Shapes: T time, B batch, I features, G products with the input, R of them that depend on h, H
# units.

Multiply = Callable[[Tensor, Tensor], Tensor]
Transpose = Callable[[Tensor], Tensor]
FEW_ROWS = 32  # steps times sequences up to which the layout of a product matters less than a copy
# rows for each output up to which dz is turned, not the product: 700 rows of 2,600 take 0.8 of the
# time on Zen 5 (AVX-512 and AVX2), 16,000 rows of 256 would take 1.2 of it
SHORT = 2
_FEW_MULTIPLICATIONS = 2e6  # 16 rows of 64 times 64 columns of 256 are 0.3e6


def transpose(matrix: Tensor) -> Tensor:
    """Return the transpose of a matrix as a contiguous copy."""
    return matrix.t().contiguous()


def input_products(x: Tensor, input_weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return z ``(T, B, G, H)`` from the input ``(T, B, I)``."""
    flat_bias = None if bias is None else bias.flatten()
    with full_width_products(x.numel() * input_weight.shape[:2].numel()):
        z = F.linear(x, input_weight.flatten(0, 1), flat_bias)
    return z.unflatten(-1, input_weight.shape[:2])


def input_gradient(dz: Tensor, input_weight: Tensor, multiply: Multiply = torch.mm) -> Tensor:
    """Return the gradient of x ``(T, B, I)`` from that of z ``(T, B, G, H)``."""
    with full_width_products(dz.numel() * input_weight.shape[2]):
        flat = multiply(dz.flatten(2).flatten(0, 1), input_weight.flatten(0, 1).contiguous())
    return flat.view(*dz.shape[:2], flat.shape[1])


def weight_gradient(
    dz: Tensor, inputs: Tensor, transpose: Transpose | None = transpose,
    multiply: Multiply = torch.mm,
) -> Tensor:  # fmt: skip
    """Return sum_t dz_t x_t' ``(G, H, I)``, in the layout that is fastest.

    ``inputs`` are x_t, or h_{t-1} for a recurrent weight, without NaN beyond the lengths. Without
    ``transpose``, it is one product, as a GPU has no slow layout.
    """
    flat, inputs = dz.flatten(2).flatten(0, 1), inputs.flatten(0, 1)
    rows, outputs = flat.shape
    if transpose is None or (rows <= FEW_ROWS and multiply is torch.mm):
        product = flat.t() @ inputs
    elif rows <= max(FEW_ROWS, SHORT * outputs):
        with full_width_products(dz.numel() * inputs.shape[1]):
            product = multiply(transpose(flat.contiguous()), inputs.contiguous())
    else:
        with full_width_products(dz.numel() * inputs.shape[1]):
            product = transpose(inputs.t() @ flat)
    return product.view(*dz.shape[2:], inputs.shape[1])


def over_rows(rows: Tensor, multiply: Multiply) -> Tensor:
    """Return the sum over the first axis; of few rows with the core one by one, as it does."""
    if len(rows) > FEW_ROWS or multiply is torch.mm:
        return rows.sum(0)
    return multiply(rows.new_ones(1, len(rows)), rows.flatten(1)).view(rows.shape[1:])


def real(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Set the padding beyond the lengths to 0, even if it is NaN."""
    if lengths is None:
        return x
    is_real = torch.arange(x.shape[0], device=x.device)[:, None] < lengths
    return torch.where(is_real.view(*x.shape[:2], *[1] * (x.dim() - 2)), x, 0.0)


def add_rows(sums: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """Return sums plus each row at its index; on CUDA in a fixed order, so two runs are equal."""
    if not rows.is_cuda:
        return sums.index_add(0, index, rows)
    return add_rows_in_order(sums, index, rows)


def add_rows_in_order(sums: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """Return sums plus each row at its index, which CUDA sorts by index instead of by chance."""
    return sums.index_put((index.long(),), rows, accumulate=True)


def over_steps(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the sum over steps and batch ``(H,)`` of ``(T, B, H)``."""
    return real(x, lengths).flatten(0, 1).sum(0)


# Checks shared by the ops: shapes, dtypes, devices, and modes of autograd.


def check_floating(name: str, tensor: Tensor) -> None:
    """Check that a tensor has a real floating-point dtype."""
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


@contextmanager
def full_width_products(multiplications: float = math.inf) -> Iterator[None]:
    """Let oneDNN instead of MKL multiply float32 matrices where MKL leaves half of the CPU unused.

    MKL uses 256 bits of AMD's 512. On a Zen 5 core oneDNN is 2.1 to 2.9 times as fast for 128 to
    5,000 rows, and loses 8 µs a call for 16 rows of 64. torch asks it for these products only if
    it may round to bfloat16, which it does with AMX alone: `_rounds_nothing` makes sure.

    Args:
        multiplications: How many the block makes.
    """
    is_left = torch.compiler.is_compiling() or multiplications < _FEW_MULTIPLICATIONS
    if is_left or not _is_wide_amd() or not _rounds_nothing():
        yield
        return
    matmul = torch.backends.mkldnn.matmul  # pyright: ignore[reportAttributeAccessIssue]
    with _blocks_lock:  # the switch is the process's: the last block of all threads restores it
        if not _blocks:
            _blocks.append(matmul.fp32_precision)
            matmul.fp32_precision = "bf16"
        _blocks.append("")
    try:
        yield
    finally:
        with _blocks_lock:
            _blocks.pop()
            if len(_blocks) == 1:
                matmul.fp32_precision = _blocks.pop()


_blocks: list[str] = []  # the setting before the first block, and an entry for each open block
_blocks_lock = threading.Lock()


@cache
def _is_wide_amd() -> bool:
    """Return True if the CPU is AMD's with AVX-512."""
    cpuinfo = Path("/proc/cpuinfo")  # platform.processor() is empty on some systems with Linux
    name = cpuinfo.read_text() if cpuinfo.exists() else platform.processor()
    is_wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return is_wide and "AuthenticAMD" in name and hasattr(torch.backends.mkldnn, "matmul")


@cache
def _rounds_nothing() -> bool:
    """Return True if a product that may be rounded to bfloat16 is not.

    A thread of its own has none of the modes that may be active in the one that asks first.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_is_exact).result()


def _is_exact() -> bool:
    a = torch.linspace(0.5, 1.5, 128 * 256, dtype=torch.float32).sin().view(128, 256)
    exact = a.double() @ a.double().T
    matmul = torch.backends.mkldnn.matmul  # pyright: ignore[reportAttributeAccessIssue]
    before, matmul.fp32_precision = matmul.fp32_precision, "bf16"
    try:
        error = (a @ a.T - exact).norm() / exact.norm()
    finally:
        matmul.fp32_precision = before
    return float(error) < 1e-5  # float32: 2e-7, bfloat16: 1e-3


def check_like(name: str, tensor: Tensor, like: Tensor, shape: tuple[int, ...]) -> None:
    """Check the shape of a tensor, and that its dtype and device match another's.

    Under autocast dtypes may differ, since the ops convert all of them to float32.
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
    """Check that an operator cannot silently drop tangents."""
    if is_forward_mode():
        function = name.removesuffix("_backward")
        raise BackendError(
            f"representer::{name} has no forward-mode derivative; inside jvp, jacfwd or dual_level "
            f'call representer.ops.{function}(..., backend="reference") or its layer.'
        )


class Remembered:
    """Results computed from tensors, kept for as long as they live and are not changed."""

    def __init__(self) -> None:
        self._found: Any = WeakTensorKeyDictionary()

    def get(self, tensor: Tensor, key: Any, compute: Callable[[], Any]) -> Any:
        """Return what was computed from a tensor for a key, by now or before.

        A CUDA graph computes it at every replay, whose tensors have other values.
        """
        if tensor.is_inference() or is_captured(tensor):  # which has no version
            return compute()
        version, results = self._found.get(tensor, (None, {}))
        if version != tensor._version:
            results = {}
            self._found[tensor] = tensor._version, results
        if key not in results:
            results[key] = compute()
        return results[key]


_on_host = Remembered()


def on_host(lengths: Tensor, values: Tensor | None = None) -> Tensor:
    """Return integers on the CPU; those of another device are read once, or are the ``values``."""
    if _is_on_cpu(lengths):
        return lengths
    return _on_host.get(lengths, "", lambda: lengths.cpu() if values is None else values)


def _is_on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def check_length_range(lengths: Tensor, time: int) -> int:
    """Check that every length is within the padded sequence, and return the smallest.

    In a CUDA graph lengths are checked on the device, and the smallest is returned as 0.
    """
    if is_captured(lengths):
        assert_in_graph(((lengths >= 0) & (lengths <= time)).all(), f"lengths are not 0 to {time}")
        return 0
    shortest = time
    for i, length in enumerate(on_host(lengths).tolist()):
        if not 0 <= length <= time:
            raise ArgumentError(f"lengths[{i}]", length, f"0 to {time}, the number of steps")
        shortest = min(shortest, length)
    return shortest


class Steps:
    """The steps of a batch of sequences in the order of the recurrence.

    Raises:
        ArgumentError: If a length is negative or larger than ``time``.
    """

    def __init__(self, time: int, lengths: Tensor | None, reverse: bool) -> None:
        self._order = range(time)[::-1] if reverse else range(time)
        self._shortest = time
        if lengths is not None:
            self._shortest = check_length_range(lengths, time)
            real_TB = torch.arange(time, device=lengths.device)[:, None] < lengths
            self._real = real_TB[:, :, None]

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def backwards(self) -> Iterator[int]:
        """Iterate over the steps in the order in which gradients flow."""
        return reversed(self._order)

    def is_whole(self, t: int) -> bool:
        """Return True if every sequence has a step t."""
        return t < self._shortest

    def real(self, t: int) -> Tensor:
        """Return the mask of the sequences that have a step t, ``(B, 1)``."""
        return self._real[t]


def previous(states: Tensor, initial: Tensor, lengths: Tensor | None, reverse: bool) -> Tensor:
    """Return the state before each step ``(T, B, H)``.

    ``states`` are those after each step, 0 beyond the lengths. Those of both directions of a layer
    are ``(T, B, 2, H)``, from the initial ones ``(2, B, H)``.
    """
    if states.dim() == 4:
        ways = (previous(states[:, :, d], initial[d], lengths, bool(d)) for d in range(2))
        return torch.stack([*ways], dim=2)
    if not reverse:
        return torch.cat((initial[None], states[:-1]))
    shifted = torch.cat((states[1:], initial[None]))
    if lengths is None:
        return shifted
    last = lengths.to(torch.int64).sub(1).clamp(0, states.shape[0] - 1)
    batch = torch.arange(len(last), device=last.device)
    shifted[-1] = 0
    shifted[last, batch] = initial
    return shifted


# Evaluation mode for a while.


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode in a block, and each of its parts to its own mode after it.

    ``module.train()`` after the block would also set parts to training mode that were not in it,
    such as frozen ones.
    """
    modes = {submodule: submodule.training for submodule in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for submodule, mode in modes.items():
            submodule.training = mode
