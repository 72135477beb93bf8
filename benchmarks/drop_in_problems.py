"""Small problems on which a layer replaces another one; data depend on the seed alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from representer.data.text import code_lines

TRAIN, TEST = 6000, 2000


@dataclass(frozen=True)
class Examples:
    """Inputs and targets."""

    inputs: Any  # a tensor with one row per example, or a list of graphs ``(x, edge_index)``
    targets: Tensor  # classes, int64, or numbers ``(N,)``

    def rows(self, chosen: Tensor) -> tuple[Any, Tensor]:
        """Return some of the examples; graphs are joined to ``(x, edge_index, batch, size)``."""
        if isinstance(self.inputs, Tensor):
            return self.inputs[chosen], self.targets[chosen]
        graphs = [self.inputs[i] for i in chosen.tolist()]
        sizes = torch.tensor([len(x) for x, _ in graphs])
        starts = (sizes.cumsum(0) - sizes).tolist()
        edges = [e + start for (_, e), start in zip(graphs, starts, strict=True)]
        batch = torch.arange(len(graphs)).repeat_interleave(sizes)
        joined = torch.cat([x for x, _ in graphs]), torch.cat(edges, dim=1), batch, len(graphs)
        return joined, self.targets[chosen]


@dataclass(frozen=True)
class Problem:
    """A task with its data."""

    title: str
    steps: int  # of optimization
    draw: Callable[[torch.Generator], tuple[Examples, Examples]]  # for training and for the test
    classes: int | None = None  # None for a regression
    vocabulary: int | None = None  # None for features
    mean: bool = False  # read the mean over time instead of the last output


def drawn(
    draw_split: Callable[[int, torch.Generator], Examples], train: int = TRAIN, test: int = TEST
) -> Callable[[torch.Generator], tuple[Examples, Examples]]:
    """Return a function that draws training and test examples."""
    return lambda g: (draw_split(train, g), draw_split(test, g))


def order(n: int, g: torch.Generator) -> Examples:
    """Return tokens 2 … 9 with one 0 and one 1 among them; the class is which of them is first."""
    x = torch.randint(2, 10, (n, 20), generator=g)
    places = torch.rand(n, 20, generator=g).argsort(1)[:, :2]
    x.scatter_(1, places, torch.tensor([[0, 1]]).expand(n, -1))
    return Examples(x, (places[:, 0] < places[:, 1]).long())


def majority(n: int, g: torch.Generator) -> Examples:
    """Return bits; the class is the more frequent one."""
    x = torch.randint(0, 2, (n, 21), generator=g)
    return Examples(x, (x.sum(1) > 10).long())


def brackets(n: int, g: torch.Generator) -> Examples:
    """Return balanced brackets of two kinds, one of which has the wrong kind in half of them."""
    rng = random.Random(int(torch.randint(1 << 30, (1,), generator=g)))
    rows, classes = [], []
    for _ in range(n):
        row: list[int] = []
        open_kinds: list[int] = []
        for left in range(20, 0, -1):
            if not open_kinds or (len(open_kinds) < left and rng.random() < 0.5):
                open_kinds.append(rng.randrange(2))
                row.append(open_kinds[-1])
            else:
                row.append(2 + open_kinds.pop())
        classes.append(rng.randrange(2))
        if not classes[-1]:
            row[rng.randrange(20)] ^= 1
        rows.append(row)
    return Examples(torch.tensor(rows), torch.tensor(classes))


def adding(n: int, g: torch.Generator) -> Examples:
    """Return 50 numbers in [0, 1], two of them marked; the target is their sum."""
    values, marks = torch.rand(n, 50, generator=g), torch.zeros(n, 50)
    marks.scatter_(1, torch.rand(n, 50, generator=g).argsort(1)[:, :2], 1.0)
    return Examples(torch.stack((values, marks), dim=-1), (values * marks).sum(1))


def digits(width: int) -> Callable[[torch.Generator], tuple[Examples, Examples]]:
    """Return scikit-learn's digits as sequences of some pixels at a time, or whole for 64."""

    def draw(g: torch.Generator) -> tuple[Examples, Examples]:
        data = load_digits()
        order = torch.randperm(len(data.target), generator=g)
        x = torch.tensor(data.data, dtype=torch.float32)[order] / 8 - 1
        y = torch.tensor(data.target)[order]
        x = x if width == 64 else x.unflatten(1, (-1, width))
        return Examples(x[500:], y[500:]), Examples(x[:500], y[:500])

    return draw


WORDS = 1500


