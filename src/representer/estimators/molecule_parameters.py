"""Parameters of the estimators of molecules. Free of torch, see `parameters`."""

from __future__ import annotations

from dataclasses import dataclass

from representer.estimators.graph_parameters import (
    INITIALS,
    READOUTS,
    GraphParameters,
)
from representer.estimators.parameters import option, require, require_integers, require_numbers

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
