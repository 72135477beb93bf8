"""Trees and their kernels: the chains of their nodes, and the fragments of parse trees."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import child_positions, tree_depths
from representer.kernels.graphs import Batch, Graph, GraphList, Graphs, batches, read_graphs
from representer.kernels.kernel import Objects, value_of
from representer.kernels.walk_kernels import NODES, GraphKernel, in_blocks, neighbor_sums
from representer.ops import tree_scan


class TreeKernelBase(GraphKernel):
    """Base class of kernels of two trees, computed in float64."""

    @property
    def objects(self) -> Objects:
        return "trees"

    def _read(self, X: Iterable[Any], name: str = "X") -> Graphs:
        return read_trees(X, name)

    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        x, y = self._batches(X, Y)
        return in_blocks(x, y, self._prepared, self._pairs)

    def _diag(self, X: Sequence[Graph]) -> Tensor:
        x, _ = self._batches(X, None)
        parts = [(tree, self._prepared(tree)) for tree in x.parts(0)]
        return torch.stack([self._pairs(tree, tree, nodes, nodes).sum() for tree, nodes in parts])

    def _batches(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> tuple[Batch, Batch | None]:
        """Join the trees of each side; their edges keep the positions of children."""
        sides = batches(X, Y, delta=self._compares_labels, edges=False)
        positions = [[tree.edges for tree in side] for side in (X, Y or ())]
        width = max(p.shape[1] for side in positions for p in side)  # type: ignore[union-attr]
        joined = []
        for side, tables in zip(sides, positions, strict=True):
            padded = [F.pad(p, (0, width - p.shape[1])) for p in tables]  # type: ignore
            joined.append(side and replace(side, edges=torch.cat(padded).to(side.nodes.device)))
        return joined[0], joined[1]

    @property
    def _compares_labels(self) -> bool:
        """Return True if features are compared for equality."""
        return True

    @abstractmethod
    def _prepared(self, tree: Batch) -> Any:
        """Return what is computed once for each part of the trees."""

    @abstractmethod
    def _pairs(self, a: Batch, b: Batch, own_a: Any, own_b: Any) -> Tensor:
        """Return the part of the kernel of each pair of nodes ``(N, N')``."""


class TreeKernel(TreeKernelBase):
    r"""Compares all downward chains of n nodes of two trees, with gaps.

    .. math::
        K_n(T, T') = \sum_{v_1 < \dots < v_n} \sum_{w_1 < \dots < w_n}
            \lambda^{d(v_1) - n + 1} \lambda^{d(w_1) - n + 1}
            \prod_{j=1}^n \langle x_{v_j}, x'_{w_j} \rangle

    where each node of a chain is a proper descendant of the next, and d is the depth, 0 of a root:
    a chain is weighted by λ for each node on the way from its first node to the root that is not in
    it. A tree without branches gives ``StringKernel(order, decay)`` of its nodes, the deepest
    first. The cost of two trees of N and N' nodes is O(n N N').

    Args:
        order: n, nodes of a chain.
        decay: λ, non-negative; :math:`0^0 = 1`. A tensor ``()`` may require a gradient.
        ordered: Chains match only if each node lies below children at the same position, first,
            second, …, of the next node.

    Shape:
        - X a list of N trees: PyG ``Data`` with ``x`` and ``edge_index`` from child to parent;
          bracketed strings ``"(S (NP dogs) (VP bark))"``, or nested tuples ``("S", ("NP", "dogs"),
          ("VP", "bark"))``, whose labels are compared for equality; Y the same, of M
        - returns ``(N, M)`` in float64: a differentiable tensor for ``Data``, else an array

    Raises:
        ArgumentError: If an argument is invalid, brackets do not match, a node has two parents, or
            edges form a cycle.
        ShapeError: If features have the wrong shape.
        KindError: If a tree has an unsupported type, or no features.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (2), of which this is the counterpart for trees.
    """

    def __init__(self, order: int = 2, decay: float = 0.5, ordered: bool = False) -> None:
        self.order = order
        self.decay = decay
        self.ordered = ordered
        self.check()

    def check(self) -> None:
        check_integer("order", self.order)
        check_non_negative("decay", self.decay)
        if not isinstance(self.ordered, bool):
            raise ArgumentError("ordered", self.ordered, "True or False")

    def shortest_reference(self) -> int:
        return self.order

    @property
    def _compares_labels(self) -> bool:
        return False

    @property
    def _lam(self) -> Tensor:
        return torch.as_tensor(self.decay, dtype=torch.float64)

    def _prepared(self, tree: Batch) -> Tensor:
        """Return the weight of each node as the last of a chain, λ to its depth."""
        return self._lam ** tree_depths(tree.edge_index, len(tree.nodes))

    def _pairs(self, a: Batch, b: Batch, own_a: Tensor, own_b: Tensor) -> Tensor:
        is_label = a.nodes.dim() == 1
        K = same = (a.nodes[:, None] == b.nodes).double() if is_label else a.nodes @ b.nodes.mT
        if not self.ordered:
            a, b = replace(a, edges=None), replace(b, edges=None)
        for _ in range(self.order - 1):
            below = self._below(self._below(K, a).mT, b).mT
            K = same * neighbor_sums(below, a, b)
        return own_a[:, None] * K * own_b

    def _below(self, K: Tensor, tree: Batch) -> Tensor:
        """Sum the rows of each node and its descendants, times λ for each edge between them."""
        return tree_scan(K[:, None], tree.edge_index, decay=self._lam)[:, 0]


def check_non_negative(name: str, value: Any) -> None:
    """Check a number, or a tensor ``()``."""
    if not 0 <= value_of(value) < float("inf"):
        raise ArgumentError(name, value, "a non-negative number")


# Fragments of parse trees: a sum over pairs of nodes of the fragments that both have below them.
#
#     K(T, T') = sum_{a, b} Delta(a, b)
#
# Delta of two nodes follows from that of their children, so it is computed by the depth of a,
# deepest first, for the pairs that have any. Their values are one growing list, to which a table
# of all pairs points; entry 0 is 0.


class _Nodes(NamedTuple):
    """Nodes of trees, prepared for `_FragmentKernel`."""

    depths: Tensor  # (N,)
    children: Tensor  # (N, most children), N for none


class _FragmentKernel(TreeKernelBase):
    """Base class of the kernels that compare fragments of trees."""

    def no_network(self) -> str:
        """Return why the kernel has no network."""
        return (
            "It compares labels for equality, which is not differentiable in a reference; "
            "kernels.TreeKernel compares features, and has a network."
        )

    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        return in_blocks(*self._batches(X, Y), self._prepared, self._pairs, nodes=NODES // 2)

    def _prepared(self, tree: Batch) -> _Nodes:
        child, parent = tree.edge_index
        N, ranks = len(tree.nodes), child_positions(tree.edge_index, len(tree.nodes))
        children = child.new_full((N, 1 + int(ranks.max()) if len(ranks) else 0), N)
        children[parent, ranks] = child
        return _Nodes(tree_depths(tree.edge_index, N), children)

    def _pairs(self, a: Batch, b: Batch, own_a: _Nodes, own_b: _Nodes) -> Tensor:
        table = torch.zeros(len(a.nodes) + 1, len(b.nodes) + 1, dtype=torch.int64)
        values = torch.zeros(1, dtype=torch.float64)
        rows, columns = self._alike(a, b, own_a, own_b).nonzero().T
        depths, order = own_a.depths[rows].sort(descending=True, stable=True)
        sizes = depths.unique_consecutive(return_counts=True)[1].tolist()
        for pairs in order.split(sizes):
            i, j = rows[pairs], columns[pairs]
            of_i, of_j = own_a.children[i], own_b.children[j]
            fresh = self._grown(lambda u, v, last=values: last[table[u, v]], of_i, of_j)
            table[i, j] = torch.arange(len(values), len(values) + len(i))
            values = torch.cat((values, fresh))
        return values[table[:-1, :-1]]

    @abstractmethod
    def _alike(self, a: Batch, b: Batch, own_a: _Nodes, own_b: _Nodes) -> Tensor:
        """Return True for the pairs of nodes that have common fragments ``(N, N')``."""

    @abstractmethod
    def _grown(self, value: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
        """Return Delta of pairs of nodes ``(P,)`` from that of their children."""


class SubsetTreeKernel(_FragmentKernel):
    r"""Compares the fragments of two parse trees that are made of whole productions.

    .. math::
        K(T, T') = \sum_{a \in T} \sum_{b \in T'} \Delta(a, b), \qquad
        \Delta(a, b) = \lambda \prod_j (1 + \Delta(a_j, b_j))

    over the children :math:`a_j, b_j`, and 0 for leaves or if the labels of a and b, or those of
    all their children, differ. A fragment has the weight λ to the number of its productions.

    Args:
        decay: λ, non-negative.

    Shape:
        - X, Y and the result as in :class:`TreeKernel`; labels and features are compared for
          equality

    Raises:
        ArgumentError: If an argument is invalid, or a tree is none, see :class:`TreeKernel`.

    References:
        Collins and Duffy, Convolution Kernels for Natural Language, NIPS 2001.
    """

    def __init__(self, decay: float = 0.4) -> None:
        self.decay = decay
        self.check()

    def check(self) -> None:
        check_non_negative("decay", self.decay)

    def _alike(self, a: Batch, b: Batch, own_a: _Nodes, own_b: _Nodes) -> Tensor:
        width = max(own_a.children.shape[1], own_b.children.shape[1])
        productions = []
        for nodes, tree in ((a.nodes, own_a), (b.nodes, own_b)):
            labels = F.pad(nodes, (0, 1), value=-1)[tree.children]
            padded = F.pad(labels, (0, width - labels.shape[1]), value=-1)
            productions.append(torch.cat((nodes[:, None], padded), dim=1))
        numbers = torch.cat(productions).unique(dim=0, return_inverse=True)[1]
        x, y = numbers.split([len(a.nodes), len(b.nodes)])
        is_inner = (own_a.children < len(a.nodes)).any(1)
        return (x[:, None] == y) & is_inner[:, None]

    def _grown(self, value: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
        width = min(a.shape[1], b.shape[1])
        return self.decay * (1 + value(a[:, :width], b[:, :width])).prod(1)


class PartialTreeKernel(_FragmentKernel):
    r"""Compares the fragments of two trees that may skip children.

    .. math::
        K(T, T') = \sum_{a \in T} \sum_{b \in T'} \Delta(a, b), \qquad
        \Delta(a, b) = \mu \Big( \lambda^2 + \sum_{J, J', |J| = |J'|}
            \lambda^{d(J) + d(J')} \prod_i \Delta(a_{J_i}, b_{J'_i}) \Big)

    for equal labels, else 0, over all subsequences J and J' of their children. d(J) is the number
    of children between the first and the last of J that J skips, as in the author's SVM-Light-TK
    and in KeLP.

    Args:
        decay: λ, non-negative.
        mu: μ, non-negative.

    Shape:
        - X, Y and the result as in :class:`SubsetTreeKernel`

    Raises:
        ArgumentError: If an argument is invalid, or a tree is none, see :class:`TreeKernel`.

    References:
        Moschitti, Efficient Convolution Kernels for Dependency and Constituent Syntactic Trees,
        ECML 2006.
    """

    def __init__(self, decay: float = 0.4, mu: float = 0.4) -> None:
        self.decay = decay
        self.mu = mu
        self.check()

    def check(self) -> None:
        check_non_negative("decay", self.decay)
        check_non_negative("mu", self.mu)

    def _alike(self, a: Batch, b: Batch, own_a: _Nodes, own_b: _Nodes) -> Tensor:
        return a.nodes[:, None] == b.nodes

    def _grown(self, value: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
        lam = torch.as_tensor(self.decay, dtype=torch.float64)
        delta = P = value(a[:, :, None], b[:, None, :])
        gaps_a, gaps_b = _gaps(lam, a.shape[1]), _gaps(lam, b.shape[1])
        total = lam * lam
        for _ in range(min(delta.shape[1:])):  # P_p[k, l]: subsequences of p children that end here
            total = total + P.sum((1, 2))
            P = delta * (gaps_a @ P @ gaps_b.mT)
        return self.mu * total.expand(len(a))


def _gaps(lam: Tensor, size: int) -> Tensor:
    """Return λ to the number of children between two of them, 0 unless the first is earlier."""
    places = torch.arange(size)
    between = places[:, None] - places - 1
    return torch.where(between >= 0, lam ** between.clamp(min=0), 0.0)


# Reading of lists of trees: PyG ``Data``, bracketed strings or nested tuples.


FORMS = "a bracketed string such as '(S (NP dogs) (VP bark))', nested tuples or a PyG Data"
_WORDS = re.compile(r"[()]|[^\s()]+")


def read_trees(X: Iterable[Any], name: str = "X") -> Graphs:
    """Read a list of trees; several trees may be one object, whose roots are summed.

    Args:
        X: The trees. In a bracketed string ``(label child child …)``, a child is another pair of
            brackets or a word, the label of a leaf; a tuple ``(label, child, child, …)`` is the
            same. Of PyG ``Data``, and of directed networkx graphs, edges lead from child to parent
            and are ordered as the children; ``position`` ``(E, P)`` weights the positions of a
            child in place of its own.
        name: Their name in messages.

    Returns:
        The trees as graphs whose edges have the weights of the positions of their children.

    Raises:
        ArgumentError: If brackets do not match, a node has two parents, or edges form a cycle.
        ShapeError: If features, edges or positions have the wrong shape.
    """
    if isinstance(X, (str, bytes, dict)):
        hint = "Put a single tree into a list."
        raise KindError(name, type(X).__name__, f"a list of trees, each {FORMS}", hint=hint)
    raw = X.to_data_list() if hasattr(X, "to_data_list") else X  # type: ignore[attr-defined]
    is_tree = hasattr(raw, "edge_index") or hasattr(raw, "adj")
    if is_tree or not isinstance(raw, Iterable):
        return read_graphs(raw, name)  # which names the fix
    items = [_parsed(tree, f"{name}[{i}]") for i, tree in enumerate(raw)]
    graphs = read_graphs(items, name)
    trees = GraphList(
        replace(graph, edges=_positions(graph, tree, f"{name}[{i}]"))
        for i, (graph, tree) in enumerate(zip(graphs.items, items, strict=True))
    )
    return Graphs(trees, graphs.from_tensors)


def tree_of(tree: str | Sequence[Any], name: str = "tree") -> Graph:
    """Return a bracketed string or nested tuples as a graph with the label of each node.

    Nodes are in the order in which their labels appear, and edges in that of their children.
    """
    if isinstance(tree, str):
        tree = _nested(tree, name)
    labels: list[Hashable] = []
    parents: list[int] = []
    waiting: list[tuple[Any, int]] = [(tree, -1)]
    while waiting:
        node, parent = waiting.pop()
        label, *children = node if isinstance(node, (tuple, list)) and node else (node,)
        if isinstance(label, (tuple, list)):
            hint = "A leaf is a label, or a tuple of it alone."
            raise ArgumentError(name, node, "tuples (label, child, child, …)", hint=hint)
        try:
            hash(label)
        except TypeError:
            raise KindError(f"a label of {name}", type(label).__name__, "a string") from None
        waiting += [(child, len(labels)) for child in reversed(children)]
        labels.append(label)
        parents.append(parent)
    above = torch.tensor([parents, range(len(parents))]).flip(0)
    return Graph(labels, above[:, 1:])


def _nested(text: str, name: str) -> Any:
    """Return a bracketed string as nested lists, the first entry of which is the label."""
    words = _WORDS.findall(text)
    if len(words) == 1 and words[0] not in "()":
        return words[0]
    top: list[Any] = []
    inside = [top]
    for i, word in enumerate(words):
        if word == "(":
            inside[-1].append([])
            inside.append(inside[-1][-1])
            if words[i + 1 : i + 2] == ["("]:
                inside[-1].append("")  # the outer brackets of the Penn treebank have no label
        elif word != ")":
            inside[-1].append(word)
        elif len(inside) == 1 or not inside.pop():
            break
    else:
        if len(inside) == 1 and len(top) == 1 and isinstance(top[0], list):
            return top[0]
    hint = "Write brackets in words as -LRB- and -RRB-."
    expected = "one tree with a label after each opening bracket, such as (S (NP dogs) (VP bark))"
    short = text if len(text) <= 60 else f"{text[:57]}…"
    raise ArgumentError(name, short, expected, hint=hint)


def _parsed(tree: Any, name: str) -> Any:
    is_text = isinstance(tree, (str, tuple, list)) and not hasattr(tree, "edge_index")
    return tree_of(tree, name) if is_text else tree


def _positions(graph: Graph, raw: Any, name: str) -> Tensor:
    """Check the edges of a tree, and return the weights of the position of each child."""
    tree_depths(graph.edge_index, len(graph), f"{name}.edge_index")
    if isinstance(raw, Graph) and isinstance(raw.edges, Tensor):
        return raw.edges
    weights = getattr(raw, "position", None)
    if weights is None:
        ranks = child_positions(graph.edge_index, len(graph))
        return F.one_hot(ranks).double() if len(ranks) else torch.zeros(0, 1, dtype=torch.float64)
    if not isinstance(weights, Tensor) or weights.shape[:-1] != graph.edge_index.shape[1:]:
        got = tuple(weights.shape) if isinstance(weights, Tensor) else ()
        expected = f"({graph.edge_index.shape[1]}, positions), the weights of each edge"
        raise ShapeError(f"{name}.position", got, expected)
    return weights.double()
