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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError
from representer.ops.common import check_floating, check_length_range, dtypes_meet, wrong_device

# One operand of an op: its declaration, and the check of a tensor against it.

Sizes = dict[Any, int]  # by the names of axes; a number in place of a name has itself as its size
Axes = tuple[str | int, ...]

# axes that must not be empty, and the name of an entry
_ENTRIES = {"time": "step", "centers": "center", "rank": "product", "filters": "filter",
            "slots": "slot", "inputs": "channel"}  # fmt: skip
EMPTY: tuple[Axes, ...] = ((0,),)


@dataclass(frozen=True)
class Operand:
    """A tensor that an operator takes or returns."""

    # Its axes, such as ``"time batch units"``: a name stands for one size wherever it occurs in a
    # call, a number for itself, and ``|`` separates alternatives with different numbers of axes.
    # The axis ``batch`` is the one that ``torch.vmap`` extends.
    axes: str
    # other axes, and whether a call has them, given its operands
    instead: tuple[str, Callable[[Any], bool]] | None = None
    # Given the operands, whether a call must have this one (True), must not (False), or may
    # (None, as if left out). For a result: whether it is computed; if not, it is empty.
    needed: Callable[[Any], bool | None] | None = None
    differentiable: bool = True  # whether it has a gradient
    # whether the gradient operator reads it, or a function of the operands for that
    saved: Callable[[Any], bool] | bool = True
    # returns the value of an operand that is not saved, given the others and the saved results by
    # name; second derivatives need it
    restored: Callable[[Any, Mapping[str, Tensor]], Tensor] | None = None
    # whether its gradient costs extra and is computed only if it is needed
    on_request: bool = False
    # checks the values of a tensor of integers, given its name and the sizes
    check: Callable[[Tensor, str, Sizes], Any] | None = None


LENGTHS = Operand(
    "batch",
    differentiable=False,
    check=lambda lengths, name, sizes: check_length_range(lengths, sizes["time"]),
)


class Row(NamedTuple):
    """An operand with its name, prepared for checks."""

    name: str
    operand: Operand
    is_optional: bool
    axes: tuple[Axes, ...]
    other_axes: tuple[Axes, ...]

    def axes_in(self, p: Any) -> tuple[Axes, ...]:
        """Return the axes that it may have in a call."""
        instead = self.operand.instead
        return self.other_axes if instead is not None and instead[1](p) else self.axes

    def is_saved(self, p: Any) -> bool:
        """Return True if the gradient operator reads it."""
        saved = self.operand.saved
        return saved if isinstance(saved, bool) else bool(saved(p))

    def is_computed(self, p: Any) -> bool:
        """Return True if a call computes this result."""
        return self.operand.needed is None or bool(self.operand.needed(p))

    def batch_axis(self) -> int | None:
        """Return the position of the batch, if there is one."""
        return self.axes[0].index("batch") if "batch" in self.axes[0] else None

    def shape(self, p: Any, sizes: Sizes) -> tuple[int, ...]:
        """Return its shape in a call, from the sizes."""
        return tuple([sizes[axis] for axis in self.axes_in(p)[0]])


def check_operand(
    row: Row, tensor: Tensor | None, p: Any, sizes: Sizes,
    like: tuple[Tensor, torch.dtype, torch.device], is_strict: bool,
    axes: tuple[Axes, ...] | None = None,
) -> None:  # fmt: skip
    """Check one operand, and record the sizes that it determines."""
    name, operand, is_optional, fixed, _ = row
    main, dtype, device = like
    needed = operand.needed(p) if is_optional and operand.needed is not None else not is_optional
    if tensor is None:
        if needed:  # torch passes None for any tensor of a schema
            wanted = f"a tensor {_text(axes or row.axes_in(p), sizes)} in this call"
            raise KindError(name, "None", wanted)
        return
    if is_optional and operand.needed is not None and needed is False:
        raise KindError(name, f"a tensor {tuple(tensor.shape)}", "None in this call")
    alternatives = axes or (fixed if operand.instead is None else row.axes_in(p))
    count = len(sizes)
    if not _binds(tensor.shape, alternatives, sizes):
        raise _misfit(name, tensor, alternatives, dict(list(sizes.items())[:count]))
    if operand.check is not None:
        _check_integers(name, tensor)
    elif tensor.dtype != dtype:
        check_floating(name, tensor)
        if is_strict or not dtypes_meet(tensor, main):
            raise KindError(name, str(tensor.dtype), str(dtype), hint=f"Use {name}.to({dtype}).")
    if tensor.device != device:
        raise wrong_device(name, tensor, device)
    if tensor.layout != torch.strided:
        raise KindError(name, str(tensor.layout), "a dense tensor", hint="Use .to_dense().")


