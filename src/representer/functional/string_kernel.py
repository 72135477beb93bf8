"""The string kernel of L17 between two sequences: the sum as printed, and its dynamic program.

    K_n(x, y) = sum_{i_1<..<i_n} sum_{k_1<..<k_n} w_x(i) w_y(k)
                    <x_{i_1}, y_{k_1}> * .. * <x_{i_n}, y_{k_n}>
    w_x(i)    = lam^(L - i_1 - n + 1)        gaps and trailing tokens      (3), appendix B
    w_x(i)    = lam^(i_n - i_1 - n + 1)      gaps alone                    trailing=False
    add:        <..> + .. + <..> instead of the product                    Table 5 (c)
    normalized: (1 - lam)^n K_n, or "exact": K_n / (m_n(x) m_n(y)),  m_n(x) = sum_i w_x(i)

With D[s, s'] = lam^(s - s') below the diagonal, S[s, t] = <x_s, y_t>, and K_j[s, t] the kernel of
the prefixes x_1..x_s, y_1..y_t,

    K_j = D (S * K_{j-1} shifted by one step along both axes) D^T,         K_0 = 1

and for the sum over slots, with a_j[s, p] the weight of all n-grams of x_1..x_s with p in slot j,

    K_n = sum_j a_j S b_j^T,      a_j[s, p] = m_{j-1}[p - 1] C(s - p, n - j) lam^(s - p - n + j).

Lei et al. 2017, (1)-(4), Tables 4 and 5, appendix B; 0^0 = 1. L, L' lengths, n order.
"""

from __future__ import annotations

from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor


def string_kernel_definition(
    similarities: Tensor,
    order: int,
    decay: float,
    *,
    combine: str = "multiply",
    normalized: bool | str = False,
    trailing: bool = True,
) -> Tensor:
    """Sum over every pair of n-grams. An oracle: exponential in the order.

    Args:
        similarities: <x_s, y_t> of all pairs of tokens ``(L, L')``.
        order: n.
        decay: lam, in [0, 1].
        combine: Operation over the slots of two n-grams, ``"multiply"`` or ``"add"``.
        normalized: False, True or ``"exact"``.
        trailing: Apply the decay to tokens after an n-gram as to gaps.

    Returns:
        K_n ``()``.
    """

    def ngrams(length: int) -> tuple[Tensor, Tensor]:
        """Return the positions of all n-grams ``(N, n)`` and their weights ``(N,)``."""
        i = torch.tensor(list(combinations(range(length), order)), dtype=torch.long)
        i = i.reshape(-1, order)
        last = torch.full_like(i[:, 0], length - 1) if trailing else i[:, -1]
        exponents = (last - i[:, 0] - order + 1).to(similarities.dtype)
        return i, torch.as_tensor(decay, dtype=similarities.dtype) ** exponents

    (i, weights_x), (k, weights_y) = (ngrams(length) for length in similarities.shape)
    slots = similarities[i[:, None], k]  # (N, N', n)
    joined = slots.prod(-1) if combine == "multiply" else slots.sum(-1)
    total = (weights_x[:, None] * weights_y * joined).sum()
    mass_x, mass_y = weights_x.sum(), weights_y.sum()
    if normalized == "exact":
        return total / (mass_x * mass_y) if mass_x and mass_y else torch.zeros_like(total)
    return (1 - decay) ** order * total if normalized else total


