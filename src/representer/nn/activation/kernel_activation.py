"""A learned activation: a kernel expansion for every neuron, M18 (5), (6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from representer import functional, ops
from representer.checks import SuggestsArguments, check_integer, is_number
from representer.errors import ArgumentError, KindError, MissingExtraError, ShapeError
from representer.functional import green_function
from representer.functional.activations import Green
from representer.nn.activation import compaction
from representer.nn.layer import check_dense, check_flag, leaf_of_fx
from representer.ops.common import has_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Initialization of an expansion by fitting a function.

INITIAL: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "identity": lambda a: a,
}
"""Initial functions by name; ``"random"`` and ``"zeros"`` are not fitted."""

WITHOUT_LINE = ("abs", "tanh"), ("cubic", "tanh"), ("relu", "relu")
"""Green and initial functions: sums of the first follow the second without a line, at all inputs.

Without a line, sums of |u| have opposite slopes at both ends, and those of max(0, u) are 0 at one.
"""

# Relative to the largest eigenvalue. Gaussians at close centers are nearly collinear, and would be
# fitted with large coefficients of opposite signs.
RIDGES = {"abs": 1e-13, "relu": 1e-13, "cubic": 1e-13}
RIDGE = 1e-7
FIT_POINTS = 401


def is_range(limits: Any) -> bool:
    """Return whether these are two finite numbers, the lower one first."""
    if not isinstance(limits, Collection) or len(limits) != 2 or not all(map(is_number, limits)):
        return False
    low, high = limits
    return bool(-math.inf < low < high < math.inf)


def checked_range(limits: tuple[float, float], init: Any) -> tuple[float, float]:
    """Return the range of the centers, after a check of the initial function, too."""
    if not is_range(limits):
        raise ArgumentError("limits", limits, "two finite numbers, the lower one first")
    low, high = limits
    if not callable(init) and init not in (*INITIAL, "random", "zeros"):
        names = ", ".join(("random", "zeros", *INITIAL))
        raise ArgumentError("init", init, f"one of {names}, or a function")
    return float(low), float(high)


def even_centers(limits: tuple[float, float], count: int) -> Tensor:
    """Return centers evenly spaced on the range, with the one nearest to 0 moved to 0.

    Common activations have their corner at 0.
    """
    low, high = limits
    if count == 1:
        return torch.tensor([min(max(0.0, low), high)])
    even = torch.linspace(low, high, count)
    if low < 0 < high and count > 2:
        even[1 + even[1:-1].abs().argmin()] = 0.0
    return even


def fitted(
    function: Callable[[Tensor], Tensor], centers: Tensor, *, green: str | Green, bandwidth: float,
    limits: tuple[float, float], has_line: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    r"""Fit coefficients, and slope and intercept of a line, to a function.

    They minimize :math:`\sum_j (f(a_j) - \sum_k \chi_k g(a_j - c_k) - \theta a_j - \nu)^2` over an
    even grid of the range, with a small ridge penalty on the coefficients. Cubic functions are
    natural splines, straight beyond all centers: sums of coefficients, and of their products with
    the centers, are 0. The coefficients are ``(F, K)``, and the lines ``(F, 2)``, 0 without
    ``has_line``.
    """
    grid = torch.linspace(*limits, FIT_POINTS, dtype=torch.float64, device=centers.device)
    with torch.no_grad():
        wanted = function(grid)
        if not isinstance(wanted, Tensor) or wanted.shape != grid.shape:
            got = tuple(getattr(wanted, "shape", ()))
            raise ShapeError("init(a)", got, f"{tuple(grid.shape)}, the shape of a")
        if not wanted.isfinite().all():
            raise ArgumentError("init", function, f"a function that is finite on {limits}")
        g = green_function(green, bandwidth)
        c = centers.double()
        columns, basis = [g(grid[None, :, None] - c[:, None, :])], None
        if green == "cubic" and c.shape[1] > 2:
            vanishing = torch.stack((torch.ones_like(c), c), dim=-1)  # products with χ
            basis = torch.linalg.qr(vanishing, mode="complete").Q[..., 2:]
            columns[0] = columns[0] @ basis
        count = columns[0].shape[-1]
        if has_line:
            line = torch.stack((grid, torch.ones_like(grid)), dim=-1)
            columns.append(line.expand(len(centers), *line.shape))
        design = torch.cat(columns, dim=-1)  # (F, points, K or K + 2)
        solution = solved(design, wanted.double()[:, None], count, green)
    chi = solution[:, :count] if basis is None else basis @ solution[:, :count]
    lines = solution[:, count:, 0] if has_line else solution.new_zeros(len(centers), 2)
    return chi[..., 0].to(centers.dtype), lines.to(centers.dtype)


def solved(design: Tensor, targets: Tensor, count: int, green: str | Green) -> Tensor:
    """Solve least squares with a small ridge penalty on the first ``count`` columns.

    ``design`` is ``(F, points, columns)``, ``targets`` ``(F, points, J)`` or without F; the
    solution is ``(F, columns, J)``. With "abs", "relu" and "cubic", it does not depend on the unit
    of the inputs.
    """
    ridge = RIDGES.get(green, RIDGE) if isinstance(green, str) else RIDGE
    scale = torch.linalg.vector_norm(design, dim=1, keepdim=True)
    scale[..., :count] = scale[..., :count].amax(-1, keepdim=True)
    scale = torch.where((scale > 0) & (ridge != RIDGE), scale, 1.0)
    design = design / scale
    normal = design.mT @ design
    largest = torch.linalg.matrix_norm(normal, ord=2)[:, None, None]
    largest = torch.where(largest > 0, largest, 1.0)
    eye = torch.eye(normal.shape[-1], dtype=normal.dtype, device=normal.device)
    eye[count:] = 0  # no penalty on the line
    # The penalty as rows of its own: normal equations would square the condition number, and the
    # sum of errors of nearly collinear columns is a slope beyond the range.
    rows = torch.cat((design, (ridge * largest).sqrt() * eye), dim=1)
    wanted = targets.expand(len(design), *targets.shape[-2:])
    wanted = torch.nn.functional.pad(wanted, (0, 0, 0, len(eye)))
    return torch.linalg.lstsq(rows, wanted, driver="gels").solution / scale.mT


# Piecewise-linear functions given by their corners, for export and plots.


class PiecewiseLinear(nn.Module):
    r"""Piecewise-linear functions, one for each feature, that are not trained.

    .. math::
        f_i(a) = y_{ij} + \frac{y_{i,j+1} - y_{ij}}{k_{i,j+1} - k_{ij}} (a - k_{ij}), \qquad
        k_{ij} < a \le k_{i,j+1}

    Args:
        knots: Positions of the corners ``(F, K)``, ascending.
        values: Values of the function at the corners ``(F, K)``.
        slopes: Slopes before the first and after the last corner ``(F, 2)``.
        dim: The dimension of the features.

    Shape:
        - input with F features in ``dim``, or any shape for F = 1; output the same

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        (5): the form of a `KernelActivation` with ``green="abs"`` or ``"relu"``.
    """

    knots: Tensor
    values: Tensor
    slopes: Tensor

    def __init__(self, knots: Tensor, values: Tensor, slopes: Tensor, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim
        for name, tensor in (("knots", knots), ("values", values), ("slopes", slopes)):
            self.register_buffer(name, tensor.detach().clone())

    def forward(self, input: Tensor) -> Tensor:
        """Apply the functions elementwise."""
        if len(self.knots) == 1:
            return self._evaluate(input.reshape(-1, 1)).reshape(input.shape)
        return self._evaluate(input.movedim(self.dim, -1)).movedim(-1, self.dim)

    def _evaluate(self, a: Tensor) -> Tensor:
        """Evaluate with the features last, with elementwise operations and lookups only."""
        knots, values = self.knots, self.values
        last = knots.shape[1] - 1
        rows = a.reshape(-1, a.shape[-1])
        below = (rows[..., None] > knots).sum(-1)  # number of corners below, 0 to K
        start = (below - 1).clamp(0, last)
        feature = torch.arange(len(knots), device=a.device)
        steps = (values[:, 1:] - values[:, :-1]) / (knots[:, 1:] - knots[:, :-1])
        slope = torch.cat((self.slopes[:, :1], steps, self.slopes[:, 1:]), dim=1)[feature, below]
        return (values[feature, start] + slope * (rows - knots[feature, start])).reshape(a.shape)


# Plots of learned activations.

PLOT_POINTS = 801
INK, STEEP = "#3b82c4", "#d9822b"


def plotted(activation: KernelActivation, span: tuple[float, float], columns: int) -> Figure:
    """Plot every function on a range; see ``KernelActivation.plot``."""
    if not is_range(span):
        raise ArgumentError("span", span, "two finite numbers, the lower one first")
    low, high = span
    if columns < 1:
        raise ArgumentError("columns", columns, "1 or more")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot()", "matplotlib", "train") from error
    grid = torch.linspace(low, high, PLOT_POINTS, dtype=torch.float64)
    values = compaction.exact_values(
        activation, grid[:, None].expand(-1, activation.num_features)
    ).T
    steepest = (values.diff(dim=1) / (grid[1] - grid[0])).abs().amax(1).tolist()
    columns = min(columns, activation.num_features)
    rows = -(-activation.num_features // columns)
    figure = Figure(figsize=(1.6 * columns, 1.3 * rows), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in every[activation.num_features :]:
        axes.set_axis_off()
    for axes, y, steep in zip(every, values.tolist(), steepest, strict=False):
        axes.plot(grid.tolist(), y, color=INK, linewidth=1.2)
        axes.tick_params(labelsize=8)
        for spine in axes.spines.values() if steep > 1 else ():
            spine.set(linestyle=(0, (4, 2)), color=STEEP)
    return figure


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
        linear_term: Add a line :math:`\theta_i a + \nu_i`. By default there is one where
            ``"abs"``, ``"relu"`` and ``"cubic"`` need it to follow an initial function, and its
            slopes beyond all centers: for all but ``"tanh"`` with ``"abs"`` and ``"cubic"``, and
            ``"relu"`` with ``"relu"``.
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
        linear_term: bool | None = None,
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
        if linear_term is not None:
            linear_term = check_flag("linear_term", linear_term)
        normalize = check_flag("normalize", normalize)
        green_function(green, bandwidth)  # raises an error for an invalid one
        self.limits = checked_range(limits, init)
        self.num_features, self.num_centers = num_features, num_centers
        self.green, self.bandwidth = green, bandwidth
        self._init, self.dim = (init,), dim  # in a tuple, so that torch does not register it
        shape, options = (num_features, num_centers), {"device": device, "dtype": dtype}
        self.centers = nn.Parameter(torch.empty(shape, **options))
        self.coefficients = nn.Parameter(torch.empty(shape, **options))
        self.line: nn.Parameter | None = None
        if linear_term is None:
            is_fitted = init not in ("random", "zeros") and green in [*RIDGES]
            linear_term = is_fitted and (green, init) not in WITHOUT_LINE
        if linear_term:
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
            KindError: If the coefficients are parametrized or pruned by torch.
        """
        compaction.check_parameter("coefficients", self.coefficients)
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
        check_dense(input)
        if self.num_features == 1:  # any shape
            return self._evaluate(input.reshape(-1, 1)).reshape(input.shape)
        self._check(input)
        output = self._evaluate(input.movedim(self.dim, -1)).movedim(-1, self.dim)
        return output.contiguous() if input.is_contiguous() else output  # for .view()

    @classmethod
    def from_data(
        cls,
        a: Any,
        y: Any,
        smoothness: float,
        *,
        weights: Any = None,
        green: str | Green = "abs",
        limits: tuple[float, float] = (-4.0, 4.0),
        normalize: bool = False,
        bandwidth: float = 1.0,
        dim: int = -1,
        dtype: torch.dtype | None = None,
    ) -> KernelActivation:
        r"""Return the expansion over a training set, the best smooth function of each feature.

        It minimizes :math:`\frac{\mu}{2} (Pf, Pf) + \frac12 \sum_\kappa w_\kappa (y_\kappa -
        f(a_\kappa))^2` with free ends (M18 (2)-(5)): a center at every input, in O(N³).

        Args:
            a: Inputs ``(N,)`` or ``(N, F)``, which may repeat.
            y: Targets, of the same shape.
            smoothness: μ, as scipy's ``lam`` of a smoothing spline.
            weights: Positive weights of the targets, of the same shape; 1 by default.
            green: The name of g.
            limits: The range, extended to that of the inputs.
            normalize: Fit on inputs normalized by their mean and variance, the running statistics.
            bandwidth: s of a Gaussian.
            dim: The dimension of the features in later inputs.
            dtype: Dtype of the parameters; by default that of a, or float64 if a is no tensor.

        Raises:
            ArgumentError: If a number is not finite, or the smoothness or a weight not positive.
            ShapeError: If the shapes differ or are not ``(N,)`` or ``(N, F)``.
        """
        is_float = isinstance(a, Tensor) and a.is_floating_point()
        inputs = a if is_float else torch.as_tensor(a, dtype=torch.float64)
        if inputs.dim() not in (1, 2) or not inputs.numel():
            raise ShapeError("a", tuple(inputs.shape), "(N,) or (N, F)")
        like = {"dtype": torch.float64, "device": inputs.device}
        points, targets = inputs.detach().to(**like), torch.as_tensor(y, **like).detach()
        w = torch.ones_like(points) if weights is None else torch.as_tensor(weights, **like)
        for name, value in (("a", points), ("y", targets), ("weights", w)):
            if value.shape != points.shape:
                expected = f"{tuple(points.shape)}, the shape of a"
                raise ShapeError(name, tuple(value.shape), expected)
            if not value.isfinite().all() or (name == "weights" and not (value > 0).all()):
                rule = "finite and positive numbers" if name == "weights" else "finite numbers"
                raise ArgumentError(name, "the given values", rule)
        if not is_number(smoothness) or not 0 < smoothness < math.inf:
            raise ArgumentError("smoothness", smoothness, "a positive number")
        rows, targets, w = (v.reshape(len(v), -1) for v in (points, targets, w))
        mean, var = rows.mean(0), rows.var(0, correction=0)
        if normalize:
            rows = (rows - mean) / (var + 1e-5).sqrt()  # eps of torch.nn.BatchNorm1d
        chi, line = compaction.expansion(rows.T, targets.T, w.T, smoothness, green, bandwidth)
        span = min(limits[0], float(rows.min())), max(limits[1], float(rows.max()))
        made = {"device": inputs.device, "dtype": dtype or inputs.dtype}
        size, has_line = (rows.shape[1], len(rows)), green != "gaussian"
        activation = cls(
            *size, green, span, "zeros", has_line, normalize, bandwidth, dim=dim, **made
        )
        with torch.no_grad():
            activation.centers.copy_(rows.T)
            activation.coefficients.copy_(chi)
            if activation.line is not None:
                activation.line.copy_(line)
            if activation.norm is not None:
                state = {"running_mean": mean, "running_var": var}
                activation.norm.load_state_dict(state, strict=False)
        return activation

    def penalty(self, norm: Literal["l1", "smoothness"] = "l1") -> Tensor:
        r"""Return a penalty on the functions of all features.

        Args:
            norm: ``"l1"``, :math:`\sum |\chi_{ik}|` (M18 section 3), or ``"smoothness"``,
                :math:`\frac12 \sum_i (Pf_i, Pf_i)` over ``limits`` (M18 (2)), of f as a function of
                the normalized input with ``normalize``.

        Raises:
            ArgumentError: If there is no such penalty, or P is unknown, as for a g without a name.
        """
        if norm == "l1":
            return self.coefficients.abs().sum()
        if norm != "smoothness":
            raise ArgumentError("norm", norm, "'l1' or 'smoothness'")
        options = {"green": self.green, "bandwidth": self.bandwidth, "limits": self.limits}
        return (
            compaction.squared_norm(self.centers, self.coefficients, self.line, **options).sum() / 2
        )

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
            KindError: If centers or coefficients are parametrized or pruned by torch.
        """
        if not tolerance >= 0:
            raise ArgumentError("tolerance", tolerance, "0 or more")
        places = compaction.sampled(self)
        before = compaction.exact_values(self, places)
        allowed = tolerance + compaction.rounding_error(self, places)
        old = self.centers.data, self.coefficients.data
        self._set(*compaction.compacted(self, tolerance))
        change = float((compaction.exact_values(self, places) - before).abs().max())
        if change > allowed:
            self._set(*old)
            return 0.0
        self._restart()
        return change

    def _set(self, centers: Tensor, coefficients: Tensor) -> None:
        compaction.check_parameter("centers", self.centers)
        compaction.check_parameter("coefficients", self.coefficients)
        self.centers.data, self.coefficients.data = centers, coefficients
        self.num_centers = centers.shape[1]

    def _restart(self) -> None:
        """Forget gradients and their averages, which have the old number of centers."""
        for parameter in (self.centers, self.coefficients):
            parameter.grad = None
            compaction.restart_moments(parameter)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **options: Any
    ) -> None:
        """Load a state of any number of centers, as `compact` may have changed it."""
        saved = state_dict.get(prefix + "centers")
        shape = tuple(getattr(saved, "shape", ()))
        if len(shape) == 2 and shape[0] == self.num_features and shape[1] != self.num_centers:
            self._set(self.centers.new_zeros(shape), self.coefficients.new_zeros(shape))
            self._restart()
        super()._load_from_state_dict(state_dict, prefix, *rest, **options)

    def to_piecewise_linear(self) -> PiecewiseLinear:
        """Return f as a function given by its corners, for export and plots.

        Normalization is not included.

        Raises:
            KindError: If g is not ``"abs"`` or ``"relu"``, so f is not piecewise linear.
        """
        if self.green not in compaction.CORNERS:
            expected = f"one of {', '.join(compaction.CORNERS)}, for which f is piecewise linear"
            raise KindError("green", repr(self.green), expected)
        return PiecewiseLinear(*compaction.corners(self), dim=self.dim)

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
