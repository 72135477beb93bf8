"""The shared options of sequence layers, declared once with their defaults.

Constructors have shared options as ``**options: Unpack[…]`` of a ``TypedDict`` for type checkers;
`shows` adds them to the signature for ``help``.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar, get_args, get_type_hints

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.nn.checks import check_flag, check_probability
from representer.nn.recurrent.initial import Initialization

OutputNonlinearity = str | Callable[[Tensor], Tensor] | None
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Default(NamedTuple):
    """The default of an option, in its annotation."""

    value: Any


class MachineOptions(TypedDict, total=False):
    """Options of all recurrent kernel machines, described in the class."""

    filter_length: Annotated[int | dict[int, int], Default(1)]
    dilation: Annotated[int, Default(1)]
    filters: Annotated[Literal["dense", "wavelet"], Default("dense")]
    stride: Annotated[int, Default(1)]
    free_phase: Annotated[bool, Default(False)]
    sampling_rate: Annotated[float | None, Default(None)]
    layer_norm: Annotated[bool, Default(False)]
    weight_drop: Annotated[float, Default(0.0)]
    variational_dropout: Annotated[float, Default(0.0)]
    zoneout: Annotated[float | tuple[float, float], Default(0.0)]
    recompute_gates: Annotated[bool, Default(False)]
    device: Annotated[torch.device | str | None, Default(None)]
    dtype: Annotated[torch.dtype | None, Default(None)]


class CellOptions(MachineOptions, total=False):
    """Options of cells with gates or an output nonlinearity."""

    forget_bias: Annotated[float, Default(0.0)]
    candidate_bias: Annotated[bool, Default(False)]
    output_nonlinearity: Annotated[OutputNonlinearity, Default(None)]
    initialization: Annotated[Initialization, Default("unit")]


@cache
def defaults_of(options: type) -> dict[str, Any]:
    """Return the options of a ``TypedDict`` with their defaults."""
    hints = get_type_hints(options, include_extras=True)
    return {name: get_args(hint)[1].value for name, hint in hints.items()}


def with_defaults(options: type, given: Any) -> Any:
    """Return a namespace of all options.

    Raises:
        TypeError: If a name is unknown, as for any keyword argument.
        ArgumentError: If an option that is True or False by default is something else.
    """
    defaults = defaults_of(options)
    for name in given:
        if name not in defaults:
            raise TypeError(f"__init__() got an unexpected keyword argument {name!r}")
    flags = [name for name in given if isinstance(defaults[name], bool)]
    return SimpleNamespace(**defaults | given | {n: check_flag(n, given[n]) for n in flags})


def shows(options: type) -> Callable[[_Function], _Function]:
    """Return a decorator that lists the options in the signature of a constructor."""

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        hints = get_type_hints(options, include_extras=True)
        shared = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default,
                annotation=get_args(hints[name])[0],
            )
            for name, default in defaults_of(options).items()
        ]  # fmt: skip
        shared.sort(key=lambda parameter: parameter.name in ("device", "dtype"))
        function.__signature__ = signature.replace(parameters=own + shared)  # type: ignore[attr-defined]
        return function

    return decorate


def zoneout_pair(zoneout: float | tuple[float, float]) -> tuple[float, float]:
    """Return the probabilities of cell and output, from a pair or one value for both."""
    if isinstance(zoneout, tuple) and len(zoneout) != 2:
        raise ArgumentError(
            "zoneout", zoneout, "one number, or a pair (of the cell, of the output)"
        )
    cell, output = zoneout if isinstance(zoneout, tuple) else (zoneout, zoneout)
    return check_probability("zoneout", cell), check_probability("zoneout", output)


def warn_of_idle_dropout(layer: Any) -> None:
    """Warn about dropout without effect; called by the constructors of layers."""
    if not layer.dropout or layer.num_layers > 1:
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_locals.get("self") is layer:
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"dropout={layer.dropout} acts between layers, and num_layers is 1. "
        "Use variational_dropout or nn.Dropout instead.",
        stacklevel=level,
    )
