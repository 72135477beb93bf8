"""Random expressions of kernels, and objects for them, from a fixed generator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import torch
from torch import nn
from torch_geometric.data import Data

from representer.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    Embedded,
    Gaussian,
    InversePolynomial,
    Kernel,
    Linear,
    Polynomial,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
    TreeKernel,
    WeisfeilerLehmanKernel,
)
from representer.nn import Relabeling

FEATURES = 3


class Drawn(NamedTuple):
    """An expression with objects that it compares."""

    kernel: Kernel
    objects: Any
    own: bool  # references of the parts


class NodeMap(nn.Module):
    """tanh(A x) of the features of all nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES, dtype=torch.float64)

    def forward(self, data: Data) -> Data:
        x = torch.tanh(self.linear(data.x))
        return Data(x=x, edge_index=data.edge_index, edge_attr=data.edge_attr)


def point(draw: Random) -> Kernel:
    degree, offset = draw.choice([1, 2, 3]), draw.choice([0, 0.5, 1.0])
    return draw.choice([Gaussian(draw.choice([0.7, 1.5])), Polynomial(degree, offset), Linear()])


def string(draw: Random) -> Kernel:
    which = draw.randrange(6)
    if which == 4:
        q, n = draw.choice(["linear", "polynomial"]), draw.choice([1, 2])
        return RecurrentKernel(q, filter_length=n, dilation=draw.choice([1, 2]))
    if which == 5:
        activation = draw.choice([Gaussian(), Linear(), Polynomial(2, 0.5)])
        return DeepStringKernel(draw.choice([(2, 2), (1, 2), (2,)]), 0.5, activation)
    return StringKernel(
        draw.choice([1, 2, 3]), draw.choice([0.0, 0.3, 0.5, 0.9, 1.0]),
        draw.choice(["multiply", "multiply", "add"]), draw.choice([False, False, True, "exact"]),
        draw.choice(["linear", "linear", point(draw)]), draw.choice([True, True, False]),
    )  # fmt: skip


def walk(draw: Random, order: int) -> RandomWalkKernel:
    return RandomWalkKernel(
        order, draw.choice([0.0, 0.5, 1.0]), draw.choice(["multiply", "add"]),
        draw.choice([False, False, "polynomial", "exponential", Gaussian()]),
        draw.choice(["linear", "linear", point(draw)]),
    )  # fmt: skip


def graph(draw: Random) -> Kernel:
    which = draw.randrange(6)
    if which == 4:
        combine, activation = draw.choice(["multiply", "add"]), draw.choice([None, "polynomial"])
        return DeepGraphKernel(2, 2, 0.5, combine, activation)
    if which == 5:
        relabel = Relabeling(FEATURES, activation="tanh", dtype=torch.float64)
        return WeisfeilerLehmanKernel(walk(draw, 2), draw.choice([1, 2]), relabel)
    return walk(draw, draw.choice([1, 2, 3]))


LEAVES: dict[str, Callable[[Random], Kernel]] = {
    "sequences": string,
    "vectors": point,
    "graphs": graph,
    "trees": lambda draw: TreeKernel(
        draw.choice([1, 2, 3]), draw.choice([0.0, 0.5, 1.0]), draw.choice([False, True])
    ),
}


def expression(draw: Random, objects: str, depth: int) -> Kernel:
    """Return a kernel of the depth at most."""
    if depth == 0 or draw.random() < 0.15:
        return LEAVES[objects](draw)
    inner = expression(draw, objects, depth - 1)
    match draw.randrange(8):
        case 0 | 1:
            return inner + expression(draw, objects, depth - 1)
        case 2 | 3:
            return inner * expression(draw, objects, depth - 1)
        case 4:
            return draw.choice([0.1, 0.5, 2]) * inner
        case 5:
            return inner ** draw.choice([1, 2])
        case 6:
            bounded = draw.choice([None, Gaussian(), InversePolynomial(), Polynomial(2)])
            return inner.cosine() if bounded is None else inner.cosine().activated(bounded)
        case _:
            if objects in ("graphs", "trees"):
                return Embedded(inner, NodeMap())
            linear = nn.Linear(FEATURES, FEATURES, dtype=torch.float64)
            return Embedded(inner, nn.Sequential(linear, nn.Tanh()))


def vectors(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.6 * torch.randn(count, FEATURES, dtype=torch.float64, generator=generator)


def graphs(seed: int) -> list[Data]:
    generator = torch.Generator().manual_seed(seed)
    made = []
    for nodes in (3, 1, 4):
        edges = torch.randint(nodes, (2, 2 * nodes if nodes > 1 else 0), generator=generator)
        made.append(Data(x=vectors(nodes, seed + nodes), edge_index=edges))
    return made


def trees(seed: int) -> list[Data]:
    draw, made = Random(seed), []
    for nodes in (4, 1, 6):
        parents = [draw.randrange(node) for node in range(1, nodes)]
        edges = torch.tensor([[*range(1, nodes)], parents], dtype=torch.int64)
        made.append(Data(x=vectors(nodes, seed + nodes), edge_index=edges))
    return made


OBJECTS: dict[str, Callable[[int], Any]] = {
    "sequences": lambda seed: [vectors(n, seed + n) for n in (4, 0, 1, 6)],
    "vectors": lambda seed: vectors(4, seed), "graphs": graphs, "trees": trees,
}  # fmt: skip


def expressions(count: int, seed: int = 0) -> Iterator[Drawn]:
    """Yield random expressions of depth up to 4."""

    def every() -> Iterator[Drawn]:
        draw = Random(seed)
        while True:
            objects = draw.choice([*LEAVES, "sequences"])
            kernel = expression(draw, objects, draw.randrange(5))
            yield Drawn(kernel, OBJECTS[objects](draw.randrange(10**6)), draw.random() < 0.15)

    return islice(every(), count)


def is_same(first: Any, second: Any) -> bool:
    """Return True for kernels with equal parameters, and the same modules in them."""
    if not isinstance(first, Kernel):
        return first is second or bool(first == second)
    own, others = first.get_params(deep=True), second.get_params(deep=True)
    alike = type(first) is type(second) and own.keys() == others.keys()
    return alike and all(is_same(own[name], others[name]) for name in own)


def without_repeat(kernel: Kernel) -> Kernel:
    """Return a kernel that is whole, and so comes back with ``repeat=True``, as it was."""
    if isinstance(kernel, (RecurrentKernel, WeisfeilerLehmanKernel)) and kernel.repeat:
        return copy.copy(kernel).set_params(repeat=False)
    return kernel
