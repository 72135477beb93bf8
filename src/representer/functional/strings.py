"""The equations of L17 on sequences: the cells of Table 4, their recurrence, and the string kernel.

(4), sections 4 and 6.1, Tables 4 and 5 are the options of ``StringChain``, which ``string_scan``
runs; (1)-(3) and appendix B are ``string_kernel``, and its features ``string_features``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional.activations import NONLINEARITIES
from representer.functional.rkm import compute_cached

Combine = Literal["multiply", "add", "add_exact"]
Normalized = Literal["no", "paper", "exact"]
Readout = Literal["last", "sum", "weighted"]
Decay = Literal["given", "gate", "state_gate"]


@dataclass(frozen=True)
class StringChain:
    """The options that distinguish string-kernel cells.

    Attributes:
        order: n, length of the longest n-gram and number of states in the chain.
        combine: Operation that extends an n-gram by a token: a product, a sum as printed, or a sum
            for which the states are Table 5's kernels for every t.
        normalized: Factor 1 - lambda of each new term (``"paper"``), or division by the mass.
        readout: c_n alone, or the sum of all c_j, or a weighted sum.
        decay: lambda is given, a gate on x_t, or a gate on x_t and h_{t-1}.
        highway: Mix the output with the input by a gate.
        activation: sigma, a name of ``nonlinearities``.
    """

    order: int
    combine: Combine = "multiply"
    normalized: Normalized = "no"
    readout: Readout = "last"
    decay: Decay = "given"
    highway: bool = False
    activation: str = "identity"

    def __post_init__(self) -> None:
        compute_cached(self)

    @cached_property
    def products(self) -> tuple[str, ...]:
        """The names of the products with x_t, in their order in tensors."""
        names = [f"token{j}" for j in range(1, self.order + 1)]
        gates = ("decay",) * self.is_gated + ("highway",) * self.highway
        return (*names, *gates)

    @cached_property
    def is_gated(self) -> bool:
        """True if the decay is a gate."""
        return self.decay != "given"

    @cached_property
    def is_state_gated(self) -> bool:
        """True if the decay gate depends on h_{t-1}, so that steps cannot run in parallel."""
        return self.decay == "state_gate"

    @cached_property
    def has_mass(self) -> bool:
        """True if the state includes the masses m_j."""
        return self.combine == "add_exact" or self.normalized == "exact"

    @cached_property
    def states(self) -> int:
        """Number of rows of the state: n, or 2 n with the masses after the states."""
        return self.order * (1 + self.has_mass)

    @cached_property
    def code(self) -> str:
        """The chain as a string, since arguments of custom operators cannot be objects."""
        fields = (str(self.order), self.combine, self.normalized, self.readout, self.decay)
        return " ".join((*fields, str(int(self.highway)), self.activation))

    @staticmethod
    @lru_cache
    def parse(code: str) -> StringChain:
        """Return the chain from its ``code``."""
        order, combine, normalized, readout, decay, highway, activation = code.split(" ")
        assert combine in get_args(Combine)
        assert normalized in get_args(Normalized)
        assert readout in get_args(Readout)
        assert decay in get_args(Decay)
        return StringChain(
            int(order), cast(Combine, combine), cast(Normalized, normalized),
            cast(Readout, readout), cast(Decay, decay), highway == "1", activation,
        )  # fmt: skip


# The recurrence of the string-kernel networks, step by step.
#
#     lam_t  = given,  or  sigma(a_t),  or  sigma(a_t + V (k * h_{t-1}))          section 4
#     w_t    = 1,      or  1 - lam_t                           normalized="paper", Table 4
#     c_j[t] = lam_t c_j[t-1] + w_t ( c_{j-1}[t-1] * p_j[t] )         multiply     (4), c_0 = 1
#     c_j[t] = lam_t c_j[t-1] + w_t ( c_{j-1}[t-1] + p_j[t] )         add          c_0 = 0
#     c_j[t] = lam_t c_j[t-1] + w_t ( c_{j-1}[t-1] + m_{j-1}[t-1] p_j[t] )    add_exact
#     m_j[t] = lam_t m_j[t-1] + w_t m_{j-1}[t-1],                     m_0 = 1      the mass
#     s_t    = r_n[t]  or  r_1[t] + ... + r_n[t]  or  alpha_1 r_1[t] + ... + alpha_n r_n[t],
#     r_j    = c_j,  or  c_j / m_j (0 while t < j)
#     h_t    = sigma(s_t),  or with highway  g_t (k * sigma(s_t)) + (1 - g_t) x_t     section 6.1
#
# Lei et al. 2017, (3), (4), Tables 4 and 5; p_j[t] = W^(j) x_t; a_t and the argument of g_t are
# also products with x_t; k is a mask of the hidden state, constant over time (variational dropout).
# This is the reference implementation, in plain torch and differentiable by autograd.
#
# Shapes: T time, B batch, n order, P = n plus the gates, S = n or 2 n with the masses, H units.


def string_scan(
    z: Tensor,
    h0: Tensor,
    c0: Tensor,
    *,
    chain: StringChain,
    decay: Tensor | None = None,
    weight: Tensor | None = None,
    carry: Tensor | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    alpha: Tensor | None = None,
    psi: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the chain over a sequence.

    Args:
        z: Products with the input, in the order of ``chain.products`` ``(T, B, P, H)``.
        h0: Output before the first step ``(B, H)``.
        c0: States before the first step ``(B, S, H)``; zeros at the start of a sequence.
        chain: The cell.
        decay: lam ``()`` or ``(H,)``, if it is not a gate.
        weight: V, output by input ``(H, H)``, if the gate depends on h.
        carry: Input x_t of the highway ``(T, B, H)``.
        mask: k ``(B, H)``.
        lengths: True lengths ``(B,)``; beyond them the state does not change and the output is 0.
        reverse: Run from the last true step to the first.
        alpha: Weights of the readout ``(n, H)``, for ``"weighted"``.
        psi: Activation that replaces that of the chain.

    Returns:
        h of every step ``(T, B, H)``, the last h ``(B, H)`` and the last states ``(B, S, H)``.
    """
    sigma = psi or NONLINEARITIES[chain.activation].value
    outputs: list[Tensor] = [h0] * len(z)
    h, c = h0, c0
    for t in reversed(range(len(z))) if reverse else range(len(z)):
        c_new = _advance(chain, z[t], _decay(chain, z[t], h, decay, weight, mask), c)
        h_new = sigma(_read(chain, c_new, alpha))
        if chain.highway:
            assert carry is not None
            gate = torch.sigmoid(z[t, :, -1])
            masked = h_new if mask is None else mask * h_new
            h_new = gate * masked + (1 - gate) * carry[t]
        if lengths is None:
            h, c, outputs[t] = h_new, c_new, h_new
        else:
            is_real = (t < lengths)[:, None]
            h, c = torch.where(is_real, h_new, h), torch.where(is_real[:, None], c_new, c)
            outputs[t] = torch.where(is_real, h_new, torch.zeros_like(h))
    return torch.stack(outputs), h, c


