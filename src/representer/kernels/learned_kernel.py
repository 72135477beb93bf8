"""The kernel that a gated layer has learned: the inner product of the features of its units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from representer.checks import check_integer
from representer.errors import KindError, NoKernelError, ShapeError
from representer.kernels.graphs import Graph, batches, read_graphs
from representer.kernels.kernel import Kernel, Objects, Values, takes_rows
from representer.kernels.sequences import EMPTY, Sequences, empty_gram, read_pair
from representer.kernels.trees import read_trees
from representer.ops.held_chain import HeldChain
from representer.ops.held_walks import HeldWalks

ENTRIES = 2**22  # of the largest intermediate tensor
NODES = 512  # of a block of graphs
FORMS = "a recurrent layer or a network of walks of representer.nn"


class LearnedKernel(Kernel):
    r"""The kernel of the features of a layer with gates, as the layer is.

    .. math::
        k(x, y) = \sum_i k_i(x, y), \qquad
        k_i(x, y) = \sum_{s, s'} w_i(x, s)\, w_i(y, s') \langle \phi(s), \phi(s') \rangle

    where s are the steps, n-grams or walks of x with their features φ, and w_i the weights that
    the gates of unit i give them. Once its gates are held, the state of a unit is
    :math:`\langle \Phi_i(x), r_i \rangle` with :math:`\Phi_i(x) = \sum_s w_i(x, s) \phi(s)` and its
    reference r_i, so that the kernel is symmetric and positive semidefinite, whatever the gates
    depend on. `unit` is one of the units.

    A step of a memory cell has the features :math:`[X_s, h_{s-1}]`, and 1 with a bias, of which the
    candidate sees those that it has; its weight is the input gate times the later forget gates and,
    with the identity on the output, the last output gate. An n-gram of a string chain has the
    product of its tokens, and the decays of the steps that it skips. A walk has the product of its
    nodes (and edges), and the gates of its edges; a chain of a tree has that of its nodes, and the
    gates above those that it skips. If a read-out sums several states, so does the kernel.

    The layer is used in evaluation mode, with its current weights. For tensors, values are
    differentiable in the layer's weights.

    Args:
        layer: A recurrent layer, ``StringKernelRNN``, ``RandomWalkKernelNN``, ``WLKernelNN`` or
            ``TreeKernelNN``, of one layer and direction. For several layers, ``layer.kernel``
            embeds the objects by the layers below.

    Shape:
        - X a list of N sequences ``(T_i, I)``, of graphs or of trees; Y a list of M
        - returns ``(N, M)``

    Raises:
        NoKernelError: If a unit is not linear in its reference; the message states the reason.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (10), (16).
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 4.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self._check()

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the layer reads."""
        if hasattr(self.layer, "held_chain"):
            return "sequences"
        return "trees" if hasattr(self.layer, "edge_decays") else "graphs"

    def no_network(self) -> str:
        """Return why the kernel has no network."""
        return "It is the kernel of a layer with its gates, and the layer is its network."

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        """Return the Gram matrix of X with Y, or of X with itself."""
        self._check()
        x, y = self._read(X, Y)
        if not (x.items and y.items):
            return self._values(x, lambda: empty_gram(x, y))
        return self._values(x, lambda: self._form().gram(x, None if y is x else y))

    def diag(self, X: Iterable[Any]) -> Values:
        """Return k(x, x) of each object."""
        self._check()
        x, _ = self._read(X)
        return self._values(x, lambda: self._form().diag(x) if x.items else empty_gram(x))

    def unit(self, index: int) -> LearnedUnit:
        """Return the kernel of one unit."""
        return LearnedUnit(self.layer, index)

    def _units(self) -> slice:
        return slice(None)

    def _form(self) -> _Sequences | _Graphs:
        form = _Sequences if self.objects == "sequences" else _Graphs
        return form(self.layer, self._units())

    def _read(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        if self.objects == "sequences":
            return read_pair(X, Y)
        read = read_trees if self.objects == "trees" else read_graphs
        x = read(X)
        return x, x if Y is None else read(Y, "Y")

    def _check(self) -> None:
        layer = self.layer
        if not hasattr(layer, "not_linear"):
            raise KindError("layer", repr(layer), FORMS)
        if reason := layer.not_linear():
            expected = "one whose units are linear in their references"
            raise NoKernelError("layer", repr(layer), expected, hint=reason)


class LearnedUnit(LearnedKernel):
    """The kernel of one unit of a layer; see :class:`LearnedKernel`.

    Args:
        layer: The layer.
        index: The unit.
    """

    def __init__(self, layer: Any, index: int) -> None:
        self.index = index
        super().__init__(layer)

    @property
    def reference(self) -> Any:
        """The reference of the unit, as `value` takes it.

        ``(n, I)`` tokens of a string chain; ``(1, n·I + H)`` of a memory cell: the filter, newest
        slot first, then, where the candidate has them, its row of the recurrent matrix and its
        bias; ``(n, d)`` nodes of a walk, with separate levels ``(L, n, d)``; with edge features, a
        pair of the nodes and the edges ``(n − 1, K)``; of an ordered tree, and positions.
        """
        parts = [part.detach() for part in self._form().references()]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def value(self, X: Iterable[Any], reference: Any = None) -> Values:
        """Return the state of the unit for each object ``(len(X),)``.

        Gates, and h of the previous steps, are those of the layer, so with another reference, this
        is not the state of a layer with that reference, unless gates and candidate see x alone.

        Args:
            X: The objects.
            reference: A reference of the shape of `reference`, which is the default.
        """
        self._check()
        form, (x, _) = self._form(), self._read(X)
        own = form.references()
        if reference is not None:
            pair = reference if isinstance(reference, (tuple, list)) else (reference,)
            given = [torch.as_tensor(part).to(own[0]) for part in pair]
            for part, expected in zip(given, own, strict=True):
                if part.shape != expected.shape:
                    raise ShapeError("reference", part.shape, f"{tuple(expected.shape)}")
            own = given
        return self._values(x, lambda: form.states(x, own) if x.items else empty_gram(x))

    def _units(self) -> slice:
        return slice(self.index, self.index + 1)

    def _check(self) -> None:
        super()._check()
        units = getattr(self.layer, "hidden_size", None) or self.layer.hidden_channels
        check_integer("index", self.index, 0, units - 1)


class _Form:
    """Some units of a layer."""

    def __init__(self, layer: Any, units: slice) -> None:
        self.layer, self.units = layer, units

    def references(self) -> list[Tensor]:
        """Return the reference of the first of the units, without an axis of the units."""
        return [part[..., self.units, :][..., 0, :] for part in self.layer.unit_references()]


class _Sequences(_Form):
    """Some units of a recurrent layer."""

    def states(self, x: Sequences, references: list[Tensor]) -> Tensor:
        """Return the state of one unit for each sequence ``(N,)``."""
        own = references[0].to(x.items[0])[:, None]
        return self._ordered(x, [held.states(own)[:, 0] for held in self._held(x)])

    def gram(self, x: Sequences, y: Sequences | None) -> Tensor:
        """Return the Gram matrix."""
        rows, columns = self._held(x), self._held(x if y is None else y)
        if _features_are_cheaper(rows, columns):
            K = _products(rows, columns if y is not None else rows)
        else:
            K = _pairs(rows, None if y is None else columns)
        order_x, order_y = _by_length(x), _by_length(x if y is None else y)
        return K[torch.tensor(order_x).argsort()][:, torch.tensor(order_y).argsort()]

    def diag(self, x: Sequences) -> Tensor:
        """Return k(x, x) of each sequence."""
        squares = []
        for held in self._held(x):
            time, size, units = held.decay.shape
            if sum(held.widths()) <= time * held.orders[-1]:
                squares.append(sum(m.square().sum((1, 2)) for m in _maps(held, units)))
                continue
            each = [held.part(slice(b, b + 1), slice(None)) for b in range(size)]
            squares.append(torch.cat([_kernels(one, one) for one in each]))
        return self._ordered(x, squares)

    def _ordered(self, x: Sequences, values: list[Tensor]) -> Tensor:
        return torch.cat(values)[torch.tensor(_by_length(x)).argsort()]

    def _held(self, x: Sequences) -> list[HeldChain]:
        """Return the held gates of the sequences, in blocks of similar length."""
        layer, like = self.layer, next(self.layer.parameters())
        features, blocks = layer.input_size, []
        items = [x.items[i] for i in _by_length(x)]
        for i, item in enumerate(x.items):
            if item.shape != EMPTY and item.shape[1] != features:
                expected = f"(time, {features}), the layer's input_size"
                raise ShapeError(f"X[{i}]", item.shape, expected)
            if len(item) % layer.stride:
                expected = f"a multiple of {layer.stride} time steps, the layer's stride"
                raise ShapeError(f"X[{i}]", item.shape, expected)
        longest = max(layer.stride, len(items[-1]))
        size = max(1, ENTRIES // (longest * (features + layer.hidden_size)))
        for start in range(0, len(items), size):
            block = [item if len(item) else item.new_zeros(0, features)
                     for item in items[start : start + size]]  # fmt: skip
            lengths = torch.tensor([len(item) for item in block], device=like.device)
            padded = pad_sequence(block).to(like)
            if not len(padded):
                padded = padded.new_zeros(layer.stride, len(block), features)
            held = layer.held_chain(padded, lengths).to(block[0])
            blocks.append(held.part(slice(None), self.units))
        return blocks


def _by_length(x: Sequences) -> list[int]:
    return sorted(range(len(x.items)), key=lambda i: len(x.items[i]))


def _features_are_cheaper(rows: list[HeldChain], columns: list[HeldChain]) -> bool:
    """Return True if features need fewer multiplications than all pairs of steps."""
    (time, _, units), (others, _, _) = rows[-1].decay.shape, columns[-1].decay.shape
    first, width = rows[0], sum(rows[0].widths())
    n, count = first.orders[-1], sum(held.decay.shape[1] for held in (*rows, *columns))
    pairs = sum(a.decay.shape[1] for a in rows) * sum(b.decay.shape[1] for b in columns)
    steps = first.features.shape[2] + units * (8 * n - 7)
    return units * width * (count * max(time, others) + pairs) <= pairs * time * others * steps


def _maps(held: HeldChain, chunk: int) -> Iterator[Tensor]:
    """Yield the features of some units at a time."""
    for start in range(0, held.decay.shape[2], chunk):
        yield held.part(slice(None), slice(start, start + chunk)).maps()


def _products(rows: list[HeldChain], columns: list[HeldChain]) -> Tensor:
    """Return the Gram matrix from the features, of a few units at a time."""
    first, width = rows[0], sum(rows[0].widths())
    largest = max(held.decay[:, :, 0].numel() for held in (*rows, *columns))
    count = max(sum(h.decay.shape[1] for h in side) for side in (rows, columns))
    chunk = max(1, 4 * ENTRIES // (width * max(count, largest // first.features.shape[2])))
    total: Any = 0.0
    sides = [rows] if columns is rows else [rows, columns]
    for parts in zip(*(_maps(held, chunk) for side in sides for held in side), strict=True):
        left = torch.cat(parts[: len(rows)]).flatten(1)
        right = left if len(sides) == 1 else torch.cat(parts[len(rows) :]).flatten(1)
        total = total + left @ right.mT
    return total


def _pairs(rows: list[HeldChain], columns: list[HeldChain] | None) -> Tensor:
    """Return the Gram matrix from all pairs of steps."""
    lines = []
    for a, held in enumerate(rows):
        for b in range(held.decay.shape[1]):
            one = held.part(slice(b, b + 1), slice(None))
            if columns is not None:
                lines.append(torch.cat([_kernels(one, other) for other in columns]))
                continue
            later = [held.part(slice(b, None), slice(None)), *rows[a + 1 :]]
            lines.append(torch.cat([_kernels(one, other) for other in later]))
    if columns is not None:
        return torch.stack(lines)
    size = len(lines)
    upper = torch.stack([F.pad(line, (size - len(line), 0)) for line in lines])
    return upper + upper.triu(1).mT


def _kernels(one: HeldChain, others: HeldChain) -> Tensor:
    """Return the kernel of a sequence with others, a few at a time."""
    steps = (
        len(one.decay) * len(others.decay) * (others.decay.shape[2] if one.orders[-1] > 1 else 1)
    )
    size = max(1, ENTRIES // steps)
    starts = range(0, others.decay.shape[1], size)
    return torch.cat([one.kernels(others.part(slice(i, i + size), slice(None))) for i in starts])


class _Graphs(_Form):
    """Some units of a network of walks."""

    def states(self, x: Any, references: list[Tensor]) -> Tensor:
        """Return the state of one unit for each graph ``(G,)``."""
        nodes, *edges = (part[..., None, :] for part in references)
        values = []
        for levels in self._held(x.items):
            total: Any = 0.0
            for level, held in enumerate(levels):
                own = [part[level] if part.dim() == 4 else part for part in (nodes, *edges)]
                own = [part.to(held.nodes) for part in own]
                chosen = held.of_units(self.units)
                total = total + chosen.states(own[0], own[1] if len(own) > 1 else None)[:, 0]
            values.append(total)
        return torch.cat(values)

    def gram(self, x: Any, y: Any) -> Tensor:
        """Return the Gram matrix."""
        rows = list(self._held(x.items))
        columns = rows if y is None else list(self._held(y.items))
        nodes = [sum(len(held[0].nodes) for held in side) for side in (rows, columns)]
        graphs = [sum(held[0].graphs for held in side) for side in (rows, columns)]
        width, held = rows[0][0].width(), rows[0][0]
        features = width * (sum(nodes) + graphs[0] * graphs[1])
        if width and features <= nodes[0] * nodes[1] * (held.nodes.shape[1] + 8 * held.order):
            return self._products(rows, columns)
        blocks: dict[tuple[int, int], Tensor] = {}
        for i, a in enumerate(rows):
            for j, b in enumerate(columns):
                is_below = y is None and j < i
                blocks[i, j] = blocks[j, i].T if is_below else self._kernels(a, b)
        return torch.cat([torch.cat([blocks[i, j] for j in range(len(columns))], dim=1)
                          for i in range(len(rows))])  # fmt: skip

    def diag(self, x: Any) -> Tensor:
        """Return k(x, x) of each graph."""
        return torch.cat([self._kernels(held, held)[0] for held in self._held(x.items, 0)])

    def _products(self, rows: list[list[HeldWalks]], columns: list[list[HeldWalks]]) -> Tensor:
        total: Any = 0.0
        for level, first in enumerate(rows[0]):
            edges = max(held[level].gates.shape[0] for held in (*rows, *columns))
            chunk = max(1, ENTRIES // (first.width() * max(1, edges)))
            for i in range(*self.units.indices(first.gates.shape[1]))[::chunk]:
                units = slice(i, min(i + chunk, self.units.stop or first.gates.shape[1]))
                left = torch.cat([held[level].maps(units) for held in rows]).flatten(1)
                right = left
                if columns is not rows:
                    right = torch.cat([held[level].maps(units) for held in columns]).flatten(1)
                total = total + left @ right.mT
        return total

    def _kernels(self, a: list[HeldWalks], b: list[HeldWalks]) -> Tensor:
        return torch.stack([x.kernels(y, self.units) for x, y in zip(a, b, strict=True)]).sum(0)

    def _held(self, graphs: list[Graph], nodes: int = NODES) -> Iterator[list[HeldWalks]]:
        """Yield the held gates of every level of the layer, for some graphs at a time."""
        like = next(self.layer.parameters())
        joined, _ = batches(graphs, None, delta=False, edges=self.layer.edge_dim is not None)
        if not joined.nodes.is_floating_point():
            raise KindError(
                "X", "graphs with labels", "graphs with features, which the layer reads"
            )
        for part in joined.parts(nodes):
            edges = None if part.edges is None else part.edges.to(like)
            of_graph = part.of_graph.to(like.device)
            arguments = part.nodes.to(like), part.edge_index.to(like.device), edges, of_graph
            yield [h.to(part.nodes) for h in self.layer.held_walks(*arguments, len(part.sizes))]
