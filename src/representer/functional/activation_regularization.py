"""Penalties on what a recurrent layer puts out, and on how it changes from step to step.

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

    The means are over all entries. One step has no change, and a TAR of 0.

    Args:
        dropped: The last layer's output after dropout ``(T, B, D)``, which AR makes small.
        raw: The same before dropout, whose steps TAR makes small.
        alpha: The weight of AR.
        beta: The weight of TAR.

    Raises:
        ShapeError: If the two are not of one shape ``(T, B, D)``.

    References:
        Merity et al., Revisiting Activation Regularization for Language RNNs, 2017, (3), (4).
    """
    if dropped.dim() != 3:
        raise ShapeError("dropped", tuple(dropped.shape), "(time, batch, features)")
    if raw.shape != dropped.shape:
        raise ShapeError("raw", tuple(raw.shape), f"{tuple(dropped.shape)}, as dropped has")
    penalty = alpha * dropped.square().mean()
    if len(raw) > 1:
        penalty = penalty + beta * (raw[1:] - raw[:-1]).square().mean()
    return penalty
