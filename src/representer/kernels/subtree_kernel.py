"""A kernel of graphs by the subtrees around their nodes, with features for graphs to come."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import get_lapack_funcs, solve_triangular
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from representer.checks import check_integer, check_integers
from representer.kernels.graphs import Graph, Labels, read_graphs
from representer.kernels.kernel import Kernel, Objects
from representer.machine import limited, threads_for

# Counts of the colors of objects, and their overlap: common colors over all colors.

ROWS = 2048  # objects to compare at a time


@dataclass(frozen=True)
class ColorCounts:
    r"""The number of nodes of each color of some objects.

    .. math:: k(x, y) = \frac{\sum_c \min(x_c, y_c)}{\sum_c \max(x_c, y_c)}

    Args:
        known: Counts of the numbered colors ``(N, F)``, at least 1 where stored.
        sizes: Number of nodes of each object ``(N,)``, those without a numbered color included.
        width: F.
    """

    known: sparse.csr_array
    sizes: NDArray[np.int64]
    width: int

    ARRAYS: ClassVar[tuple[str, ...]] = ("ends", "colors", "counts", "sizes")

    @classmethod
    def of(cls, colors: Sequence[NDArray[np.int64]], width: int) -> Self:
        """Return the counts of objects from the color of each of their nodes, -1 if it is new."""
        sizes = np.array([len(own) for own in colors], np.int64)
        rows, joined = np.repeat(np.arange(len(colors)), sizes), np.concatenate(colors)
        is_known = joined >= 0
        entries = np.ones(int(is_known.sum())), (rows[is_known], joined[is_known])
        counts = sparse.coo_array(entries, shape=(len(colors), width)).tocsr()
        return cls(sparse.csr_array(counts), sizes, width)

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, rows: NDArray[np.int64]) -> Self:
        """Return the counts of some of the objects."""
        return type(self)(sparse.csr_array(self.known[rows]), self.sizes[rows], self.width)

    def overlaps(self, other: ColorCounts) -> NDArray[np.float64]:
        """Return k of each object with each of another list ``(N, M)``."""
        most = np.minimum(_largest(self.known), _largest(other.known))
        left, right = _unary(self.known, most), _unary(other.known, most).T.tocsr()
        result = np.empty((len(self), len(other)))
        for start in range(0, len(self), ROWS):
            rows = slice(start, start + ROWS)
            common = (left[rows] @ right).toarray()  # type: ignore[attr-defined]
            every = self.sizes[rows, None] + other.sizes - common
            result[rows] = np.where(every, common / np.maximum(every, 1), 1)  # 1 without any
        return result

    def parts(self, other: ColorCounts, coefficients: NDArray[np.float64]) -> dict[int, float]:
        """Return the part of each color of a single object in a weighted sum of its overlaps.

        Args:
            other: The objects that it overlaps with.
            coefficients: The weight of each ``(M,)``.
        """
        colors, counts = self.known.indices, self.known.data
        shared = other.known[:, colors].tocoo()
        rows, columns = shared.coords
        common = np.minimum(shared.data, counts[columns])
        sizes = self.sizes[0] + other.sizes - np.bincount(rows, common, len(other))
        values = np.bincount(columns, common * coefficients[rows] / sizes[rows], len(colors))
        return dict(zip(colors.tolist(), values.tolist(), strict=True))

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return plain arrays for `from_arrays`, by the names in `ARRAYS`."""
        known = self.known
        parts = (known.indptr, known.indices, known.data, self.sizes)
        return {name: own.astype(np.int64) for name, own in zip(self.ARRAYS, parts, strict=True)}

    @classmethod
    def from_arrays(
        cls,
        ends: NDArray[np.int64],
        colors: NDArray[np.int64],
        counts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        width: int,
    ) -> Self:
        """Return the counts that `arrays` described.

        Raises:
            ValueError: They do not fit together.
        """
        is_sorted = len(ends) == len(sizes) + 1 and ends[0] == 0 and (np.diff(ends) >= 0).all()
        if not is_sorted or not len(colors) == len(counts) == ends[-1] or (counts < 1).any():
            raise ValueError("the counts of colors are damaged")
        if len(colors) and not 0 <= colors.min() <= colors.max() < width:
            raise ValueError(f"a color is out of the range 0 to {width - 1}")
        shape = (len(sizes), width)
        known = sparse.csr_array((counts.astype(np.float64), colors, ends), shape=shape)
        if (np.asarray(known.sum(axis=1)).ravel() > sizes).any() or (sizes < 0).any():
            raise ValueError("the counts of colors exceed the number of nodes")
        return cls(known, sizes, width)


