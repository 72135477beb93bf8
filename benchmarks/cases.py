"""The timed cases of the cells: sizes, layers, the eager loop, and modes of running them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.nn import RKMLSTM, TABLE1
from representer.nn.recurrent.sequence_layer import SequenceLayer

OURS = ("RKM-LSTM", "RKM-CIFG", "Linear Kernel w/ o_t", "Linear Kernel")
BY_INDEX, UNBOUND = "eager loop, steps by z[t]", "eager loop, steps by unbind"
FORWARD, TRAINING = "forward", "forward + backward"
NO_INPUT_GRADIENT = "forward + backward, no gradient of the input"
STREAM = ", stream()"  # after the name of a cell
HAS_STREAMS = hasattr(SequenceLayer, "stream")  # 0.2.0 has none


@dataclass(frozen=True)
class Size:
    """T steps, B sequences, m features, d units."""

    time: int
    batch: int
    features: int
    units: int

    def __str__(self) -> str:
        return f"(T, B, m, d) = ({self.time}, {self.batch}, {self.features}, {self.units})"


SIZES = {
    "words": Size(35, 20, 650, 650), "documents": Size(400, 16, 300, 300),
    "signals": Size(1000, 32, 11, 30), "points": Size(200, 500, 2, 20),
}  # fmt: skip
STEP, WITHOUT_CORE = Size(1, 1, 300, 300), Size(100, 32, 300, 300)


class EagerRKMLSTM(nn.Module):
    """The RKM-LSTM as a plain Python loop with autograd, with the parameters of a layer.

        a_t = X~ x_t + b + H~ h_{t-1},   c_t = i_t * c~_t + f_t * c_{t-1},   h_t = o_t * c_t

    The input product of all steps is computed at once. How the steps are then separated decides
    the cost of the gradient: with ``z[t]``, autograd fills a tensor of the size of z for every
    step, which costs O(T^2); with ``z.unbind()`` it does not.
    """

    def __init__(self, layer: RKMLSTM, *, by_index: bool) -> None:
        super().__init__()
        self.by_index = by_index

        def stacked(by_gate: dict[str, Tensor]) -> nn.Parameter:
            return nn.Parameter(torch.cat(list(by_gate.values())).clone())

        filters = {gate: weight[:, :, 0] for gate, weight in layer.filters().items()}
        no_bias = {"candidate": torch.zeros(layer.hidden_size)}
        self.filters, self.recurrent = stacked(filters), stacked(layer.recurrent())
        self.bias = stacked({**no_bias, **layer.biases()})

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Run over ``(T, B, I)`` from zeros."""
        z = F.linear(x, self.filters, self.bias)
        h = c = x.new_zeros(x.shape[1], self.recurrent.shape[1])
        outputs = []
        for z_t in (z[t] for t in range(len(z))) if self.by_index else z.unbind():
            candidate, i, f, o = (z_t + F.linear(h, self.recurrent)).chunk(4, dim=-1)
            c = torch.sigmoid(i) * candidate + torch.sigmoid(f) * c
            h = torch.sigmoid(o) * c
            outputs.append(h)
        return torch.stack(outputs), (h, c)


def layers(size: Size, *, eager: bool = False) -> dict[str, nn.Module]:
    """Return the baselines, our cells and, optionally, the eager loops, by name."""
    m, d = size.features, size.units
    modules: dict[str, nn.Module] = {"nn.LSTM": nn.LSTM(m, d), "nn.GRU": nn.GRU(m, d)}
    modules |= {name: TABLE1[name](m, d) for name in OURS}
    for name in (BY_INDEX, UNBOUND) if eager else ():
        modules[name] = EagerRKMLSTM(modules["RKM-LSTM"], by_index=name == BY_INDEX)  # type: ignore[arg-type]
    return modules


def run(layer: nn.Module, size: Size, mode: str) -> Callable[[], object]:
    """Return a function that runs a layer once on random input."""
    shape = (size.time, size.batch)
    x, gradient = torch.randn(*shape, size.features), torch.randn(*shape, size.units)
    x.requires_grad_(mode == TRAINING)

    def forward() -> None:
        with torch.no_grad():
            layer(x)

    def training() -> None:
        x.grad = None
        layer.zero_grad(set_to_none=True)
        layer(x)[0].backward(gradient)

    return forward if mode == FORWARD else training


def step(layer: nn.Module, calls: int) -> Callable[[], object]:
    """Return a function that takes single steps, carrying the state, without gradients."""
    x = torch.randn(STEP.batch, STEP.features)
    state: list[Tensor | tuple[Tensor, ...] | None] = [None]

    def take() -> None:
        if isinstance(layer, nn.LSTMCell):
            state[0] = layer(x, state[0])
        elif isinstance(layer, SequenceLayer):
            _, state[0] = layer.step(x, state[0])
        else:
            _, state[0] = layer(x[None], state[0])

    def steps() -> None:
        with torch.no_grad():
            for _ in range(calls):
                take()

    return steps


def stream(layer: SequenceLayer, calls: int) -> Callable[[], object]:
    """Return a function that takes single steps of a stream."""
    x, take = torch.randn(STEP.batch, STEP.features), layer.stream(STEP.batch)
    return lambda: [take(x) for _ in range(calls)]


def operations(layer: nn.Module, size: Size, mode: str) -> float | None:
    """Return the floating-point operations of the products; None where they are not counted."""
    cell = getattr(layer, "cell", None)
    gates = {nn.LSTM: 4, nn.GRU: 3}.get(type(layer)) or (cell and len(cell.gates))
    if not gates:
        return None
    for_each = 2.0 * size.time * size.batch * gates * size.units  # feature or unit that is seen
    of_input = {FORWARD: 1, TRAINING: 3, NO_INPUT_GRADIENT: 2}[mode]
    return for_each * (of_input * size.features + (1 if mode == FORWARD else 3) * size.units)
