"""The two torch operators of an op, ``representer::NAME`` and ``representer::NAME_backward``.

The gradient is one operator too, so that a sequence has one operator boundary in each direction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function

from representer.ops.common import check_no_forward_mode
from representer.ops.table import OperandTable

if TYPE_CHECKING:
    from representer.ops.op import Op


# Derivatives of the operators of an op, of any order.
#
# The gradient of ``representer::NAME`` is ``representer::NAME_backward``, on any backend. That of
# ``NAME_backward`` is the derivative of the gradient of the definition, by autograd, and so are all
# further ones.
#
# An operand that the gradient operator does not read is not kept. In its place the graph holds a
# zero of its shape that needs no memory, so that a second derivative reaches it, and its value is
# restored from the kept results.

Save = Callable[[Any, tuple[Any, ...], tuple[Tensor, ...]], tuple[Tensor, ...]]


def register(
    library: torch.library.Library, operator: Any, save: Save, gradient: Callable[..., Any]
) -> None:
    """Register the gradient of an operator with torch.

    Unlike that of ``torch.library.register_autograd``, it exists inside ``torch.func`` too.
    ``save(ctx, arguments, results)`` keeps tensors for the gradient, and returns further outputs of
    the node in the graph, which the operator does not return; ``gradient(ctx, *grad)`` takes the
    gradients of both.
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
    """The gradient of an op by its gradient operator, and that of the latter by the definition."""

    def __init__(self, table: OperandTable, definition: Callable[..., Any]) -> None:
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
        results: list[Tensor | None] = [None] * (len(fields) + 1)
        if any(x is not None for x in of_results):
            saved = ctx.saved_tensors
            gradients = self._operator(
                *(
                    torch.zeros_like(saved[index]) if x is None else x
                    for x, index in zip(of_results, table.zeros_like, strict=True)
                ),
                *saved,
                *ctx.options,
                *(needs[name] for name in table.on_request),
                ctx.backend,
            )
            gradients = (gradients,) if isinstance(gradients, Tensor) else gradients
            for row, x in zip(table.differentiable, gradients, strict=True):
                results[fields.index(row.name)] = x if needs[row.name] else None
        for i, x in zip(ctx.places, of_places, strict=True):  # of a second derivative
            if x is not None:
                results[i] = x if results[i] is None else results[i] + x
        return tuple(results)

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
        names = [row.name for row in table.differentiable if getattr(p, row.name) is not None]
        # a gradient that was not computed, of a missing operand too, is an empty tensor
        cotangents = {
            row.name: x for row, x in zip(table.differentiable, grad, strict=False)
            if x is not None and row.name in names and x.shape == getattr(p, row.name).shape
        }  # fmt: skip
        if not cotangents:
            return tuple(None for _ in (*saved, *ctx.options))

        def gradients(upstream: tuple[Tensor, ...], *values: Tensor) -> tuple[Tensor, ...]:
            called = p._replace(**dict(zip(names, values, strict=True)))

            def results(*values: Tensor) -> tuple[Tensor, ...]:
                return self._define(called._replace(**dict(zip(cotangents, values, strict=True))))

            return _pull(upstream, results, *(getattr(called, name) for name in cotangents))

        values = (getattr(p, name) for name in names)
        of_upstream, *of_values = _pull(tuple(cotangents.values()), gradients, upstream, *values)
        by_name = dict(zip(names, of_values, strict=True))
        rows = (by_name.get(row.name) for row in table.rows)
        return (*of_upstream, *(None for _ in kept), *rows, *(None for _ in ctx.options))

    def _define(self, p: Any) -> tuple[Tensor, ...]:
        """Return the results that have gradients, by the definition."""
        arguments = p._asdict()
        arguments.pop("keep", None)
        results = self._definition(**arguments)
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


# ``torch.vmap`` over an op: the mapped dimension is folded into the batch of the op.