def _binds(shape: tuple[int, ...], alternatives: tuple[Axes, ...], sizes: Sizes) -> bool:
    """Return True if a shape fits one of several axes, and record the sizes it determines."""
    dim = len(shape)
    for axes in alternatives:
        if len(axes) == dim:
            for axis, size in zip(axes, shape, strict=False):
                if axis not in sizes:
                    sizes[axis] = size
                    if axis in _ENTRIES and size == 0:
                        return False
                elif sizes[axis] != size:
                    return False
            return True
    return False


def _misfit(name: str, tensor: Tensor, alternatives: tuple[Axes, ...], sizes: Sizes) -> ShapeError:
    empty = [_ENTRIES[a] for axes in alternatives for a in axes if a in _ENTRIES]
    wanted = _text(alternatives, sizes)
    if empty and 0 in tensor.shape:
        wanted = f"{wanted} with at least one {' and '.join(dict.fromkeys(empty))}"
    return ShapeError(name, tuple(tensor.shape), wanted)


def _text(alternatives: tuple[Axes, ...], sizes: Sizes) -> str:
    """Return axes for a message, such as ``(), (3,) or (time, 2, 3)``."""
    texts = []
    for axes in alternatives:
        words = [str((isinstance(a, str) and sizes.get(a)) or a) for a in axes]
        texts.append(f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})")
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _check_integers(name: str, tensor: Tensor) -> None:
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if not is_integer or (name == "edge_index" and tensor.dtype != torch.int64):
        wanted = "torch.int64" if name == "edge_index" else "integers"
        raise KindError(name, str(tensor.dtype), wanted, hint=f"Use {name}.long().")


def parse_axes(axes: str) -> tuple[Axes, ...]:
    """Return the alternatives that a declaration of axes lists."""
    return tuple(
        tuple(int(word) if word.isdigit() else word for word in alternative.split())
        for alternative in axes.split("|")
    )


_KINDS = {bool: "bool", int: "int", float: "float", str: "str"}


class OperandTable:
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
        self, operands: Any, results: Any, sizes: Callable[[Any], Sizes] = lambda p: {},
        check: Callable[[Any, Sizes], None] = lambda p, sizes: None,
    ) -> None:  # fmt: skip
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
        for i, coded in self._coded:
            flat[i] = coded.parse(flat[i])
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

        Operands that it does not read have any values, or are empty. Returned are the contiguous
        results and their gradients, None where there is none, and the sizes.
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
        names = dict.fromkeys(row.name for row in self.returned)
        results, gradients = names | {}, names
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
            annotation, operand = get_args(hint)
            other, _ = operand.instead or ("", None)
            axes = parse_axes(operand.axes), parse_axes(other)
            rows.append(Row(name, operand, NoneType in get_args(annotation), *axes))
        else:
            options[name] = hint
    return rows, options


def _declared(rows: Iterable[Row]) -> list[str]:
    return [f"Tensor{'?' if row.is_optional else ''} {row.name}" for row in rows]


def _schema(tensors: Iterable[str], options: dict[str, type], results: Sequence[Row]) -> str:
    arguments = ", ".join(
        (*tensors, *(f"{_KINDS.get(t, 'str')} {name}" for name, t in options.items()))
    )
    returned = ", ".join(["Tensor"] * len(results))
    return f"({arguments}, str backend) -> {f'({returned})' if len(results) > 1 else returned}"
