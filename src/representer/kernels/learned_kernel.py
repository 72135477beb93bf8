"""The kernel that a gated layer has learned: the inner product of the features of its units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from representer.checks import check_integer
from representer.errors import KindError, NoKernelError, ShapeError
from representer.kernels.graphs import batches, read_graphs
from representer.kernels.kernel import Kernel, Objects, Values, takes_rows
from representer.kernels.sequences import EMPTY, Sequences, empty_gram, read_pair
from representer.kernels.tree_kernels import read_trees
from representer.ops.held import HeldChain, HeldWalks

ENTRIES = 2**22  # of the largest intermediate tensor
NODES = 512  # of a block of graphs
FORMS = "a recurrent layer or a network of walks of representer.nn"
Levels = list[HeldChain | HeldWalks]


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
    differentiable in the layer's weights. A unit of ``kernel.network(...)`` compares an object with
    a learned object, which has gates, too.

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
        self.check()

    @property
    def objects(self) -> Objects:
        if hasattr(self.layer, "held_chain"):
            return "sequences"
        return "trees" if hasattr(self.layer, "edge_decays") else "graphs"

    @property
    def edges(self) -> bool:
        """True if the layer reads features of edges."""
        return getattr(self.layer, "edge_dim", None) is not None

    def shortest_reference(self) -> int:
        """Return the steps, or nodes of a path, of the shortest n-gram or walk that is read."""
        order = getattr(self.layer, "order", 1)
        if self.objects != "sequences":
            return order
        is_sum = getattr(self.layer, "readout", "last") != "last"
        return self.layer.stride * (1 if is_sum else order)

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        self.check()
        x, y = self._read(X, Y)
        has_values = bool(x.items and y.items)
        return self._values(x, lambda: self._gram(x, y) if has_values else empty_gram(x, y))

    def diag(self, X: Iterable[Any]) -> Values:
        self.check()
        x, _ = self._read(X)
        return self._values(x, lambda: self._diag(x) if x.items else empty_gram(x))

    def unit(self, index: int) -> LearnedUnit:
        """Return the kernel of one unit."""
        return LearnedUnit(self.layer, index)

    def _units(self) -> slice:
        return slice(None)

    def _gram(self, x: Any, y: Any) -> Tensor:
        rows = list(self._held(x))
        columns = rows if y is x else list(self._held(y))
        if _are_features_cheaper(rows, columns):
            K: Any = 0.0
            both = [rows] if columns is rows else [rows, columns]
            for left, *other in zip(*_maps(*both), strict=True):
                K = K + left @ (other or [left])[0].mT
        else:
            K = _of_blocks(rows, columns)
        return K[_places(x)][:, _places(y)]

    def _diag(self, x: Any) -> Tensor:
        blocks = list(self._held(x))
        if _are_features_cheaper(blocks, blocks, is_diagonal=True):
            squares: Any = 0.0
            for maps in _maps(blocks)[0]:
                squares = squares + maps.square().sum(1)
        else:
            squares = torch.cat([_summed(held, held)[0] for held in self._held(x, alone=True)])
        return squares[_places(x)]

    def _held(self, x: Any, *, alone: bool = False) -> Iterator[Levels]:
        """Yield the held gates of some objects at a time, of every level of the layer."""
        held = self._sequences(x, alone) if self.objects == "sequences" else self._graphs(x, alone)
        for levels in held:
            yield [level.of_units(self._units()) for level in levels]

    def _sequences(self, x: Sequences, alone: bool) -> Iterator[Levels]:
        layer, like = self.layer, next(self.layer.parameters())
        for i, item in enumerate(x.items):
            is_known = item.shape == EMPTY or item.shape[1] == layer.input_size
            if not is_known or len(item) % layer.stride:
                steps = "time" if layer.stride == 1 else f"{layer.stride} k"
                expected = f"({steps}, {layer.input_size}), as the layer reads them"
                raise ShapeError(f"X[{i}]", item.shape, expected)
        items = sorted(x.items, key=len)  # of similar length, to limit padding
        longest = max(layer.stride, len(items[-1]))
        size = ENTRIES // (longest * (layer.input_size + layer.hidden_size))
        size = 1 if alone else max(1, min(size, 64))
        for start in range(0, len(items), size):
            block = items[start : start + size]
            lengths = torch.tensor([len(item) for item in block], device=like.device)
            padded = like.new_zeros(
                int(lengths.max()) or layer.stride, len(block), layer.input_size
            )
            if lengths.any():
                filled = pad_sequence([item for item in block if len(item)])
                padded = padded.index_copy(1, lengths.nonzero().flatten(), filled.to(like))
            yield [layer.held_chain(padded, lengths).to(block[0])]

    def _graphs(self, x: Any, alone: bool) -> Iterator[Levels]:
        layer, like = self.layer, next(self.layer.parameters())
        joined, _ = batches(x.items, None, delta=False, edges=self.edges)
        if not joined.nodes.is_floating_point():
            raise KindError(
                "X", "graphs with labels", "graphs with features, which the layer reads"
            )
        for batch in joined.parts(0 if alone else NODES):
            edges = None if batch.edges is None else batch.edges.to(like)
            ends, of_graph = (i.to(like.device) for i in (batch.edge_index, batch.of_graph))
            held = layer.held_walks(batch.nodes.to(like), ends, edges, of_graph, len(batch.sizes))
            yield [level.to(batch.nodes) for level in held]

    def _references(self) -> list[Tensor]:
        """Return the references of the units, ``(…, n, H, F)`` each."""
        return [weight[..., self._units(), :] for weight in self.layer.unit_references()]

    def _read(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        if self.objects == "sequences":
            return read_pair(X, Y)
        read = read_trees if self.objects == "trees" else read_graphs
        x = read(X)
        return x, x if Y is None else read(Y, "Y")

    def check(self) -> None:
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
        parts = [weight.detach()[..., 0, :] for weight in self._references()]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def value(self, X: Iterable[Any], reference: Any = None) -> Values:
        """Return the state of the unit for each object ``(len(X),)``.

        Gates, and h of the previous steps, are those of the layer, so with another reference, this
        is not the state of a layer with that reference, unless gates and candidate see x alone.

        Args:
            X: The objects.
            reference: A reference of the shape of `reference`, which is the default.
        """
        self.check()
        (x, _), weights = self._read(X), self._references()
        if reference is not None:
            parts = reference if isinstance(reference, (tuple, list)) else (reference,)
            values = [torch.as_tensor(x).to(weights[0])[..., None, :] for x in parts]
            for row, expected in zip(values, weights, strict=True):
                if row.shape != expected.shape:
                    shapes = (tuple(x.squeeze(-2).shape) for x in (row, expected))
                    raise ShapeError("reference", next(shapes), str(next(shapes)))
            weights = values
        return self._values(x, lambda: self._states(x, weights) if x.items else empty_gram(x))

    def _states(self, x: Any, references: list[Tensor]) -> Tensor:
        states = []
        for levels in self._held(x):
            total: Any = 0.0
            for level, held in enumerate(levels):
                weights = [x[level] if x.dim() == 4 else x for x in references]
                total = total + held.states(*(w.to(held.features) for w in weights))[:, 0]
            states.append(total)
        return torch.cat(states)[_places(x)]

    def _units(self) -> slice:
        return slice(self.index, self.index + 1)

    def check(self) -> None:
        super().check()
        units = getattr(self.layer, "hidden_size", None) or self.layer.hidden_channels
        check_integer("index", self.index, 0, units - 1)


def _places(x: Any) -> Tensor:
    """Return the place of each object among those of `LearnedKernel._held`."""
    order = range(len(x.items))
    if isinstance(x, Sequences):
        order = sorted(order, key=lambda i: len(x.items[i]))
    return torch.tensor(order).argsort()


def _are_features_cheaper(
    rows: list[Levels], columns: list[Levels], *, is_diagonal: bool = False
) -> bool:
    """Return True if features should take less time than all pairs of steps or nodes."""
    first = rows[0][0]
    units, width = _units_of(first), first.width
    sizes = [sum(held[0].size for held in side) for side in (rows, columns)]
    pairs = sizes[0] * sizes[1]
    values = sum(a[0].objects for a in rows) * sum(b[0].objects for b in columns)
    if is_diagonal:
        count = sum(held[0].objects for held in rows)
        pairs, values = pairs // count, count
    return width > 0 and units * width * (sum(sizes) + values) <= pairs * first.pair_cost


def _units_of(held: HeldChain | HeldWalks) -> int:
    return (held.write if isinstance(held, HeldChain) else held.gates).shape[-1]


def _maps(*sides: list[Levels]) -> list[Iterator[Tensor]]:
    """Return features of the objects of each side ``(N, D)``, a level and a few units at a time."""
    first = sides[0][0][0]
    count = max(sum(levels[0].objects for levels in blocks) for blocks in sides)
    size = max(levels[0].size for blocks in sides for levels in blocks)
    chunk = max(1, ENTRIES // (first.width * max(count, size // first.features.shape[-1], 1)))

    def maps(blocks: list[Levels]) -> Iterator[Tensor]:
        for level in range(len(blocks[0])):
            for i in range(0, _units_of(first), chunk):
                units = slice(i, i + chunk)
                yield torch.cat([h[level].of_units(units).maps() for h in blocks]).flatten(1)

    return [maps(blocks) for blocks in sides]


def _of_blocks(rows: list[Levels], columns: list[Levels]) -> Tensor:
    """Return the Gram matrix from all pairs of steps or nodes, block by block."""
    blocks: dict[tuple[int, int], Tensor] = {}
    for i, a in enumerate(rows):
        for j, b in enumerate(columns):
            is_below = columns is rows and j < i
            blocks[i, j] = blocks[j, i].T if is_below else _summed(a, b)
    return torch.cat([torch.cat([blocks[i, j] for j in range(len(columns))], dim=1)
                      for i in range(len(rows))])  # fmt: skip


def _summed(a: Levels, b: Levels) -> Tensor:
    """Return the sum over the levels of the kernel of all pairs of objects ``(N, M)``."""
    return torch.stack([x.kernels(y) for x, y in zip(a, b, strict=True)]).sum(0)  # type: ignore
