"""Dropout with one mask for all steps of a sequence."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ShapeError
from representer.nn.checks import check_probability


class LockedDropout(nn.Module):
    r"""Dropout of the same features of a sequence at every step.

    .. math::
        y_t = \frac{m}{1 - p} \odot x_t, \qquad m_{bd} \sim \operatorname{Bernoulli}(1 - p)

    with one mask :math:`m` per call and sequence. In evaluation, it is the identity.

    Args:
        p: Fraction of features to drop.

    Shape:
        - input and output ``(T, B, D)``

    Raises:
        ArgumentError: If p is not in [0, 1].

    References:
        Gal & Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural
        Networks, NeurIPS 2016; Merity et al., Regularizing and Optimizing LSTM Language Models,
        ICLR 2018, section 4.2.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_probability("p", p)

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to the sequences ``(T, B, D)``.

        Raises:
            ShapeError: If the input is not ``(T, B, D)``.
        """
        if x.dim() != 3:
            raise ShapeError("x", tuple(x.shape), "(time, batch, features)")
        if not (self.training and self.p):
            return x
        return x * F.dropout(torch.ones_like(x[:1]), self.p)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"
