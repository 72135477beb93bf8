"""The two torch operators of an op, ``representer::NAME`` and ``representer::NAME_backward``.

The gradient is one operator too, so that a sequence has one operator boundary in each direction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from operator import is_
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.ops.batching import vmap_rule
from representer.ops.checks import check_no_forward_mode
from representer.ops.derivatives import Derivatives
from representer.ops.table import Table

if TYPE_CHECKING:
    from representer.ops.op import Op

LIBRARY = torch.library.Library("representer", "DEF")


class _Checked(threading.local):
    """The arguments of the current call, as its public function has checked them, and its sizes."""

    call: tuple[tuple[Any, ...], Any, dict[str, int]] | None = None


checked = _Checked()


class Operators:
    """The operator of an op and that of its gradient."""

    def __init__(self, name: str, table: Table, op: Op) -> None:
        self.name, self.table, self.op = name, table, op

    def register(self, mixes_batch: Callable[[Any], bool]) -> None:
        """Register both with torch, see ``Op.register``."""
        table, name = self.table, f"representer::{self.name}"
        for label, schema, run, fake in (
            (self.name, table.schema(), self._forward, self._fake),
            (f"{self.name}_backward", table.backward_schema(), self._backward, self._backward_fake),
        ):
            LIBRARY.define(label + schema)
            LIBRARY.impl(label, run, "CompositeExplicitAutograd")
            torch.library.register_fake(f"representer::{label}", fake, lib=LIBRARY)
        self.operator = getattr(torch.ops.representer, self.name).default
        self.backward = getattr(torch.ops.representer, f"{self.name}_backward").default
        derivatives = Derivatives(table, self.op.definition)
        derivatives.register(LIBRARY, self.operator, self.backward)
        rule = vmap_rule(
            self.operator,
            {row.name: row.batch_axis() for row in table.rows},
            [row.batch_axis() for row in table.returned],
            lambda arguments: mixes_batch(table.decode(arguments[:-1])),
        )
        torch.library.register_vmap(name, rule, lib=LIBRARY)
        # the gradient of a weight is a sum over the batch, so a batch of batches cannot be joined
        each = vmap_rule(self.backward, {}, [], lambda arguments: True)
        torch.library.register_vmap(f"{name}_backward", each, lib=LIBRARY)
        for device in ("cpu", "cuda"):  # recurrences lose too much in half precision
            for label in (name, f"{name}_backward"):  # also if backward() runs under autocast
                torch.library.register_autocast(label, device, torch.float32, lib=LIBRARY)

    def _forward(self, *arguments: Any) -> Any:
        table, count = self.table, len(self.table.rows)
        p: Any
        known, p, sizes = checked.call or ((), None, {})
        is_checked = (  # autocast and functorch make other tensors
            isinstance(p, table.operands)
            and all(map(is_, known[:count], arguments))
            and known[count:] == arguments[count:-1]
        )
        if is_checked:
            backend = self.op.backends[arguments[-1]]
        else:
            check_no_forward_mode(self.name)
            p = table.decode(arguments[:-1])
            sizes = table.check(p, is_strict=True)
            backend = self.op.runnable(arguments[-1], p[0].device.type, p)
        table.check_values(p, sizes)
        return _one_or_all(backend.forward(p, table.new_results(p, sizes)))

    def _backward(self, *arguments: Any) -> Any:
        check_no_forward_mode(f"{self.name}_backward")
        grad, kept, p, requested = self._split(arguments)
        results, gradients, sizes = self.table.check_backward(grad, kept, p)
        if not p[0].is_cuda:  # where reading them waits for the device; forward has read them
            self.table.check_values(p, sizes)
        backend = self.op.runnable(arguments[-1], p[0].device.type, None)
        found = backend.backward(p, results, gradients, requested)
        assert found.keys() <= {row.name for row in self.table.differentiable}
        tensors = (found.get(row.name) for row in self.table.differentiable)
        return _one_or_all(p[0].new_empty(0) if x is None else x for x in tensors)

    def _split(self, arguments: tuple[Any, ...]) -> tuple[Any, Any, Any, set[str]]:
        """Return gradients, results, operands, and the names of the gradients requested."""
        table = self.table
        first = len(table.graded)
        second = first + len(table.kept)
        third = second + len(table.operands._fields)
        needs = zip(table.on_request, arguments[third:-1], strict=True)
        requested = {name for name, is_needed in needs if is_needed}
        return (
            arguments[:first],
            arguments[first:second],
            table.decode(arguments[second:third]),
            requested,
        )

    def _fake(self, *arguments: Any) -> Any:
        p = self.table.decode(arguments[:-1])
        return _one_or_all(self.table.new_results(p, self.table.check(p, is_strict=True)))

    def _backward_fake(self, *arguments: Any) -> Any:
        grad, kept, p, requested = self._split(arguments)
        *_, sizes = self.table.check_backward(grad, kept, p)
        shapes = self.table.gradient_shapes(p, sizes, requested)
        return _one_or_all(p[0].new_empty(shape) for shape in shapes)


def _one_or_all(tensors: Iterable[Tensor]) -> Any:
    """Return several results, or a single one, as an operator returns them."""
    if isinstance(tensors, Tensor):
        return tensors
    results = tuple(tensors)
    return results[0] if len(results) == 1 else results
