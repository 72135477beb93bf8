"""A string-kernel cell as frozen data: one row of L17 Table 4, with its gates and its readout.

Lei et al. 2017, (4), sections 4 and 6.1, Tables 4 and 5. ``string_scan`` has the equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, cast, get_args

from representer.functional.derived import compute_cached

Combine = Literal["multiply", "add", "add_exact"]
Normalized = Literal["no", "paper", "exact"]
Readout = Literal["last", "sum"]
Decay = Literal["given", "gate", "state_gate"]


@dataclass(frozen=True)
class StringChain:
    """The options that distinguish string-kernel cells.

    Attributes:
        order: n, length of the longest n-gram and number of states in the chain.
        combine: Operation that extends an n-gram by a token: a product, a sum as printed, or a sum
            for which the states are Table 5's kernels for every t.
        normalized: Factor 1 - lambda of each new term (``"paper"``), or division by the mass.
        readout: c_n alone, or the sum of all c_j.
        decay: lambda is given, a gate on x_t, or a gate on x_t and h_{t-1}.
        highway: Mix the output with the input by a gate.
        activation: sigma, a name of ``nonlinearities``.
    """

    order: int
    combine: Combine = "multiply"
    normalized: Normalized = "no"
    readout: Readout = "last"
    decay: Decay = "given"
    highway: bool = False
    activation: str = "identity"

    def __post_init__(self) -> None:
        compute_cached(self)

    @cached_property
    def products(self) -> tuple[str, ...]:
        """The names of the products with x_t, in their order in tensors."""
        names = [f"token{j}" for j in range(1, self.order + 1)]
        gates = ("decay",) * self.is_gated + ("highway",) * self.highway
        return (*names, *gates)

    @cached_property
    def is_gated(self) -> bool:
        """True if the decay is a gate."""
        return self.decay != "given"

    @cached_property
    def is_state_gated(self) -> bool:
        """True if the decay gate depends on h_{t-1}, so that steps cannot run in parallel."""
        return self.decay == "state_gate"

    @cached_property
    def has_mass(self) -> bool:
        """True if the state includes the masses m_j."""
        return self.combine == "add_exact" or self.normalized == "exact"

    @cached_property
    def states(self) -> int:
        """Number of rows of the state: n, or 2 n with the masses after the states."""
        return self.order * (1 + self.has_mass)

    @cached_property
    def code(self) -> str:
        """The chain as a string, since arguments of custom operators cannot be objects."""
        fields = (str(self.order), self.combine, self.normalized, self.readout, self.decay)
        return " ".join((*fields, str(int(self.highway)), self.activation))

    @staticmethod
    @lru_cache
    def parse(code: str) -> StringChain:
        """Return the chain from its ``code``."""
        order, combine, normalized, readout, decay, highway, activation = code.split(" ")
        assert combine in get_args(Combine)
        assert normalized in get_args(Normalized)
        assert readout in get_args(Readout)
        assert decay in get_args(Decay)
        return StringChain(
            int(order),
            cast(Combine, combine),
            cast(Normalized, normalized),
            cast(Readout, readout),
            cast(Decay, decay),
            highway == "1",
            activation,
        )
