"""Parameters of the estimators of graphs and of molecules. Free of torch, see `parameters`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from representer.estimators.parameters import TargetParameters, option
from representer.numbers import parse_number
from representer.requirements import require, require_choices, require_integers, require_numbers

NETWORKS = ("wl", "random-walk", "gine")
READOUTS = ("sum", "last")
INITIALS = ("authors", "fan-in")
DECAYS = ("learned", "gated")
MAX_MEMBERS = 100


@dataclass(kw_only=True, eq=False, repr=False)
class GraphParameters(TargetParameters):
    """Parameters of the networks for graphs."""

    lr: float = option(2e-3, "learning rate of Adam")
    network: str = option("wl", "kind of network", choices=NETWORKS)
    hidden_size: int = option(64, "units of the network")
    depth: int = option(4, "levels of wl, or layers of gine")
    order: int = option(2, "number of nodes of a walk")
    decay: float | str = option(
        "gated", "decay of walks: a number, learned or gated", metavar="NAME"
    )
    readout: str = option(
        "sum", "readout of wl: sum over its levels, or the last level", choices=READOUTS
    )
    gate_scale: float = option(1.0, "scale of the gates")
    share_references: bool = option(
        True, "the same references at all levels of wl, as in the code of L17, not the paper"
    )
    initial: str = option("fan-in", "initialization of the weights", choices=INITIALS)
    dropout: float = option(0.0, "dropout before the last layer")
    members: int = option(1, "number of ensemble members")

    def check(self) -> None:
        """Check every value, see `TrainingParameters.check`."""
        super().check()
        require_integers(self, 1, "hidden_size", "depth", "order", "members")
        require(self, "members", self.members <= MAX_MEMBERS, f"at most {MAX_MEMBERS}")
        require(self, "dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        require(self, "gate_scale", 0 < self.gate_scale < math.inf, "a positive number")
        can_differ = self.share_references or (self.network == "wl" and self.readout == "sum")
        expected = "true, except for network wl with readout sum"
        require(self, "share_references", can_differ, expected)
        require_choices(self, network=NETWORKS, readout=READOUTS, initial=INITIALS)
        is_decay = self.decay in DECAYS or _is_decay(self.decay)
        require(self, "decay", is_decay, "a non-negative number, learned or gated")


def _is_decay(value: Any) -> bool:
    number = parse_number(value) if isinstance(value, str) else value
    return isinstance(number, Real) and 0 <= float(number) < math.inf


FEATURES = (62, 82)


@dataclass(kw_only=True, eq=False, repr=False)
class MoleculeParameters(GraphParameters):
    """Parameters of the networks for molecules."""

    features: int = option(82, "number of atom features: 62 or 82")
    initial: str = option("authors", "initialization of the weights", choices=INITIALS)
    readout: str = option(
        "last", "readout of wl: sum over its levels, or the last level", choices=READOUTS
    )
    gate_scale: float = option(10.0, "scale of the gates")
    members: int = option(5, "number of ensemble members")
    lr_decay: float = option(
        0.93, "factor of the learning rate after every lr-decay-every molecules"
    )
    lr_decay_every: int = option(0, "molecules between two such changes; 0: an epoch")

    def check(self) -> None:
        """Check every value, see `TrainingParameters.check`."""
        super().check()
        require(self, "features", self.features in FEATURES, "62 or 82")
        require_integers(self, 0, "lr_decay_every")


@dataclass(kw_only=True, eq=False, repr=False)
class MoleculeRegressorParameters(MoleculeParameters):
    """Parameters of `MoleculeRegressor`."""

    standardize: bool = option(True, "standardize the targets in training")
    balance: float = option(
        0.0, "draw training molecules evenly from bins of the target of this width; 0: no balancing"
    )

    def check(self) -> None:
        """Check every value, see `TrainingParameters.check`."""
        super().check()
        require_numbers(self, "balance")