def _largest(counts: sparse.csr_array) -> NDArray[np.int64]:
    return counts.max(axis=0).toarray().ravel().astype(np.int64)


def _unary(counts: sparse.csr_array, most: NDArray[np.int64]) -> sparse.csr_array:
    """Return columns of zeros and ones, whose inner products are sums of minima.

    The count c of a color becomes c ones in the first c of its columns.

    Args:
        counts: ``(N, F)``.
        most: Columns of each color ``(F,)``; larger counts are cut.
    """
    starts = np.cumsum(most) - most
    repeats = np.minimum(counts.data.astype(np.int64), most[counts.indices])
    firsts = np.repeat(np.cumsum(repeats) - repeats, repeats)
    columns = np.repeat(starts[counts.indices], repeats) + np.arange(len(firsts)) - firsts
    before = np.concatenate([[0], np.cumsum(repeats)])
    ones = np.ones(len(columns), np.float32)  # exact up to 2^24 nodes
    shape = (len(counts.indptr) - 1, max(1, int(most.sum())))
    return sparse.csr_array((ones, columns, before[counts.indptr]), shape=shape)


# Names of subtrees: a node and its neighbors in parentheses, level by level.

LONGEST, LISTED = 72, 3  # characters of a name; equal neighbors that are listed one by one


