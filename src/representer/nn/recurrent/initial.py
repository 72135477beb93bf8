"""Start weights of unit variance: the parts that all recurrent layers share.

``docs/derivations/initialization.md`` has the derivation. Inputs are assumed to be independent over
time, with features of mean 0 and mean square 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.functional import Cell, StringChain

Initialization = Literal["unit", "paper"]
GATE_VARIANCE = 1 / 3  # of a gate's pre-activation; torch.nn.LSTM's with equal sizes
LONGEST = 0.995  # a longer memory is treated as this one, of 1 / (1 - LONGEST²) = 100 steps
POINTS = 21  # of the quadrature


class Moments(NamedTuple):
    """Moments of a gate g over random inputs, one entry per unit."""

    square: Tensor  # E[g²]
    complement: Tensor  # E[(1 − g)²]

    @property
    def mean(self) -> Tensor:
        """E[g]."""
        return (1 + self.square - self.complement) / 2


def check_initialization(value: Any) -> Initialization:
    """Return the name of an initialization if it is known."""
    if value not in get_args(Initialization):
        raise ArgumentError("initialization", value, "'unit' or 'paper'")
    return value


def spread_logits(units: int) -> Tensor:
    """Return σ^{−1} of forget factors that are evenly spaced in (0, 1), in random order.

    A unit with factor λ remembers for about 1 / (1 − λ) steps: from 1 to 2 H, and a fraction 1 / t
    of the units for longer than t.

    References:
        Gu et al., Improving the Gating Mechanism of Recurrent Neural Networks, ICML 2020.
    """
    places = torch.randperm(units, dtype=torch.float64, device="cpu")  # even for a layer on "meta"
    return torch.logit((places + 0.5) / units)


def fixed_moments(factor: Tensor) -> Moments:
    """Return the moments of constant factors in [0, 1]."""
    constant = factor.double().clamp(max=LONGEST)
    return Moments(constant.square(), (1 - constant).square())


def gate_moments(bias: Tensor) -> Moments:
    """Return the moments of σ(a), a from N(bias, GATE_VARIANCE), by Gauss-Hermite quadrature."""
    points, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(POINTS))
    weights = weights / weights.sum()
    gates = torch.sigmoid(bias.double()[:, None] + math.sqrt(GATE_VARIANCE) * points)
    return Moments(gates.square() @ weights, (1 - gates).square() @ weights)


@torch.no_grad()
def draw(weight: Tensor, deviation: Tensor | float) -> None:
    """Draw a weight from a uniform distribution of mean 0.

    The deviation is of all entries, or of each row ``(H,)``.
    """
    nn.init.uniform_(weight, -math.sqrt(3), math.sqrt(3))
    weight.mul_(deviation.to(weight)[:, None] if isinstance(deviation, Tensor) else deviation)


def draw_gate(*weights: Tensor | None) -> None:
    """Draw the matrices of a gate, so that its pre-activation has `GATE_VARIANCE`.

    They are on each input ``(H, …)``, None for one that it lacks.
    """
    drawn = [weight for weight in weights if weight is not None]
    fan_in = sum(weight.shape[-1] for weight in drawn)
    for weight in drawn:
        draw(weight, math.sqrt(GATE_VARIANCE / fan_in))


# Start weights of a recurrent kernel machine, for which its memory cell has unit variance.

FEEDBACK = 0.5  # standard deviation of the candidate's feedback, for h of mean square 1
OPEN = 2.0  # bias of the output gate if the memory is a feedback through it
TINY = 1e-6  # stands for a gate of 0


class CellWeights(NamedTuple):
    """The weights of one direction."""

    filters: Sequence[Tensor]  # those of the units of each filter length ``(G·H', n·I)``
    recurrent: Tensor | None  # ``(R·H, H)``, or None
    bias: Tensor | None  # ``(b·H,)``, or None
    static: tuple[float, float]  # σ_i² and σ_f², if the gates are static
    forget_bias: float  # constant added to the bias of the forget gate


def has_unit_start(cell: Cell) -> bool:
    """Return True if the memory is a sum over candidates that are linear in the input."""
    return cell.candidate == "identity" and cell.memory == "cell"


@torch.no_grad()
def draw_cell(cell: Cell, units: int, weights: CellWeights) -> None:
    """Draw weights for which the memory cell has variance 1, with memories of all lengths.

    Biases of forget gates are spread, see ``spread_logits``, and input gates start at 1 − f. With a
    static forget gate, a feedback of each unit to itself spreads the memories instead.
    """
    recurrent = _by_gate(cell.recurrent_gates, weights.recurrent)
    logits = spread_logits(units)
    zeros = torch.zeros_like(logits)
    is_fed_back = cell.forget_gate == "static" and "candidate" in recurrent
    bias = {"input": zeros, "forget": zeros, "output": zeros}
    if weights.bias is not None:
        bias = {"input": -logits, "forget": logits, "output": zeros + OPEN * is_fed_back}
        for gate, gate_rows in _by_gate(cell.biased_gates, weights.bias).items():
            gate_rows.copy_(bias.get(gate, zeros))
        bias["forget"] = logits + weights.forget_bias
    gates = {gate: gate_moments(values) for gate, values in bias.items()}
    output = gates["output"] if cell.output_gate else Moments(zeros + 1, zeros)
    i, f = max(weights.static[0], TINY), weights.static[1]
    taken = {
        "dynamic": gates["input"].square, "coupled": gates["forget"].complement,
        "static": zeros + i**2,
    }[cell.input_gate]  # fmt: skip
    kept = {
        "dynamic": gates["forget"].square, "none": zeros, "static": zeros + min(f, LONGEST) ** 2
    }[cell.forget_gate]  # fmt: skip
    diagonal, room = zeros, 1.0  # the largest stable factor of the feedback, at most 1
    if is_fed_back:
        diagonal, kept = own_feedback(torch.sigmoid(logits), (i, f), output)
        room = min(1.0, max(0.0, 1 - f) / i)
    variance = (1 - kept).clamp(min=0) / taken  # of the candidate
    if "candidate" in recurrent:
        share = (FEEDBACK * room) ** 2 * (1 - kept).clamp(min=0)
        draw(recurrent["candidate"], (share / units).sqrt())
        recurrent["candidate"].diagonal().add_(diagonal.to(recurrent["candidate"]))
        variance = variance - share * output.square
    start = 0
    for weight in weights.filters:
        gate_rows = weight.unflatten(0, (len(cell.gates), -1))
        rows = slice(start, start := start + gate_rows.shape[1])
        draw(gate_rows[0], (variance[rows] / weight.shape[1]).sqrt())
        for gate, filters in zip(cell.gates[1:], gate_rows[1:], strict=True):
            draw_gate(filters, recurrent[gate][rows] if gate in recurrent else None)


def own_feedback(
    factor: Tensor, static: tuple[float, float], output: Moments
) -> tuple[Tensor, Tensor]:
    """Return the feedback d of units to themselves for which their memories have all lengths.

    A step multiplies c by σ_f² + σ_i² o_t d. It is λ with an open output gate and never above 1 if
    σ_f² is not, so that with this feedback alone the state is bounded whatever the gate does. λ is
    ``(H,)``, ``static`` σ_i² > 0 and σ_f²; beside d, the mean square of the factor of a step is
    returned.
    """
    i, f = static
    d = (factor - f) / i if i > TINY else torch.zeros_like(factor)
    return d, f**2 + 2 * f * i * d * output.mean + (i * d) ** 2 * output.square


def _by_gate(names: tuple[str, ...], whole: Tensor | None) -> dict[str, Tensor]:
    """Return the views of the gates' parts, which are stacked."""
    return {} if whole is None else dict(zip(names, whole.chunk(len(names)), strict=True))


# Start weights of a string-kernel layer, for which its states have unit variance.

AVERAGED = 0.5  # the longest decay for which an average has unit variance in the limit


class StringWeights(NamedTuple):
    """The weights of one direction."""

    input: Tensor  # references and gates ``(P, H, I)``
    recurrent: Tensor | None  # the decay gate's matrix on h ``(H, H)``, or None
    bias: Tensor | None  # biases of the gates ``(G·H,)``, or None
    logit: Tensor | None  # σ^{−1} of a learned decay ``(H,)``, or None
    decay: float | str  # a constant decay; anything if it is learned or a gate


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
    for matrix, deviation in zip(weights.input[: chain.order], deviations, strict=True):
        draw(matrix, deviation)


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
