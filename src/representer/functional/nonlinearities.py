"""The elementwise functions of the papers by name, with derivatives.

Liang et al. 2019 (L19): q in (5)-(8), tanh in Table 1. A q is a Mercer kernel of the inner product
if its power series at 0 has no negative coefficients (``mercer``).

    linear       z / 2            tanh      tanh(z)
    polynomial   (z + 1)^2 / 4    sigmoid   1 / (1 + e^-z)
    exponential  (e^z - 1) / 2    inverse   z / (2 - z)
    gaussian     e^z              identity  z
    relu         max(0, z)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from representer.errors import ArgumentError


@dataclass(frozen=True)
class Nonlinearity:
    """A function of one real variable, applied to each entry of a tensor ``(…)``.

    Attributes:
        formula: Formula, as text.
        value: ``z -> y``.
        derivative: ``(z, y) -> dy/dz``, with the value y as a second argument to save work.
        mercer: Whether the power series at 0 has only non-negative coefficients.
    """

    formula: str
    value: Callable[[Tensor], Tensor]
    derivative: Callable[[Tensor, Tensor], Tensor]
    mercer: bool


NONLINEARITIES: dict[str, Nonlinearity] = {
    "identity": Nonlinearity("z", lambda z: z, lambda z, y: torch.ones_like(z), True),
    "linear": Nonlinearity("z/2", lambda z: z / 2, lambda z, y: torch.full_like(z, 0.5), True),
    "polynomial": Nonlinearity(
        "(z+1)²/4", lambda z: (z + 1).square() / 4, lambda z, y: (z + 1) / 2, True
    ),
    "exponential": Nonlinearity(
        "(e^z−1)/2", lambda z: torch.expm1(z) / 2, lambda z, y: y + 0.5, True
    ),
    "inverse": Nonlinearity(
        "z/(2−z)", lambda z: z / (2 - z), lambda z, y: 2 / (2 - z).square(), True
    ),
    "gaussian": Nonlinearity("e^z", torch.exp, lambda z, y: y, True),
    "tanh": Nonlinearity("tanh(z)", torch.tanh, lambda z, y: 1 - y.square(), False),
    "sigmoid": Nonlinearity("σ(z)", torch.sigmoid, lambda z, y: y * (1 - y), False),
    "relu": Nonlinearity("max(0, z)", torch.relu, lambda z, y: (z > 0).to(z), False),
}


def nonlinearity(name: str, argument: str = "nonlinearity") -> Nonlinearity:
    """Return a nonlinearity by name.

    Args:
        name: A key of `NONLINEARITIES`.
        argument: The name of the argument in the message of the error.

    Raises:
        ArgumentError: If the name is unknown.
    """
    if name not in NONLINEARITIES:
        raise ArgumentError(argument, name, f"one of {', '.join(NONLINEARITIES)}, or a callable")
    return NONLINEARITIES[name]
