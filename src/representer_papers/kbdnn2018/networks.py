"""The networks that M18 compares, standard networks beside them, and their initial weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from representer.nn import KBRN, NgramLSTM

# The problems of M18 section 4: parity, charging, and the first two bits of a long sequence.


FUNCTIONS = {"or": (0, 1, 1, 1), "and": (0, 0, 0, 1), "xor": (0, 1, 1, 0), "iff": (1, 0, 0, 1)}
"""Values of each function on 00, 01, 10 and 11."""
SIGNS = {"or": "∨", "and": "∧", "xor": "⊕", "iff": "≡"}

CHARGES = {"paper": (0, 9), "authors_code": (1, 10)}
"""Smallest and largest charge added at a step, by preset."""


def parity(bits: int) -> tuple[Tensor, Tensor]:
    """Return the truth table of n bits ``(2^n, n)`` and the parity of each row ``(2^n,)``."""
    rows = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * bits)
    return rows, rows.sum(1) % 2


def charging(
    batch: int, preset: str, generator: torch.Generator, time: int = 30
) -> tuple[Tensor, Tensor]:
    """Return sequences with charges at three steps, and whether any charge is left at each step.

    h_t = x_t + max(0, h_{t-1} - 1), y_t = [h_t > 0] (M18 (7)). The three steps are drawn one by
    one; if two coincide, the later draw counts. x is ``(T, B, 1)`` and y ``(T, B)``.
    """
    low, high = CHARGES[preset]
    x = torch.zeros(time, batch)
    every = torch.arange(batch)
    for _ in range(3):
        places = torch.randint(0, time, (batch,), generator=generator)
        x[places, every] = torch.randint(low, high + 1, (batch,), generator=generator).float()
    charge, charges = torch.zeros(batch), []
    for x_t in x:
        charge = x_t + (charge - 1).clamp(min=0)
        charges.append(charge)
    return x[..., None], (torch.stack(charges) > 0).float()


def two_bits(
    function: str, time: int, batch: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return random bits ``(T, B, 1)`` and a function of the first two ``(B,)``."""
    x = torch.randint(0, 2, (time, batch), generator=generator)
    values = torch.tensor(FUNCTIONS[function])
    return x[..., None].float(), values[2 * x[0] + x[1]].float()


TITLES = {
    "kbrn": "learned activations initialized to zero, as in the authors' code",
    "kbrn-fitted": "learned activations initialized to tanh, with g(u) = \\|u\\|",
    "kbrn-long": "`kbrn-fitted` with orthogonal recurrent weights and small input weights",
    "kbrn-long-grown": "`kbrn-long` on growing sequences, gradient norm clipped at 0.1",
    "kbrn-grown": "`kbrn-fitted` on growing sequences, gradient norm clipped at 1",
    "tanh": "fixed tanh units with the same normalization",
    "tanh-grown": "`tanh` on growing sequences, gradient norm clipped at 1",
    "tanh-long-grown": "`tanh` with the initialization and the sequences of `kbrn-long-grown`",
    "lstm": "standard LSTM",
    "lstm-grown": "`lstm` on growing sequences, gradient norm clipped at 1",
    "lstm-sigmoid": "the authors' LSTM, with sigmoids instead of tanh",
    "rnn": "sigmoid units",
}
RANGE = 3.0  # normalized sums lie within it, so tanh is fitted there


class SigmoidRNN(nn.Module):
    """h_t = sigma(W x_t + U h_{t-1} + b)."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.sums = nn.Linear(input_size + units, units)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return all outputs ``(T, B, H)`` and the last."""
        h, outputs = x.new_zeros(x.shape[1], self.sums.out_features), []
        for x_t in x:
            h = torch.sigmoid(self.sums(torch.cat((x_t, h), dim=1)))
            outputs.append(h)
        return torch.stack(outputs), h


class SigmoidLSTM(nn.Module):
    """The LSTM with sigmoids instead of both tanh, as in the authors' code."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.sums = nn.Linear(input_size + units, 4 * units)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return all outputs ``(T, B, H)`` and the last."""
        units = self.sums.out_features // 4
        h = c = x.new_zeros(x.shape[1], units)
        outputs = []
        for x_t in x:
            sums = self.sums(torch.cat((x_t, h), dim=1))
            i, candidate, f, o = torch.sigmoid(sums).split(units, dim=1)
            c = f * c + i * candidate
            h = o * torch.sigmoid(c)
            outputs.append(h)
        return torch.stack(outputs), h


