"""A kernel of graphs by the subtrees around their nodes, with features for graphs to come."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from representer.checks import check_integer, check_integers, require_choices
from representer.kernels.graphs import Graph, Labels, read_graphs
from representer.kernels.kernel import Kernel, Objects
from representer.kernels.overlaps import OVERLAPS, ColorCounts, NumberSpace, denominator, overlap
from representer.machine import limited, threads_for

# Names of subtrees: a node and its neighbors in parentheses, level by level.

LONGEST, LISTED = 72, 3  # characters of a name; equal neighbors that are listed one by one


class SubtreeNames:
    """Names of the subtrees of a graph, such as ``C(C,=O)``."""

    def __init__(self, graph: Graph, *, has_edges: bool) -> None:
        self._labels = [str(label) for label in graph.nodes]
        self._around: list[list[tuple[str, int]]] = [[] for _ in self._labels]
        self._known: dict[tuple[int, int], str] = {}
        kinds = [str(bond) for bond in graph.edges] if has_edges and graph.edges else None
        for edge, (source, target) in enumerate(graph.edge_index.T.tolist()):
            bond = kinds[edge] if kinds else ""
            space = " " if bond[-1:].isalnum() else ""
            self._around[target].append((bond + space, source))

    def __call__(self, node: int, level: int) -> str:
        """Return the name of the subtree of so many levels below a node, cut if it is long."""
        if not level or not self._around[node]:
            return self._labels[node]
        if (node, level) not in self._known:
            around = self._around[node]
            below = Counter(bond + self(other, level - 1) for bond, other in around)
            listed = [
                ",".join([name] * count) if count <= LISTED else f"{count}×{name}"
                for name, count in sorted(below.items())
            ]
            name = f"{self._labels[node]}({','.join(listed)})"
            cut = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
            self._known[node, level] = cut
        return self._known[node, level]


# Weights of a sum of kernels by the marginal likelihood of a Gaussian process.
#
#     K = sum_b a_b K_b + s I,        2 L = K' y^T K^-1 y + C log |K|
#
# for C targets y that share the weights. Without a test set, L prefers kernels that explain the
# targets with few degrees of freedom: a level of a hierarchy that adds nothing gets the weight 0.
# Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.1.

BOUND = 9.0  # of the logarithm of a weight, relative to targets of variance 1
START_NOISE, STEPS, JITTER = 0.1, 60, 1e-8


def block_weights(
    blocks: Sequence[NDArray[np.float64]], targets: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the weight of each kernel and the variance of the noise, for standardized targets.

    At least one column of the targets ``(N, C)`` is not constant.
    """
    spread = targets.std(0)
    y = ((targets - targets.mean(0)) / np.where(spread > 0, spread, 1.0))[:, spread > 0]
    if not y.shape[1]:
        return np.full(len(blocks), 1 / len(blocks)), 1.0
    start = np.log([*np.ones(len(blocks)), START_NOISE])
    with limited(threads_for(len(y) ** 2)):
        optimum = minimize(
            lambda logs: _loss(logs, blocks, y), start, jac=True, method="L-BFGS-B",
            bounds=[(-BOUND, BOUND)] * len(start), options={"maxiter": STEPS},
        )  # fmt: skip
    *weights, noise = np.exp(optimum.x).tolist()
    return np.array(weights), noise