class SubtreeNames:
    """Names of the subtrees of a graph, such as ``C(C,=O)``.

    Args:
        graph: A graph with a label for each node, and perhaps for each edge.
        has_edges: Name the labels of the edges before those of the neighbors.
    """

    def __init__(self, graph: Graph, *, has_edges: bool) -> None:
        self._labels = [str(label) for label in graph.nodes]
        self._around: list[list[tuple[str, int]]] = [[] for _ in self._labels]
        self._known: dict[tuple[int, int], str] = {}
        kinds = [str(kind) for kind in graph.edges] if has_edges and graph.edges else None
        for edge, (source, target) in enumerate(graph.edge_index.T.tolist()):
            kind = kinds[edge] if kinds else ""
            space = " " if kind[-1:].isalnum() else ""
            self._around[target].append((kind + space, source))

    def __call__(self, node: int, level: int) -> str:
        """Return the name of the subtree of so many levels below a node, cut if it is long."""
        if not level or not self._around[node]:
            return self._labels[node]
        if (node, level) not in self._known:
            around = self._around[node]
            below = Counter(kind + self(other, level - 1) for kind, other in around)
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

    Args:
        blocks: Gram matrices of the kernels ``(N, N)``.
        targets: Numbers ``(N, C)``, of which at least one column is not constant.
    """
    spread = targets.std(0)
    y = ((targets - targets.mean(0)) / np.where(spread > 0, spread, 1.0))[:, spread > 0]
    if not y.shape[1]:
        return np.full(len(blocks), 1 / len(blocks)), 1.0
    start = np.log([*np.ones(len(blocks)), START_NOISE])
    with limited(threads_for(len(y) ** 2)):
        found = minimize(
            lambda logs: _loss(logs, blocks, y), start, jac=True, method="L-BFGS-B",
            bounds=[(-BOUND, BOUND)] * len(start), options={"maxiter": STEPS},
        )  # fmt: skip
    *weights, noise = np.exp(found.x).tolist()
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


class Subtree(NamedTuple):
    """The part of a linear function of a graph's features that one color makes up.

    Attributes:
        what: The subtree, such as ``C(C,O)``: a node and its neighbors, level by level.
        where: The nodes of this color.
        value: The part.
    """

    what: str
    where: tuple[int, ...]
    value: float


def as_one_view(one: Any) -> tuple[Graph, ...]:
    """Return a PyG ``Data`` or networkx graph as the only view; equal numbers are equal labels."""
    (graph,) = read_graphs([one]).items
    edges = None if graph.edges is None else _labels(graph.edges)
    return (Graph(_labels(graph.nodes), graph.edge_index, edges),)


class SubtreeKernel(Kernel):
    r"""A weighted sum of overlaps of colors, one for each level of relabeling.

    .. math::
        k(G, G') = \sum_l a_l \frac{\sum_c \min(n_c, n'_c)}{\sum_c \max(n_c, n'_c)}

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
        most: Number of graphs of `fit` that are kept as landmarks. A graph's features are its
            kernel values with them. If all are kept, linear functions of the features are all
            functions that a kernel machine can learn.

    Attributes:
        weights_: :math:`a_l` of each level of each view.
        noise_: Variance of the noise of standardized targets; 1 without targets.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (10).
        Shervashidze et al., Weisfeiler-Lehman Graph Kernels, JMLR 2011.
        Ralaivola et al., Graph Kernels for Chemical Informatics, Neural Networks 2005, for the
        overlap, the min-max kernel.
    """

    def __init__(
        self,
        depths: tuple[int, ...] = (3,),
        views: Callable[[Any], Sequence[Graph]] = as_one_view,
        edges: bool = True,
        most: int = LANDMARKS,
    ) -> None:
        self.depths = depths
        self.views = views
        self.edges = edges
        self.most = most
        self._check()

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the kernel compares, which `views` may read itself."""
        return "graphs" if self.views is as_one_view else "others"

    def no_network(self) -> str:
        """Return why the kernel is not differentiable in a reference."""
        return "It counts colors, which are not differentiable in the features of a reference."

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """Return the Gram matrix of X with Y, or of X with itself."""
        check_is_fitted(self)
        left = self._counts(X)
        return self._gram(left, left if Y is None else self._counts(Y))

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

    def _fit(self, X: Iterable[Any], targets: NDArray[np.float64] | None) -> list[ColorCounts]:
        self._check()
        objects = list(X)
        self.colors_ = [dict[str, int]() for _ in range(self._blocks)]
        counts = self._counts(objects, is_learning=True)
        order = np.random.default_rng(0).permutation(len(objects))
        self.landmarks_ = _at(counts, order[: self.most])
        self.weights_, self.noise_ = np.full(self._blocks, 1 / self._blocks), 1.0
        if targets is not None:
            rows = np.sort(order[:SEARCHED])
            blocks = [one.overlaps(one) for one in _at(counts, rows)]
            self.weights_, self.noise_ = block_weights(blocks, targets[rows])
        return counts

    @property
    def width(self) -> int:
        """Number of features: of landmarks."""
        return len(self.landmarks_[0])

    def transform(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return the features ``(N, F)``, the kernel values with the landmarks."""
        check_is_fitted(self)
        return self._gram(self._counts(X), self.landmarks_)

    def whitening(self) -> NDArray[np.float64]:
        """Return the matrix ``(F, F)`` from features to coordinates.

        The inner products of the coordinates of graphs are their kernel values, if one of the two
        is a landmark, and approximate them otherwise.
        """
        gram = self._gram(self.landmarks_, self.landmarks_)
        gram.flat[:: len(gram) + 1] += JITTER * max(1.0, self.weights_.sum())
        root = np.linalg.cholesky(gram)
        return solve_triangular(root, np.eye(len(gram)), lower=True).T

    def parts(self, one: Any, coefficients: NDArray[np.float64]) -> list[Subtree]:
        """Return the parts of a linear function of a graph's features, one for each color.

        The denominators of the overlaps depend on all colors and are treated as constants, so that
        the parts sum to the function.

        Args:
            one: The graph.
            coefficients: Of the features ``(F,)``.
        """
        result, block = [], 0
        for graph, depth in zip(self.views(one), self.depths, strict=True):
            name = SubtreeNames(graph, has_edges=self.edges)
            for level, colors in enumerate(self._levels(graph, block, depth)):
                known = self.landmarks_[block + level]
                own = ColorCounts.of([colors], known.width)
                for color, value in own.parts(known, coefficients).items():
                    nodes = tuple(np.flatnonzero(colors == color).tolist())
                    value *= float(self.weights_[block + level])
                    result.append(Subtree(name(nodes[0], level), nodes, value))
            block += depth + 1
        return result

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        tokens, arrays = {}, {"weights": np.append(self.weights_, self.noise_)}
        for block, (colors, own) in enumerate(zip(self.colors_, self.landmarks_, strict=True)):
            tokens[f"{block}"] = list(colors)
            arrays |= {f"{block}.{name}": part for name, part in own.arrays().items()}
        return tokens, arrays

    def restore(self, tokens: Mapping[str, Sequence[str]], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        weights = arrays["weights"]
        if weights.shape != (self._blocks + 1,) or not (weights >= 0).all():
            raise ValueError(f"the weights are not {self._blocks + 1} numbers of at least 0")
        self.weights_, self.noise_ = weights[:-1], float(weights[-1])
        self.colors_, self.landmarks_ = [], []
        for block in range(self._blocks):
            known = tokens[f"{block}"]
            self.colors_.append({key: number for number, key in enumerate(known)})
            if len(self.colors_[-1]) != len(known):
                raise ValueError(f"colors of block {block} are repeated")
            parts = {name: arrays[f"{block}.{name}"] for name in ColorCounts.ARRAYS}
            self.landmarks_.append(ColorCounts.from_arrays(**parts, width=len(known)))
        if len({len(own) for own in self.landmarks_}) != 1:
            raise ValueError("the levels have different numbers of landmarks")
        return self

    @property
    def _blocks(self) -> int:
        return sum(self.depths) + len(self.depths)

    def _gram(
        self, left: Sequence[ColorCounts], right: Sequence[ColorCounts]
    ) -> NDArray[np.float64]:
        result = np.zeros((len(left[0]), len(right[0])))
        for weight, own, other in zip(self.weights_.tolist(), left, right, strict=True):
            result += weight * own.overlaps(other)
        return result

    def _counts(self, X: Iterable[Any], *, is_learning: bool = False) -> list[ColorCounts]:
        """Return the counts of colors of each level of each view."""
        colors: list[list[NDArray[np.int64]]] = [[] for _ in range(self._blocks)]
        for one in X:
            block = 0
            for graph, depth in zip(self.views(one), self.depths, strict=True):
                for own in self._levels(graph, block, depth, is_learning=is_learning):
                    colors[block].append(own)
                    block += 1
        return [ColorCounts.of(own, len(k)) for own, k in zip(colors, self.colors_, strict=True)]

    def _levels(
        self, graph: Graph, block: int, depth: int, *, is_learning: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the colors of the nodes at every level, `UNKNOWN` if they are new."""
        keys = [repr(label) for label in graph.nodes]
        sources, targets = graph.edge_index.tolist()
        kinds = [repr(label) for label in graph.edges] if self.edges and graph.edges else None
        for level in range(depth + 1):
            known = self.colors_[block + level]
            if is_learning:
                for key in keys:
                    known.setdefault(key, len(known))
            colors = [known.get(key, UNKNOWN) for key in keys]
            yield np.array(colors, np.int64)
            neighbors: list[list[str]] = [[] for _ in keys]
            for edge, (source, target) in enumerate(zip(sources, targets, strict=True)):
                kind = f":{kinds[edge]}" if kinds else ""
                neighbors[target].append(f"{colors[source]}{kind}")
            # the number of an unknown color stands for many, so what contains it is unknown, too
            keys = [
                ""
                if color == UNKNOWN or any(n.startswith("-1") for n in around)
                else _short(f"{color}|{','.join(sorted(around))}")
                for color, around in zip(colors, neighbors, strict=True)
            ]

    def _check(self) -> None:
        check_integers("depths", self.depths, 0)
        check_integer("most", self.most)


def _short(key: str) -> str:
    """Return a key, or its digest: that of a node of many neighbors is too long for a file."""
    return key if len(key) <= LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


def _labels(values: Tensor | Labels) -> Labels:
    if not isinstance(values, Tensor):
        return values
    return [tuple(row) for row in values.unsqueeze(-1).flatten(1).tolist()]


def _at(counts: Sequence[ColorCounts], rows: NDArray[np.int64]) -> list[ColorCounts]:
    return [one.at(np.sort(rows)) for one in counts]
