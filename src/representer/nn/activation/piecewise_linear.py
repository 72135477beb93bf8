"""Piecewise-linear functions given by their corners, for export and plots."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
