"""The cells of L19 written out step by step, from a layer's inspected weights: an oracle.

Nothing here uses the library; a step is as the paper prints it. One sequence ``(T, I)``, filters
``(H, I, n)`` whose slot s multiplies x_{t - s d}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from small_oracles import sigma
from torch import Tensor

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def product(filters: Tensor, x: Tensor, t: int, d: int) -> Tensor:
    """X~ . X_t = X~_0 x_t + X~_{-1} x_{t-d} + ... with zeros before the first step."""
    total = torch.zeros(len(filters), dtype=x.dtype)
    for s in range(filters.shape[2]):
        if t - s * d >= 0:
            total = total + filters[:, :, s] @ x[t - s * d]
    return total


@dataclass(frozen=True)
class Weights:
    """Parameters of a layer; gates that it does not have, or that see no h, count 0."""

    filters: dict[str, Tensor]
    recurrent: dict[str, Tensor]
    biases: dict[str, Tensor]
    d: int

    @staticmethod
    def of(layer) -> Weights:
        return Weights(layer.filters(), layer.recurrent(), layer.biases(), layer.dilation)

    def z(self, gate: str, x: Tensor, t: int, h: Tensor) -> Tensor:
        """W z'_t + b with z'_t = [x_t, ..., x_{t-n+1}, h_{t-1}]."""
        total = product(self.filters[gate], x, t, self.d)
        if gate in self.recurrent:
            total = total + self.recurrent[gate] @ h
        if gate in self.biases:
            total = total + self.biases[gate]
        return total


Step = Callable[[Weights, Tensor, int, Tensor, Tensor], tuple[Tensor, Tensor]]


def lstm(w: Weights, x: Tensor, t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    eta, f, o = (sigma(w.z(gate, x, t, h)) for gate in ("input", "forget", "output"))
    c = eta * torch.tanh(w.z("candidate", x, t, h)) + f * c
    return o * torch.tanh(c), c


def rkm_lstm(w: Weights, x: Tensor, t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    eta, f, o = (sigma(w.z(gate, x, t, h)) for gate in ("input", "forget", "output"))
    c = eta * w.z("candidate", x, t, h) + f * c
    return o * c, c


def rkm_cifg(w: Weights, x: Tensor, t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    f, o = (sigma(w.z(gate, x, t, h)) for gate in ("forget", "output"))
    c = (1 - f) * w.z("candidate", x, t, h) + f * c
    return o * c, c


def linear_kernel_gated(
    w: Weights, x: Tensor, t: int, h: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    o = sigma(w.z("output", x, t, h))
    c = 0.5 * w.z("candidate", x, t, h) + 0.5 * c
    return o * c, c


def linear_kernel(w: Weights, x: Tensor, t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    c = 0.5 * w.z("candidate", x, t, h) + 0.5 * c
    return torch.tanh(c), c


def gated_cnn(w: Weights, x: Tensor, t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    nothing = torch.zeros_like(h)
    c = w.z("candidate", x, t, nothing)
    return sigma(w.z("output", x, t, nothing)) * c, c


def cnn(w: Weights, x: Tensor, t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    c = w.z("candidate", x, t, torch.zeros_like(h))
    return torch.tanh(c), c


TABLE1_STEPS: dict[str, Step] = {
    "LSTM": lstm, "RKM-LSTM": rkm_lstm, "RKM-CIFG": rkm_cifg,
    "Linear Kernel w/ o_t": linear_kernel_gated, "Linear Kernel": linear_kernel,
    "Gated CNN": gated_cnn, "CNN": cnn,
}  # fmt: skip


def run(step: Step, layer, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return h_1..h_T ``(T, H)`` and the last h and c."""
    weights = Weights.of(layer)
    h = c = torch.zeros(layer.hidden_size, dtype=x.dtype)
    outputs = []
    for t in range(len(x)):
        h, c = step(weights, x, t, h, c)
        outputs.append(h)
    return torch.stack(outputs), h, c


def set_weights(
    layer,
    filters: dict[str, Tensor],
    recurrent: dict[str, Tensor] | None = None,
    biases: dict[str, Tensor] | None = None,
) -> None:
    """Give a one-layer machine of a single filter length the weights of each gate by name."""
    cell = layer.cell
    slots_last = torch.cat([filters[g] for g in cell.gates])
    with torch.no_grad():
        layer.weight_ih_l0.copy_(slots_last.transpose(1, 2).flatten(1))
        if layer.weight_hh_l0 is not None:
            assert recurrent is not None
            layer.weight_hh_l0.copy_(torch.cat([recurrent[g] for g in cell.recurrent_gates]))
        if layer.bias_l0 is not None:
            assert biases is not None
            layer.bias_l0.copy_(torch.cat([biases[g] for g in cell.biased_gates]))


def sequence(time: int, features: int) -> Tensor:
    return torch.randn(time, features, dtype=torch.float64)


def small(time: int, features: int, n: int = 1, largest: float = 0.15) -> Tensor:
    """A sequence whose products with n-gram filters of entries in (-1, 1) are below ``largest``.

    There the nested (e^z - 1)/2 stays bounded and z/(2 - z) away from its pole.
    """
    x = sequence(time, features)
    return x * largest / (n * features**0.5 * (1e-3 + x.norm(dim=1, keepdim=True)))
