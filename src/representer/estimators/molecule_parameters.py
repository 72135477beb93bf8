"""Parameters of the estimators of molecules. Free of torch, see `parameters`."""

from __future__ import annotations

from dataclasses import dataclass

from representer.estimators.graph_parameters import (
    INITIALS,
    READOUTS,
    UNCERTAINTIES,
    GraphParameters,
    GraphRegressorParameters,
)
from representer.estimators.parameters import option, require

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
    lr_decay: float = option(0.93, "factor of the learning rate after every epoch")

    def check(self) -> None:
        """Check every value, see `TrainingParameters.check`."""
        super().check()
        require(self, "features", self.features in FEATURES, "62 or 82")


@dataclass(kw_only=True, eq=False, repr=False)
class MoleculeRegressorParameters(MoleculeParameters, GraphRegressorParameters):
    """Parameters of `MoleculeRegressor`."""

    uncertainty: str = option(
        "gp",
        "predict with a Gaussian process on the last layers, too, or with the ensemble alone",
        choices=UNCERTAINTIES,
    )
