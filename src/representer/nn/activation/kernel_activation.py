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
    sampled,
)
from representer.nn.activation.initial import INITIAL, even_centers, fitted
from representer.nn.activation.piecewise_linear import PiecewiseLinear
from representer.nn.activation.plot import plotted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Init = Literal["random", "zeros", "relu", "tanh", "identity"] | Callable[[Tensor], Tensor]


class KernelActivation(nn.Module):
    r"""The activation of each neuron as a kernel expansion that is learned.

    .. math::
        f_i(a) = \sum_{k=1}^{d} \chi_{ik}\, g(a - c_{ik}) \; (+\, \theta_i a + \nu_i)

    with the Green function g of the regularization operator: the best function under a penalty on
    its first derivative is of this form with :math:`g = |\cdot|`, piecewise linear with a corner at
    every center. Centers and coefficients are parameters. For ``"abs"``, ``"relu"`` and ``"cubic"``
    an input costs a search among the sorted centers, not a sum over them.

    Args:
        num_features: F, neurons of the last dimension (or of ``dim``), each with its own function;
            1 for one function that all share.
        num_centers: d.
        green: g: ``"abs"`` :math:`|u|`, ``"relu"`` :math:`\max(0, u)`, ``"gaussian"``
            :math:`e^{-u^2/2s^2}`, ``"cubic"`` :math:`|u|^3`, or an elementwise function, which is
            summed over all centers.
        limits: The range on which centers lie and an initial function is fitted.
        init: ``"random"``: centers and coefficients from a normal distribution cut at two
            deviations, as in the authors' code; ``"zeros"``: such centers and no coefficients; a
            name of a function, or the function, which is fitted by least squares with centers
            evenly spaced, one of them at 0.
        linear_term: Whether there is a line :math:`\theta_i a + \nu_i`. With ``green="abs"`` the
            functions ``"relu"`` and ``"identity"`` switch it on.
        normalize: Whether inputs are first normalized over the batch, with learned gain and bias
            and running statistics for evaluation, as in ``torch.nn.BatchNorm1d``.
        bandwidth: s of a Gaussian.
        dim: The dimension of the features; 1 for the channels of images.
        device: Of the parameters.
        dtype: Of the parameters.

    Attributes:
        centers: ``(F, d)``; may be set in place, in any order.
        coefficients: ``(F, d)``, likewise.
        line: :math:`\theta, \nu` ``(F, 2)``, or None.

    Shape:
        - input ``(*, F)``, or with the features in ``dim``; any shape for F = 1
        - output the same

    Raises:
        ArgumentError: If an option has a value that is not allowed.

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
            if type(count) is not int or count < 1:
                raise ArgumentError(name, count, "a positive integer")
        green_function(green, bandwidth)  # refuses what is none
        low, high = limits
        if not -float("inf") < low < high < float("inf"):
            raise ArgumentError("limits", limits, "two finite numbers, the lower one first")
        if not callable(init) and init not in (*INITIAL, "random", "zeros"):
            names = ", ".join(("random", "zeros", *INITIAL))
            raise ArgumentError("init", init, f"one of {names}, or a function")
        self.num_features, self.num_centers = num_features, num_centers
        self.green, self.bandwidth, self.limits = green, bandwidth, (float(low), float(high))
        self._init, self.dim = (init,), dim  # in a tuple, where torch does not look for modules
        shape, options = (num_features, num_centers), {"device": device, "dtype": dtype}
        self.centers = nn.Parameter(torch.empty(shape, **options))
        self.coefficients = nn.Parameter(torch.empty(shape, **options))
        self.line: nn.Parameter | None = None
        if linear_term or (green == "abs" and init in ("relu", "identity")):
            self.line = nn.Parameter(torch.empty(num_features, 2, **options))
        self.norm = nn.BatchNorm1d(num_features, **options) if normalize else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, by drawing or fitting them."""
        if self.centers.is_meta:  # there is no memory to fill
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
        """Set coefficients and line to those nearest to a function; the centers stay.

        Args:
            function: Elementwise.

        Raises:
            ShapeError: If it does not keep the shape.
            ArgumentError: If it is not finite on the range.
        """
        chi, line = fitted(
            function,
            self.centers,
            green=self.green,
            bandwidth=self.bandwidth,
            limits=self.limits,
            has_line=self.line is not None,
        )
        self.coefficients.copy_(chi)
        if self.line is not None:
            self.line.copy_(line)

    def forward(self, input: Tensor) -> Tensor:
        """Return f of the input, in its shape.

        Raises:
            ShapeError: If the dimension of the features has another size.
            KindError: If dtype or device is not that of the parameters.
            ArgumentError: If a batch of one is to be normalized in training.
        """
        if self.num_features == 1:  # any shape: every entry goes through the one function
            return self._evaluate(input.reshape(-1, 1)).reshape(input.shape)
        self._check(input)
        moved = input.movedim(self.dim, -1)
        return self._evaluate(moved).movedim(-1, self.dim)

    def penalty(self) -> Tensor:
        r"""Return the l1 norm of the coefficients, :math:`\sum |\chi_{ik}|` (M18 section 3)."""
        return self.coefficients.abs().sum()

    def compact(self, tolerance: float = 1e-3) -> float:
        """Drop and merge centers, in place, as long as f changes by no more than a tolerance.

        Centers at one place become one. With ``"abs"`` and ``"relu"`` a corner is then left out
        where the straight line over it is near enough; with other g a center is left out if its
        term is small on all of ``limits``. Features with fewer centers than others keep
        coefficients of 0.

        Args:
            tolerance: The largest change of f on ``limits``.

        Returns:
            The largest change there was, measured at the old centers, at the ends and on a grid.

        Raises:
            ArgumentError: If the tolerance is negative.
        """
        if not tolerance >= 0:
            raise ArgumentError("tolerance", tolerance, "0 or more")
        places = sampled(self)
        before = exact_values(self, places)
        old = self.centers, self.coefficients
        self._take(*map(nn.Parameter, compacted(self, tolerance)))
        change = float((exact_values(self, places) - before).abs().max())
        if change <= tolerance:
            return change
        self._take(*old)  # rounding alone exceeds so small a tolerance
        return 0.0

    def _take(self, centers: nn.Parameter, coefficients: nn.Parameter) -> None:
        self.centers, self.coefficients = centers, coefficients
        self.num_centers = centers.shape[1]

    def to_piecewise_linear(self) -> PiecewiseLinear:
        """Return f as a function given by its corners, to be exported or drawn.

        Normalization is not part of it.

        Raises:
            KindError: If g is not ``"abs"`` or ``"relu"``: f is then not piecewise linear.
        """
        if self.green not in CORNERS:
            wanted = f"one of {', '.join(CORNERS)}, for which f is piecewise linear"
            raise KindError("green", repr(self.green), wanted)
        return PiecewiseLinear(*corners(self), dim=self.dim)

    def plot(self, span: tuple[float, float] | None = None, columns: int = 5) -> Figure:
        """Draw the function of every feature, with a dashed frame where it is steeper than 1.

        Where it is, a recurrent network can let a state grow. Normalization is left out.

        Args:
            span: The range; ``limits`` by default.
            columns: Functions side by side.

        Returns:
            A figure of matplotlib, for example to call ``savefig`` on.

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
            if self.training and len(rows) < 2:
                raise ArgumentError(
                    "batch", len(rows), "2 or more to be normalized in training", hint="Use eval()."
                )
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
            wanted = f"{self.num_features} features in dimension {self.dim}"
            raise ShapeError("input", tuple(input.shape), wanted)
