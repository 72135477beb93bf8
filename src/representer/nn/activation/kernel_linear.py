"""A layer with a learned function on every edge, and networks of such layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import functional, ops
from representer.checks import SuggestsArguments, check_integer
from representer.errors import ArgumentError, KindError, MissingExtraError, ShapeError
from representer.functional import green_function
from representer.functional.activations import Green
from representer.nn.activation.compaction import check_parameter, restart_moments, squared_norm
from representer.nn.activation.kernel_activation import INITIAL, checked_range, even_centers, solved
from representer.nn.layer import check_dense, check_flag, leaf_of_fx
from representer.ops.common import has_values, without_autocast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASES: dict[str, Callable[[Tensor], Tensor]] = {"identity": lambda x: x, "silu": F.silu}
"""The function b of the term θ b(x), by name."""
STEEPEST = {"identity": 1.0, "silu": 1.1}  # the largest slope of each
NOISE = 0.1  # of initial functions, relative to their linear part
FIT_POINTS = 201
GRID = 4001  # points of a range on which functions that are no polynomials are bounded


def signed_square(u: Tensor) -> Tensor:
    """Return u |u|, the g of splines of degree 2."""
    return u * u.abs()


EdgeInit = Literal["random", "zeros", "relu", "tanh", "identity"] | Callable[[Tensor], Tensor]


class KernelLinear(SuggestsArguments, nn.Module):
    r"""A linear layer whose weights are learned functions, one on every edge.

    .. math::
        y_j = \sum_i f_{ij}(x_i) + \beta_j, \qquad
        f_{ij}(a) = \sum_{k=1}^{K} \chi_{ijk}\, g(a - c_{ik}) + \theta_{ij}\, b(a)

    Each function is the kernel expansion of a `KernelActivation`, the best one under the penalty of
    M18 (2); the edges of an input share its centers. For ``"abs"``, ``"relu"`` and ``"cubic"`` an
    input then costs a search and two or four rows of a table, whatever K. Kolmogorov-Arnold
    networks have such layers, with B-splines for f and a SiLU for b: see `KAN`.

    Args:
        in_features: I.
        out_features: J.
        num_centers: K.
        green: g: ``"abs"`` :math:`|u|` and ``"relu"`` (f is piecewise linear), ``"cubic"``
            :math:`|u|^3` (a cubic spline), ``"gaussian"`` :math:`e^{-u^2/2s^2}`, or an elementwise
            function, which is summed over all centers.
        limits: The range of the centers, which are evenly spaced at first.
        init: ``"random"``: a linear layer of torch plus small random functions; ``"zeros"``: a
            linear layer of torch; or an elementwise function h or its name:
            :math:`f_{ij} = w_{ij} h` with weights drawn as those of a linear layer.
        linear_term: Add the term :math:`\theta_{ij} b(a)`.
        bias: Add :math:`\beta`.
        bandwidth: s of a Gaussian; the distance of two centers by default.
        learn_centers: Make the centers parameters, which are trained. By default they are a buffer;
            `refine` and `fit_grid` change them.
        base: b: ``"identity"`` or ``"silu"``.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Attributes:
        centers: c ``(I, K)``; may be modified in place, in any order.
        coefficients: :math:`\chi` ``(I, J, K)``; with `train_values` no parameter.
        trains_values: Whether the values at the centers are the parameter.
        weight: :math:`\theta` ``(J, I)``, as that of a linear layer, or None.
        bias: :math:`\beta` ``(J,)``, or None.
        conversion_error: The largest error of a function, if splines were converted.

    Shape:
        - input ``(..., I)``; output ``(..., J)``

    Raises:
        ArgumentError: If an option has an invalid value.

    References:
        Marra, Zanca, Betti & Gori, Learning Neuron Non-Linearities with Kernel-Based Deep Neural
        Networks, 2018, (2)-(6), for edges.
        Liu et al., KAN: Kolmogorov-Arnold Networks, 2024, (2.5), (2.10).
    """

    centers: Tensor
    trains_values = False
    conversion_error: float | None = None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        num_centers: int = 8,
        green: str | Green = "abs",
        limits: tuple[float, float] = (-3.0, 3.0),
        init: EdgeInit = "random",
        linear_term: bool = True,
        bias: bool = True,
        *,
        bandwidth: float | None = None,
        learn_centers: bool = False,
        base: str = "identity",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = in_features, out_features, num_centers
        names = "in_features", "out_features", "num_centers"
        for name, count in zip(names, sizes, strict=True):
            check_integer(name, count)
        self.limits = low, high = checked_range(limits, init)
        if base not in BASES:
            raise ArgumentError("base", base, f"one of {', '.join(BASES)}")
        self.in_features, self.out_features, self.num_centers = sizes
        self.base, self._init = base, (init,)  # in a tuple, so that torch does not register it
        self.bandwidth = (high - low) / max(1, num_centers - 1) if bandwidth is None else bandwidth
        green_function(green, self.bandwidth)  # raises an error for an invalid one
        self.green, self.learn_centers = green, check_flag("learn_centers", learn_centers)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        centers = torch.empty(in_features, num_centers, **made)
        if learn_centers:
            self.centers = nn.Parameter(centers)
        else:
            self.register_buffer("centers", centers)
        shape = in_features, out_features, num_centers
        self.register_parameter("coefficients", nn.Parameter(torch.empty(shape, **made)))
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if check_flag("linear_term", linear_term):
            self.weight = nn.Parameter(torch.empty(out_features, in_features, **made))
        if check_flag("bias", bias):
            self.bias = nn.Parameter(torch.empty(out_features, **made))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Reinitialize all parameters, with evenly spaced centers."""
        if not has_values(self.coefficients):
            return
        (init,), deviation = self._init, self.in_features**-0.5
        self.centers.copy_(even_centers(self.limits, self.num_centers))
        weight = torch.empty_like(self.coefficients[..., 0]).uniform_(-deviation, deviation)
        if self.bias is not None:
            self.bias.uniform_(-deviation, deviation)
        if self.weight is not None:
            self.weight.copy_(weight.T)
        if init == "zeros":
            self._set_coefficients(torch.zeros_like(self.coefficients))
            return
        points = torch.linspace(*self.limits, FIT_POINTS, dtype=torch.float64)
        points = points.to(self.centers.device).expand(self.in_features, -1)
        if init == "random":
            heights = torch.randn_like(self.coefficients.double()) * NOISE * deviation / 3**0.5
            if self.weight is None:  # the linear part is one of the functions
                heights += weight[..., None] * self.centers[:, None]
            g = green_function(self.green, self.bandwidth)
            gram = g(self.centers.double()[..., None] - self.centers.double()[:, None])
            self._set_coefficients(solved(gram, heights.mT, self.num_centers, self.green).mT)
            return
        function = init if callable(init) else INITIAL[init]
        targets = function(points)[:, None] * weight[..., None]
        self._set_functions(*self._fit(points, targets))

    @leaf_of_fx
    def forward(self, input: Tensor) -> Tensor:
        """Sum the functions of all inputs for each output.

        Raises:
            ShapeError: If the last dimension has another size than ``in_features``.
            KindError: If dtype or device differs from that of the parameters.
        """
        check_dense(input)
        if not input.dim() or input.shape[-1] != self.in_features:
            raise ShapeError("input", tuple(input.shape), f"(..., {self.in_features})")
        c = self.centers
        chi = self.values @ self.inverse if self.trains_values else self.coefficients
        if isinstance(self.green, str):
            total = ops.edge_activation(input, c, chi, green=self.green, bandwidth=self.bandwidth)
        else:
            with without_autocast(input):  # in 16 bits, large terms would not cancel
                total = functional.edge_activation(input.to(chi), c, chi, green=self.green)
        if self.weight is not None:
            return total + F.linear(BASES[self.base](input), self.weight, self.bias)
        return total if self.bias is None else total + self.bias

    def contributions(self, input: Tensor) -> Tensor:
        """Return the value of each function ``(..., I, J)``.

        Their sum over I, and the bias, is the output.
        """
        g = green_function(self.green, self.bandwidth)(input[..., None] - self.centers)
        each = torch.einsum("...ik,ijk->...ij", g, self.coefficients)
        if self.weight is not None:
            each = each + BASES[self.base](input)[..., None] * self.weight.T
        return each

    def penalty(self, norm: Literal["l1", "smoothness"] = "l1") -> Tensor:
        r"""Return a penalty on all functions, as that of `KernelActivation`.

        Args:
            norm: ``"l1"``, :math:`\sum |\chi_{ijk}|`, or ``"smoothness"``,
                :math:`\frac12 \sum_{ij} (Pf_{ij}, Pf_{ij})` over ``limits`` (M18 (2)), of the
                expansions with a linear term if b is the identity.

        Raises:
            ArgumentError: If there is no such penalty, or P is unknown, as for a g without a name.
        """
        if norm == "l1":
            return self.coefficients.abs().sum()
        if norm != "smoothness":
            raise ArgumentError("norm", norm, "'l1' or 'smoothness'")
        centers = self.centers[:, None].expand_as(self.coefficients).flatten(0, 1)
        line = None
        if self.weight is not None and self.base == "identity":
            slopes = self.weight.T.flatten()
            line = torch.stack((slopes, torch.zeros_like(slopes)), dim=1)
        options = {"green": self.green, "bandwidth": self.bandwidth, "limits": self.limits}
        return squared_norm(centers, self.coefficients.flatten(0, 1), line, **options).sum() / 2

    # The grid of centers, and the values there.

    def train_values(self, mode: bool = True) -> KernelLinear:
        """Let optimizers see the expansions' values at the centers in place of the coefficients.

        The functions stay the same. Coefficients are differences of neighboring values, and far
        from independent of each other: optimizers that reach a thousandth of the error on values
        stop early on them, or diverge. It costs a product with a ``(K, K)`` matrix for each input
        and call. The parameter is ``values`` ``(I, J, K)`` then, and ``coefficients`` follow from
        it. Make the optimizer afterwards.

        Args:
            mode: False for the coefficients again.

        Raises:
            KindError: If the values do not determine the coefficients well: with one center,
                learned centers, or a g other than ``"abs"``, which has the functions of ``"relu"``,
                and ``"cubic"``.
        """
        if mode and not self.values_suffice:
            expected = "fixed centers, two or more, and green 'abs' or 'cubic'"
            raise KindError("layer", repr(self), expected)
        chi = self.coefficients.detach()
        self.trains_values = mode
        if mode:
            self._parameters.pop("coefficients", None)
            self.register_buffer("inverse", self._inverse())
            self.register_parameter("values", nn.Parameter(chi @ self._gram()))
        elif "values" in self._parameters:
            del self.values, self.inverse
            self.register_parameter("coefficients", nn.Parameter(chi))
        return self

    @property
    def values_suffice(self) -> bool:
        """True if the values at the centers determine the coefficients."""
        is_regular = self.green in ("abs", "cubic")  # bells of close centers are nearly equal
        return is_regular and not self.learn_centers and self.num_centers > 1

    def _gram(self) -> Tensor:
        g = green_function(self.green, self.bandwidth)
        return g(self.centers[..., None] - self.centers[:, None])

    def _inverse(self) -> Tensor:
        if not has_values(self.centers):
            return torch.empty_like(self._gram())
        return torch.linalg.inv(self._gram().double()).to(self.centers).contiguous()

    def __getattr__(self, name: str) -> Any:
        if name == "coefficients" and "values" in self.__dict__.get("_parameters", ()):
            return self.values @ self.inverse
        return super().__getattr__(name)

    @torch.no_grad()
    def refine(self, num_centers: int) -> None:
        """Add centers in the middle of the widest gaps; no function changes.

        The parameters become longer but stay the same objects, which optimizers hold; an optimizer
        of torch then starts anew with its averages of their gradients.

        Args:
            num_centers: The new K, at least the current one.

        Raises:
            ArgumentError: If it is smaller than the current one.
        """
        if check_integer("num_centers", num_centers) < self.num_centers:
            raise ArgumentError("num_centers", num_centers, f"{self.num_centers} or more")
        centers = self.centers.detach().clone()
        for _ in range(num_centers - self.num_centers):
            low, high = (centers.new_full((len(centers), 1), x) for x in self.limits)
            knots = torch.cat((centers, low, high), dim=1).sort(dim=1).values
            gap = knots.diff(dim=1).argmax(1, keepdim=True)
            middle = (knots.gather(1, gap) + knots.gather(1, gap + 1)) / 2
            centers = torch.cat((centers, middle), dim=1)
        self._regrid(centers, F.pad(self.coefficients, (0, num_centers - self.num_centers)))

    @torch.no_grad()
    def fit_grid(self, x: Tensor, uniform: float = 0.05) -> float:
        """Move the centers to quantiles of data, and fit the functions anew.

        Args:
            x: Inputs ``(..., I)``; ``limits`` becomes their range.
            uniform: The share of an even grid over each input's range in its centers, so that they
                differ where data repeat.

        Returns:
            The largest change of a function at the data.
        """
        rows = x.detach().reshape(-1, self.in_features)
        if not len(rows) or not rows.isfinite().all():
            raise ArgumentError("x", tuple(x.shape), "one finite row or more")
        rows = rows[:: max(1, len(rows) // 2000)].double()
        share = torch.linspace(0, 1, self.num_centers, dtype=torch.float64, device=rows.device)
        low, high = rows.amin(0), rows.amax(0)
        even = low + share[:, None] * (high - low).clamp(min=1e-6)
        centers = (1 - uniform) * rows.quantile(share, dim=0) + uniform * even
        points = torch.cat((rows, centers)).T
        before = self.expansions(points)
        self.limits = (float(low.min()), max(float(high.max()), float(low.min()) + 1e-6))
        self._regrid(centers.T.to(self.centers), self.coefficients.detach())
        chi, lines = self._fit(points, before)
        self._set_functions(chi, lines, adds=True)
        slopes, heights = lines[:, :1].mT, lines[:, 1:].mT
        after = self.expansions(points) + slopes * points[:, None] + heights
        return float((after - before).abs().max())

    def _regrid(self, centers: Tensor, coefficients: Tensor) -> None:
        name = "values" if self.trains_values else "coefficients"
        parameter = cast(nn.Parameter, getattr(self, name))
        check_parameter(name, parameter)
        self.num_centers = centers.shape[1]
        learned: Any = self._parameters.get("centers")
        if learned is not None:
            learned.data, learned.grad = centers, None
            restart_moments(learned)
        else:
            self.centers = centers
        if self.trains_values:
            coefficients = coefficients @ self._gram()
            self.inverse = self._inverse()
        parameter.data, parameter.grad = coefficients, None
        restart_moments(parameter)

    def expansions(self, points: Tensor) -> Tensor:
        """Return the expansions, without the linear term, at points ``(I, P)``: ``(I, J, P)``."""
        u = points[:, None] - self.centers.detach().double()[..., None]
        g = green_function(self.green, self.bandwidth)(u)
        return self.coefficients.detach().double() @ g

    def _fit(self, points: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Fit targets ``(I, J, P)`` at points ``(I, P)``: return χ, and slopes and heights.

        Without a linear term or bias, or with another b, no line is fitted.
        """
        u = points[..., None] - self.centers.detach().double()[:, None]
        columns = [green_function(self.green, self.bandwidth)(u)]
        has_line = self.weight is not None and self.base == "identity"
        if has_line:
            columns.append(points[..., None])
        if self.bias is not None:
            columns.append(torch.ones_like(points[..., None]))
        solution = solved(torch.cat(columns, dim=-1), targets.mT, self.num_centers, self.green)
        lines = solution.new_zeros(*solution.shape[:1], 2, solution.shape[2])
        rest = solution[:, self.num_centers :]
        lines[:, :1] = rest[:, :1] if has_line else 0.0
        lines[:, 1:] = rest[:, -1:] if self.bias is not None else 0.0
        return solution[:, : self.num_centers].mT, lines

    def _set_coefficients(self, chi: Tensor) -> None:
        if self.trains_values:
            check_parameter("values", self.values)
            self.values.copy_(chi @ self._gram().to(chi))
        else:
            check_parameter("coefficients", self.coefficients)
            self.coefficients.copy_(chi)

    def _set_functions(self, chi: Tensor, lines: Tensor, adds: bool = False) -> None:
        self._set_coefficients(chi)
        if self.weight is not None:
            slopes = lines[:, 0].T.to(self.weight)
            self.weight.copy_(self.weight + slopes if adds else slopes)
        if self.bias is not None:
            height = lines[:, 1].sum(0).to(self.bias)
            self.bias.copy_(self.bias + height if adds else height)

    # Bounds, pruning and formulas.

    @torch.no_grad()
    def ranges(self) -> tuple[Tensor, Tensor]:
        """Return bounds of each function over ``limits``, ``(I, J)`` each.

        They are the exact minima and maxima for piecewise-linear functions and cubic splines, and
        for other functions those on a fine grid, less and plus what the slope allows beside it.

        Raises:
            KindError: If g is a function of the user, so that nothing is known of its slope.
        """
        if not (isinstance(self.green, str) or self.green is signed_square):
            raise KindError("green", "a function", "the name of one, to know its largest slope")
        low, high = self.limits
        c, chi = self.centers.double(), self.coefficients.double()
        ends = c.new_tensor(self.limits).expand(len(c), -1)
        knots = torch.cat((ends, c.clamp(low, high)), dim=1).sort(dim=1).values
        slack = c.new_zeros(chi.shape[:2])
        is_line = self.weight is None or self.base == "identity"
        if self.green in ("abs", "relu") and is_line:
            points = knots[:, None].expand(-1, self.out_features, -1)
        elif self.green == "cubic" and is_line:
            points = self._stationary(knots)
        else:
            grid = torch.linspace(low, high, GRID, dtype=c.dtype, device=c.device)
            points = grid.expand(*chi.shape[:2], -1)
            reach = torch.maximum((c - low).abs(), (c - high).abs())[:, None]
            steepest: dict[Any, Any] = {
                "gaussian": math.exp(-0.5) / self.bandwidth, "cubic": 3 * reach.square(),
                signed_square: 2 * reach,
            }  # fmt: skip
            slack = (chi.abs() * steepest.get(self.green, 1.0)).sum(-1)
            if self.weight is not None:
                slack = slack + self.weight.T.double().abs() * STEEPEST[self.base]
            slack = slack * (high - low) / (2 * (GRID - 1))
        values = self._values(points)
        return values.amin(-1) - slack, values.amax(-1) + slack

    def _values(self, points: Tensor) -> Tensor:
        """Return f at points of each edge ``(I, J, P)``, in float64."""
        total = torch.zeros_like(points)
        g = green_function(self.green, self.bandwidth)
        for k in range(self.num_centers):
            u = points - self.centers[:, k, None, None].double()
            total = total + self.coefficients[..., k, None].double() * g(u)
        if self.weight is not None:
            total = total + self.weight.T[..., None].double() * BASES[self.base](points)
        return total

    def _stationary(self, knots: Tensor) -> Tensor:
        """Return the knots and the points between them where a cubic spline has slope 0."""
        left, right = (x[:, None].expand(-1, self.out_features, -1)
                       for x in (knots[:, :-1], knots[:, 1:]))  # fmt: skip
        points = [left, right[..., -1:]]
        # f' is a parabola between two knots: from its values at the ends and in the middle
        a, b, c = (self._slopes(x) for x in (left, (left + right) / 2, right))
        second, first = 2 * (a - 2 * b + c), 4 * b - 3 * a - c
        root = (first.square() - 4 * second * a).clamp(min=0).sqrt()
        stable = -(first + torch.where(first < 0, -root, root)) / 2
        for t in (stable / second, a / stable):
            t = torch.nan_to_num(t, nan=0.0, posinf=0.0, neginf=0.0).clamp(0, 1)
            points.append(left + t * (right - left))
        return torch.cat(points, dim=-1)

    def _slopes(self, points: Tensor) -> Tensor:
        total = torch.zeros_like(points)
        for k in range(self.num_centers):
            u = points - self.centers[:, k, None, None].double()
            total = total + 3 * self.coefficients[..., k, None].double() * u * u.abs()
        return total if self.weight is None else total + self.weight.T[..., None].double()

    @torch.no_grad()
    def prune(self, tolerance: float) -> Tensor:
        """Set the flattest functions to constants, while no output changes by more than a bound.

        A function that is replaced by the middle of its range changes by half of it at most; the
        bound of an output is the sum over its functions, and holds for all inputs in ``limits``.

        Args:
            tolerance: The largest allowed change of an output.

        Returns:
            The bound of each output ``(J,)``, with rounding errors of the dtype.

        Raises:
            ArgumentError: If the tolerance is negative.
        """
        if not tolerance >= 0:
            raise ArgumentError("tolerance", tolerance, "0 or more")
        low, high = self.ranges()
        middle = (low + high) / 2 if self.bias is not None else torch.zeros_like(low)
        change = torch.maximum(high - middle, middle - low)
        reach = max(map(abs, self.limits))
        size = (self.coefficients.abs().double().sum(-1) * self._largest()[:, None]).sum(0)
        if self.weight is not None:
            size = size + self.weight.abs().double().sum(1) * reach
        rounding = size * 8 * torch.finfo(self.coefficients.dtype).eps
        order = change.argsort(dim=0)
        running = change.gather(0, order).cumsum(0)
        is_dropped = torch.zeros_like(change, dtype=torch.bool)
        is_dropped.scatter_(0, order, running + rounding <= tolerance)
        self._set_coefficients(self.coefficients.masked_fill(is_dropped[..., None], 0.0))
        if self.weight is not None:
            self.weight[is_dropped.T] = 0.0
        if self.bias is not None:
            self.bias.add_(torch.where(is_dropped, middle, 0.0).sum(0).to(self.bias))
        bound = torch.where(is_dropped, change, 0.0).sum(0)
        return torch.where(is_dropped.any(0), bound + rounding, bound).to(self.coefficients.device)

    def _largest(self) -> Tensor:
        """Return the largest |g(a - c)| of each input over the limits ``(I,)``."""
        c = self.centers.detach().double()
        ends = c.new_tensor(self.limits)[:, None, None]
        g = green_function(self.green, self.bandwidth)
        at_ends = g(ends - c).abs().amax(0)
        return torch.maximum(at_ends, g(torch.zeros_like(c)).abs()).amax(1)

    def formulas(self, points: int = 401) -> list[Formula]:
        """Suggest a formula for each function, with its measured error; see `Formula`."""
        grid = torch.linspace(*self.limits, points, dtype=torch.float64)
        device = self.coefficients.device
        with torch.no_grad():
            values = self._values(grid.to(device).expand(*self.coefficients.shape[:2], -1)).cpu()
        return [
            suggested(i, j, grid, values[i, j])
            for i in range(self.in_features)
            for j in range(self.out_features)
        ]

    def plot(self, points: int = 201) -> Figure:
        """Plot all functions over ``limits``: a column for each input, a row for each output.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        return drawn([self], points)

    def extra_repr(self) -> str:
        """Return the options."""
        green = self.green if isinstance(self.green, str) else "function"
        shown = f"{self.in_features}, {self.out_features}, {self.num_centers}, green={green!r}"
        shown += "" if self.weight is not None else ", linear_term=False"
        return shown + ("" if self.bias is not None else ", bias=False")

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **options: Any
    ) -> None:
        """Load a state of any number of centers, as `refine` may have changed it."""
        saved = state_dict.get(prefix + "centers")
        if isinstance(saved, Tensor) and saved.dim() == 2 and saved.shape[1] != self.num_centers:
            shape = self.in_features, self.out_features, saved.shape[1]
            self._regrid(saved.to(self.centers), self.coefficients.new_zeros(shape))
        super()._load_from_state_dict(state_dict, prefix, *rest, **options)


def drawn(layers: Sequence[KernelLinear], points: int = 201) -> Figure:
    """Plot all functions of some layers in one picture, one layer below the other."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot()", "matplotlib", "train") from error
    heights = [1.1 * layer.out_features + 0.4 for layer in layers]
    width = 1.3 * max(layer.in_features for layer in layers) + 0.4
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    panels = figure.subfigures(len(layers), 1, squeeze=False, height_ratios=heights)[:, 0]
    for layer, panel in zip(layers, panels, strict=True):
        grid = torch.linspace(*layer.limits, points, dtype=torch.float64)
        with torch.no_grad():
            spread = grid.to(layer.centers.device).expand(*layer.coefficients.shape[:2], -1)
            values = layer._values(spread).cpu()
        every = panel.subplots(layer.out_features, layer.in_features, squeeze=False, sharex=True)
        for j, row in enumerate(every):
            for i, axes in enumerate(row):
                axes.plot(grid.tolist(), values[i, j].tolist(), color="#3b82c4", linewidth=1.2)
                axes.tick_params(labelsize=6)
                if not j:
                    axes.set_title(f"input {i}", fontsize=7)
                if not i:
                    axes.set_ylabel(f"output {j}", fontsize=7)
    return figure


class Formula(NamedTuple):
    """A formula a h(p x + q) + d for the function of one edge."""

    input: int  # i
    output: int  # j
    text: str  # the formula, with x for the input
    error: float  # the largest error over the limits
    relative: float  # the error, divided by half of the function's range


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "({})^2": torch.square, "({})^3": lambda u: u**3, "|{}|": torch.abs, "sin({})": torch.sin,
    "exp({})": lambda u: u.clamp(max=30).exp(), "tanh({})": torch.tanh,
    "log(1 + ({})^2)": lambda u: u.square().log1p(), "1/(1 + ({})^2)": lambda u: 1 / (1 + u * u),
    "exp(-({})^2)": lambda u: (-u * u).exp(),
}  # fmt: skip
"""Functions h of formulas, beside constants and lines, which come first if they are as good."""
SCALES = tuple(2 ** (k / 2) for k in range(-4, 9))  # p, refined by halving steps
SHIFTS = 33  # values of -q / p over the limits


def suggested(i: int, j: int, x: Tensor, y: Tensor) -> Formula:
    """Return the formula with the smallest largest error on points ``(P,)``."""
    half = float(y.max() - y.min()) / 2
    best = (half, f"{float(y.max() + y.min()) / 2:.4g}")
    slope, height = _line(x, y)
    error = float((slope * x + height - y).abs().max())
    if half > 1e-9 and error < 0.999 * half:
        best = (error, f"{slope:.4g} x{_signed(height)}")
    for text, h in SHAPES.items() if best[0] > 1e-6 * max(half, 1e-12) else ():
        error, p, q, a, d = _fitted(h, x, y)
        if error < 0.9 * best[0]:
            inner = f"{p:.4g} x{_signed(q)}"
            best = (error, f"{a:.4g} {text.format(inner)}{_signed(d)}")
    return Formula(i, j, best[1], best[0], best[0] / half if half > 0 else 0.0)


def _signed(value: float) -> str:
    return "" if abs(value) < 5e-5 else f" {'-' if value < 0 else '+'} {abs(value):.4g}"


def _line(h: Tensor, y: Tensor) -> tuple[float, float]:
    """Return a and d of the least squares fit a h + d."""
    centered = h - h.mean()
    variance = float((centered * centered).sum())
    a = float((centered * y).sum()) / variance if variance > 1e-12 else 0.0
    return a, float(y.mean() - a * h.mean())


def _fitted(h: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> tuple[float, ...]:
    """Return the error and p, q, a, d of the best fit a h(p x + q) + d, by ever finer grids."""
    places = torch.linspace(float(x[0]), float(x[-1]), SHIFTS, dtype=x.dtype)
    p, s = torch.cartesian_prod(torch.tensor(SCALES, dtype=x.dtype), places).unbind(1)
    step_p, step_s = 2**0.25, float(x[-1] - x[0]) / (SHIFTS - 1) / 2
    error, best = math.inf, (0.0, 0.0, 0.0, 0.0)
    for _ in range(24):
        values = h(p[:, None] * (x - s[:, None]))
        centered = values - values.mean(1, keepdim=True)
        variance = centered.square().sum(1)
        a = torch.where(variance > 1e-12, centered @ (y - y.mean()) / variance, 0.0)
        d = y.mean() - a * values.mean(1)
        squares = (a[:, None] * values + d[:, None] - y).square().sum(1)
        n = int(torch.nan_to_num(squares, nan=math.inf).argmin())
        best = float(p[n]), float(s[n]), float(a[n]), float(d[n])
        error = float((a[n] * values[n] + d[n] - y).abs().max())
        factors = torch.tensor([1 / step_p, 1.0, step_p], dtype=x.dtype) * best[0]
        moves = torch.tensor([-step_s, 0.0, step_s], dtype=x.dtype) + best[1]
        p, s = torch.cartesian_prod(factors, moves).unbind(1)
        step_p, step_s = step_p**0.6, step_s * 0.6
    return error, best[0], -best[0] * best[1], best[2], best[3]
