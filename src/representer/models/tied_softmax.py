"""The softmax over words, with the embedding as its weight matrix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import KindError, ShapeError
from representer.models.cross_entropy import linear_cross_entropy


class TiedSoftmax(nn.Module):
    r"""Predicts the next word by comparing a feature vector with the vectors of all words.

    .. math::
        p(w \mid h) = \operatorname{softmax}(E h + b)_w

    with the embedding :math:`E` of the input words (Press & Wolf 2017, Inan et al. 2017). The
    embedding is not a parameter of this module, whose ``state_dict`` contains only the bias.

    Args:
        embedding: The embedding, with weight ``(V, E)``.
        bias: Add a bias, initially 0.

    Shape:
        - features ``(…, E)``, targets ``(…)`` int64

    References:
        Press & Wolf, Using the Output Embedding to Improve Language Models, EACL 2017.
    """

    def __init__(self, embedding: nn.Embedding, bias: bool = True) -> None:
        super().__init__()
        self._tied = (embedding,)  # in a tuple, so that torch does not register it
        like = embedding.weight
        zeros = torch.zeros(len(like), device=like.device, dtype=like.dtype)
        self.bias = nn.Parameter(zeros) if bias else None

    @property
    def weight(self) -> Tensor:
        """Return the embedding's weight ``(V, E)``."""
        return self._tied[0].weight

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits ``(…, V)``."""
        check_features(features, self.weight)
        return F.linear(features, self.weight, self.bias)

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Return log p of every word ``(…, V)``.

        Args:
            features: ``(…, E)``.

        Raises:
            ShapeError: If the last axis is not E.
        """
        return F.log_softmax(self(features), dim=-1)

    def loss(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return the negative log likelihood, in nats, summed over all targets.

        Args:
            features: ``(…, E)``.
            targets: The words, ``(…)`` int64, from 0 to V − 1; −100 is ignored.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If the targets are not int64.
        """
        check_features(features, self.weight, targets)
        rows = features.flatten(0, -2) if features.dim() > 1 else features[None]
        return linear_cross_entropy(rows, self.weight, self.bias, targets.flatten())

    def extra_repr(self) -> str:
        """Return the sizes."""
        words, size = self.weight.shape
        return f"{size}, {words}, bias={self.bias is not None}"


def check_features(features: Tensor, weight: Tensor, targets: Tensor | None = None) -> None:
    """Check features and targets against a weight matrix of words.

    Raises:
        ShapeError: If a shape is wrong.
        KindError: If the targets are not int64.
    """
    size = weight.shape[1]
    if features.dim() < 1 or features.shape[-1] != size:
        raise ShapeError("features", tuple(features.shape), f"(…, {size})")
    if targets is None:
        return
    if targets.shape != features.shape[:-1]:
        raise ShapeError("targets", tuple(targets.shape), f"{tuple(features.shape[:-1])}")
    if targets.dtype != torch.int64:
        raise KindError("targets", str(targets.dtype), "int64", hint="Use .long().")
