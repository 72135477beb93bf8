"""Penalties on the outputs of a recurrent layer, and on their changes between steps.

    AR = alpha mean(h'_t^2)        TAR = beta mean((h_{t+1} - h_t)^2)

Merity, McCann & Socher, Revisiting Activation Regularization for Language RNNs, 2017, (3), (4).
"""

from __future__ import annotations

from torch import Tensor

from representer.errors import ShapeError


def activation_regularization(
    dropped: Tensor, raw: Tensor, alpha: float = 2.0, beta: float = 1.0
) -> Tensor:
    r"""Return AR and TAR, :math:`\alpha\,\overline{h'^2} + \beta\,\overline{(h_{t+1} - h_t)^2}`.

    The means are over all entries. TAR is 0 for a single step.

    Args:
        dropped: The last layer's output after dropout ``(T, B, D)``, for AR.
        raw: The same output before dropout, for TAR.
        alpha: The weight of AR.
        beta: The weight of TAR.

    Raises:
        ShapeError: If the shapes differ, or are not ``(T, B, D)``.

    References:
        Merity et al., Revisiting Activation Regularization for Language RNNs, 2017, (3), (4).
    """
    if dropped.dim() != 3:
        raise ShapeError("dropped", tuple(dropped.shape), "(time, batch, features)")
    if raw.shape != dropped.shape:
        raise ShapeError("raw", tuple(raw.shape), f"{tuple(dropped.shape)}, the shape of dropped")
    penalty = alpha * dropped.square().mean()
    if len(raw) > 1:
        penalty = penalty + beta * (raw[1:] - raw[:-1]).square().mean()
    return penalty
