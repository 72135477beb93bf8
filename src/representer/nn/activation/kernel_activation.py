"""A learned activation: a kernel expansion for every neuron, M18 (5), (6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from representer import functional, ops
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import green_function
from representer.functional.kernel_activation import Green
from representer.nn.activation.compaction import (
    CORNERS,
    compacted,
    corners,
    exact_values,
    restart_moments,
    rounding_error,
    sampled,
)
from representer.nn.activation.initial import INITIAL, even_centers, fitted
from representer.nn.activation.piecewise_linear import PiecewiseLinear
from representer.nn.activation.plot import plotted
from representer.nn.checks import check_flag, leaf_of_fx
from representer.ops.checks import has_values
from representer.requirements import SuggestsArguments, check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Init = Literal["random", "zeros", "relu", "tanh", "identity"] | Callable[[Tensor], Tensor]


class KernelActivation(SuggestsArguments, nn.Module):
    r"""A learned activation for each neuron, as a kernel expansion.

    .. math::
        f_i(a) = \sum_{k=1}^{d} \chi_{ik}\, g(a - c_{ik}) \; (+\, \theta_i a + \nu_i)

    with the Green function g of the regularization operator: the optimal function under a penalty
    on its first derivative has this form with :math:`g = |\cdot|`, and is piecewise linear with a
    corner at every center. Centers and coefficients are parameters. For ``"abs"``, ``"relu"`` and
    ``"cubic"``, f is evaluated by a binary search in the sorted centers instead of a sum over them.

    Args:
        num_features: F, size of the last dimension (or of ``dim``), with one function for each
            neuron; 1 for one function shared by all.
        num_centers: d.
        green: g: ``"abs"`` :math:`|u|`, ``"relu"`` :math:`\max(0, u)`, ``"gaussian"``
            :math:`e^{-u^2/2s^2}`, ``"cubic"`` :math:`|u|^3`, or an elementwise function, which is
            summed over all centers.
        limits: The range of the centers, on which an initial function is fitted.
        init: ``"random"``: centers and coefficients from a normal distribution truncated at two
            standard deviations, as in the authors' code; ``"zeros"``: such centers, and
            coefficients of 0; or an elementwise function or its name, which is fitted by least
            squares with evenly spaced centers, one of them at 0.
        linear_term: Add a line :math:`\theta_i a + \nu_i`; implied by ``"relu"`` and ``"identity"``
            with ``green="abs"``.
        normalize: Normalize inputs over the batch, with learned gain and bias and with running
            statistics in evaluation, as in ``torch.nn.BatchNorm1d``.
        bandwidth: s of a Gaussian.
        dim: The dimension of the features; 1 for the channels of images.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Attributes:
        centers: ``(F, d)``; may be modified in place, in any order.
        coefficients: ``(F, d)``; may be modified in place.
        line: :math:`\theta, \nu` ``(F, 2)``, or None.

    Shape:
        - input ``(*, F)``, or with the features in ``dim``; any shape for F = 1
        - output: same shape as the input

    Raises:
        ArgumentError: If an option has an invalid value.

    References:
        Marra, Zanca, Betti & Gori, Learning Neuron Non-Linearities with Kernel-Based Deep Neural
        Networks, 2018, (2)-(6) and section 3.
    """

    def __init__(
        self,
        num_features: int,
        num_centers: int = 20,
        green: str | Green = "abs",
        limits: tuple[float, float] = (-4.0, 4.0),
        init: Init = "random",
        linear_term: bool = False,
        normalize: bool = False,
        bandwidth: float = 1.0,
        *,
        dim: int = -1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, count in (("num_features", num_features), ("num_centers", num_centers)):
            check_integer(name, count)
        linear_term = check_flag("linear_term", linear_term)
        normalize = check_flag("normalize", normalize)
        green_function(green, bandwidth)  # raises an error for an invalid one
        low, high = limits
        if not -float("inf") < low < high < float("inf"):
            raise ArgumentError("limits", limits, "two finite numbers, the lower one first")
        if not callable(init) and init not in (*INITIAL, "random", "zeros"):
            names = ", ".join(("random", "zeros", *INITIAL))
            raise ArgumentError("init", init, f"one of {names}, or a function")
        self.num_features, self.num_centers = num_features, num_centers
        self.green, self.bandwidth, self.limits = green, bandwidth, (float(low), float(high))
        self._init, self.dim = (init,), dim  # in a tuple, so that torch does not register it
        shape, options = (num_features, num_centers), {"device": device, "dtype": dtype}
        self.centers = nn.Parameter(torch.empty(shape, **options))
        self.coefficients = nn.Parameter(torch.empty(shape, **options))
        self.line: nn.Parameter | None = None
        if linear_term or (green == "abs" and init in ("relu", "identity")):
            self.line = nn.Parameter(torch.empty(num_features, 2, **options))
        self.norm = nn.BatchNorm1d(num_features, **options) if normalize else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        if not has_values(self.centers):
            return
        with torch.no_grad():
            if self.line is not None:
                nn.init.zeros_(self.line)
            if self.norm is not None:
                self.norm.reset_parameters()
            (init,) = self._init
            if init in ("random", "zeros"):
                nn.init.trunc_normal_(self.centers)
                nn.init.zeros_(self.coefficients)
                if init == "random":
                    nn.init.trunc_normal_(self.coefficients)
                return
            self.centers.copy_(even_centers(self.limits, self.num_centers))
            self.fit(init if callable(init) else INITIAL[init])

    @torch.no_grad()
    def fit(self, function: Callable[[Tensor], Tensor]) -> None:
        """Fit coefficients and line to a function; the centers are not changed.

        Args:
            function: Elementwise function.

        Raises:
            ShapeError: If it does not preserve the shape.
            ArgumentError: If it is not finite on the range.
        """
        chi, line = fitted(
            function, self.centers, green=self.green, bandwidth=self.bandwidth,
            limits=self.limits, has_line=self.line is not None,
        )  # fmt: skip
        self.coefficients.copy_(chi)
        if self.line is not None:
            self.line.copy_(line)

    @leaf_of_fx
    def forward(self, input: Tensor) -> Tensor:
        """Apply f to the input.

        Raises:
            ShapeError: If the dimension of the features has the wrong size.
            KindError: If dtype or device differs from that of the parameters.
            ArgumentError: If a batch of size 1 is normalized in training.
        """
        if self.num_features == 1:  # any shape
            return self._evaluate(input.reshape(-1, 1)).reshape(input.shape)
        self._check(input)
        output = self._evaluate(input.movedim(self.dim, -1)).movedim(-1, self.dim)
        return output.contiguous() if input.is_contiguous() else output  # for .view()

    def penalty(self) -> Tensor:
        r"""Return the l1 norm of the coefficients, :math:`\sum |\chi_{ik}|` (M18 section 3)."""
        return self.coefficients.abs().sum()

    def compact(self, tolerance: float = 1e-3) -> float:
        """Drop and merge centers, while f changes by no more than a tolerance.

        Equal centers are merged. With ``"abs"`` and ``"relu"``, corners are then dropped where f is
        nearly straight; with other g, centers are dropped if their term is small on all of
        ``limits``. Features with fewer centers than others are padded with coefficients of 0. The
        parameters become shorter but stay the same objects, which optimizers hold; an optimizer of
        torch then starts anew with its averages of their gradients.

        Args:
            tolerance: The largest allowed change of f on ``limits``, beyond rounding errors of the
                parameters' dtype.

        Returns:
            The largest change, measured at the old centers, at the ends and on a grid.

        Raises:
            ArgumentError: If the tolerance is negative.
        """
        if not tolerance >= 0:
            raise ArgumentError("tolerance", tolerance, "0 or more")
        places = sampled(self)
        before = exact_values(self, places)
        allowed = tolerance + rounding_error(self, places)
        old = self.centers.data, self.coefficients.data
        self._set(*compacted(self, tolerance))
        change = float((exact_values(self, places) - before).abs().max())
        if change > allowed:
            self._set(*old)
            return 0.0
        for parameter in (self.centers, self.coefficients):
            parameter.grad = None
            restart_moments(parameter)
        return change

    def _set(self, centers: Tensor, coefficients: Tensor) -> None:
        self.centers.data, self.coefficients.data = centers, coefficients
        self.num_centers = centers.shape[1]

    def to_piecewise_linear(self) -> PiecewiseLinear:
        """Return f as a function given by its corners, for export and plots.

        Normalization is not included.

        Raises:
            KindError: If g is not ``"abs"`` or ``"relu"``, so f is not piecewise linear.
        """
        if self.green not in CORNERS:
            expected = f"one of {', '.join(CORNERS)}, for which f is piecewise linear"
            raise KindError("green", repr(self.green), expected)
        return PiecewiseLinear(*corners(self), dim=self.dim)

    def plot(self, span: tuple[float, float] | None = None, columns: int = 5) -> Figure:
        """Plot the function of every feature, with a dashed frame if its slope exceeds 1.

        With such a slope, the state of a recurrent network can grow. Normalization is not included.

        Args:
            span: The range; ``limits`` by default.
            columns: Number of plots per row.

        Returns:
            A matplotlib figure.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        return plotted(self, span or self.limits, columns)

    def extra_repr(self) -> str:
        """Return the options."""
        green = self.green if isinstance(self.green, str) else "function"
        shown = [f"{self.num_features}, {self.num_centers}, green={green!r}"]
        shown += ["linear_term=True"] if self.line is not None else []
        shown += ["normalize=True"] if self.norm is not None else []
        return ", ".join(shown)

    def _evaluate(self, a: Tensor) -> Tensor:
        if self.norm is not None:
            rows = a.reshape(-1, a.shape[-1])
            if self.training and rows.shape[0] < 2:
                expected = "2 or more to normalize in training"
                raise ArgumentError("batch", rows.shape[0], expected, hint="Use eval().")
            a = self.norm(rows).reshape(a.shape)
        if isinstance(self.green, str):
            value = ops.kernel_activation(
                a, self.centers, self.coefficients, green=self.green, bandwidth=self.bandwidth
            )
        else:
            value = functional.kernel_activation(
                a, self.centers, self.coefficients, green=self.green
            )
        if self.line is None:
            return value
        slope, height = self.line.unbind(-1)
        return value + slope * a + height

    def _check(self, input: Tensor) -> None:
        axes = input.dim()
        if not -axes <= self.dim < axes or input.shape[self.dim] != self.num_features:
            expected = f"{self.num_features} features in dimension {self.dim}"
            raise ShapeError("input", tuple(input.shape), expected)
