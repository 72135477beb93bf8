"""Derivatives of the operators of an op, of any order.

The gradient of ``representer::NAME`` is ``representer::NAME_backward``, on any backend. That of
``NAME_backward`` is the derivative of the gradient of the definition, by autograd, and so are all
further ones.

An operand that the gradient operator does not read is not kept. In its place the graph holds a zero
of its shape that needs no memory, so that a second derivative reaches it, and its value is restored
from the kept results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function

from representer.ops.table import Table

Save = Callable[[Any, tuple[Any, ...], tuple[Tensor, ...]], tuple[Tensor, ...]]


def register(
    library: torch.library.Library, operator: Any, save: Save, gradient: Callable[..., Any]
) -> None:
    """Register the gradient of an operator with torch.

    Unlike that of ``torch.library.register_autograd``, it exists inside ``torch.func`` too.

    Args:
        library: The library of the operator.
        operator: The operator.
        save: ``(ctx, arguments, results)`` keeps tensors for the gradient, and returns further
            outputs of the node in the graph, which the operator does not return.
        gradient: ``(ctx, *grad)`` returns the gradients of the arguments, given those of the
            results and of the further outputs.
    """
    count = len(operator._schema.returns)

    def run(keyset: Any, arguments: tuple[Any, ...]) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    def forward(ctx: Any, keyset: Any, *arguments: Any) -> tuple[Tensor, ...]:
        # the outer transforms of torch.func, which come next, may record what this one does not
        with torch.set_grad_enabled(torch._C._are_functorch_transforms_active()):
            results = run(keyset, arguments)
        results = (results,) if count == 1 else results
        return (*results, *save(ctx, arguments, results))

    def backward(ctx: Any, *grad: Tensor | None) -> tuple[Any, ...]:
        return (None, *gradient(ctx, *grad))

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    node = type(operator._opname, (torch.autograd.Function,), body)
    # torch.func calls a kernel once per level of its transforms; the apply of Function itself
    # would start with the first level again
    apply = super(torch.autograd.Function, node).apply  # type: ignore[misc]

    def kernel(keyset: Any, *arguments: Any) -> Any:
        if not (torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments)):
            return run(keyset, arguments)
        # a trace records the operator, which has the gradient
        if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
            return run(keyset, arguments)
        if torch._C._are_functorch_transforms_active():
            with enable_single_level_autograd_function():
                results = apply(keyset, *arguments)
        else:
            results = apply(keyset, *arguments)
        return results[0] if count == 1 else results[:count]

    library.impl(operator._opname, kernel, "Autograd", with_keyset=True)


class Derivatives:
    """The gradient of an op by its gradient operator, and that of the latter by the definition.

    Args:
        table: The operands and results of the op.
        definition: Its equation, which takes the operands by name.
    """

    def __init__(self, table: Table, definition: Callable[..., Any]) -> None:
        self.table, self._definition = table, definition

    def register(self, library: torch.library.Library, operator: Any, backward: Any) -> None:
        """Register the gradients of both operators with torch."""
        self._operator = backward
        register(library, operator, self._save, self._gradient)
        register(library, backward, self._save_all, self._second)

    def _save(
        self, ctx: Any, arguments: tuple[Any, ...], results: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        table, p = self.table, self.table.decode(arguments[:-1])
        ctx.options, ctx.backend = arguments[len(table.rows) : -1], arguments[-1]
        ctx.set_materialize_grads(False)  # zeros for the kept tensors would be as large as they
        ctx.mark_non_differentiable(*results[len(table.graded) :])
        kept = [x for row, x in zip(table.returned, results, strict=True) if row.operand.saved]
        operands, places = list(p[: len(table.rows)]), {}
        is_nested = torch._C._are_functorch_transforms_active()  # a place is one of this level only
        for i, (row, x) in enumerate(zip(table.rows, operands, strict=True)):
            if x is not None and not row.is_saved(p) and not is_nested:
                operands[i] = x.new_zeros(()).expand(x.shape)
                if x.requires_grad:
                    places[i] = operands[i]
        ctx.save_for_backward(*kept, *operands)
        ctx.places = tuple(places)
        return tuple(places.values())

    def _gradient(self, ctx: Any, *grad: Tensor | None) -> tuple[Tensor | None, ...]:
        table, fields = self.table, self.table.operands._fields
        of_results, of_places = grad[: len(table.graded)], grad[len(table.returned) :]
        needs = dict(zip(fields, ctx.needs_input_grad[1:], strict=False))
        found: list[Tensor | None] = [None] * (len(fields) + 1)
        if any(x is not None for x in of_results):
            saved = ctx.saved_tensors
            gradients = self._operator(
                *(
                    torch.zeros_like(saved[place]) if x is None else x
                    for x, place in zip(of_results, table.zeros_like, strict=True)
                ),
                *saved,
                *ctx.options,
                *(needs[name] for name in table.on_request),
                ctx.backend,
            )
            gradients = (gradients,) if isinstance(gradients, Tensor) else gradients
            for row, x in zip(table.differentiable, gradients, strict=True):
                found[fields.index(row.name)] = x if needs[row.name] else None
        for i, x in zip(ctx.places, of_places, strict=True):  # of a second derivative
            if x is not None:
                found[i] = x if found[i] is None else found[i] + x
        return tuple(found)

    def _save_all(self, ctx: Any, arguments: tuple[Any, ...], results: Any) -> tuple[Tensor, ...]:
        tensors = len(self.table.graded) + len(self.table.kept) + len(self.table.rows)
        ctx.options = arguments[tensors:]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*arguments[:tensors])
        return ()

    def _second(self, ctx: Any, *grad: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the arguments of the gradient operator."""
        table, saved = self.table, ctx.saved_tensors
        first, second = len(table.graded), len(table.graded) + len(table.kept)
        upstream, kept = saved[:first], saved[first:second]
        fields = table.operands._fields
        p = table.decode((*saved[second:], *ctx.options[: len(fields) - len(table.rows)]))
        p = self._restored(p, kept)
        given = [row.name for row in table.differentiable if getattr(p, row.name) is not None]
        # a gradient that was not computed, of a missing operand too, is an empty tensor
        cotangents = {
            row.name: x for row, x in zip(table.differentiable, grad, strict=False)
            if x is not None and row.name in given and x.shape == getattr(p, row.name).shape
        }  # fmt: skip
        if not cotangents:
            return tuple(None for _ in (*saved, *ctx.options))

        def gradients(upstream: tuple[Tensor, ...], *values: Tensor) -> tuple[Tensor, ...]:
            called = p._replace(**dict(zip(given, values, strict=True)))

            def results(*values: Tensor) -> tuple[Tensor, ...]:
                return self._define(called._replace(**dict(zip(cotangents, values, strict=True))))

            return _pull(upstream, results, *(getattr(called, name) for name in cotangents))

        values = (getattr(p, name) for name in given)
        of_upstream, *of_values = _pull(tuple(cotangents.values()), gradients, upstream, *values)
        by_name = dict(zip(given, of_values, strict=True))
        rows = (by_name.get(row.name) for row in table.rows)
        return (*of_upstream, *(None for _ in kept), *rows, *(None for _ in ctx.options))

    def _define(self, p: Any) -> tuple[Tensor, ...]:
        """Return the results that have gradients, by the definition."""
        given = p._asdict()
        given.pop("keep", None)
        results = self._definition(**given)
        results = (results,) if isinstance(results, Tensor) else results
        return tuple(results[: len(self.table.graded)])

    def _restored(self, p: Any, kept: Sequence[Tensor]) -> Any:
        """Return the operands, those that were not kept with their values."""
        table = self.table
        unread = [row for row in table.rows if not row.is_saved(p)]
        if not unread:
            return p
        names = (row.name for row in table.kept)
        with torch.no_grad():
            results = dict(zip(names, kept, strict=True))
            offsets = {}
            for row in unread:
                assert row.operand.restored is not None
                offsets[row.name] = row.operand.restored(p, results) - getattr(p, row.name)
        return p._replace(**{name: getattr(p, name) + x for name, x in offsets.items()})


def _pull(cotangents: Any, function: Callable[..., Any], *operands: Any) -> Any:
    """Return the gradients of the operands, given those of the results of a function."""
    _, pull = cast("tuple[Any, Callable[..., Any]]", torch.func.vjp(function, *operands))
    return pull(cotangents)
