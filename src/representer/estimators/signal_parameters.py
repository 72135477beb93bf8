"""Parameters of `SignalClassifier`. Free of torch, see `parameters`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from representer.errors import ArgumentError
from representer.estimators.parameters import (
    TargetParameters,
    option,
    require,
    require_choices,
    require_integers,
)

FILTERS = ("wavelet", "dense")
POOLINGS = ("mean", "last")
STANDARDIZATIONS = ("training", "window", "none")


@dataclass(kw_only=True, eq=False, repr=False)
class SignalParameters(TargetParameters):
    """Parameters of the network for signals and of its inputs.

    With `valid_fraction` 0 there is no validation, and the last epoch is kept.
    """

    _is_validation_required = False
    _save_every_epochs = 50

    sampling_rate: float | None = option(None, "sampling rate in Hz; required", metavar="HZ")
    cell: str = option("rkm-lstm", "recurrent cell; `representer cells` lists them")
    filters: str = option("wavelet", "kind of filters", choices=FILTERS)
    filter_length: int = option(40, "filter length in samples")
    stride: int = option(20, "stride of the filters in samples")
    hidden_size: int = option(30, "units of the cell")
    num_layers: int = option(1, "number of layers")
    layer_norm: bool = option(False, "normalize the cell state")
    free_phase: bool = option(False, "train the phase of the first channel of a wavelet, too")
    pooling: str = option(
        "mean", "classify the mean of all states or the last state", choices=POOLINGS
    )
    channel_dropout: float = option(0.1, "dropout of whole channels in training")
    dropout: float = option(0.0, "dropout before the last layer")
    augment: bool = option(False, "augment training windows: sign, shift, gains, noise")
    standardize: str = option(
        "training",
        "standardize each channel over the training data, over the window, or not at all",
        choices=STANDARDIZATIONS,
    )
    lr: float = option(2e-3, "learning rate of Adam")
    clip_norm: float = option(1.0, "clip the norm of the gradient; 0: no clipping")

    def check(self) -> None:
        """Check every value, see `TrainingParameters.check`."""
        super().check()
        if self.sampling_rate is None:
            hint = "SignalClassifier(sampling_rate=250)"
            raise ArgumentError("sampling_rate", None, "the sampling rate in Hz", hint=hint)
        is_rate = 0 < self.sampling_rate < math.inf
        require(self, "sampling_rate", is_rate, "a positive number of Hz")
        require_integers(self, 1, "filter_length", "stride", "hidden_size", "num_layers")
        for name in ("channel_dropout", "dropout"):
            require(self, name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        require_choices(self, filters=FILTERS, pooling=POOLINGS, standardize=STANDARDIZATIONS)
