"""The operands of an op in one table, from which schemas, fakes, checks and gradients follow.

A table is made of two named tuples, for the operands and for the results. The annotation of
each tensor holds an ``Operand``; plain options follow the tensors::

    class Operands(NamedTuple):
        u: Annotated[Tensor, Operand("time batch units")]
        f: Annotated[Tensor, Operand("time batch units | units |")]
        lengths: Annotated[Tensor | None, LENGTHS]
        reverse: bool

The kernels read bare memory, so nothing reaches them unchecked: neither the arguments of a public
function, nor those of a direct call of ``torch.ops.representer``, nor saved tensors, which hooks
may change between the two passes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from torch import Tensor

from representer.errors import ArgumentError
from representer.ops.checks import check_floating
from representer.ops.operand import EMPTY, Row, Sizes, check_operand, parse_axes

_KINDS = {bool: "bool", int: "int", float: "float", str: "str"}


class Table:
    """The operands, options and results of an op.

    Args:
        operands: Named tuple type of the operands. An option ``keep`` is false if nothing is kept
            for the gradient operator. An option that is an object is passed to the operator as its
            ``code``, a string, from which ``parse`` of its type makes it again.
        results: Named tuple type of the results, those with gradients first.
        sizes: Checks the options of a call, and returns the sizes that they determine.
        check: Checks conditions beyond the rows, given the operands and the sizes; it may add
            sizes for the results.
    """

    def __init__(
        self,
        operands: Any,
        results: Any,
        sizes: Callable[[Any], Sizes] = lambda p: {},
        check: Callable[[Any, Sizes], None] = lambda p, sizes: None,
    ) -> None:
        self.operands, self.results, self._sizes, self._check = operands, results, sizes, check
        rows, self.options = _read(operands)
        self.rows, self.returned = tuple(rows), tuple(_read(results)[0])
        self.graded = [row for row in self.returned if row.operand.differentiable]
        self.grad_rows = [row._replace(name=f"grad_{row.name}") for row in self.graded]
        self.kept = [row for row in self.returned if row.operand.saved]
        self.differentiable = [row for row in rows if row.operand.differentiable]
        self.on_request = [row.name for row in rows if row.operand.on_request]
        axes = (axis for row in (*rows, *self.returned) for axis in sum(row.axes, ()))
        self._numbers: Sizes = {0: 0} | {axis: axis for axis in axes if isinstance(axis, int)}
        # for each result with a gradient: the saved tensor of the same shape, to make zeros
        saved = [row.operand.axes for row in (*self.kept, *rows)]
        self.zeros_like = [
            saved.index(row.operand.axes) if row.operand.axes in saved else -1
            for row in self.graded
        ]
        kinds = enumerate(self.options.values(), start=len(rows))
        self._coded: list[tuple[int, Any]] = [(i, k) for i, k in kinds if k not in _KINDS]
        self._integers = [(i, row) for i, row in enumerate(rows) if row.operand.check]

    def encode(self, p: Any) -> tuple[Any, ...]:
        """Return the arguments of the operator, without the backend."""
        flat = list(p)
        for i, _ in self._coded:
            flat[i] = flat[i].code
        return tuple(flat)

    def decode(self, arguments: Sequence[Any]) -> Any:
        """Return the operands from the arguments of the operator."""
        flat = list(arguments)
        for i, kind in self._coded:
            flat[i] = kind.parse(flat[i])
        return self.operands(*flat)

    def schema(self) -> str:
        """Return the schema of the operator."""
        return _schema(_declared(self.rows), self.options, self.returned)

    def backward_schema(self) -> str:
        """Return the schema of the gradient operator.

        It takes the gradients of the results, the results that it reads, the operands (any values
        or an empty tensor for those that it does not read), the options, and whether gradients on
        request are needed.
        """
        tensors = _declared((*self.grad_rows, *self.kept, *self.rows))
        needs = dict.fromkeys((f"needs_{name}" for name in self.on_request), bool)
        return _schema(tensors, self.options | needs, self.differentiable)

    def check(self, p: Any, *, is_strict: bool) -> Sizes:
        """Check the operands of a call, and return the sizes of their axes.

        With ``is_strict``, dtypes must be equal even under autocast.

        Raises:
            ShapeError: If a shape does not fit.
            KindError: If a dtype, a device or a memory layout does not, an operand is missing, or
                one is given that the call does not take.
            ArgumentError: If an option is out of range.
        """
        sizes = self._numbers | self._sizes(p)
        check_floating(self.rows[0].name, p[0])
        like = p[0], p[0].dtype, p[0].device
        for row, tensor in zip(self.rows, p, strict=False):
            if tensor is not None or not row.is_optional or row.operand.needed is not None:
                check_operand(row, tensor, p, sizes, like, is_strict)
        self._check(p, sizes)
        return sizes

    def check_values(self, p: Any, sizes: Sizes) -> None:
        """Check the values of tensors of integers.

        Raises:
            ArgumentError: If one is out of range.
        """
        for i, row in self._integers:
            if p[i] is not None and row.operand.check is not None:
                row.operand.check(p[i], row.name, sizes)

    def check_backward(
        self, grad: Sequence[Tensor], kept: Sequence[Tensor], p: Any
    ) -> tuple[Any, Any, Sizes]:
        """Check the operands of the gradient operator; see `check` for errors.

        Args:
            grad: Gradients of the results.
            kept: Results that it reads.
            p: Operands, those that it does not read with any values, or empty.

        Returns:
            The contiguous results and their gradients, None where there is none, and the sizes.
        """
        if "keep" in self.options and not p.keep:
            raise ArgumentError("keep", p.keep, "true for the gradient")
        sizes = self._numbers | self._sizes(p)
        check_floating(self.rows[0].name, p[0])
        like = p[0], p[0].dtype, p[0].device
        for row, tensor in zip(self.rows, p, strict=False):
            unread = None if row.is_saved(p) else (*EMPTY, *row.axes_in(p))
            check_operand(row, tensor, p, sizes, like, True, unread)
        self._check(p, sizes)
        given = dict.fromkeys(row.name for row in self.returned)
        results, gradients = given | {}, given
        for row, tensor in zip(self.kept, kept, strict=True):
            check_operand(row, tensor, p, sizes, like, True, None if row.is_computed(p) else EMPTY)
            results[row.name] = tensor.contiguous()
        for row, tensor in zip(self.grad_rows, grad, strict=True):
            check_operand(row, tensor, p, sizes, like, True)
            gradients[row.name.removeprefix("grad_")] = tensor
        return self.results(**results), self.results(**gradients), sizes

    def result_shapes(self, p: Any, sizes: Sizes) -> list[tuple[int, ...]]:
        """Return the shapes of the results of a call."""
        return [
            tuple([sizes[axis] for axis in row.axes[0]])
            if row.operand.needed is None or row.operand.needed(p)
            else (0,)
            for row in self.returned
        ]

    def gradient_shapes(
        self, p: Any, sizes: Sizes, requested: Iterable[str]
    ) -> list[tuple[int, ...]]:
        """Return the shapes of the results of the gradient operator."""
        shapes = []
        for row in self.differentiable:
            tensor, is_left_out = getattr(p, row.name), row.operand.on_request
            if tensor is None or (is_left_out and row.name not in requested):
                shapes.append((0,))
            else:
                shapes.append(tensor.shape if row.is_saved(p) else row.shape(p, sizes))
        return shapes

    def new_results(self, p: Any, sizes: Sizes) -> Any:
        """Return uninitialized memory for the results of a call."""
        return self.results._make(map(p[0].new_empty, self.result_shapes(p, sizes)))


def _read(declared: type) -> tuple[list[Row], dict[str, type]]:
    """Return the tensors and the options of a named tuple type."""
    rows, options = [], {}
    module = vars(sys.modules[declared.__module__])
    for name, hint in get_type_hints(declared, module, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, operand = get_args(hint)
            other, _ = operand.instead or ("", None)
            axes = parse_axes(operand.axes), parse_axes(other)
            rows.append(Row(name, operand, NoneType in get_args(kind), *axes))
        else:
            options[name] = hint
    return rows, options


def _declared(rows: Iterable[Row]) -> list[str]:
    return [f"Tensor{'?' if row.is_optional else ''} {row.name}" for row in rows]


def _schema(tensors: Iterable[str], options: dict[str, type], results: Sequence[Row]) -> str:
    given = ", ".join(
        (*tensors, *(f"{_KINDS.get(t, 'str')} {name}" for name, t in options.items()))
    )
    returned = ", ".join(["Tensor"] * len(results))
    return f"({given}, str backend) -> {f'({returned})' if len(results) > 1 else returned}"
