r"""Kolmogorov-Arnold networks, and those of B-splines as kernel expansions.

A B-spline of degree m is a divided difference of truncated powers,

    B_l(a) = (t_{l+m+1} - t_l) [t_l, ..., t_{l+m+1}] (t - a)_+^m

and (t - a)_+^m = (s |t - a|^m + (t - a)^m) / 2, whose polynomial the difference removes; s is 1 for
odd m, else the sign of t - a. So a spline is an expansion by g = |u|, u |u| or |u|^3 with a center
at every knot, of which those by u |u| are summed over all centers.

Liu et al., KAN: Kolmogorov-Arnold Networks, 2024, (2.5)-(2.10).

de Boor, A Practical Guide to Splines, 1978, IX (2)-(4).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError
from representer.functional.activations import Green
from representer.nn.activation.kernel_linear import Formula, KernelLinear, drawn, signed_square

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BY_DEGREE: dict[int, str | Green] = {1: "abs", 2: signed_square, 3: "cubic"}


class KAN(nn.Module):
    r"""A network of `KernelLinear` layers, without other activations.

    .. math::
        x^{(l+1)}_j = \sum_i f^{(l)}_{ij}(x^{(l)}_i) + \beta^{(l)}_j

    The values of the functions at the centers are trained, where they determine the coefficients:
    see `KernelLinear.train_values`.

    Args:
        sizes: Features of the input, of each hidden layer and of the output.
        num_centers: K of each layer.
        green: g.
        limits: The range of the centers of each layer; `fit_grid` adapts them to data.
        **options: Other arguments of each `KernelLinear`.

    Attributes:
        layers: The layers, a ``torch.nn.ModuleList``.

    Shape:
        - input ``(..., sizes[0])``; output ``(..., sizes[-1])``

    Raises:
        ArgumentError: If there are fewer than two sizes, or an option is invalid.

    References:
        Liu et al., KAN: Kolmogorov-Arnold Networks, 2024, (2.7).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        num_centers: int = 8,
        green: str | Green = "abs",
        limits: tuple[float, float] = (-3.0, 3.0),
        **options: Any,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            raise ArgumentError("sizes", sizes, "two numbers or more: of the input and the output")
        self.layers = nn.ModuleList(
            KernelLinear(before, after, num_centers, green, limits, **options)
            for before, after in itertools.pairwise(sizes)
        )
        for layer in self._each():
            if layer.values_suffice:
                layer.train_values()

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layers in turn."""
        for layer in self.layers:
            input = layer(input)
        return input

    def penalty(self, norm: Literal["l1", "smoothness"] = "l1") -> Tensor:
        """Return the sum of the penalties of all layers; see `KernelLinear.penalty`."""
        return torch.stack([layer.penalty(norm) for layer in self._each()]).sum()

    def train_values(self, mode: bool = True) -> KAN:
        """Let optimizers see values at the centers; see `KernelLinear.train_values`."""
        for layer in self._each():
            layer.train_values(mode)
        return self

    def refine(self, num_centers: int) -> None:
        """Add centers to each layer; no function changes."""
        for layer in self._each():
            layer.refine(num_centers)

    @torch.no_grad()
    def fit_grid(self, x: Tensor) -> float:
        """Move the centers of each layer to quantiles of its input; return the largest change."""
        changes = []
        for layer in self._each():
            changes.append(layer.fit_grid(x))
            x = layer(x.to(layer.coefficients.dtype))
        return max(changes)

    def formulas(self, points: int = 401) -> list[list[Formula]]:
        """Suggest a formula for each function of each layer; see `KernelLinear.formulas`."""
        return [layer.formulas(points) for layer in self._each()]

    def plot(self, points: int = 201) -> Figure:
        """Plot the functions of all layers in one picture, one layer below the other.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        return drawn(self._each(), points)

    def _each(self) -> list[KernelLinear]:
        return [layer for layer in self.layers if isinstance(layer, KernelLinear)]

    @classmethod
    def from_efficient_kan(cls, source: nn.Module | Mapping[str, Tensor]) -> KAN:
        """Convert a network or layer of efficient-kan, or its state dict.

        Returns:
            The network, with one layer for a ``KANLinear``. ``conversion_error`` of each layer is
            the largest error of its functions over the splines' range, from rounding.

        Raises:
            KindError: If it has no such layers.
        """
        layers = []
        names = "base_weight", "spline_weight"
        for prefix, state in _layers(source, r"(layers\.\d+\.)?", names):
            chi = state["spline_weight"]
            if "spline_scaler" in state:
                chi = chi * state["spline_scaler"][..., None]
            edges = chi.transpose(0, 1), state["base_weight"]
            layers.append(_converted(state["grid"], *edges, prefix))
        return cls._of(layers)

    @classmethod
    def from_pykan(cls, source: nn.Module | Mapping[str, Tensor]) -> KAN:
        """Convert a network (``MultKAN``) or ``KANLayer`` of pykan, or its state dict.

        Returns:
            The network, as `from_efficient_kan` returns it.

        Raises:
            KindError: If it has no such layers, or has symbolic functions, or scales or shifts of
                nodes, which are no functions on edges.
        """
        state = source.state_dict() if isinstance(source, nn.Module) else dict(source)
        for name, value in state.items():
            neutral = 1.0 if "scale" in name.split(".")[0] else 0.0
            is_apart = name.startswith(("node_", "subnode_"))
            is_apart |= bool(re.match(r"symbolic_fun\.\d+\.mask", name))
            if is_apart and not bool((value == neutral).all()):
                raise KindError(name, "not neutral", f"all {neutral:g}, as in a network of splines")
        layers = []
        names = "coef", "scale_base", "scale_sp"
        for prefix, layer in _layers(state, r"(act_fun\.\d+\.)?", names):
            mask = layer.get("mask", torch.ones_like(layer["scale_base"]))
            chi = layer["coef"] * (mask * layer["scale_sp"])[..., None]
            base = (mask * layer["scale_base"]).T
            layers.append(_converted(layer["grid"], chi, base, prefix))
        return cls._of(layers)

    @classmethod
    def _of(cls, layers: list[KernelLinear]) -> KAN:
        network = cls([layers[0].in_features, *(layer.out_features for layer in layers)], 1)
        network.layers = nn.ModuleList(layers)
        return network


