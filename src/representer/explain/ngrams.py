"""The gapped n-grams that contribute most to a state of a string-kernel network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import KindError, ShapeError
from representer.explain.checks import check_finite
from representer.explain.string_parts import StringParts, check_order, string_parts, tails
from representer.nn import StringKernelRNN

# The k largest of all gapped n-grams of a sequence, without listing them all.
#
# An n-gram i_1 < ... < i_n contributes to a read-out
#
#     prod_j w_{i_j} p_j[i_j]  *  prod over skipped s, i_1 < s < i_n, of lam_s  *  tail[i_n]
#
# Decays are non-negative, so it suffices to keep, for every j and step, the k largest absolute
# values of the partial n-grams that end there: scaling by lam or |p| preserves their order. This is
# exact, and takes O(T n k) steps instead of T over n.
#
# Lei et al. 2017, (3), (4) and section 4: the weight of an n-gram is the product of the gates that
# it skips. Shapes: T time, n order.

Partial = tuple[float, tuple[int, ...]]  # absolute value, positions


class NgramContribution(NamedTuple):
    """One gapped n-gram of a sequence and its contribution.

    Attributes:
        positions: Positions of its tokens, 0-based, ascending.
        contribution: Its term of the state.
    """

    positions: tuple[int, ...]
    contribution: float


def best_ngrams(
    products: Sequence[Sequence[float]], decay: Sequence[float], tail: Sequence[float], k: int,
) -> list[NgramContribution]:  # fmt: skip
    """Return the k n-grams of largest absolute contribution, in descending order.

    Of ``T`` rows of ``n`` products w_t p_j[t], a decay lam_t, and the weight of an n-gram that ends
    at t.
    """
    order = len(products[0]) if products else 0
    shorter: list[list[Partial]] = [[(1.0, ())], *([] for _ in range(order - 1))]  # orders 0..n-1
    ended: list[Partial] = []
    for t, (row, lam) in enumerate(zip(products, decay, strict=True)):
        ended = _merge_extended(ended, abs(row[-1] * tail[t]), shorter[-1], t, k)
        for j in range(order - 1, 0, -1):
            kept = [(lam * size, positions) for size, positions in shorter[j]]
            shorter[j] = _merge_extended(kept, abs(row[j - 1]), shorter[j - 1], t, k)
    return [NgramContribution(i, _sign(products, tail, i) * size + 0.0) for size, i in ended]


def _merge_extended(
    kept: list[Partial], factor: float, shorter_ngrams: list[Partial], t: int, k: int
) -> list[Partial]:
    """Return the k largest of ``kept`` and of ``shorter_ngrams`` extended by t; both are sorted."""
    if len(kept) == k and (not shorter_ngrams or factor * shorter_ngrams[0][0] < kept[-1][0]):
        return kept
    extended = ((factor * size, (*positions, t)) for size, positions in shorter_ngrams)
    return list(islice(merge(extended, kept, key=lambda entry: -entry[0]), k))


def _sign(
    products: Sequence[Sequence[float]], tail: Sequence[float], positions: tuple[int, ...]
) -> float:
    negative = sum(products[i][j] < 0 for j, i in enumerate(positions)) + (tail[positions[-1]] < 0)
    return -1.0 if negative % 2 else 1.0


def top_ngrams(
    layer: StringKernelRNN, input: Tensor, unit: int, k: int, order: int | None = None
) -> list[NgramContribution]:
    r"""Return the k n-grams of largest absolute contribution to a state.

    .. math::
        c_n[T] = \sum_{i_1 < \dots < i_n} \; \prod_j \langle x_{i_j}, w_j \rangle
                 \prod_{s > i_1, \, s \notin i} \lambda_s

    Each term is one gapped n-gram: the products of its tokens with the slots of the unit's
    reference, times the decay at every skipped step after its first token. The sum of all terms is
    the state. With ``normalized=True``, each token has a factor :math:`1 - \lambda`; with
    ``"exact"``, all terms are divided by the mass. A gated decay is treated as a constant.

    The search is exact and takes O(T n k) steps.

    Args:
        layer: Of several layers, the first is explained; of two directions, the forward one.
        input: One sequence.
        unit: The unit.
        k: Number of n-grams.
        order: Length of the n-grams, the index of the state among c_1 … c_n; the last by default.

    Shape:
        - input ``(T, I)``

    Returns:
        At most k pairs of positions (0-based) and contribution, in descending order of absolute
        contribution, zeros included; none if the sequence is shorter than an n-gram.

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or adds the tokens of an n-gram instead
            of multiplying them; or if the dtype or device of the input differs from the layer's.
        ShapeError: If the input is not one sequence.
        ArgumentError: If unit, k or order is out of range, or a value of the input is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (3), (4), section 4.
    """
    parts = string_parts(layer, input)
    check_multiplicative(layer)
    k = check_integer("k", k, 1)
    unit = check_integer("unit", unit, 0, layer.hidden_size - 1)
    parts = parts.select(check_order(layer, order), unit)
    return best_layer_ngrams(parts, parts.divide_by_mass(parts.last_state_weights()), k)


def best_layer_ngrams(parts: StringParts, read: Tensor, k: int) -> list[NgramContribution]:
    """Return the k n-grams that contribute most to sum_t read_t c_n[t] of one unit."""
    weighted = (parts.weight[:, None] * parts.products)[..., 0]
    tail = tails(read, parts.decay)[:, 0]
    return best_ngrams(weighted.tolist(), parts.decay[:, 0].tolist(), tail.tolist(), k)


def check_multiplicative(layer: StringKernelRNN) -> None:
    """Check that a layer multiplies the tokens of an n-gram."""
    if layer.chain.combine != "multiply":
        raise KindError(
            "layer", repr(layer), "one with combine='multiply'",
            hint="Where tokens are added, n-grams have no contributions: use token_slots.",
        )  # fmt: skip


# The contribution of each token to a state of a string-kernel network, per reference slot.


def token_slots(
    layer: StringKernelRNN, input: Tensor, unit: int | None = None, order: int | None = None
) -> Tensor:
    r"""Split a state into the contributions of each token at each slot of the reference.

    With ``combine="multiply"``, entry :math:`(t, j)` is the total of all n-grams whose j-th token
    is t,

    .. math::
        A[t, j] = \sum_{i_1 < \dots < i_n, \; i_j = t} \; \prod_l \langle x_{i_l}, w_l \rangle
                  \prod_{s > i_1, \, s \notin i} \lambda_s

    and for every j the sum over t is the state :math:`c_n[T]`. Where tokens are added (``"add"``,
    ``"add_exact"``), the state is linear in each of them, and the sum over t *and* j is the state.
    One forward and one backward pass compute the contributions in O(T n). A gated decay is treated
    as a constant: the effect of a token on the gates is not attributed to it.

    Args:
        layer: Of several layers, the first is explained; of two directions, the forward one.
        input: One sequence.
        unit: The unit; all by default.
        order: Index of the state among c_1 … c_n; the last by default.

    Shape:
        - input ``(T, I)``
        - returns ``(T, n)`` for one unit, else ``(T, n, H)``

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or the dtype or device of the input
            differs from the layer's.
        ShapeError: If the input is not one sequence.
        ArgumentError: If unit or order is out of range, or a value of the input is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), section 4, Table 4.
    """
    parts = string_parts(layer, input)
    order = check_order(layer, order)
    if unit is not None:
        check_integer("unit", unit, 0, layer.hidden_size - 1)
    parts = parts.select(order, unit)
    result = parts.contributions(parts.divide_by_mass(parts.last_state_weights())).to(input.dtype)
    return result if unit is None else result[..., 0]


# The state of a string-kernel network after the substitution of one token.


def substitutions(
    layer: StringKernelRNN,
    input: Tensor,
    unit: int,
    vocabulary: Tensor,
    positions: Sequence[int] | None = None,
    order: int | None = None,
) -> Tensor:
    r"""Compute the state after every substitution of one token.

    A state is linear in each token and in the gate of its step, given the other steps:

    .. math::
        c_n[T] = a_t + \lambda_t \, k_t + \sum_j b_{tj} \langle x_t, w_j \rangle

    with :math:`a, k, b` from one forward and one backward pass, so the table is one matrix product
    with the vocabulary. A gate that depends on x is recomputed from the new token.

    Args:
        layer: Of several layers, the first is explained; of two directions, the forward one.
        input: One sequence.
        unit: The unit.
        vocabulary: Vectors of the substitutes.
        positions: Steps to substitute, one at a time; all by default.
        order: Index of the state among c_1 … c_n; the last by default.

    Shape:
        - input ``(T, I)``; vocabulary ``(V, I)``
        - returns ``(T, V)``, or a row for each of the ``positions``: the state c_n[T] with that
          step replaced by that token

    Raises:
        KindError: If the layer is not a `StringKernelRNN`; if its decay is a gate that depends on
            h, since then one token changes all later gates; or if the dtype or device of input or
            vocabulary differs from the layer's.
        ShapeError: If the input is not one sequence, or the vocabulary is not ``(V, I)``.
        ArgumentError: If unit, order or a position is out of range, or a value is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), section 4.
    """
    parts = string_parts(layer, input)
    if parts.chain.is_state_gated:
        raise KindError(
            "layer", repr(layer), "one whose decay does not depend on h",
            hint="A token changes all later gates: run the layer on each changed sequence instead.",
        )  # fmt: skip
    order = check_order(layer, order)
    unit = check_integer("unit", unit, 0, layer.hidden_size - 1)
    _check_vocabulary(layer, input, vocabulary)
    rows = range(len(input)) if positions is None else positions
    chosen = [check_integer("position", t, 0, len(input) - 1) for t in rows]
    parts = parts.select(order, unit)
    tokens = vocabulary.detach().double() @ layer.references()[unit, :order].double().T
    decay = parts.decay[chosen]
    if parts.chain.is_gated:
        gate = layer.decay_gate()
        assert isinstance(gate, dict)
        a = vocabulary.detach().double() @ gate["input"][unit].double()
        decay = torch.sigmoid(a + gate["bias"][unit].double() if "bias" in gate else a)[None]
    table = _substituted(parts, parts.last_state_weights(), chosen, tokens, decay)
    if parts.chain.normalized == "exact":
        mass_chain = replace(parts.chain, combine="multiply")  # a mass is a chain of ones
        masses = StringParts(mass_chain, torch.ones_like(parts.products), parts.decay)
        mass = _substituted(
            masses, parts.last_state_weights(), chosen, torch.ones_like(tokens), decay
        )
        table = torch.where(mass == 0, 0.0, table / torch.where(mass == 0, 1.0, mass))
    return table.to(input.dtype)


def _substituted(
    parts: StringParts, read: Tensor, chosen: list[int], tokens: Tensor, decay: Tensor
) -> Tensor:
    """Return the read-out with products ``(V, n)`` and decays ``(P|1, V|1)`` substituted."""
    sums = parts.sums(read)
    weight = 1 - decay if parts.chain.normalized == "paper" else torch.ones_like(decay)
    written = sums.linked[chosen] + sums.slots[chosen, :, 0] @ tokens.T
    return sums.fixed[chosen] + decay * sums.kept[chosen] + weight * written


def _check_vocabulary(layer: StringKernelRNN, input: Tensor, vocabulary: Any) -> None:
    expected = f"(words, {layer.input_size})"
    if not isinstance(vocabulary, Tensor):
        raise KindError("vocabulary", type(vocabulary).__name__, f"a tensor {expected}")
    if vocabulary.dim() != 2 or vocabulary.shape[1] != layer.input_size:
        raise ShapeError("vocabulary", vocabulary.shape, expected)
    if vocabulary.dtype != input.dtype or vocabulary.device != input.device:
        got = f"{vocabulary.dtype} on {vocabulary.device}"
        raise KindError(
            "vocabulary", got, f"{input.dtype} on {input.device}, the dtype and device of the input"
        )
    check_finite("vocabulary", vocabulary)