def _loss(
    logs: NDArray[np.float64], blocks: Sequence[NDArray[np.float64]], y: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return L and its gradient with respect to the logarithms of the weights and the noise."""
    *weights, noise = np.exp(logs).tolist()
    covariance = np.zeros((len(y), len(y)))
    for weight, block in zip(weights, blocks, strict=True):
        covariance += weight * block
    covariance.flat[:: len(y) + 1] += noise + JITTER
    factorize, invert = get_lapack_funcs(("potrf", "potri"), (covariance,))
    root, failed = factorize(covariance, lower=1, overwrite_a=1)
    if failed:
        return 1e12, np.zeros_like(logs)
    determinant = 2 * float(np.log(np.diag(root)).sum())
    inverse, _ = invert(root, lower=1, overwrite_c=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    solved = inverse @ y
    count = y.shape[1]
    rest = count * inverse - solved @ solved.T
    loss = (float((y * solved).sum()) + count * determinant) / 2
    slopes = [weight * float((rest * block).sum()) for weight, block in
              zip(weights, blocks, strict=True)]  # fmt: skip
    return loss, np.array([*slopes, noise * float(np.trace(rest))]) / 2


UNKNOWN = -1
LANDMARKS = 1500  # the cost of a machine on them grows with their cube
LONGEST_KEY = 2**16  # characters of a color, as `storage.fields` reads them
SEARCHED = 800  # graphs by which the weights are found


MEANS = "average of all numbers"


@dataclass(frozen=True)
class Read:
    """Counts and numbers of some objects, which the kernel compares."""

    counts: list[ColorCounts]  # of the colors of each level of each view
    numbers: NDArray[np.float64]  # of the whole objects, encoded ``(N, D)``

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, rows: NDArray[np.int64]) -> Read:
        """Return some of the objects."""
        return Read([c.at(rows) for c in self.counts], self.numbers[rows])


Pattern = tuple[str, tuple[int, ...]]


class Subtree(NamedTuple):
    """The part of a linear function of a graph's features that one color makes up."""

    what: str  # the subtree, such as ``C(C,O)``: a node and its neighbors, level by level
    where: tuple[int, ...]  # the nodes of this color
    value: float  # the part


def as_one_view(one: Any) -> tuple[Graph, ...]:
    """Return a PyG ``Data`` or networkx graph as the only view; equal numbers are equal labels."""
    (graph,) = read_graphs([one]).items
    edges = None if graph.edges is None else _labels(graph.edges)
    return (Graph(_labels(graph.nodes), graph.edge_index, edges),)


class SubtreeKernel(Kernel):
    r"""A weighted sum of overlaps of colors, one for each level of relabeling.

    .. math::
        k(G, G') = \sum_l a_l \frac{\sum_c \min(n_c, n'_c)}{\sum_c \max(n_c, n'_c)}

    or, with ``overlap="assignment"``, the cosine of optimal assignment kernels,
    :math:`\sum_c \min(n_c, n'_c) / \sqrt{n n'}` for graphs of n and n' nodes,
    with :math:`n_c` the number of nodes of G that have the color c at level l. A color stands for
    a node's label and, level by level, the colors of its neighbors: the subtree of the paths that
    lead to it. An object may be several graphs, its views, such as two labelings of a molecule;
    each view has levels of its own.

    `fit` numbers the colors of some graphs. A color that they lack counts in the denominator alone.
    With targets, `fit` also finds the weights of the levels, by the marginal likelihood of a
    Gaussian process, which makes the choice of a depth superfluous.

    Args:
        depths: Number of relabelings of each view.
        views: From an object to its views.
        edges: Relabel with the labels of the edges, too.
        joint: Add the overlap of the colors of all levels of a view together, as that of counted
            circular fingerprints is.
        patterns: Functions from an object to its patterns, each a name and its nodes, such as the
            pairs of atoms at their distance; a name is a color, and each function has a level.
        numbers: From an object to numbers of the whole object ``(D,)``, which a Gaussian kernel
            compares.
        names: The names of these numbers.
        overlap: ``"min-max"``, as above, or ``"assignment"``.
        most: Number of graphs of `fit` that are kept as landmarks. A graph's features are its
            kernel values with them. If all are kept, linear functions of the features are all
            functions that a kernel machine can learn.

    Attributes:
        weights_: :math:`a_l` of each level of each view, of the patterns of each function, of the
            joint overlap of each view, and of the numbers.
        noise_: Variance of the noise of standardized targets; 1 without targets.

    Raises:
        ArgumentError: If `fit` finds a parameter out of its range.
        NotFittedError: If the kernel is called before `fit`.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (10).
        Shervashidze et al., Weisfeiler-Lehman Graph Kernels, JMLR 2011.
        Ralaivola et al., Graph Kernels for Chemical Informatics, Neural Networks 2005, for the
        overlap, the min-max kernel.
        Kriege, Giscard & Wilson, On Valid Optimal Assignment Kernels, NeurIPS 2016, (4): with equal
        weights, the sum over the levels is theirs, divided by the root of both graphs' own values.
    """

    def __init__(
        self, depths: tuple[int, ...] = (3,), views: Callable[[Any], Sequence[Graph]] = as_one_view,
        edges: bool = True, most: int = LANDMARKS, joint: bool = False,
        patterns: tuple[Callable[[Any], Sequence[Pattern]], ...] = (),
        numbers: Callable[[Any], NDArray[np.float64]] | None = None, names: Sequence[str] = (),
        overlap: str = "min-max",
    ) -> None:  # fmt: skip
        self.depths = depths
        self.views = views
        self.edges = edges
        self.joint = joint
        self.patterns = patterns
        self.numbers = numbers
        self.names = names
        self.overlap = overlap
        self.most = most
        self.check()

    @property
    def objects(self) -> Objects:
        return "graphs" if self.views is as_one_view else "others"

    def no_network(self) -> str:
        return "It counts colors, which are not differentiable in the features of a reference."

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> NDArray[np.float64]:
        check_is_fitted(self)
        left = self._read(X)
        return self._gram(left, left if Y is None else self._read(Y))

    def diag(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return k(x, x) of each graph: the sum of all weights."""
        check_is_fitted(self)
        return np.full(len(list(X)), self.weights_.sum())

    def fit(self, X: Iterable[Any], targets: NDArray[np.float64] | None = None) -> Self:
        """Number the colors of some graphs, keep landmarks, and weight the levels.

        Args:
            X: The graphs.
            targets: Numbers of each graph ``(N, C)``; without them, all levels weigh the same.
        """
        self._fit(X, targets)
        return self

    def fit_transform(
        self, X: Iterable[Any], targets: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the features ``(N, F)`` of the graphs that the kernel is fitted to, see `fit`."""
        return self._gram(self._fit(X, targets), self.landmarks_)

    def _fit(self, X: Iterable[Any], targets: NDArray[np.float64] | None) -> Read:
        self.check()
        objects = list(X)
        self.colors_ = [dict[str, int]() for _ in range(self._counted)]
        every = self._read(objects, is_learning=True)
        order = np.random.default_rng(0).permutation(len(objects))
        self.landmarks_ = every.at(np.sort(order[: self.most]))
        self.weights_, self.noise_ = np.full(self._blocks, 1 / self._blocks), 1.0
        if targets is not None:
            rows = np.sort(order[:SEARCHED])
            some = every.at(rows)
            blocks = list(self._overlaps(some, some))
            self.weights_, self.noise_ = block_weights(blocks, targets[rows])
        return every

    @property
    def width(self) -> int:
        """Number of features: of landmarks."""
        return len(self.landmarks_)

    def transform(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return the features ``(N, F)``, the kernel values with the landmarks."""
        check_is_fitted(self)
        return self._gram(self._read(X), self.landmarks_)

    def landmark_features(self) -> NDArray[np.float64]:
        """Return the Gram matrix of the landmarks, the features of themselves."""
        return self._gram(self.landmarks_, self.landmarks_)

    def whitening(self) -> NDArray[np.float64]:
        """Return the matrix ``(F, F)`` from features to coordinates.

        The inner products of the coordinates of graphs are their kernel values, if one of the two
        is a landmark, and approximate them otherwise.
        """
        gram = self.landmark_features()
        gram.flat[:: len(gram) + 1] += JITTER * max(1.0, self.weights_.sum())
        root = np.linalg.cholesky(gram)
        return solve_triangular(root, np.eye(len(gram)), lower=True).T

    def parts(self, one: Any, coefficients: NDArray[np.float64]) -> list[Subtree]:
        """Return the parts of a linear function of a graph's features, one for each color.

        The denominators of the overlaps depend on all colors and are treated as constants, so that
        the parts sum to the function. Numbers have a part each, at all nodes, and so has what the
        means of all numbers would give.

        Args:
            one: The graph.
            coefficients: Of the features ``(F,)``.
        """
        views = list(zip(self.views(one), self.depths, strict=True))
        read, marks = self._read([one]), self.landmarks_
        common = [a.common(b)[0] for a, b in zip(read.counts, marks.counts, strict=True)]
        result, block, joint = [], 0, self._counted
        every_node = tuple(range(len(views[0][0])))
        for graph, depth in views:
            name = SubtreeNames(graph, has_edges=self.edges)
            levels = slice(block, block + depth + 1)
            sizes = read.counts[block].sizes[0], marks.counts[block].sizes
            weighted = self.weights_[levels, None] / np.stack(
                [denominator(of_level, *sizes, self.overlap) for of_level in common[levels]]
            )
            together = float(self.weights_[joint]) if self.joint else 0.0
            weight = float(self.weights_[levels].sum()) + together
            alike = weight * float(coefficients[sum(sizes) == 0].sum())  # of graphs without nodes
            result += [Subtree("no nodes", (), alike)] if alike else []
            if self.joint:
                every = np.sum(common[levels], axis=0)
                mine, others = ((depth + 1) * size for size in sizes)
                weighted = weighted + together / denominator(every, mine, others, self.overlap)
                joint += 1
            for level, colors in enumerate(self._levels(graph, block, depth)):
                counts = read.counts[block + level]
                sums = counts.parts(marks.counts[block + level], coefficients * weighted[level])
                for color, value in sums.items():
                    nodes = tuple(np.flatnonzero(colors == color).tolist())
                    result.append(Subtree(name(nodes[0], level), nodes, value))
            block += depth + 1
        for find in self.patterns:
            sizes = read.counts[block].sizes[0], marks.counts[block].sizes
            weighted = self.weights_[block] / denominator(common[block], *sizes, self.overlap)
            if alike := float(self.weights_[block] * coefficients[sum(sizes) == 0].sum()):
                result.append(Subtree(f"no {find.__name__}", every_node, alike))
            sums = read.counts[block].parts(marks.counts[block], coefficients * weighted)
            nodes_of: dict[int, tuple[str, set[int]]] = {}
            for what, nodes in find(one):
                color = self.colors_[block].get(what, UNKNOWN)
                nodes_of.setdefault(color, (what, set()))[1].update(nodes)
            named = ((*nodes_of[color], value) for color, value in sums.items())
            result += [Subtree(what, tuple(sorted(nodes)), value) for what, nodes, value in named]
            block += 1
        if self.space_ is not None:
            of_means, values = self.space_.parts(
                read.numbers[0], marks.numbers, coefficients * self.weights_[-1]
            )
            named = zip((MEANS, *self.names), (of_means, *values.tolist()), strict=True)
            result += [Subtree(name, every_node, value) for name, value in named if value]
        return result

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        tokens, arrays = {}, {"weights": np.append(self.weights_, self.noise_)}
        for block, (colors, counts) in enumerate(
            zip(self.colors_, self.landmarks_.counts, strict=True)
        ):
            tokens[f"{block}"] = list(colors)
            arrays |= {f"{block}.{name}": array for name, array in counts.arrays().items()}
        if (space := self.space_) is not None:
            arrays["numbers"] = np.vstack([space.means, space.scales, self.landmarks_.numbers])
            arrays["numbers.width"] = np.array([space.width])
        return tokens, arrays

    def restore(self, tokens: Mapping[str, Sequence[str]], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        weights = arrays["weights"]
        if weights.shape != (self._blocks + 1,) or not (weights >= 0).all():
            older = ", as an older version wrote them" * (len(weights) < self._blocks + 1)
            problem = f"the weights are not {self._blocks + 1} numbers of at least 0{older}"
            raise ValueError(problem)
        self.weights_, self.noise_ = weights[:-1], float(weights[-1])
        self.colors_, counts = [], []
        for block in range(self._counted):
            keys = tokens[f"{block}"]
            self.colors_.append({key: number for number, key in enumerate(keys)})
            if len(self.colors_[-1]) != len(keys):
                raise ValueError(f"colors of block {block} are repeated")
            parts = {name: arrays[f"{block}.{name}"] for name in ColorCounts.ARRAYS}
            counts.append(ColorCounts.from_arrays(**parts, width=len(keys)))
        numbers, self.space_ = np.zeros((len(counts[0]), 0)), None
        if self.numbers is not None:
            means, scales, *rows = arrays["numbers"]
            if len(means) != len(self.names) or not (scales >= 0).all():
                raise ValueError(f"the numbers are not those of {len(self.names)} names")
            numbers = np.reshape(rows, (len(rows), len(means)))
            self.space_ = NumberSpace(means, scales, float(arrays["numbers.width"][0]))
        if {len(x) for x in (*counts, numbers)} != {len(counts[0])}:
            raise ValueError("the levels have different numbers of landmarks")
        self.landmarks_ = Read(counts, numbers)
        return self

    @property
    def _counted(self) -> int:
        return sum(self.depths) + len(self.depths) + len(self.patterns)

    @property
    def _blocks(self) -> int:
        return self._counted + self.joint * len(self.depths) + (self.numbers is not None)

    def _gram(self, left: Read, right: Read) -> NDArray[np.float64]:
        result = np.zeros((len(left), len(right)))
        for weight, block in zip(self.weights_.tolist(), self._overlaps(left, right), strict=True):
            result += weight * block
        return result

    def _overlaps(self, left: Read, right: Read) -> Iterator[NDArray[np.float64]]:
        """Yield the kernels of the sum: of the levels, of each view's together, of the numbers."""
        joint, block = [], 0
        for depth in self.depths:
            total: Any = 0.0
            sizes = left.counts[block].sizes[:, None], right.counts[block].sizes
            for level in range(block, block + depth + 1):
                common = left.counts[level].common(right.counts[level])
                total = total + common if self.joint else total
                yield overlap(common, *sizes, self.overlap)
            joint.append((total, *((depth + 1) * size for size in sizes), self.overlap))
            block += depth + 1
        for mine, other in zip(left.counts[block:], right.counts[block:], strict=True):
            yield overlap(mine.common(other), mine.sizes[:, None], other.sizes, self.overlap)
        if self.joint:
            yield from starmap(overlap, joint)
        if self.space_ is not None:
            yield self.space_.overlaps(left.numbers, right.numbers)

    def _read(self, X: Iterable[Any], *, is_learning: bool = False) -> Read:
        """Return the counts of colors of each level of each view, and the numbers."""
        colors: list[list[NDArray[np.int64]]] = [[] for _ in range(self._counted)]
        numbers = []
        for item in X:
            block = 0
            for graph, depth in zip(self.views(item), self.depths, strict=True):
                for ids in self._levels(graph, block, depth, is_learning=is_learning):
                    colors[block].append(ids)
                    block += 1
            for find in self.patterns:
                names, colors_of = [name for name, _ in find(item)], self.colors_[block]
                for name in names if is_learning else ():
                    colors_of.setdefault(name, len(colors_of))
                ids = [colors_of.get(name, UNKNOWN) for name in names]
                colors[block].append(np.array(ids, np.int64))
                block += 1
            numbers.append(np.zeros(0) if self.numbers is None else self.numbers(item))
        table = np.array(numbers, np.float64).reshape(len(numbers), -1)
        if is_learning:
            self.space_ = None if self.numbers is None else NumberSpace.find(table)
        counts = [ColorCounts.of(ids, len(k)) for ids, k in zip(colors, self.colors_, strict=True)]
        return Read(counts, table if self.space_ is None else self.space_.encode(table))

    def _levels(
        self, graph: Graph, block: int, depth: int, *, is_learning: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the colors of the nodes at every level of the view that begins at a block."""
        tables = self.colors_[block : block + depth + 1]
        return relabeled(graph, tables, has_edges=self.edges, is_learning=is_learning)

    def check(self) -> None:
        check_integers("depths", self.depths, 0)
        check_integer("most", self.most)
        require_choices(self, overlap=OVERLAPS)


def relabeled(
    graph: Graph, colors: Sequence[dict[str, int]], *, has_edges: bool = True,
    is_learning: bool = False,
) -> Iterator[NDArray[np.int64]]:  # fmt: skip
    """Yield the colors of the nodes at every level ``(N,)``, `UNKNOWN` if they are new.

    ``colors`` has the numbers of the colors of every level; ``is_learning`` numbers new ones.
    """
    keys = [repr(label) for label in graph.nodes]
    sources, targets = graph.edge_index.tolist()
    kinds = [repr(label) for label in graph.edges] if has_edges and graph.edges else None
    for table in colors:
        if is_learning:
            for key in keys:
                table.setdefault(key, len(table))
        ids = [table.get(key, UNKNOWN) for key in keys]
        yield np.array(ids, np.int64)
        neighbors: list[list[str]] = [[] for _ in keys]
        for edge, (source, target) in enumerate(zip(sources, targets, strict=True)):
            bond = f":{kinds[edge]}" if kinds else ""
            neighbors[target].append(f"{ids[source]}{bond}")
        # the number of an unknown color stands for many, so what contains it is unknown, too
        keys = [
            ""
            if color == UNKNOWN or any(n.startswith("-1") for n in around)
            else _short(f"{color}|{','.join(sorted(around))}")
            for color, around in zip(ids, neighbors, strict=True)
        ]


def _short(key: str) -> str:
    """Return a key, or its digest: that of a node of many neighbors is too long for a file."""
    return key if len(key) <= LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


def _labels(values: Tensor | Labels) -> Labels:
    if not isinstance(values, Tensor):
        return values
    return [tuple(row) for row in values.unsqueeze(-1).flatten(1).tolist()]