def _layers(
    source: Any, pattern: str, names: tuple[str, ...]
) -> list[tuple[str, dict[str, Tensor]]]:
    """Return the state of each layer, by its prefix in the order of the network."""
    state = source.state_dict() if isinstance(source, nn.Module) else source
    layers: dict[str, dict[str, Tensor]] = {}
    for name, value in state.items():
        if (match := re.match(pattern, name)) and "." not in (rest := name[match.end() :]):
            layers.setdefault(match.group(0), {})[rest] = value.detach()
    layers = {prefix: layer for prefix, layer in layers.items() if "grid" in layer}
    if not layers or any(name not in layer for layer in layers.values() for name in names):
        wanted = ", ".join(("grid", *names))
        raise KindError("source", f"with {', '.join(list(state)[:6])}", f"layers with {wanted}")
    return sorted(layers.items(), key=lambda pair: int("0" + "".join(filter(str.isdigit, pair[0]))))


def _converted(grid: Tensor, spline: Tensor, base: Tensor, prefix: str) -> KernelLinear:
    """Return a layer of knots ``(I, G)``, coefficients ``(I, J, S)`` and weights of SiLU."""
    degree = grid.shape[1] - spline.shape[2] - 1
    if degree not in BY_DEGREE:
        raise ArgumentError(f"{prefix}the degree of splines", degree, "1, 2 or 3")
    knots, weights = grid.double(), spline.double()
    inputs, outputs = spline.shape[:2]
    inner = knots[:, degree : knots.shape[1] - degree]
    limits = float(inner.min()), float(inner.max())
    layer = KernelLinear(
        inputs, outputs, knots.shape[1], BY_DEGREE[degree], limits, "zeros", bias=False,
        base="silu", device=spline.device, dtype=spline.dtype,
    )  # fmt: skip
    with torch.no_grad():
        layer.centers.copy_(knots)
        layer.coefficients.copy_(weights @ differences(knots, degree))
        assert layer.weight is not None
        layer.weight.copy_(base)
        points = torch.linspace(*limits, 1001, dtype=torch.float64).expand(len(knots), -1)
        exact = (b_splines(points, knots, degree) @ weights.mT).mT
        layer.conversion_error = float((layer.expansions(points) - exact).abs().max())
    return layer


def differences(knots: Tensor, degree: int) -> Tensor:
    """Return the B-splines of knots ``(I, G)`` as expansions by their g, ``(I, S, G)``."""
    count = knots.shape[1] - degree - 1
    rows = knots.new_zeros(len(knots), count, knots.shape[1])
    for s in range(count):
        window = knots[:, s : s + degree + 2]
        gaps = window[:, :, None] - window[:, None]
        gaps.diagonal(dim1=1, dim2=2).fill_(1.0)
        width = window[:, -1:] - window[:, :1]
        rows[:, s, s : s + degree + 2] = width / (2 * gaps.prod(-1))
    return rows if degree % 2 else -rows  # u = a - t has the other sign than t - a


def b_splines(points: Tensor, knots: Tensor, degree: int) -> Tensor:
    """Return the B-splines of knots ``(I, G)`` at points ``(I, P)``, ``(I, P, S)``."""
    a, t = points[..., None], knots[:, None]
    values = ((a >= t[..., :-1]) & (a < t[..., 1:])).to(points.dtype)
    for m in range(1, degree + 1):
        rising = (a - t[..., : -m - 1]) / (t[..., m:-1] - t[..., : -m - 1])
        falling = (t[..., m + 1 :] - a) / (t[..., m + 1 :] - t[..., 1:-m])
        values = rising * values[..., :-1] + falling * values[..., 1:]
    return values
