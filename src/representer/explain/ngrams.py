"""The gapped n-grams that contribute most to a state of a string-kernel network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import StringChain, string_scan
from representer.functional.strings import Combine
from representer.nn import StringKernelRNN
from representer.nn.recurrent.sequence_layer import SequenceLayer, check_input, check_lengths
from representer.ops import gated_scan

# The products, decays and states of a string-kernel layer for one sequence, in float64.
#
# Contributions are computed in float64 for every dtype of the layer, so that they sum to the state
# up to the rounding error of the layer itself.
#
# Shapes: T time, n order, H units.

# Argument checks of the explanations.


def check_sequence(layer: SequenceLayer, input: Any, *, is_stride_allowed: bool = False) -> Tensor:
    """Return the input if it is one sequence for the layer."""
    if layer.stride > 1 and not is_stride_allowed:
        raise ArgumentError("layer.stride", layer.stride, "1 for an explanation")
    if not isinstance(input, Tensor):
        raise KindError("input", type(input).__name__, f"a tensor (time, {layer.input_size})")
    if input.dim() != 2:
        raise ShapeError(
            "input", input.shape, f"one sequence (time, {layer.input_size})",
            hint="Explain the sequences of a batch one by one.",
        )  # fmt: skip
    check_input(input, layer.input_size, False, like=next(layer.parameters()))
    check_lengths(input[:, None], None, layer.stride)
    return check_finite("input", input)


def check_finite(name: str, rows: Tensor) -> Tensor:
    """Return the rows if all their values are finite."""
    is_invalid = ~torch.isfinite(rows).flatten(1).all(1)
    if is_invalid.any():
        first = int(is_invalid.nonzero()[0])
        raise ArgumentError(f"{name}[{first}]", rows[first].tolist(), "finite numbers")
    return rows


def refuse_layer(layer: Any, reasons: dict[str, bool]) -> None:
    """Raise the first reason that holds against a decomposition of the output of one layer."""
    reasons |= {
        "It has several layers: use stack_readout.": layer.num_layers > 1,
        "It has two directions: use stack_readout.": layer.bidirectional,
    }
    expected = "one whose output is a sum over the steps"
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise KindError("layer", repr(layer), expected, hint=reason)


# A read-out of a string chain as a function of each step, from a forward and a backward pass.
#
#     y = sum over t of r_t c_J[t]                                          the read-out
#     y = fixed[t] + lam_t kept[t] + w_t ( linked[t] + sum_j slots_j[t] p_j[t] )    for every t
#
# since a state is linear in each step while the others are fixed. With G_j[t] = dy/dc_j[t] and
# M_j[t] = dy/dm_j[t], computed backwards from the last step,
#
#     slots_j[t] = G_j[t] c_{j-1}[t-1]       multiply      (G_j[t] in add, G_j[t] m_{j-1}[t-1] in
#     kept[t]    = sum_j G_j[t] c_j[t-1] + M_j[t] m_j[t-1]                            add_exact)
#     linked[t]  = 0                         multiply      the part independent of the token:
#                  sum_j G_j[t] c_{j-1}[t-1] + M_j[t] m_{j-1}[t-1]             add and add_exact
#     fixed[t]   = the part of y read before step t, and that of n-grams that begin after it
#
# Lei et al. 2017, (4) and Tables 4 and 5; ``functional.string_scan`` has the chain itself.
#
# Shapes: T time, n order of the chain, J order of the read-out, H units.


@dataclass(frozen=True)
class ChainSums:
    """The four parts of a read-out at every step, as defined in the module docstring."""

    fixed: Tensor  # ``(T, H)``
    kept: Tensor  # ``(T, H)``
    linked: Tensor  # ``(T, H)``
    slots: Tensor  # ``(T, J, H)``


def chain_states(
    products: Tensor, decay: Tensor, weight: Tensor, combine: Combine = "multiply"
) -> tuple[Tensor, Tensor]:
    """Return c_1..c_n and the masses m_1..m_n of every prefix, each ``(T, n, H)``.

    The products p_j[t] are ``(T, n, H)``, decay and weight ``(T, H)``.
    """
    ones = torch.ones_like(decay)
    shorter, lighter = ones if combine == "multiply" else 0 * ones, ones
    states, masses = [], []
    for p in products.unbind(1):
        token = {"multiply": shorter * p, "add": shorter + p, "add_exact": shorter + lighter * p}
        states.append(_run(weight * token[combine], decay))
        masses.append(_run(weight * lighter, decay))
        shorter, lighter = before(states[-1]), before(masses[-1])
    return torch.stack(states, dim=1), torch.stack(masses, dim=1)


def chain_sums(
    products: Tensor, decay: Tensor, weight: Tensor, read: Tensor, combine: Combine = "multiply"
) -> ChainSums:
    """Split a read-out of c_J into its parts at each step.

    The products p_1..p_J are ``(T, J, H)``, and ``read`` r_t ``(T, H)`` is the weight of c_J[t] in
    the read-out.
    """
    states, masses = chain_states(products, decay, weight, combine)
    c, m = before(states), before(masses)
    ones = torch.ones_like(c[:, :1])
    shorter = torch.cat((ones if combine == "multiply" else 0 * ones, c[:, :-1]), dim=1)
    lighter = torch.cat((ones, m[:, :-1]), dim=1)
    G, M = _gradients(products, decay, weight, read, combine)
    head = {"multiply": shorter, "add": torch.ones_like(c), "add_exact": lighter}[combine]
    if combine == "multiply":
        linked, begun = torch.zeros_like(decay), products[:, 0] * G[:, 0]
    else:
        linked = (G * shorter + M * lighter).sum(1)
        begun = products[:, 0] * G[:, 0] + M[:, 0]
        if combine == "add":
            begun = (products * G).sum(1)
    earlier = before((read * states[:, -1]).cumsum(0))
    later = after((weight * begun).flip(0).cumsum(0).flip(0))
    return ChainSums(earlier + later, (G * c + M * m).sum(1), linked, G * head)


def tails(read: Tensor, decay: Tensor) -> Tensor:
    """Return the gradient of the read-out with respect to c_J at every step ``(T, H)``."""
    return _run(read, after(decay), reverse=True)


def _gradients(
    products: Tensor, decay: Tensor, weight: Tensor, read: Tensor, combine: Combine
) -> tuple[Tensor, Tensor]:
    """Return G and M, each ``(T, J, H)``."""
    order, next_decay = products.shape[1], after(decay)
    gradients, mass_gradients = [tails(read, decay)] * order, [torch.zeros_like(read)] * order
    for j in range(order - 2, -1, -1):
        p, upper = products[:, j + 1], gradients[j + 1]
        joined = p * upper if combine == "multiply" else upper
        gradients[j] = _run(after(weight * joined), next_decay, reverse=True)
        if combine == "add_exact":
            joined = p * upper + mass_gradients[j + 1]
            mass_gradients[j] = _run(after(weight * joined), next_decay, reverse=True)
    return torch.stack(gradients, dim=1), torch.stack(mass_gradients, dim=1)


def before(values: Tensor) -> Tensor:
    """Shift values by one step to later steps; the first becomes 0."""
    return torch.cat((torch.zeros_like(values[:1]), values[:-1]))


def after(values: Tensor) -> Tensor:
    """Shift values by one step to earlier steps; the last becomes 0."""
    return torch.cat((values[1:], torch.zeros_like(values[:1])))


def _run(added: Tensor, kept: Tensor, reverse: bool = False) -> Tensor:
    return gated_scan(added[:, None], kept[:, None], reverse=reverse)[0][:, 0]


@dataclass(frozen=True)
class StringParts:
    """The products and decays of every step."""

    chain: StringChain
    products: Tensor  # p_j[t] ``(T, n, H)``
    decay: Tensor  # lam_t ``(T, H)``
    highway: Tensor | None = None  # the highway's gate ``(T, H)``, or None

    @property
    def weight(self) -> Tensor:
        """Return w_t ``(T, H)``, the weight of a new term: 1 − lam_t in Table 4, else 1."""
        is_weighted = self.chain.normalized == "paper"
        return 1 - self.decay if is_weighted else torch.ones_like(self.decay)

    def select(self, order: int, unit: int | None = None) -> StringParts:
        """Return the parts up to one order, of all units or of a single one (H = 1)."""
        kept = slice(None) if unit is None else slice(unit, unit + 1)
        highway = None if self.highway is None else self.highway[:, kept]
        parts = (self.products[:, :order, kept], self.decay[:, kept], highway)
        return StringParts(replace(self.chain, order=order), *parts)

    def states(self) -> tuple[Tensor, Tensor]:
        """Return c_1..c_n before division by their masses, and the masses, each ``(T, n, H)``."""
        return chain_states(self.products, self.decay, self.weight, self.chain.combine)

    def divide_by_mass(self, weights: Tensor) -> Tensor:
        """Convert weights of the states to weights of c_n[t] before division by its mass."""
        if self.chain.normalized != "exact":
            return weights
        mass = self.states()[1][:, -1]
        return torch.where(mass == 0, 0.0, weights / torch.where(mass == 0, 1.0, mass))

    def sums(self, read: Tensor) -> ChainSums:
        """Split sum_t read_t c_n[t] at every step."""
        return chain_sums(self.products, self.decay, self.weight, read, self.chain.combine)

    def product_gradients(self, read: Tensor) -> Tensor:
        """Return the gradient of a read-out with respect to each product ``(T, n, H)``."""
        return self.weight[:, None] * self.sums(read).slots

    def contributions(self, read: Tensor) -> Tensor:
        """Return the contribution of each token in each slot ``(T, n, H)``."""
        return self.product_gradients(read) * self.products

    def last_state_weights(self) -> Tensor:
        """Return the weights ``(T, H)`` of a read-out that equals the last state."""
        weights = torch.zeros_like(self.decay)
        weights[-1] = 1
        return weights


def string_parts(layer: StringKernelRNN, input: Tensor) -> StringParts:
    """Return the parts of a layer for a sequence, from a zero state, in evaluation mode.

    Only the first layer and its forward direction are used.

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or as in `check_sequence`.
        ShapeError: If the input is not one sequence.
        ArgumentError: If a value is not finite.
    """
    check_layer(layer)
    x = check_sequence(layer, input).detach().double()
    direction = layer.plain_direction(0)
    chain, n = direction.chain, direction.chain.order
    z = torch.einsum("ti,phi->tph", x, direction.input_weight.detach().double())
    if direction.bias is not None:  # of the gates, which follow the products
        z[:, n:] += direction.bias.detach().double()
    if direction.decay is not None:
        decay = direction.decay.detach().double().expand_as(z[:, 0])
    elif direction.weight is None:
        decay = torch.sigmoid(z[:, n])
    else:
        weight = direction.weight.detach().double()
        zeros = z.new_zeros(1, chain.states, layer.hidden_size)
        carry = x[:, None] if chain.highway else None
        h, _, _ = string_scan(
            z[:, None], zeros[:, 0], zeros, chain=chain, weight=weight, carry=carry
        )
        decay = torch.sigmoid(z[:, n] + before(h[:, 0]) @ weight.T)
    highway = torch.sigmoid(z[:, -1]) if chain.highway else None
    return StringParts(chain, z[:, :n], decay, highway)


def check_layer(layer: Any) -> None:
    """Check that a layer is a `StringKernelRNN`."""
    if not isinstance(layer, StringKernelRNN):
        raise KindError("layer", type(layer).__name__, "a StringKernelRNN")


def check_order(layer: StringKernelRNN, order: int | None) -> int:
    """Return the length of the n-grams; the layer's order by default.

    Raises:
        ArgumentError: If the layer has no n-grams of that length.
    """
    most = layer.chains[0].order
    return most if order is None else check_integer("order", order, 1, most)


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