def code(g: torch.Generator) -> tuple[Examples, Examples]:
    """Return lines of code, half of them with two swapped tokens; 0 is padding, 1 rare tokens."""
    table = code_lines(int(torch.randint(1 << 30, (1,), generator=g)), count=TRAIN)
    lines = [text.split() for text in table.texts]
    count = TRAIN * 3 // 4
    frequent = Counter(word for line in lines[:count] for word in line).most_common(WORDS - 2)
    numbers = {word: k for k, (word, seen) in enumerate(frequent, start=2) if seen > 1}
    x = torch.zeros(len(lines), 25, dtype=torch.int64)
    for row, line in zip(x, lines, strict=True):
        row[: len(line)] = torch.tensor([numbers.get(word, 1) for word in line])
    y = torch.tensor([label == "swapped" for label in table.labels]).long()
    return Examples(x[:count], y[:count]), Examples(x[count:], y[count:])


SEQUENCES = {
    "order": Problem("order of two tokens", 300, drawn(order), 2, 10),
    "majority": Problem("majority of bits", 300, drawn(majority), 2, 2),
    "brackets": Problem("matching brackets", 500, drawn(brackets), 2, 4),
    "adding": Problem("adding, 50 steps", 900, drawn(adding)),
    "digits": Problem("digits, two pixels a step", 600, digits(2), 10),
    "code": Problem("swapped code tokens", 900, code, 2, WORDS, mean=True),
}


def _both_ways(edges: Tensor) -> Tensor:
    return torch.cat((edges, edges.flip(0)), dim=1)


def rings(n: int, g: torch.Generator) -> Examples:
    """Return rings, and chains of as many nodes, with random features."""
    graphs, classes = [], torch.randint(0, 2, (n,), generator=g)
    for label in classes.tolist():
        size = 2 * int(torch.randint(4, 9, (1,), generator=g))
        nodes = torch.arange(size)
        follow = (nodes + 1) % size
        if label:  # a chain: the last edge is missing
            nodes, follow = nodes[:-1], follow[:-1]
        x = torch.ones(size, 4)
        x[:, 1:] = torch.randint(0, 2, (size, 3), generator=g).float()
        graphs.append((x, _both_ways(torch.stack((nodes, follow)))))
    return Examples(graphs, classes)


def _random_graph(g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return kinds of 8 to 16 nodes, one of three, and undirected edges, some three per node."""
    size = int(torch.randint(8, 17, (1,), generator=g))
    edges = torch.triu(torch.rand(size, size, generator=g) < 3 / size, diagonal=1).nonzero().T
    return torch.randint(0, 3, (size,), generator=g), _both_ways(edges)


def random_graphs(
    n: int, g: torch.Generator, count: Callable[[Tensor, Tensor], Tensor]
) -> Examples:  # fmt: skip
    """Return random graphs, and what is counted from the kinds of their nodes and their edges."""
    graphs, counts = [], []
    for _ in range(n):
        kinds, edges = _random_graph(g)
        graphs.append((torch.eye(3)[kinds], edges))
        counts.append(int(count(kinds, edges).sum()))
    return Examples(graphs, torch.tensor(counts, dtype=torch.float32))


def is_pair(kinds: Tensor, edges: Tensor) -> Tensor:
    """Return the edges between the first two kinds."""
    return (kinds[edges[0]] == 0) & (kinds[edges[1]] == 1)


def is_between(kinds: Tensor, edges: Tensor) -> Tensor:
    """Return the nodes next to the first two kinds."""
    near = torch.zeros(len(kinds), 3).index_add(0, edges[1], torch.eye(3)[kinds][edges[0]])
    return (near[:, 0] > 0) & (near[:, 1] > 0)


GRAPHS = {
    "rings": Problem("ring or chain", 300, drawn(rings, 2000, 1000), 2),
    "pairs": Problem(
        "edges between two kinds", 500, drawn(partial(random_graphs, count=is_pair), 2000, 1000)
    ),
    "between": Problem(
        "nodes next to two kinds", 500, drawn(partial(random_graphs, count=is_between), 2000, 1000)
    ),
}


def waves(n: int, g: torch.Generator) -> Examples:
    """Return numbers in [−3, 3] and a sum of two sines with noise."""
    x = 6 * torch.rand(n, 1, generator=g) - 3
    clean = (2 * x[:, 0]).sin() + 0.5 * (5 * x[:, 0]).cos()
    return Examples(x, clean + 0.1 * torch.randn(n, generator=g))


def spirals(n: int, g: torch.Generator) -> Examples:
    """Return points on two interleaved spirals."""
    turn, classes = 9 * torch.rand(n, generator=g), torch.randint(0, 2, (n,), generator=g)
    angle = turn + torch.pi * classes
    x = torch.stack((angle.cos(), angle.sin()), dim=1) * (0.3 + turn[:, None] / 4)
    return Examples(x + 0.05 * torch.randn(n, 2, generator=g), classes)


ACTIVATIONS = {
    "waves": Problem("one input, two sines", 1000, drawn(waves, 1000, 1000)),
    "spirals": Problem("two spirals", 1000, drawn(spirals, 1000, 1000), 2),
    "images": Problem("digits", 600, digits(64), 10),
}