def string_kernel(
    similarities: Tensor,
    order: int,
    decay: float | Tensor,
    *,
    combine: str = "multiply",
    normalized: bool | str = False,
    trailing: bool = True,
    lengths: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Compute the kernel by its dynamic program, differentiable in similarities and decay.

    Args:
        similarities: <x_s, y_t> of all pairs of tokens ``(…, L, L')``; values beyond the true
            lengths are ignored.
        order: n.
        decay: lam, in [0, 1]: a number or a tensor ``()``.
        combine: Operation over the slots of two n-grams, ``"multiply"`` or ``"add"``.
        normalized: False, True or ``"exact"``.
        trailing: Apply the decay to tokens after an n-gram as to gaps.
        lengths: True lengths of both sequences, broadcastable to ``(…)``; None to return the kernel
            of all pairs of prefixes.

    Returns:
        K_n ``(…)``, or ``(…, L, L')`` of all prefixes.
    """
    L, M = similarities.shape[-2:]
    if not L * M:
        shape = similarities.shape[:-2] if lengths else similarities.shape
        return similarities.new_zeros(shape)
    lam = torch.as_tensor(decay, dtype=similarities.dtype, device=similarities.device)
    if combine == "add":
        left = slot_weights(order, L, lam, trailing)
        right = left if L == M else slot_weights(order, M, lam, trailing)
        K = _read(similarities.unsqueeze(-3), left, right, lengths).sum(-1 if lengths else -3)
    else:
        left, right = decay_matrix(L, lam), decay_matrix(M, lam)
        K = similarities
        for _ in range(order - 1):
            K = similarities * F.pad(left @ K @ right.mT, (1, -1, 1, -1))
        if not trailing:
            left, right = torch.ones_like(left).tril(), torch.ones_like(right).tril()
        K = _read(K, left, right, lengths)
    if normalized != "exact":
        return (1 - lam) ** order * K if normalized else K
    mass_x, mass_y = (ngram_mass(order, size, lam, trailing) for size in (L, M))
    if lengths is None:
        return divide_by_mass(K, mass_x[1:, None] * mass_y[1:])
    return divide_by_mass(K, mass_x[lengths[0]] * mass_y[lengths[1]])


def divide_by_mass(K: Tensor, mass: Tensor) -> Tensor:
    """Return K / mass, or 0 where there are no n-grams."""
    return torch.where(mass == 0, 0.0, K / torch.where(mass == 0, 1.0, mass))


def ngram_mass(order: int, length: int, decay: Tensor, trailing: bool = True) -> Tensor:
    """Return the sum of weights m_n of the first 0, 1, … ``length`` tokens ``(length + 1,)``.

    With ``trailing``, m_n[t] = lam m_n[t-1] + m_{n-1}[t-1] and m_0 = 1; without, the weights of the
    n-grams that end at each token are added without decay.
    """
    if order == 0:
        return decay.new_ones(length + 1)
    if trailing:  # n-grams that start u tokens before the end: C(u, n-1) lam^(u-n+1)
        ending = _tails(order - 1, length, decay)
    else:
        ending = ngram_mass(order - 1, length, decay)[:length]
    return F.pad(ending.cumsum(0), (1, 0))


def slot_weights(order: int, length: int, decay: Tensor, trailing: bool = True) -> Tensor:
    """Return a_j[s, p] ``(n, length, length)``, over all n-grams of x_1..x_s with x_p in slot j."""
    slots = []
    for j in range(1, order + 1):
        if trailing:
            later = _tails(order - j, length, decay)
        else:
            later = ngram_mass(order - j, length, decay)[:length]
        slots.append(_toeplitz(later) * ngram_mass(j - 1, length, decay)[:length])
    return torch.stack(slots)


def _tails(order: int, length: int, decay: Tensor) -> Tensor:
    """Return C(u, r) lam^(u - r) for u = 0..length-1, with r the order."""
    u = torch.arange(length, dtype=decay.dtype, device=decay.device)
    count = torch.ones_like(u)
    for r in range(order):
        count = count * (u - r).clamp(min=0) / (r + 1)
    return count * decay ** (u - order).clamp(min=0)


def _toeplitz(tails: Tensor) -> Tensor:
    """Return the lower-triangular matrix with entries tails[s - p]."""
    t = torch.arange(len(tails), device=tails.device)
    return tails[(t[:, None] - t).clamp(min=0)].tril() if len(tails) else tails.new_empty(0, 0)


def decay_matrix(length: int, decay: Tensor) -> Tensor:
    """Return D[s, p] = lam^(s - p) for p <= s, else 0."""
    return _toeplitz(_tails(0, length, decay))


def _read(K: Tensor, left: Tensor, right: Tensor, lengths: tuple[Tensor, Tensor] | None) -> Tensor:
    """Apply the weights of both sides, for all prefixes or for those of the true lengths."""
    if lengths is None:
        return left @ K @ right.mT
    rows, columns = _row(left, lengths[0]), _row(right, lengths[1])
    return torch.einsum("...s,...st,...t->...", rows, K, columns)


def _row(weights: Tensor, lengths: Tensor) -> Tensor:
    """Return the weights of the prefixes of given lengths, zeros for empty ones."""
    padded = F.pad(weights, (0, 0, 1, 0))
    if weights.dim() == 2:
        return padded[lengths]
    return padded[:, lengths].movedim(0, -2)