def string_states(chain: StringChain, c: Tensor) -> Tensor:
    """Return the kernel values r_1..r_n ``(…, n, H)``.

    Args:
        chain: The cell.
        c: Its states ``(…, S, H)``.
    """
    states = c[..., : chain.order, :]
    if chain.normalized != "exact":
        return states
    mass = c[..., chain.order :, :]
    return torch.where(mass == 0, 0.0, states / torch.where(mass == 0, 1.0, mass))


def _decay(
    chain: StringChain, z_t: Tensor, h: Tensor, decay: Tensor | None, weight: Tensor | None,
    mask: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return lam_t, broadcastable to ``(B, 1, H)``."""
    if not chain.is_gated:
        assert decay is not None
        return decay
    a = z_t[:, chain.order]
    if weight is not None:
        a = a + (h if mask is None else mask * h) @ weight.T
    return torch.sigmoid(a)[:, None]


def _advance(chain: StringChain, z_t: Tensor, lam: Tensor, c: Tensor) -> Tensor:
    """Return the states of step t from those of step t - 1, ``(B, S, H)``."""
    n, p = chain.order, z_t[:, : chain.order]
    w = 1 - lam if chain.normalized == "paper" else torch.ones_like(lam)
    ones = torch.ones_like(c[:, :1])
    shorter = torch.cat((ones if chain.combine == "multiply" else 0 * ones, c[:, : n - 1]), dim=1)
    if chain.combine == "multiply":
        joined = shorter * p
    elif chain.combine == "add":
        joined = shorter + p
    else:
        joined = shorter + torch.cat((ones, c[:, n : 2 * n - 1]), dim=1) * p
    c_new = lam * c[:, :n] + w * joined
    if not chain.has_mass:
        return c_new
    lighter = torch.cat((ones, c[:, n : 2 * n - 1]), dim=1)
    return torch.cat((c_new, lam * c[:, n:] + w * lighter), dim=1)


def _read(chain: StringChain, c: Tensor, alpha: Tensor | None) -> Tensor:
    states = string_states(chain, c)
    states = states if alpha is None else alpha * states
    return states[:, -1] if chain.readout == "last" else states.sum(1)


# The string kernel of L17 between two sequences: the sum as printed, and its dynamic program.
#
#     K_n(x, y) = sum_{i_1<..<i_n} sum_{k_1<..<k_n} w_x(i) w_y(k)
#                     <x_{i_1}, y_{k_1}> * .. * <x_{i_n}, y_{k_n}>
#     w_x(i)    = lam^(L - i_1 - n + 1)        gaps and trailing tokens      (3), appendix B
#     w_x(i)    = lam^(i_n - i_1 - n + 1)      gaps alone                    trailing=False
#     add:        <..> + .. + <..> instead of the product                    Table 5 (c)
#     normalized: (1 - lam)^n K_n, or "exact": K_n / (m_n(x) m_n(y)),  m_n(x) = sum_i w_x(i)
#
# With D[s, s'] = lam^(s - s') below the diagonal, S[s, t] = <x_s, y_t>, and K_j[s, t] the kernel of
# the prefixes x_1..x_s, y_1..y_t,
#
#     K_j = D (S * K_{j-1} shifted by one step along both axes) D^T,         K_0 = 1
#
# and for the sum over slots, with a_j[s, p] the weight of all n-grams of x_1..x_s with p in slot j,
#
#     K_n = sum_j a_j S b_j^T,      a_j[s, p] = m_{j-1}[p - 1] C(s - p, n - j) lam^(s - p - n + j).
#
# Lei et al. 2017, (1)-(4), Tables 4 and 5, appendix B; 0^0 = 1. L, L' lengths, n order.


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
        K = _read_grid(similarities.unsqueeze(-3), left, right, lengths).sum(-1 if lengths else -3)
    else:
        left, right = decay_matrix(L, lam), decay_matrix(M, lam)
        K = similarities
        for _ in range(order - 1):
            K = similarities * F.pad(left @ K @ right.mT, (1, -1, 1, -1))
        if not trailing:
            left, right = torch.ones_like(left).tril(), torch.ones_like(right).tril()
        K = _read_grid(K, left, right, lengths)
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


def slot_weights(
    order: int, length: int, decay: Tensor, trailing: bool = True, lengths: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a_j[s, p] ``(n, S, length)``, over all n-grams of x_1..x_s with x_p in slot j.

    The lengths s are ``(S,)``, by default 1, 2, … ``length``.
    """
    p = torch.arange(length, device=decay.device)
    ages = (p + 1 if lengths is None else lengths)[:, None] - 1 - p  # tokens after p
    slots = []
    for j in range(1, order + 1):
        if trailing:
            later = _tails(order - j, length, decay)
        else:
            later = ngram_mass(order - j, length, decay)[:length]
        later = torch.where(ages < 0, 0.0, later[ages.clamp(min=0)])
        slots.append(later * ngram_mass(j - 1, length, decay)[:length])
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
    length = tails.shape[0]  # not `len`, which tracing would make a constant
    t = torch.arange(length, device=tails.device)
    return tails[(t[:, None] - t).clamp(min=0)].tril() if length else tails.new_empty(0, 0)


def decay_matrix(length: int, decay: Tensor) -> Tensor:
    """Return D[s, p] = lam^(s - p) for p <= s, else 0."""
    return _toeplitz(_tails(0, length, decay))


def _read_grid(
    K: Tensor, left: Tensor, right: Tensor, lengths: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Apply the weights of both sides, for all prefixes or for those of the true lengths."""
    if lengths is None:
        return left @ K @ right.mT
    rows, columns = _row(left, lengths[0]), _row(right, lengths[1])
    # Not einsum: ONNX Runtime refuses operands whose ellipses have different numbers of dimensions.
    return (rows[..., None, :] @ K @ columns[..., None])[..., 0, 0]


def _row(weights: Tensor, lengths: Tensor) -> Tensor:
    """Return the weights of the prefixes of given lengths, zeros for empty ones."""
    padded = F.pad(weights, (0, 0, 1, 0))
    if weights.dim() == 2:
        return padded[lengths]
    return padded[:, lengths].movedim(0, -2)


# The string kernel of which n-grams occur, not how often.
#
#     K = sum over n-grams s of phi_s(x) phi_s(y),   phi_s(x) = max over i of lam^(L - i_1 - n + 1)
#
# The largest weight is that of the occurrence that starts last, found from the right in one way:
# before a place i', take the last place i of the symbol. So with N_m[i, k] the number of m-grams
# that start at i and k in this way, and next(i) the next place of the symbol of x_i after i, or
# L + 1,
#
#     N_m[i, k] = [x_i = y_k] sum_{i < i' <= next(i)} sum_{k < k' <= next(k)} N_{m-1}[i', k'],
#     N_0[L+1, L'+1] = 1,    K = sum N_n[i, k] lam^(L - i - n + 1) lam^(L' - k - n + 1).
#
# Lei et al. 2017, (1), for lam = 1. The sums are differences of cumulative ones: O(n L L').


def distinct_string_kernel(
    x: Tensor, y: Tensor, lengths: Tensor, order: int, decay: Tensor
) -> Tensor:
    """Compare a sequence of tokens ``(L,)`` with padded ones ``(B, L')`` of given lengths ``(B,)``.

    They are in the dtype of the decay; counts are exact below 2^53 in float64.
    """
    (L,), (B, M) = x.shape, y.shape
    starts, steps = (torch.arange(size + 1, device=y.device) for size in (L, M))
    N = ((starts == L)[:, None] & (steps == lengths[:, None])[:, None]).to(decay)
    rows, columns = _next_places(x, lengths.new_tensor(L)), _next_places(y, lengths)
    equal = (x[:, None] == y[:, None, :]) & (steps[:M] < lengths[:, None])[:, None]
    for _ in range(order):
        P = F.pad(N.cumsum(1).cumsum(2), (1, 0, 1, 0))
        P = P[:, rows + 1] - P[:, 1 : L + 1]
        P = P.gather(2, (columns + 1)[:, None].expand(B, L, M)) - P[:, :, 1 : M + 1]
        N = F.pad(torch.where(equal, P, 0.0), (0, 1, 0, 1))
    ends = (lengths.new_tensor([L]), starts[:L]), (lengths[:, None], steps[:M])
    left, right = (decay ** (end - i - order).clamp(min=0).to(decay) for end, i in ends)
    return torch.einsum("bij,i,bj->b", N[:, :L, :M], left, right)


def _next_places(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the next place of each token ``(…, L)``, or the length where there is none."""
    places = torch.arange(tokens.shape[-1], device=tokens.device)
    is_later = (tokens[..., None] == tokens[..., None, :]) & (places[:, None] < places)
    ends = lengths[..., None, None]
    following = torch.where(is_later & (places < ends), places, ends)
    return torch.cat((following, ends.expand(*following.shape[:-1], 1)), dim=-1).amin(-1)


# The feature map of the string kernel with linear similarities, a factor of its Gram matrix.
#
#     phi_n(x) = sum_{i_1<..<i_n} lam^(L - i_1 - n + 1)  x_{i_1} (x) .. (x) x_{i_n},   d^n numbers
#     phi_n(x) = (sum_i w(i) x_{i_1}, .., sum_i w(i) x_{i_n}),   n d numbers         combine="add"
#
# Lei et al. 2017, appendix B and Table 5. With c_j[t] = lam c_j[t-1] + c_{j-1}[t-1] (x) x_t, c_0 =
# 1, phi_n(x) is c_n[L]. For d^n below L^2 this is faster than the dynamic program over pairs.


def string_features(
    x: Tensor, order: int, decay: Tensor, *, trailing: bool = True, discount: Tensor | None = None,
    first: slice = slice(None),
) -> Tensor:  # fmt: skip
    """Return phi_n of one sequence.

    ``discount`` is the ``decay_matrix`` of a length of at least L, to share between sequences;
    ``first`` are d' features of the first slot, outermost in the result ``(d' · d^(n-1),)``.
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

    They are ``(n·d,)``; ``weights`` are the ``slot_weights`` of a length of at least L, to share
    between sequences.
    """
    L = len(x)
    if L == 0:
        return x.new_zeros(order * x.shape[1])
    a = slot_weights(order, L, decay, trailing) if weights is None else weights
    return (a[:, L - 1, :L] @ x).flatten()
