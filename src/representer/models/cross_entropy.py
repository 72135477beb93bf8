"""The cross entropy of a softmax over a large vocabulary, computed in chunks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK = 512  # rows, whose logits over 10,000 words fit in the cache
_OPTIONS: Any = None
if hasattr(torch.nn, "LinearCrossEntropyOptions"):  # torch 2.13
    _OPTIONS = torch.nn.LinearCrossEntropyOptions(
        allow_retain_graph=True, batch_chunk_size=_CHUNK, chunking_method=None
    )


def linear_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> Tensor:
    r"""Return :math:`-\sum_i \log \operatorname{softmax}(W x_i + b)_{y_i}`, in nats.

    On the CPU, ``F.linear_cross_entropy`` computes it in chunks, with the gradients in the same
    pass. At N = 1120, E = 355, V = 10000 it takes a sixth less time than ``F.linear`` and
    ``F.cross_entropy``.

    Args:
        features: x ``(N, E)``.
        weight: W ``(V, E)``.
        bias: b ``(V,)``, or None.
        targets: y ``(N,)``, int64, from 0 to V − 1.
    """
    if _use_chunks(features, weight):
        return F.linear_cross_entropy(
            features, weight, targets, linear_bias=bias, reduction="sum", options=_OPTIONS
        )
    return F.cross_entropy(F.linear(features, weight, bias), targets, reduction="sum")


def _use_chunks(features: Tensor, weight: Tensor) -> bool:
    """Return True if the chunked operator supports the call and is faster."""
    if _OPTIONS is None or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    is_plain = features.device.type == "cpu" and features.dtype in (torch.float32, torch.float64)
    needs_gradient = torch.is_grad_enabled() and (features.requires_grad or weight.requires_grad)
    words, size = weight.shape  # few rows are faster in one chunk: 12 instead of 18 ms for 5 of 355
    return is_plain and needs_gradient and words > size and len(features) >= size
