"""The Gram matrix of the multiplicative string kernel, without gradients: in C++, or in Triton."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from representer.ops import core, gpu, structs

Similarities = Callable[[Tensor, Tensor], Tensor]
MOST_ORDER = 8  # in Triton, where the states of an order are in registers


def missing(
    x: Tensor, dtype: torch.dtype, order: int, similarities: Similarities | None = None
) -> str:
    """Return why neither computes a Gram matrix of sequences like x, or "" if one does."""
    if (device := _device_of(x)) == "cpu":
        other = similarities and "compares vectors by their inner products on cpu"
        return core.MISSING or core.refuses_dtype(dtype) or other or ""
    if device != "cuda":
        return f"runs on cpu and cuda, not on {device}"
    if dtype not in (torch.float32, torch.float64):
        return f"takes 32 and 64 bits, not {dtype}"
    return gpu.MISSING or (f"order {order} is above {MOST_ORDER}" if order > MOST_ORDER else "")


def _device_of(x: Tensor) -> str:
    return x.device.type


def string_gram(
    x: Sequence[Tensor], y: Sequence[Tensor] | None, order: int, decay: float | Tensor, *,
    trailing: bool = True, similarities: Similarities | None = None,
) -> Tensor:  # fmt: skip
    """Return K_n of every x with every y ``(N, M)``, or of every two x, before normalization.

    Of x alone, the upper triangle is computed. With ``trailing``, tokens behind an n-gram decay it.

    Args:
        x: Vectors ``(T_i, d)``, or tokens as integers ``(T_i,)``, of which the result is float64.
        y: The same.
        order: n.
        decay: lam, a number or a tensor ``()``.
        trailing: Tokens after an n-gram decay it.
        similarities: On CUDA, the similarities ``(S, T)`` of vectors ``(S, d)`` and ``(T, d)``,
            instead of their inner products.
    """
    columns = x if y is None else y
    # group sequences of similar length, to limit padding
    by_length = sorted(range(len(columns)), key=lambda j: len(columns[j]))
    columns = [columns[j] for j in by_length]
    rows = columns if y is None else x
    if _device_of(rows[0]) == "cuda":
        launchers = importlib.import_module("representer.ops.string_gram.triton")
        with torch.cuda.device_of(rows[0]):  # does nothing for tensors on the CPU
            gram = launchers.string_gram(
                rows, None if y is None else columns, order, decay, trailing=trailing,
                similarities=similarities,
            )  # fmt: skip
    else:
        gram = _on_core(rows, None if y is None else columns, order, float(decay), trailing)
    rank = torch.tensor(by_length, device=gram.device).argsort()
    if y is not None:
        return gram[:, rank]
    upper = gram.triu()
    return (upper + upper.triu(1).T)[rank][:, rank]


def _on_core(
    rows: Sequence[Tensor], y: Sequence[Tensor] | None, order: int, decay: float, trailing: bool
) -> Tensor:
    columns, first = rows if y is None else y, rows[0]
    dtype = first.dtype if first.is_floating_point() else torch.float64
    flat_x, starts_x = _flat(rows, dtype)
    flat_y, starts_y = (flat_x, starts_x) if y is None else _flat(y, dtype)
    gram = flat_x.new_empty(len(rows), len(columns))
    core.call(
        "string_gram",
        dtype,
        structs.GramStruct(
            len(rows),
            len(columns),
            first.shape[1] if first.dim() == 2 else 0,
            order,
            core.threads(),
            y is None,
            trailing,
            *map(core.pointer, (flat_x, flat_y, starts_x, starts_y, gram)),
            decay,
        ),
    )
    return gram


def _flat(sequences: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return all tokens concatenated, and the offsets of the sequences ``(N + 1,)``."""
    lengths = torch.tensor([0, *map(len, sequences)])
    return torch.cat(list(sequences)).to(dtype).contiguous(), lengths.cumsum(0)
