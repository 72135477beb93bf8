"""Start weights of a string-kernel layer, for which its states have unit variance."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from representer.functional import StringChain
from representer.nn.recurrent.initial import (
    Initialization,
    Moments,
    draw,
    draw_gate,
    fixed_moments,
    gate_moments,
    spread_logits,
)

AVERAGED = 0.5  # the longest decay for which an average has unit variance in the limit


class StringWeights(NamedTuple):
    """The weights of one direction.

    Attributes:
        input: References and gates ``(P, H, I)``.
        recurrent: The decay gate's matrix on h ``(H, H)``, or None.
        bias: Biases of the gates ``(G·H,)``, or None.
        logit: σ^{−1} of a learned decay ``(H,)``, or None.
        decay: A constant decay; anything if it is learned or a gate.
    """

    input: Tensor
    recurrent: Tensor | None
    bias: Tensor | None
    logit: Tensor | None
    decay: float | str


@torch.no_grad()
def draw_chain(chain: StringChain, weights: StringWeights, start: Initialization) -> None:
    """Draw the weights of a cell."""
    for parameter in (weights.bias, weights.logit):
        if parameter is not None:
            nn.init.zeros_(parameter)
    if start == "paper":
        _draw_as_paper(chain, weights)
        return
    _, units, size = weights.input.shape
    logits = spread_logits(units)
    if chain.is_gated:
        if weights.bias is not None:
            weights.bias[:units].copy_(logits)
        moments = gate_moments(torch.zeros_like(logits) if weights.bias is None else logits)
        draw_gate(weights.input[chain.order], weights.recurrent)
    elif weights.logit is not None:
        weights.logit.copy_(logits)
        moments = fixed_moments(torch.sigmoid(logits))
    else:
        assert not isinstance(weights.decay, str)
        factor = torch.full_like(logits, weights.decay)
        moments = fixed_moments(factor)
        if chain.normalized == "paper":  # 1 − λ multiplies every term, for any length of memory
            moments = moments._replace(complement=(1 - factor).square())
    if chain.highway:
        draw_gate(weights.input[-1])
    deviations = token_deviations(chain, moments) * size**-0.5
    for own, deviation in zip(weights.input[: chain.order], deviations, strict=True):
        draw(own, deviation)


def _draw_as_paper(chain: StringChain, weights: StringWeights) -> None:
    """Draw from U(−√(3/fan_in), √(3/fan_in)), as in the authors' code."""
    size = weights.input.shape[2]
    nn.init.uniform_(weights.input, -math.sqrt(3 / size), math.sqrt(3 / size))
    if weights.recurrent is not None:  # fan_in of the gate includes both inputs
        bound = math.sqrt(3 / (size + len(weights.recurrent)))
        nn.init.uniform_(weights.recurrent, -bound, bound)
        nn.init.uniform_(weights.input[chain.order], -bound, bound)


def token_deviations(chain: StringChain, moments: Moments) -> Tensor:
    """Return the standard deviation of ⟨w_j, x_t⟩ for each token and unit ``(n, H)``.

    With it, every state c_j of a product has variance 1 in the limit of long sequences. In a sum,
    c_j contains c_{j−1} with a fixed weight, so only c_n has variance 1, to which the n tokens
    contribute equally.

    An average (``normalized="exact"``) is largest at its first n-gram and shrinks with the number
    of n-grams, by thousands for long memories. Decays above `AVERAGED` are treated as this one: the
    deviation of a product is then 3^{n/2} at most, at the first n-gram.

    Args:
        chain: The cell.
        moments: Those of the decay.
    """
    if chain.normalized == "exact":
        moments = Moments(
            moments.square.clamp(max=AVERAGED**2), moments.complement.clamp(min=(1 - AVERAGED) ** 2)
        )
    n, square, step = chain.order, moments.square, moments.complement.sqrt()
    if chain.combine == "multiply":
        deviation = (1 - square).sqrt()
        return (deviation if chain.normalized == "no" else deviation / step).expand(n, -1)
    is_weighted = chain.combine == "add_exact" and chain.normalized != "paper"
    rows = []
    for j in range(1, n + 1):
        # the powers of 1 − λ that a token takes: one for each state from its own to the last, or
        # those of the masses, m_n in the denominator and m_{j−1} in the numerator
        power = {"no": 0, "paper": n - j + 1, "exact": n}[chain.normalized] - is_weighted * (j - 1)
        rows.append(step**-power / (n * _response(square, n - j)).sqrt())
    return torch.stack(rows)


def _response(square: Tensor, m: int) -> Tensor:
    """Return Σ_t C(t, m)² λ^{2(t−m)}, the energy of the response of m + 1 decays in a row."""
    terms = torch.stack([math.comb(m, k) ** 2 * square**k for k in range(m + 1)])
    return terms.sum(0) / (1 - square) ** (2 * m + 1)
