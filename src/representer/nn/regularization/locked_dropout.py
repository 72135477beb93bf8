"""Dropout with one mask for all steps of a sequence."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ShapeError
from representer.nn.recurrent.options import check_probability


class LockedDropout(nn.Module):
    r"""Drops, in training, the same features of a sequence at every step.

    .. math::
        y_t = \frac{m}{1 - p} \odot x_t, \qquad m_{bd} \sim \operatorname{Bernoulli}(1 - p)

    with one mask :math:`m` a call and sequence. In evaluation it does nothing.

    Args:
        p: Share of the features that is dropped.

    Shape:
        - input and output ``(T, B, D)``

    Raises:
        ArgumentError: If p is not from 0 to 1.

    References:
        Gal & Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural
        Networks, NeurIPS 2016; Merity et al., Regularizing and Optimizing LSTM Language Models,
        ICLR 2018, section 4.2.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_probability("p", p)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sequences ``(T, B, D)`` without what the mask of this call drops.

        Raises:
            ShapeError: If there is no axis of time.
        """
        if x.dim() != 3:
            raise ShapeError("x", tuple(x.shape), "(time, batch, features)")
        if not (self.training and self.p):
            return x
        return x * F.dropout(torch.ones_like(x[:1]), self.p)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"