def vmap_rule(
    operator: Any, axes: Mapping[str, int | None], result_axes: Sequence[int | None],
    mixes_batch: Callable[[Sequence[Any]], bool],
) -> Callable[..., tuple[Any, Any]]:  # fmt: skip
    """Return the vmap rule of an operator, for ``torch.library.register_vmap``.

    If only operands with a batch are mapped over, the operator runs once on a larger batch;
    if another one is (such as a weight), or ``mixes_batch(operands)``, it runs once per entry.
    ``axes`` and ``result_axes`` are the batch axes of operands and results; an operand of fewer
    dimensions has none.
    """

    def rule(info: Any, in_dims: Sequence[int | None], *operands: Any):
        argument_axes = [axes.get(argument.name) for argument in operator._schema.arguments]
        batches = [
            None if axis is None or operand is None or operand.dim() - (dim is not None) <= axis
            else axis
            for axis, dim, operand in zip(argument_axes, in_dims, operands, strict=True)
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
        (values,), (dim,) = _part((results,), axes, size)
        return values, dim
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


# whose kernels on CUDA run in 16 bits under autocast, with sums and states in 32
NARROW = ("gated_scan", "rkm_scan", "string_scan")


def _register_cuda_autocast(operator: Any, run: Callable[..., Any]) -> None:
    """Make an operator call a function under autocast on CUDA, with autocast off."""
    key = torch._C.DispatchKey.AutocastCUDA

    def called(*arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return run(*arguments)

    operator.py_kernels.pop(key, None)  # torch 2.11 registers that of the CPU for both devices
    operator.py_impl(key)(called)  # for tracing
    LIBRARY.impl(operator._opname, lambda _, *x: called(*x), "AutocastCUDA", with_keyset=True)


LIBRARY = torch.library.Library("representer", "DEF")


class _Checked(threading.local):
    """The arguments of the current call, as its public function has checked them, and its sizes."""

    call: tuple[tuple[Any, ...], Any, dict[str, int]] | None = None


checked = _Checked()


class Operators:
    """The operator of an op and that of its gradient."""

    def __init__(self, name: str, table: OperandTable, op: Op) -> None:
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
        devices = ("cpu",) if self.name in NARROW else ("cpu", "cuda")
        for device in devices:  # recurrences lose too much in half precision
            for label in (name, f"{name}_backward"):  # also if backward() runs under autocast
                torch.library.register_autocast(label, device, torch.float32, lib=LIBRARY)
        if self.name in NARROW:
            _register_cuda_autocast(self.operator, self.in_autocast)
            _register_cuda_autocast(self.backward, self.backward)  # in the dtype of its results

    def in_autocast(self, *arguments: Any) -> Any:
        """Run with operands in the dtype of autocast, as cuDNN does; sums stay in 32 bits.

        Results are in float32 unless all operands came in 16 bits.
        """
        floats = [x for x in arguments if isinstance(x, Tensor) and x.is_floating_point()]
        if any(x.dtype == torch.float64 for x in floats):
            return self.operator(*arguments)
        dtype = torch.get_autocast_dtype("cuda")
        if len({x.dtype for x in floats}) == 1 and floats[0].dtype in (
            torch.float16,
            torch.bfloat16,
        ):
            return self.operator(*arguments)
        lowered = (
            x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
            for x in arguments
        )  # fmt: skip
        results = self.operator(*lowered)
        results = (results,) if isinstance(results, Tensor) else results
        if any(x.dtype == torch.float32 for x in floats):
            graded = len(self.table.graded)
            results = (*(x.float() for x in results[:graded]), *results[graded:])
        return _one_or_all(results)

    def _forward(self, *arguments: Any) -> Any:
        table, count = self.table, len(self.table.rows)
        p: Any
        checked_arguments, p, sizes = checked.call or ((), None, {})
        is_checked = (  # autocast and functorch make other tensors
            isinstance(p, table.operands)
            and all(map(is_, checked_arguments[:count], arguments))
            and checked_arguments[count:] == arguments[count:-1]
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
        by_name = backend.backward(p, results, gradients, requested)
        assert by_name.keys() <= {row.name for row in self.table.differentiable}
        tensors = (by_name.get(row.name) for row in self.table.differentiable)
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
            arguments[:first], arguments[first:second], table.decode(arguments[second:third]),
            requested,
        )  # fmt: skip

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
