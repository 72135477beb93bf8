"""The state of a string-kernel network after the substitution of one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.explain.checks import check_finite
from representer.explain.string_parts import StringParts, check_order, string_parts
from representer.nn import StringKernelRNN
from representer.requirements import check_integer


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
            "layer",
            repr(layer),
            "one whose decay does not depend on h",
            hint="A token changes all later gates: run the layer on each changed sequence instead.",
        )
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
        kind = f"{vocabulary.dtype} on {vocabulary.device}"
        raise KindError(
            "vocabulary",
            kind,
            f"{input.dtype} on {input.device}, the dtype and device of the input",
        )
    check_finite("vocabulary", vocabulary)