class Network(nn.Module):
    """A recurrent layer with a readout of the last output, or predictions at every step.

    If it ``squashes``, predictions pass through the sigmoid.
    """

    def __init__(self, layer: nn.Module, readout: nn.Linear | None, squashes: bool) -> None:
        super().__init__()
        self.layer, self.readout, self.squashes = layer, readout, squashes

    def forward(self, x: Tensor) -> Tensor:
        """Return predictions ``(B,)``, or ``(T, B)`` without a readout."""
        output, _ = self.layer(x)
        prediction = (output if self.readout is None else self.readout(output[-1]))[..., 0]
        return torch.sigmoid(prediction) if self.squashes else prediction


def long_term_network(cell: str, preset: str, units: int = 20, centers: int = 100) -> Network:
    """Return a network for the two-bits problem.

    Weights of learned activations, tanh units and readouts are drawn from a normal distribution
    truncated at two standard deviations, as in the authors' code. The LSTMs have the initialization
    and the forget bias of 1 of the authors' framework. In the authors' code their readout has no
    sigmoid.
    """
    is_lstm = cell.startswith("lstm")
    layer = _lstm(cell, units) if is_lstm else _normalized(cell, units, centers)
    readout = nn.Linear(units, 1)
    nn.init.trunc_normal_(readout.weight)
    nn.init.zeros_(readout.bias)
    return Network(layer, readout, squashes=not (is_lstm and preset == "authors_code"))


def charging_network(cell: str, centers: int = 20) -> Network:
    """Return a network of one unit for the charging problem.

    With a learned activation, predictions are the sigmoid of the output, while the recurrent state
    is the output itself; other cells predict their output. Nothing is normalized. All weights of a
    learned unit are initialized to 1. g(u) = |u|: section 3 takes -(|u| + u) / 2 without its linear
    term.
    """
    if not cell.startswith("kbrn"):
        layer = _lstm(cell, 1) if cell.startswith("lstm") else SigmoidRNN(1, 1)
        return Network(layer, None, squashes=False)
    options: dict[str, Any] = {"init": "zeros"}
    if cell == "kbrn-fitted":
        options = {"init": "tanh", "limits": (-RANGE, RANGE)}
    layer = KBRN(1, 1, num_centers=centers, normalize=False, **options)
    nn.init.ones_(layer.get_parameter("weight_ih_l0"))
    nn.init.ones_(layer.get_parameter("weight_hh_l0"))
    return Network(layer, None, squashes=True)


def _normalized(cell: str, units: int, centers: int) -> KBRN:
    common: dict[str, Any] = {"num_centers": centers, "eval_statistics": "batch"}
    if cell == "kbrn":
        return KBRN(1, units, init="zeros", **common)
    start = "orthogonal" if "-long" in cell else "normal"
    layer = KBRN(1, units, init="tanh", limits=(-RANGE, RANGE), start=start, **common)
    if cell.startswith("tanh"):  # a hundred linear pieces equal tanh to four digits
        for parameter in layer.activation().parameters():
            parameter.requires_grad_(False)
    return layer


def _lstm(cell: str, units: int) -> nn.Module:
    """Return an LSTM with the initialization of the authors' framework and a forget bias of 1."""
    bound = (6 / (1 + units + 4 * units)) ** 0.5  # one matrix holds input and state of all gates
    if cell != "lstm-sigmoid":
        layer = NgramLSTM(1, units, forget_bias=1.0)
        # drawn in the order of the published runs
        for name in ("weight_hh_l0", "bias_l0", "weight_ih_l0"):
            nn.init.uniform_(layer.get_parameter(name), -bound, bound)
        nn.init.zeros_(layer.get_parameter("bias_l0"))
        return layer
    sigmoid = SigmoidLSTM(1, units)
    for parameter in sigmoid.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    with torch.no_grad():
        sigmoid.sums.bias.zero_()[2 * units : 3 * units] = 1.0  # forget gate
    return sigmoid
