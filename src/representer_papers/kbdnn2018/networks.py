"""The networks that M18 compares, the standard ones that it could have, and their first weights."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from representer.nn import KBRN, NgramLSTM
from representer.nn.recurrent.direction import CellDirection
from representer.nn.recurrent.kbrn_direction import KBRNDirection

CELLS = {
    "kbrn": "learned activations from zero, as the authors start them",
    "kbrn-fitted": "learned activations that begin as tanh, absolute values for g",
    "kbrn-long": "`kbrn-fitted` from orthogonal recurrent weights and small input weights",
    "kbrn-long-grown": "`kbrn-long` on sequences that grow, with the gradient's norm cut at 0.1",
    "kbrn-grown": "`kbrn-fitted` on sequences that grow, with the gradient's norm cut at 1",
    "tanh": "tanh units with the same normalization, not learned",
    "tanh-grown": "`tanh` on sequences that grow, with the gradient's norm cut at 1",
    "tanh-long-grown": "`tanh` with the start and the sequences of `kbrn-long-grown`",
    "lstm": "the standard LSTM",
    "lstm-sigmoid": "the authors' LSTM: the sigmoid in every place",
    "rnn": "sigmoid units",
}
GREENS = {"paper": "relu", "authors_code": "abs"}
"""The Green function of ``kbrn``: the text's and the code's."""
RANGE = 3.0  # of the fit of tanh, as normalized sums fill it


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
    """The LSTM with the sigmoid in the place of both tanh, as the authors' code builds it."""

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
    """A recurrent layer and what reads it.

    Args:
        layer: Which takes ``(T, B, I)``.
        readout: Of the last output; None where every output is the answer of its step.
        squashes: Whether the answer goes through the sigmoid.
    """

    def __init__(self, layer: nn.Module, readout: nn.Linear | None, squashes: bool) -> None:
        super().__init__()
        self.layer, self.readout, self.squashes = layer, readout, squashes

    def forward(self, x: Tensor) -> Tensor:
        """Return answers ``(B,)``, or ``(T, B)`` without a read-out."""
        output, _ = self.layer(x)
        answer = (output if self.readout is None else self.readout(output[-1]))[..., 0]
        return torch.sigmoid(answer) if self.squashes else answer


def long_term_network(cell: str, preset: str, units: int = 20, centers: int = 100) -> Network:
    """Return a network for the problem of two bits.

    Weights of learned activations and of tanh units are normal numbers cut at two deviations, as
    in the authors' code; so is every read-out. The LSTMs have the first weights and the forget bias
    of 1 of the authors' framework. In the authors' code their read-out has no sigmoid.
    """
    layer = _normalized(cell, preset, units, centers)
    if layer is None:
        layer = _lstm(cell, units)
    readout = nn.Linear(units, 1)
    nn.init.trunc_normal_(readout.weight)
    nn.init.zeros_(readout.bias)
    plain = preset == "authors_code" and cell.startswith("lstm")
    return Network(layer, readout, squashes=not plain)


def charging_network(cell: str, preset: str, centers: int = 20) -> Network:
    """Return a network of one unit for the charging problem.

    Of a learned activation the output goes through the sigmoid to be compared, but not to be
    carried; the others' output is compared as it is. Nothing is normalized. All weights of a
    learned activation begin as 1.
    """
    if not cell.startswith("kbrn"):
        layer = _lstm(cell, 1) if cell.startswith("lstm") else SigmoidRNN(1, 1)
        return Network(layer, None, squashes=False)
    options: dict[str, Any] = {"init": "zeros", "green": GREENS[preset]}
    if cell == "kbrn-fitted":
        options = {"init": "tanh", "limits": (-RANGE, RANGE)}
    layer = KBRN(1, 1, num_centers=centers, normalize=False, **options)
    direction = cast(KBRNDirection, layer.directions[0])
    nn.init.ones_(direction.input_weight)
    nn.init.ones_(direction.recurrent)
    return Network(layer, None, squashes=True)


def _normalized(cell: str, preset: str, units: int, centers: int) -> KBRN | None:
    common: dict[str, Any] = {"num_centers": centers, "eval_statistics": "batch"}
    if cell == "kbrn":
        return KBRN(1, units, init="zeros", green=GREENS[preset], **common)
    if cell.startswith("lstm"):
        return None
    start = "orthogonal" if "-long" in cell else "normal"
    layer = KBRN(1, units, init="tanh", limits=(-RANGE, RANGE), start=start, **common)
    if cell.startswith("tanh"):  # a hundred straight pieces are tanh to four digits
        for parameter in layer.activation().parameters():
            parameter.requires_grad_(False)
    return layer


def _lstm(cell: str, units: int) -> nn.Module:
    """Return an LSTM with the first weights of the authors' framework, and its forget bias of 1."""
    bound = (6 / (1 + units + 4 * units)) ** 0.5  # of one matrix for input and state, all gates
    if cell == "lstm-sigmoid":
        layer: nn.Module = SigmoidLSTM(1, units)
        biases = cast(SigmoidLSTM, layer).sums.bias
    else:
        layer = NgramLSTM(1, units, forget_bias=1.0)
        biases = cast(CellDirection, layer.directions[0]).bias
    assert biases is not None
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    nn.init.zeros_(biases)
    if cell == "lstm-sigmoid":
        with torch.no_grad():
            biases[2 * units : 3 * units] = 1.0  # of the forget gate
    return layer
