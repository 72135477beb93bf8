"""Named tuples that other libraries can rebuild and ``torch.export`` can save."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import _register_namedtuple

_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])


def rebuildable(kind: type[_Tuple]) -> type[_Tuple]:
    """Let a named tuple be made as ``kind(iterable)`` too, like a plain tuple.

    A tuple of one field takes an iterator only, since any other iterable may be the field. The
    type has a name in files of ``torch.export``, and ``torch.load`` accepts it with weights_only.
    """
    named: Any = kind
    new: Callable[..., _Tuple] = named.__new__
    takes_any = len(named._fields) != 1

    @functools.wraps(new)
    def rebuild(cls: type[_Tuple], *given: Any, **options: Any) -> _Tuple:
        is_alone = len(given) == 1 and not options and not isinstance(given[0], Tensor)
        if is_alone and (takes_any or isinstance(given[0], Iterator)):
            given = tuple(given[0])
        return new(cls, *given, **options)

    named.__new__ = rebuild
    _register_namedtuple(named, serialized_type_name=f"representer.{named.__name__}")
    torch.serialization.add_safe_globals([named])
    return kind
