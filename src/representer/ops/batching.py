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
    models: Mapping[str, int | None] | None = None,
) -> Callable[..., tuple[Any, Any]]:
    """Return the vmap rule of an operator, for ``torch.library.register_vmap``.

    The operator runs once on a larger batch if only operands with a batch are mapped over, or
    others (such as weights) that may have an axis of models. Otherwise, or if
    ``mixes_batch(operands)``, it runs once per entry. ``axes`` and ``result_axes`` are the batch
    axes of operands and results; an operand of fewer dimensions has none. ``models`` has the
    numbers of axes with one of models.
    """
    grouped = models or {}

    def rule(info: Any, in_dims: Sequence[int | None], *operands: Any):
        found = [axes.get(argument.name) for argument in operator._schema.arguments]
        batches = [
            None if axis is None or operand is None or operand.dim() - (dim is not None) <= axis
            else axis
            for axis, dim, operand in zip(found, in_dims, operands, strict=True)
        ]  # fmt: skip
        groups = [grouped.get(argument.name) for argument in operator._schema.arguments]
        are_models = any(
            dim is not None and axis is None for dim, axis in zip(in_dims, batches, strict=True)
        )
        known = list(zip(groups, in_dims, batches, operands, strict=True))
        if (
            mixes_batch(operands)
            or any(_has_models(*one[:2], one[3]) for one in known)
            or (are_models and any(d is not None and g is b is None for g, d, b, _ in known))
        ):
            each = [operator(*_entry(operands, in_dims, i)) for i in range(info.batch_size)]
            if isinstance(each[0], Tensor):  # an operator with a single result
                return torch.stack(each), 0
            results = tuple(torch.stack(parts) for parts in zip(*each, strict=True))
            return results, (0,) * len(results)
        size = info.batch_size
        joined = [
            _join(operand, dim, axis, size) if axis is not None
            else _models(operand, dim, size) if are_models and group is not None
            else operand
            for group, dim, axis, operand in known
        ]  # fmt: skip
        return _part(operator(*joined), result_axes, info.batch_size)

    return rule


def _entry(operands: Sequence[Any], dims: Sequence[int | None], i: int) -> list[Any]:
    return [
        operand if dim is None else operand.select(dim, i)
        for operand, dim in zip(operands, dims, strict=True)
    ]


def _has_models(group: int | None, dim: int | None, operand: Any) -> bool:
    """Return True if an operand has an axis of models besides the mapped dimension."""
    return group is not None and operand is not None and operand.dim() - (dim is not None) == group


def _models(operand: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """Make the mapped dimension the axis of models."""
    if operand is None:
        return None
    return operand.expand(size, *operand.shape) if dim is None else operand.movedim(dim, 0)


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
