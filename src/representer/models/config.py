"""Conversion of model configurations to plain values and back."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from representer.checks import require
from representer.errors import ArgumentError, KindError, ShapeError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Config = TypeVar("Config", bound=DataclassInstance)


def to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Convert a configuration to values for JSON and YAML, with string keys.

    Args:
        config: Any configuration of this package.
    """
    return {name: _plain(value) for name, value in asdict(config).items()}


def from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Create a configuration from the values of `to_dict`.

    Args:
        kind: The class of the configuration.
        values: The fields by name; those with a default are optional.

    Raises:
        ArgumentError: If a name is unknown, or a field without a default is missing.
    """
    names = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else ""
            raise ArgumentError(
                f"a key of {kind.__name__}", name, f"one of {', '.join(names)}", hint=hint
            )
    for name, field in names.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        if is_required and name not in values:
            raise ArgumentError(
                f"the keys of {kind.__name__}", sorted(map(str, values)), f"{name!r} among them"
            )
    return kind(**values)


def require_sizes(config: Any, *names: str, least: int = 1) -> None:
    """Require integers that JSON can hold, so none of NumPy."""
    expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    for name in names:
        value = getattr(config, name)
        require(config, name, type(value) is int and value >= least, expected)


def require_token(config: Any, name: str) -> None:
    """Require the id of a token of the vocabulary."""
    value, size = getattr(config, name), config.vocabulary_size
    require(config, name, type(value) is int and 0 <= value < size, f"a token id below {size}")


def _plain(value: Any) -> Any:
    if hasattr(value, "get_params"):  # a kernel; only such a model needs the extra of kernels
        from representer.kernels.composition import to_plain

        return to_plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


# Input checks and word vectors of the models of token sequences.


def check_tokens(tokens: Tensor, lengths: Tensor) -> None:
    """Check a padded batch of token ids."""
    if tokens.dim() != 2 or not tokens.shape[1]:
        hint = "Pad the sequences of a batch to one length, at least 1."
        raise ShapeError("tokens", tuple(tokens.shape), "(batch, time)", hint=hint)
    if lengths.shape != tokens.shape[:1]:
        raise ShapeError("lengths", tuple(lengths.shape), f"({tokens.shape[0]},)")
    for name, tensor in (("tokens", tokens), ("lengths", lengths)):
        if tensor.dtype not in (torch.int64, torch.int32):
            raise KindError(name, str(tensor.dtype), "int64", hint="Use .long().")
    # on a GPU this would synchronize; in the compiler it would break the graph
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling():
        is_invalid = (lengths < 0) | (lengths > tokens.shape[1])
        if is_invalid.any():
            first = int(is_invalid.nonzero()[0])
            name = f"lengths[{first}]"
            raise ArgumentError(name, int(lengths[first]), f"a length from 0 to {tokens.shape[1]}")


def copy_vectors(embedding: nn.Embedding, vectors: Tensor, *, freeze: bool) -> None:
    """Copy word vectors to an embedding, except for the padding row."""
    weight = embedding.weight
    if vectors.shape != weight.shape:
        raise ShapeError("vectors", tuple(vectors.shape), f"{tuple(weight.shape)}")
    with torch.no_grad():
        weight.copy_(vectors)
        if embedding.padding_idx is not None:
            weight[embedding.padding_idx] = 0
    weight.requires_grad_(not freeze)
