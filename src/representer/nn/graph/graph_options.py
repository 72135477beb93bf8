"""The options of the graph layers, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import torch

from representer.errors import ArgumentError
from representer.functional import nonlinearity
from representer.nn.recurrent.options import Default
from representer.numbers import is_number
from representer.requirements import check_integer

DecayOption = float | Literal["learned", "gated"]
CombineOption = Literal["multiply", "add"]


class GraphOptions(TypedDict, total=False):
    """Options of all graph-kernel networks, described in their classes."""

    gate_scale: Annotated[float, Default(1.0)]
    device: Annotated[torch.device | str | None, Default(None)]
    dtype: Annotated[torch.dtype | None, Default(None)]


@dataclass(frozen=True)
class Walks:
    """The reference walks of a layer, without their weights."""

    order: int  # n, nodes of a walk
    decay: DecayOption  # λ
    combine: CombineOption  # operation that extends a walk by a node
    sigma: str  # name of σ between the steps of a walk
    edge_dim: int | None  # K, features of an edge
    gate_scale: float  # value of an open gate

    @classmethod
    def read(
        cls,
        order: Any,
        decay: Any,
        edge_dim: Any,
        gate_scale: float,
        *,
        combine: Any = "multiply",
        nonlinear: Any = False,
    ) -> Walks:
        """Check the options of a network; `ArgumentError` if one is invalid."""
        edges = None if edge_dim is None else check_integer("edge_dim", edge_dim)
        if combine not in ("multiply", "add"):
            raise ArgumentError("combine", combine, "'multiply' or 'add'")
        if isinstance(nonlinear, bool):
            nonlinear = "tanh" if nonlinear else "identity"
        sigma = checked_name("nonlinear", nonlinear)
        size = check_integer("order", order)
        return cls(size, check_decay(decay), combine, sigma, edges, gate_scale)


def check_decay(decay: Any) -> DecayOption:
    """Return the decay if it is valid.

    Raises:
        ArgumentError: If it is neither a non-negative number nor one of the names.
    """
    if is_number(decay) and 0 <= decay < float("inf"):
        return float(decay)
    if isinstance(decay, str) and decay in ("learned", "gated"):
        return decay
    raise ArgumentError("decay", decay, "a non-negative number, 'learned' or 'gated'")


def checked_name(name: str, value: Any) -> str:
    """Return the name of a nonlinearity; the identity for None.

    Raises:
        ArgumentError: If the name is unknown.
    """
    if value is None:
        return "identity"
    if not isinstance(value, str):
        raise ArgumentError(name, value, "a name of functional.NONLINEARITIES")
    nonlinearity(value, name)
    return value
