"""``torch.vmap`` over an op: the mapped dimension is folded into the batch of the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def vmap_rule(
    operator: Any,
    axes: Mapping[str, int | None],
    result_axes: Sequence[int | None],
    mixes_batch: Callable[[Sequence[Any]], bool],
) -> Callable[..., tuple[Any, Any]]:
    """Return the vmap rule of an operator, for ``torch.library.register_vmap``.

    If only operands with a batch are mapped over, the operator runs once on a larger batch;
    if another one is (such as a weight), or ``mixes_batch(operands)``, it runs once per entry.
    ``axes`` and ``result_axes`` are the batch axes of operands and results; an operand of fewer
    dimensions has none.
    """

    def rule(info: Any, in_dims: Sequence[int | None], *operands: Any):
        found = [axes.get(argument.name) for argument in operator._schema.arguments]
        batches = [
            None if axis is None or operand is None or operand.dim() - (dim is not None) <= axis
            else axis
            for axis, dim, operand in zip(found, in_dims, operands, strict=True)
        ]  # fmt: skip
        if mixes_batch(operands) or any(
            dim is not None and axis is None for dim, axis in zip(in_dims, batches, strict=True)
        ):
            each = [operator(*_entry(operands, in_dims, i)) for i in range(info.batch_size)]
            if isinstance(each[0], Tensor):  # an operator with a single result
                return torch.stack(each), 0
            results = tuple(torch.stack(parts) for parts in zip(*each, strict=True))
            return results, (0,) * len(results)
        joined = [
            operand if axis is None else _join(operand, dim, axis, info.batch_size)
            for axis, dim, operand in zip(batches, in_dims, operands, strict=True)
        ]
        return _part(operator(*joined), result_axes, info.batch_size)

    return rule


def _entry(operands: Sequence[Any], dims: Sequence[int | None], i: int) -> list[Any]:
    return [
        operand if dim is None else operand.select(dim, i)
        for operand, dim in zip(operands, dims, strict=True)
    ]


def _join(operand: Tensor, dim: int | None, axis: int, size: int) -> Tensor:
    """Move the mapped dimension before the batch axis, and flatten the two."""
    if dim is None:
        shape = (*operand.shape[:axis], size, *operand.shape[axis:])
        moved = operand.unsqueeze(axis).expand(shape)
    else:
        moved = operand.movedim(dim, axis)
    return moved.flatten(axis, axis + 1)


def _part(
    results: Tensor | Sequence[Tensor], axes: Sequence[int | None], size: int
) -> tuple[Any, Any]:
    if isinstance(results, Tensor):
        (part,), (dim,) = _part((results,), axes, size)
        return part, dim
    parted, dims = [], []
    for result, axis in zip(results, axes, strict=True):
        if axis is None or result.dim() <= axis:  # an empty result that is not needed
            parted.append(result)
            dims.append(None)
        else:
            batch = result.shape[axis] // size
            parted.append(result.unflatten(axis, (size, batch)))
            dims.append(axis)
    return tuple(parted), tuple(dims)
