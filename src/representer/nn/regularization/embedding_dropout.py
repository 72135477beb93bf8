"""Dropout of all occurrences of a word in a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.nn.checks import check_probability


class EmbeddingDropout(nn.Module):
    r"""Embedding lookup with dropout of words in training.

    .. math::
        x_t = \frac{m_{w_t}}{1 - p} E_{w_t}, \qquad m_w \sim \operatorname{Bernoulli}(1 - p)

    with one :math:`m` per call: all occurrences of a word are dropped, and the other words are
    scaled up. The embedding is an argument, so that it can be a parameter of another module and be
    shared with a tied softmax, which uses all words.

    Args:
        p: Fraction of words to drop.

    Shape:
        - weight ``(V, E)``, tokens ``(…)`` int64, output ``(…, E)``

    Raises:
        ArgumentError: If p is not in [0, 1].

    References:
        Gal & Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural
        Networks, NeurIPS 2016, section 4.2; Merity et al., ICLR 2018, section 4.3.
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = check_probability("p", p)

    def forward(self, weight: Tensor, tokens: Tensor) -> Tensor:
        """Return the vectors of words, ``tokens`` being their rows in ``weight``."""
        vectors = F.embedding(tokens, weight)
        if not (self.training and self.p):
            return vectors
        kept = F.dropout(torch.ones_like(weight[:, 0]), self.p)  # of all words
        return vectors * kept[tokens][..., None]

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"
