"""The Gram matrix of the multiplicative string kernel, without gradients, on the C++ core."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from representer.ops import core, structs


def missing(dtype: torch.dtype, device: str) -> str:
    """Return why the core cannot compute a Gram matrix, or "" if it can."""
    if core.MISSING:
        return core.MISSING
    return core.refuses_dtype(dtype) or ("" if device == "cpu" else f"runs on cpu, not on {device}")


def string_gram(
    x: Sequence[Tensor], y: Sequence[Tensor] | None, order: int, decay: float, *,
    trailing: bool = True,
) -> Tensor:  # fmt: skip
    """Return K_n of every x with every y ``(N, M)``, or of every two x, before normalization.

    The sequences are vectors ``(T_i, d)``, or tokens as integers ``(T_i,)``, float64; of x alone,
    the upper triangle is computed. With ``trailing``, tokens behind an n-gram decay it.
    """
    columns = x if y is None else y
    # group sequences of similar length, to limit padding
    by_length = sorted(range(len(columns)), key=lambda j: len(columns[j]))
    columns = [columns[j] for j in by_length]
    rows = columns if y is None else x
    first = rows[0]
    flat_x, starts_x = _flat(rows)
    flat_y, starts_y = (flat_x, starts_x) if y is None else _flat(columns)
    gram = first.new_empty(len(rows), len(columns))
    core.call(
        "string_gram",
        first.dtype,
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
    rank = torch.tensor(by_length).argsort()
    if y is not None:
        return gram[:, rank]
    upper = gram.triu()
    return (upper + upper.triu(1).T)[rank][:, rank]


def _flat(sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return all tokens concatenated, and the offsets of the sequences ``(N + 1,)``."""
    lengths = torch.tensor([0, *map(len, sequences)])
    return torch.cat(list(sequences)).contiguous(), lengths.cumsum(0)
