"""The options of the graph layers, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import torch

from representer.errors import ArgumentError
from representer.functional import nonlinearity
from representer.nn.recurrent.options import Default, check_size

DecayOption = float | Literal["learned", "gated"]
CombineOption = Literal["multiply", "add"]


class GraphOptions(TypedDict, total=False):
    """Options of all graph-kernel networks, described in their classes."""

    gate_scale: Annotated[float, Default(1.0)]
    device: Annotated[torch.device | str | None, Default(None)]
    dtype: Annotated[torch.dtype | None, Default(None)]


@dataclass(frozen=True)
class Walks:
    """The reference walks of a layer, without their weights.

    Attributes:
        order: n, nodes of a walk.
        decay: λ: a number, ``"learned"`` or ``"gated"``.
        combine: Operation that extends a walk by a node.
        sigma: Name of σ between the steps of a walk.
        edge_dim: K, features of an edge, or None.
        gate_scale: Value of an open gate.
    """

    order: int
    decay: DecayOption
    combine: CombineOption
    sigma: str
    edge_dim: int | None
    gate_scale: float

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
        """Check the options of a network.

        Raises:
            ArgumentError: If one has an invalid value.
        """
        edges = None if edge_dim is None else check_size("edge_dim", edge_dim)
        return cls(
            check_size("order", order), check_decay(decay), check_combine(combine),
            sigma_of(nonlinear), edges, gate_scale,
        )  # fmt: skip


def check_decay(decay: Any) -> DecayOption:
    """Return the decay if it is valid.

    Raises:
        ArgumentError: If it is neither a non-negative number nor one of the names.
    """
    is_number = isinstance(decay, (int, float)) and not isinstance(decay, bool)
    if is_number and 0 <= decay < float("inf"):
        return float(decay)
    if isinstance(decay, str) and decay in ("learned", "gated"):
        return decay
    raise ArgumentError("decay", decay, "a non-negative number, 'learned' or 'gated'")


def check_combine(combine: Any) -> CombineOption:
    """Return the operation that extends a walk if it is valid.

    Raises:
        ArgumentError: If it is unknown.
    """
    if combine in ("multiply", "add"):
        return combine
    raise ArgumentError("combine", combine, "'multiply' or 'add'")


def sigma_of(nonlinear: Any) -> str:
    """Return the name of σ between the steps of a walk; tanh for ``True``.

    Raises:
        ArgumentError: If the name is unknown.
    """
    if isinstance(nonlinear, bool):
        return "tanh" if nonlinear else "identity"
    return checked_name("nonlinear", nonlinear)


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
