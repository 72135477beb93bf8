"""Parameters of `SignalClassifier`. Free of torch, see `parameters`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from representer.estimators.parameters import TargetParameters, option
from representer.requirements import require, require_choices, require_integers

FILTERS = ("wavelet", "dense")
POOLINGS = ("power", "mean", "last", "max", "flatten", "attention")
STANDARDIZATIONS = ("training", "window", "none")


@dataclass(kw_only=True, eq=False, repr=False)
class SignalParameters(TargetParameters):
    """Parameters of the network for signals and of its inputs.

    With `valid_fraction` 0 there is no validation, and the last epoch is kept.
    """

    _is_validation_required = False
    _save_every_epochs = 50

    sampling_rate: float | None = option(None, "sampling rate in Hz; arrays need it", metavar="HZ")
    cell: str = option("linear-kernel", "recurrent cell; `representer cells` lists them")
    filters: str = option("wavelet", "kind of filters", choices=FILTERS)
    filter_length: int | None = option(
        None, "filter length in samples (default: those of half a second)"
    )
    stride: int | None = option(
        None, "stride of the filters in samples (default: those of 1/32 second)"
    )
    hidden_size: int = option(60, "units of the cell")
    num_layers: int = option(1, "number of layers")
    layer_norm: bool = option(False, "normalize the cell state")
    free_phase: bool = option(False, "train the phase of the first channel of a wavelet, too")
    pooling: str = option(
        "power",
        "classify the mean and the power of the outputs, their mean, the last, the largest of each "
        "unit, the largest of each part of the window, or a mean with learned weights",
        choices=POOLINGS,
    )
    pool_length: int | None = option(
        None, "samples of a part for --pooling flatten (default: those of a filter)"
    )
    channel_dropout: float = option(0.1, "dropout of whole channels in training")
    dropout: float = option(0.0, "dropout before the last layer")
    augment: bool = option(False, "augment training windows: sign, shift, gains, noise")
    standardize: str = option(
        "training",
        "standardize each channel over the training data, over the window, or not at all",
        choices=STANDARDIZATIONS,
    )
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    lr: float = option(2e-3, "learning rate of Adam")
    clip_norm: float = option(1.0, "clip the norm of the gradient; 0: no clipping")

    def check(self) -> None:
        """Check every value, see `TrainingParameters.check`."""
        super().check()
        is_rate = self.sampling_rate is None or 0 < self.sampling_rate < math.inf
        require(self, "sampling_rate", is_rate, "a positive number of Hz")
        require_integers(self, 1, "filter_length", "pool_length", "stride", is_none_allowed=True)
        require_integers(self, 1, "hidden_size", "num_layers")
        for name in ("channel_dropout", "dropout"):
            require(self, name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        require_choices(self, filters=FILTERS, pooling=POOLINGS, standardize=STANDARDIZATIONS)


def in_samples(parameters: Any, sampling_rate: float) -> dict[str, int]:
    """Return the length and the stride of the filters; where left out, they follow the rate."""
    usual = {"filter_length": sampling_rate / 2, "stride": sampling_rate / 32}
    return {
        name: getattr(parameters, name) or max(1, round(count)) for name, count in usual.items()
    }
