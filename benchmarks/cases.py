"""The timed cases: sizes, layers, and modes of running them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eager import EagerRKMLSTM
from representer.nn import TABLE1
from representer.nn.recurrent.sequence_layer import SequenceLayer

OURS = ("RKM-LSTM", "RKM-CIFG", "Linear Kernel w/ o_t", "Linear Kernel")
BY_INDEX, UNBOUND = "eager loop, steps by z[t]", "eager loop, steps by unbind"
FORWARD, TRAINING = "forward", "forward + backward"
NO_INPUT_GRADIENT = "forward + backward, no gradient of the input"
STREAM = ", stream()"  # after the name of a cell
HAS_STREAMS = hasattr(SequenceLayer, "stream")  # 0.2.0 has none
READING = "reading the weights of RKM-LSTM once"
IN_SUCCESSION, IN_TURN = "steps in succession", "one step between those of the others"


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
    "words": Size(35, 20, 650, 650),
    "documents": Size(400, 16, 300, 300),
    "signals": Size(1000, 32, 11, 30),
    "points": Size(200, 500, 2, 20),
}
SMALL = ("signals", "points")  # also timed without the gradient of the input
STEP = Size(1, 1, 300, 300)
WITHOUT_CORE = Size(100, 32, 300, 300)


def layers(size: Size, *, eager: bool = False) -> dict[str, nn.Module]:
    """Return the baselines, our cells and, optionally, the eager loops, by name."""
    m, d = size.features, size.units
    made: dict[str, nn.Module] = {"nn.LSTM": nn.LSTM(m, d), "nn.GRU": nn.GRU(m, d)}
    made |= {name: TABLE1[name](m, d) for name in OURS}
    if eager:
        for name in (BY_INDEX, UNBOUND):
            made[name] = EagerRKMLSTM(made["RKM-LSTM"], by_index=name == BY_INDEX)
    return made


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

    def cell() -> None:
        h, c = layer(x, state[0])
        state[0] = (h, c)

    def sequence() -> None:
        _, state[0] = layer(x[None], state[0])

    def ours() -> None:
        _, state[0] = layer.step(x, state[0])

    take = cell if isinstance(layer, nn.LSTMCell) else sequence
    take = ours if hasattr(layer, "step") else take

    def steps() -> None:
        with torch.no_grad():
            for _ in range(calls):
                take()

    return steps


def stream(layer: SequenceLayer, calls: int) -> Callable[[], object]:
    """Return a function that takes single steps of a stream."""
    x, take = torch.randn(STEP.batch, STEP.features), layer.stream(STEP.batch)

    def steps() -> None:
        for _ in range(calls):
            take(x)

    return steps


def reading(calls: int) -> Callable[[], object]:
    """Return a function that reads as many bytes as a step of RKM-LSTM has weights: its limit."""
    weights = torch.randn(4 * STEP.units * (STEP.features + STEP.units))

    def read() -> None:
        for _ in range(calls):
            torch.sum(weights)

    return read


def operations(layer: nn.Module, size: Size, mode: str) -> float | None:
    """Return the floating-point operations of the products; None where they are not counted."""
    gates = {nn.LSTM: 4, nn.GRU: 3}.get(type(layer)) or _gates(layer)
    if gates is None:
        return None
    one = 2.0 * size.time * size.batch * gates * size.units  # for each feature or unit that is seen
    of_input = {FORWARD: 1, TRAINING: 3, NO_INPUT_GRADIENT: 2}[mode]
    return one * (of_input * size.features + (1 if mode == FORWARD else 3) * size.units)


def _gates(layer: nn.Module) -> int | None:
    cell = getattr(layer, "cell", None)
    return None if cell is None else len(cell.gates)
