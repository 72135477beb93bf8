"""Nested Python values as JSON plus a list of tensors, exactly.

    None, bool, int, str, finite float    themselves
    list                                  a JSON array
    tuple                                 {"tuple": [...]}
    dict with str or int keys             {"dict": [[key, value], ...]}, in its order
    infinite float or NaN                 {"float": "inf" | "-inf" | "nan"}
    tensor                                {"tensor": its place in the list}

What `unflatten` gives back is equal to what `flatten` took, in value and in type. Neither ever
looks up a class or a function by a name found in the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from representer.errors import CheckpointError, KindError

_PLAIN = (type(None), bool, int, str)
_KINDS = "a tensor, int, float, str, bool, None, list, tuple, or dict with str or int keys"
_MAX_INT_BITS = 4096  # decimal text of more is refused by Python's own reader
MAX_DEPTH = 100  # a limit of its own: the interpreter's recursion limit may have been raised


def flatten(value: Any) -> tuple[Any, list[Tensor]]:
    """Take a nested value apart.

    Args:
        value: What to store.

    Returns:
        A value for ``json.dumps``, and the tensors it refers to.

    Raises:
        KindError: Something in it is of a kind that cannot be stored; the message says where.
    """
    tensors: list[Tensor] = []
    return _flatten(value, tensors, "value", 0), tensors


def unflatten(node: Any, tensors: Sequence[Tensor], depth: int = 0) -> Any:
    """Reconstruct the value of `flatten`.

    Args:
        node: The value from ``json.loads``.
        tensors: The tensors.
        depth: Levels above this node.

    Raises:
        CheckpointError: The value is not one that `flatten` makes.
    """
    _require(depth <= MAX_DEPTH, "it is nested too deeply")
    if isinstance(node, _PLAIN):
        return node
    if isinstance(node, float):
        return node
    if isinstance(node, list):
        return [unflatten(item, tensors, depth + 1) for item in node]
    _require(isinstance(node, dict) and len(node) == 1, "a node is not a tagged value")
    ((tag, content),) = node.items()
    if tag == "tensor":
        _require(type(content) is int and 0 <= content < len(tensors), "a tensor is missing")
        return tensors[content]
    if tag == "float":
        _require(content in ("inf", "-inf", "nan"), "a number is not one")
        return float(content)
    _require(tag in ("tuple", "dict") and isinstance(content, list), f"unknown tag {tag!r}")
    if tag == "tuple":
        return tuple(unflatten(item, tensors, depth + 1) for item in content)
    return _unflatten_dict(content, tensors, depth)


def _unflatten_dict(pairs: list[Any], tensors: Sequence[Tensor], depth: int) -> dict[Any, Any]:
    result = {}
    for pair in pairs:
        _require(isinstance(pair, list) and len(pair) == 2, "an entry is not a pair")
        _require(type(pair[0]) in (str, int), "a key is neither text nor integer")
        _require(pair[0] not in result, "a key occurs twice")
        result[pair[0]] = unflatten(pair[1], tensors, depth + 1)
    return result


def _flatten(value: Any, tensors: list[Tensor], place: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise KindError(place, "nested too deeply", f"at most {MAX_DEPTH} levels")
    if isinstance(value, Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind in _PLAIN and not (kind is int and value.bit_length() > _MAX_INT_BITS):
        return value
    if kind is list or kind is tuple:
        items = [_flatten(v, tensors, f"{place}[{i}]", depth + 1) for i, v in enumerate(value)]
        return items if kind is list else {"tuple": items}
    if isinstance(value, dict) and all(type(key) in (str, int) for key in value):
        pairs = [[k, _flatten(v, tensors, f"{place}[{k!r}]", depth + 1)] for k, v in value.items()]
        return {"dict": pairs}
    raise KindError(place, kind.__name__, _KINDS, hint="Convert it before it is stored.")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise CheckpointError(f"the header is not a checkpoint's: {problem}")
