"""Functions of the theorems of several papers, written out without the library."""

from __future__ import annotations

import torch
from torch import Tensor


def sigma(a: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-a))


def outer(rows: list[Tensor]) -> Tensor:
    """The flat outer product of vectors, 1 of none."""
    product = torch.ones(1, dtype=rows[0].dtype if rows else torch.float64)
    for row in rows:
        product = torch.outer(product, row.flatten()).flatten()
    return product


def smallest_eigenvalue(K: Tensor) -> float:
    """Return it relative to the largest."""
    values = torch.linalg.eigvalsh(K.detach())
    return float(values[0] / values[-1])
