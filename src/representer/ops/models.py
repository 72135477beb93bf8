"""Several models in one call: operands without a batch have a leading axis ``models``.

The sequences of a batch are divided among the models in order: of M n sequences, model m has those
from m n on. A backend that takes one model at a time runs once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.errors import ShapeError
from representer.ops.operand import Row, Sizes

if TYPE_CHECKING:
    from representer.ops.table import Table


def has_models(row: Row, x: Tensor | None) -> bool:
    """Return True if an operand has an axis of models."""
    return x is not None and x.dim() == row.dim_with_models()


def check_models(table: Table, p: Any, sizes: Sizes) -> None:
    """Check that all operands without a batch have models, or none, and that the batch divides.

    Raises:
        ShapeError: If it is otherwise.
    """
    if "models" not in sizes:
        return
    count = sizes["models"]
    for row, x in zip(table.rows, p, strict=False):
        if x is not None and row.dim_with_models() and not has_models(row, x):
            raise ShapeError(row.name, tuple(x.shape), f"a leading axis of {count} models")
    if count == 0 or sizes["batch"] % count:
        raise ShapeError(
            table.rows[0].name, tuple(p[0].shape), f"a batch that is a multiple of {count} models"
        )


def split(rows: Sequence[Row], tensors: Sequence[Any], count: int) -> list[list[Any]]:
    """Return, for each model, its part of every tensor."""
    parts: list[list[Any]] = [[] for _ in range(count)]
    for row, x in zip(rows, tensors, strict=True):
        axis = row.batch_axis()
        for i, part in enumerate(parts):
            own = x
            if x is not None and has_models(row, x):
                own = x[i]
            elif x is not None and axis is not None and x.dim() > axis:
                each = x.shape[axis] // count
                own = x.narrow(axis, i * each, each)
            part.append(own)
    return parts


def forward(table: Table, run: Callable[[Any, Any], Any], p: Any, sizes: Sizes) -> Any:
    """Return the results of all models, computed one model at a time."""
    count = sizes["models"]
    own_sizes = sizes | {"batch": sizes["batch"] // count}
    each = []
    for part in split(table.rows, p[: len(table.rows)], count):
        own = table.operands(*part, *p[len(table.rows) :])
        each.append(run(own, table.new_results(own, own_sizes)))
    pairs = zip(table.returned, zip(*each, strict=True), strict=True)
    return table.results(*(_join(row, parts) for row, parts in pairs))


def backward(
    table: Table,
    run: Callable[..., dict[str, Tensor]],
    p: Any,
    kept: Any,
    grad: Any,
    requested: Any,
    count: int,
) -> dict[str, Tensor]:
    """Return the gradients of the operands of all models, computed one model at a time."""
    operands = split(table.rows, p[: len(table.rows)], count)
    results, gradients = (split(table.returned, of, count) for of in (kept, grad))
    each = []
    for part, own_kept, own_grad in zip(operands, results, gradients, strict=True):
        own = table.operands(*part, *p[len(table.rows) :])
        whole = table.results(*(None if x is None else x.contiguous() for x in own_kept))
        each.append(run(own, whole, table.results(*own_grad), requested))
    return joined(table.rows, each)


def joined(rows: Sequence[Row], each: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the gradients of operands by name, from those of each model."""
    of = {row.name: row for row in rows}
    return {
        name: torch.stack([found[name] for found in each])
        if of[name].dim_with_models()
        else _join(of[name], [found[name] for found in each])
        for name in each[0]
    }


def defined(table: Table, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a definition, which takes operands by name, for calls of several models too."""
    rows = {row.name: row for row in table.rows}
    if not any(row.dim_with_models() for row in table.rows):
        return definition

    def define(**given: Any) -> Any:
        names = [name for name in given if name in rows]
        counts = [len(given[name]) for name in names if has_models(rows[name], given[name])]
        if not counts:
            return definition(**given)
        parts = split([rows[n] for n in names], [given[n] for n in names], counts[0])
        each = [definition(**given | dict(zip(names, part, strict=True))) for part in parts]
        pairs = zip(table.graded, zip(*each, strict=True), strict=True)
        return tuple(_join(row, results) for row, results in pairs)

    return define


def _join(row: Row, parts: Sequence[Tensor]) -> Tensor:
    axis = row.batch_axis()
    if axis is None or parts[0].dim() <= axis:  # an empty result that is not needed
        return parts[0]
    return torch.cat(list(parts), axis)
