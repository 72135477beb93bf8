"""Start weights of a recurrent kernel machine, for which its memory cell has unit variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from representer.functional import Cell
from representer.nn.recurrent.initial import (
    LONGEST,
    Moments,
    draw,
    draw_gate,
    gate_moments,
    spread_logits,
)

FEEDBACK = 0.5  # standard deviation of the candidate's feedback, for h of mean square 1
OPEN = 2.0  # bias of the output gate if the memory is a feedback through it
TINY = 1e-6  # stands for a gate of 0


class CellWeights(NamedTuple):
    """The weights of one direction.

    Attributes:
        filters: Those of the units of each filter length ``(G·H', n·I)``.
        recurrent: ``(R·H, H)``, or None.
        bias: ``(b·H,)``, or None.
        static: σ_i² and σ_f², if the gates are static.
        forget_bias: Constant added to the bias of the forget gate.
    """

    filters: Sequence[Tensor]
    recurrent: Tensor | None
    bias: Tensor | None
    static: tuple[float, float]
    forget_bias: float


def has_unit_start(cell: Cell) -> bool:
    """Return True if the memory is a sum over candidates that are linear in the input."""
    return cell.candidate == "identity" and cell.memory == "cell"


@torch.no_grad()
def draw_cell(cell: Cell, units: int, weights: CellWeights) -> None:
    """Draw weights for which the memory cell has variance 1, with memories of all lengths.

    Biases of forget gates are spread, see ``spread_logits``, and input gates start at 1 − f. With a
    static forget gate, a feedback of each unit to itself spreads the memories instead.

    Args:
        cell: The cell, see ``has_unit_start``.
        units: H.
        weights: They are modified.
    """
    recurrent = _by_gate(cell.recurrent_gates, weights.recurrent)
    logits = spread_logits(units)
    zeros = torch.zeros_like(logits)
    is_fed_back = cell.forget_gate == "static" and "candidate" in recurrent
    bias = {"input": zeros, "forget": zeros, "output": zeros}
    if weights.bias is not None:
        bias = {"input": -logits, "forget": logits, "output": zeros + OPEN * is_fed_back}
        for gate, own in _by_gate(cell.biased_gates, weights.bias).items():
            own.copy_(bias.get(gate, zeros))
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
        own = weight.unflatten(0, (len(cell.gates), -1))
        rows = slice(start, start := start + own.shape[1])
        draw(own[0], (variance[rows] / weight.shape[1]).sqrt())
        for gate, filters in zip(cell.gates[1:], own[1:], strict=True):
            draw_gate(filters, recurrent[gate][rows] if gate in recurrent else None)


def own_feedback(
    factor: Tensor, static: tuple[float, float], output: Moments
) -> tuple[Tensor, Tensor]:
    """Return the feedback d of units to themselves for which their memories have all lengths.

    A step multiplies c by σ_f² + σ_i² o_t d. It is λ with an open output gate and never above
    1 if σ_f² is not, so that with this feedback alone the state is bounded whatever the gate does.

    Args:
        factor: λ ``(H,)``.
        static: σ_i² > 0 and σ_f².
        output: Moments of o_t.

    Returns:
        d, and the mean square of the factor of a step.
    """
    i, f = static
    d = (factor - f) / i if i > TINY else torch.zeros_like(factor)
    return d, f**2 + 2 * f * i * d * output.mean + (i * d) ** 2 * output.square


def _by_gate(names: tuple[str, ...], whole: Tensor | None) -> dict[str, Tensor]:
    """Return the views of the gates' parts, which are stacked."""
    return {} if whole is None else dict(zip(names, whole.chunk(len(names)), strict=True))
