"""The feature map of the string kernel with linear similarities, a factor of its Gram matrix.

    phi_n(x) = sum_{i_1<..<i_n} lam^(L - i_1 - n + 1)  x_{i_1} (x) .. (x) x_{i_n},   d^n numbers
    phi_n(x) = (sum_i w(i) x_{i_1}, .., sum_i w(i) x_{i_n}),   n d numbers         combine="add"

Lei et al. 2017, appendix B and Table 5. With c_j[t] = lam c_j[t-1] + c_{j-1}[t-1] (x) x_t, c_0 = 1,
phi_n(x) is c_n[L]. For d^n below L^2 this is faster than the dynamic program over pairs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional.string_kernel import decay_matrix, slot_weights


def string_features(
    x: Tensor,
    order: int,
    decay: Tensor,
    *,
    trailing: bool = True,
    discount: Tensor | None = None,
    first: slice = slice(None),
) -> Tensor:
    """Return phi_n of one sequence.

    Args:
        x: Tokens ``(L, d)``.
        order: n.
        decay: lam ``()``.
        trailing: Apply the decay of tokens after an n-gram.
        discount: ``decay_matrix`` of a length of at least L, to share between sequences.
        first: Features of the first slot to use; d' of them give a part of phi.

    Returns:
        ``(d' · d^(n-1),)``, the first slot's features outermost.
    """
    L, d = x.shape
    if order > L:
        return x.new_zeros(x[:, first].shape[1] * d ** (order - 1))
    D = (decay_matrix(L, decay) if discount is None else discount)[:L, :L]
    joined = x[:, first]  # c_{j-1}[t-1] (x) x_t
    for j in range(1, order):
        c = F.pad((D @ joined)[:-1], (0, 0, 1, 0))
        if j == order - 1:
            last = D[-1] if trailing else torch.ones_like(D[-1])
            return ((c * last[:, None]).mT @ x).flatten()
        joined = (c[:, :, None] * x[:, None, :]).flatten(1)
    return (D[-1] if trailing else torch.ones_like(D[-1])) @ joined


def slot_features(
    x: Tensor, order: int, decay: Tensor, *, trailing: bool = True, weights: Tensor | None = None
) -> Tensor:
    """Return phi_n of one sequence for ``combine="add"``.

    Args:
        x: Tokens ``(L, d)``.
        order: n.
        decay: lam ``()``.
        trailing: Apply the decay of tokens after an n-gram.
        weights: ``slot_weights`` of a length of at least L, to share between sequences.

    Returns:
        ``(n·d,)``.
    """
    L = len(x)
    if L == 0:
        return x.new_zeros(order * x.shape[1])
    a = slot_weights(order, L, decay, trailing) if weights is None else weights
    return (a[:, L - 1, :L] @ x).flatten()
