"""Compositions of kernels: sums, products, activation and normalization."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor, nn

from representer import kernels
from representer.checks import check_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import nonlinearity
from representer.kernels.graphs import Graph, read_graphs
from representer.kernels.kernel import (
    Kernel,
    Objects,
    OwnReference,
    Values,
    check_kernel,
    is_fitted,
    takes_rows,
    value_of,
)
from representer.kernels.point_kernels import PointKernel
from representer.kernels.sequences import read_sequences, read_vectors
from representer.ops.common import evaluating

REPEATED = "The norm of a repeated reference depends on the object that it is compared with."


class Composition(Kernel):
    """A kernel of kernels of the same objects."""

    @property
    def objects(self) -> Objects:
        return self.inner_kernels()[0].objects

    def fit(self, X: Iterable[Any]) -> Self:
        """Fit the kernels in it that learn from objects, such as a :class:`TextKernel`."""
        X = _reusable(X)
        for kernel in self.inner_kernels():
            if hasattr(kernel, "fit"):
                kernel.fit(X)  # type: ignore[attr-defined]
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return True unless a kernel in it must be fitted first."""
        return all(map(is_fitted, self.inner_kernels()))

    def inner_kernels(self) -> list[Kernel]:
        arguments = vars(self)  # not by get_params, which torch.compile does not trace
        return [arguments[name] for name in ("k1", "k2", "kernel") if name in arguments]

    def _of_row(self, row: np.ndarray) -> Any:
        return self.inner_kernels()[0]._of_row(row)

    def check(self) -> None:
        for kernel in self.inner_kernels():
            check_kernel(kernel)
            kernel.check()


class _Pair(Composition):
    """Two kernels, combined entry by entry."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1 = k1
        self.k2 = k2
        check_kernel(k1, "k1")
        check_kernel(k2, "k2")
        self.check()

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        self._check_kinds()
        (X1, X2), (Y1, Y2) = _of_each(X), _of_each(Y)
        return self.of_pair(*_alike(self.k1(X1, Y1), self.k2(X2, Y2)))

    def diag(self, X: Iterable[Any]) -> Values:
        self._check_kinds()
        X1, X2 = _of_each(X)
        return self.of_pair(*_alike(self.k1.diag(X1), self.k2.diag(X2)))

    def check(self) -> None:
        super().check()
        self._check_kinds()

    def _check_kinds(self) -> None:
        first, second = self.k1.objects, self.k2.objects
        if first != second:
            expected = f"a kernel of {first}, as k1 is"
            raise KindError("k2", f"{self.k2!r}, a kernel of {second}", expected)

    @abstractmethod
    def of_pair(self, first: Any, second: Any) -> Values:
        """Return the values of this kernel from those of both kernels."""


class Sum(_Pair):
    """The sum :math:`k_1 + k_2` of two kernels, written ``k1 + k2``: it joins their features.

    Args:
        k1: A kernel.
        k2: A kernel of the same objects.
    """

    def of_pair(self, first: Any, second: Any) -> Values:
        return first + second


class Product(_Pair):
    """The product :math:`k_1 k_2`, written ``k1 * k2``: the products of all pairs of features.

    Args:
        k1: A kernel.
        k2: A kernel of the same objects.
    """

    def of_pair(self, first: Any, second: Any) -> Values:
        return first * second


class Activated(Composition):
    r"""A point kernel in the feature space of another kernel, :math:`K_\sigma(\phi(x), \phi(y))`.

    Written ``k.activated(point_kernel)``. If the space of :math:`K_\sigma` contains an
    activation σ, as that of :class:`InversePolynomial` does for Lemma 1, the space of this kernel
    contains the outputs of the kernel's network with activation σ.

    Args:
        kernel: The inner kernel.
        point_kernel: K_σ, a function of inner products.

    Raises:
        KindError: If one of them is no kernel of its kind.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        Lemma 1, Proposition 1.
    """

    def __init__(self, kernel: Kernel, point_kernel: PointKernel) -> None:
        self.kernel = kernel
        check_kernel(kernel)
        self.point_kernel = point_kernel
        self._check_point_kernel()

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        self._check_point_kernel()
        _check_objects(self.kernel, Y)
        inner, xx, yy = _with_squares(self.kernel, X, Y)
        return self._apply(inner, xx[:, None], yy)

    def diag(self, X: Iterable[Any]) -> Values:
        self._check_point_kernel()
        xx = self.kernel.diag(X)
        return self._apply(xx, xx, xx)

    def _apply(self, *products: Values) -> Values:
        K = self.point_kernel.of_products(*map(torch.as_tensor, products))
        return K if isinstance(products[0], Tensor) else K.numpy()

    def check(self) -> None:
        super().check()
        self._check_point_kernel()

    def no_network(self) -> str:
        return super().no_network() or (REPEATED if self.kernel.repeats else "")

    def _check_point_kernel(self) -> None:
        if not isinstance(self.point_kernel, PointKernel):
            expected = "a kernel of vectors, such as kernels.InversePolynomial()"
            raise KindError("point_kernel", repr(self.point_kernel), expected)
        self.point_kernel.check()


class Cosine(Composition):
    r"""A kernel scaled to a unit diagonal, :math:`k(x, y) / \sqrt{k(x, x)\, k(y, y)}`.

    Written ``k.cosine()``. Where k(x, x) is 0, so is the result.

    Args:
        kernel: The inner kernel.

    Raises:
        KindError: If it is no kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        check_kernel(kernel)

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        _check_objects(self.kernel, Y)
        K, *squares = _with_squares(self.kernel, X, Y)
        of_x, of_y = (inverse_root(torch.as_tensor(each)) for each in squares)
        scaled = torch.as_tensor(K) * of_x[:, None] * of_y
        return scaled if isinstance(K, Tensor) else scaled.numpy()

    def no_network(self) -> str:
        return super().no_network() or (REPEATED if self.kernel.repeats else "")

    def diag(self, X: Iterable[Any]) -> Values:
        """Return 1 of each object, or 0 where the inner kernel is 0."""
        xx = self.kernel.diag(X)
        ones = (torch.as_tensor(xx) > 0).to(torch.as_tensor(xx).dtype)
        return ones if isinstance(xx, Tensor) else ones.numpy()


class _OfOne(Composition):
    """A function of the values of one kernel."""

    kernel: Kernel

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        return self.of_values(self.kernel(X, Y))

    def diag(self, X: Iterable[Any]) -> Values:
        return self.of_values(self.kernel.diag(X))

    def check(self) -> None:
        super().check()
        self._check_number()

    @abstractmethod
    def of_values(self, K: Any) -> Any:
        """Return the values of this kernel from those of the inner one."""

    @abstractmethod
    def _check_number(self) -> None:
        """Check the number that defines the function."""


class Scaled(_OfOne):
    """A kernel times a number, :math:`s k`, written ``scale * kernel`` or ``kernel * scale``.

    Args:
        kernel: The inner kernel.
        scale: A finite, non-negative number; a tensor ``()`` may require a gradient.

    Raises:
        ArgumentError: If the number is negative or not finite.
    """

    def __init__(self, kernel: Kernel, scale: float = 1.0) -> None:
        self.kernel = kernel
        check_kernel(kernel)
        self.scale = scale
        self._check_number()

    def of_values(self, K: Any) -> Any:
        self._check_number()
        if isinstance(self.scale, Tensor):
            is_learned = isinstance(K, Tensor) or self.scale.requires_grad
            return torch.as_tensor(K) * self.scale if is_learned else K * float(self.scale)
        return K * float(self.scale)

    def _check_number(self) -> None:
        if not 0 <= value_of(self.scale) < float("inf"):
            expected = "a finite, non-negative number"
            hint = "A kernel times a negative number is no kernel."
            raise ArgumentError("scale", self.scale, expected, hint=hint)


class Power(_OfOne):
    """A power of a kernel, :math:`k^p`, written ``kernel ** degree``: products of p features.

    Args:
        kernel: The inner kernel.
        degree: A positive integer. Powers such as the square root are no kernels in general.

    Raises:
        ArgumentError: If the degree is not a positive integer.
    """

    def __init__(self, kernel: Kernel, degree: int = 2) -> None:
        self.kernel = kernel
        check_kernel(kernel)
        self.degree = degree
        self._check_number()

    def of_values(self, K: Any) -> Any:
        self._check_number()
        return K**self.degree

    def _check_number(self) -> None:
        check_integer("degree", self.degree)


def _of_each(X: Any) -> tuple[Any, Any]:
    """Return the objects of both kernels: X itself, or one of each :class:`OwnReference`."""
    X = _reusable(X)
    if isinstance(X, list) and X and isinstance(X[0], OwnReference):
        first, second = zip(*X, strict=True)
        return list(first), list(second)
    return X, X


def _check_objects(kernel: Kernel, Y: Any) -> None:
    """Check that a kernel with the objects of Y themselves has a norm for each of them."""
    if Y is not None and kernel.repeats:
        raise ArgumentError("repeat", True, "False in a kernel that needs k(y, y)", hint=REPEATED)


def _alike(*values: Any) -> tuple[Any, ...]:
    """Return values as tensors if one is a tensor, since a parameter has a gradient."""
    if any(isinstance(value, Tensor) for value in values):
        return tuple(torch.as_tensor(value) for value in values)
    return values


def inverse_root(squares: Tensor) -> Tensor:
    """Return 1 / sqrt of each number, or 0 where it is 0, with the gradient 0."""
    is_zero = squares <= 0
    return torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, squares).rsqrt())


def _diagonal(K: Values) -> Values:
    return K.diagonal() if isinstance(K, Tensor) else K.diagonal().copy()  # numpy returns a view


def _with_squares(kernel: Kernel, X: Any, Y: Any) -> tuple[Any, ...]:
    """Return the values of a kernel, and of each object with itself, of X and of Y."""
    X, Y = _reusable(X), _reusable(Y)
    K = kernel(X, Y)
    if Y is None:
        diagonal = _diagonal(K)
        return _alike(K, diagonal, diagonal)
    return _alike(K, kernel.diag(X), kernel.diag(Y))


def _reusable(X: Any) -> Any:
    """Return objects that can be iterated over more than once."""
    return list(X) if isinstance(X, Iterator) else X


# A test for q of an inner product to be a Mercer kernel.
#
# q(<x, y>) is one in every dimension if q(z) = sum_k a_k z^k without negative a_k (Schoenberg
# 1942). Then the recurrent kernel of q is one, too, since each of its steps is q of an inner
# product.

DEGREE = 23  # truncation error below rounding at twice the largest radius, little amplification
RADII = (1 / 2, 1 / 8, 1 / 32)  # in turn, until the series converges: a small one loses digits
ROUNDING = 1e-14


def mercer_violation(q: str | Callable[[Tensor], Tensor]) -> str:
    """Return the reason why q has no power series at 0 without negative coefficients, else "".

    For a callable, the series is computed from values near 0 in float64, so tiny coefficients and
    the values further away, such as those of a clamp, are not detected.

    Raises:
        ArgumentError: If the name is unknown, or a callable is not elementwise.
    """
    if isinstance(q, str):
        is_mercer = nonlinearity(q, "q").mercer
        return "" if is_mercer else f"{q} has no power series at 0 without negative coefficients"
    for radius in RADII:
        values = _values(q, radius)
        if not np.isfinite(values).all():
            continue
        scale = max(np.abs(values).max(), np.finfo(float).tiny)
        series = chebyshev.chebfit(_NODES, values, DEGREE)
        if np.abs(series[-3:]).max() > 1e2 * ROUNDING * scale:
            continue  # no power series converges on [-radius, radius]
        scaled = _TO_POWERS @ series  # a_k radius^k
        uncertainty = ROUNDING * scale * np.abs(_TO_POWERS).sum(1)
        worst = int(np.argmin(scaled + uncertainty))
        if scaled[worst] + uncertainty[worst] < 0:
            coefficient = scaled[worst] / radius**worst
            return f"the coefficient of z^{worst} in its power series at 0 is {coefficient:.3g}"
        return ""
    return f"no power series for it converges on |z| <= {RADII[-1]}"


def _values(q: Callable[[Tensor], Tensor], radius: float) -> np.ndarray:
    z = torch.from_numpy(radius * _NODES)
    with torch.no_grad():
        values = q(z)
    if not isinstance(values, Tensor) or values.shape != z.shape:
        raise ArgumentError("q", q, "an elementwise function of a tensor, or a name")
    return values.double().numpy()


def _to_powers() -> np.ndarray:
    """Return the coefficients of z^k in the Chebyshev polynomials, ``(k, polynomial)``."""
    matrix = np.zeros((DEGREE + 1, DEGREE + 1))
    for j, unit in enumerate(np.eye(DEGREE + 1)):
        powers = chebyshev.cheb2poly(unit)
        matrix[: len(powers), j] = powers
    return matrix


_NODES = chebyshev.chebpts1(DEGREE + 1)
_TO_POWERS = _to_powers()


# Numbers of a kernel that are learned by gradients, such as its decay.

Bounds = Mapping[str, tuple[float, float]]  # of each learned number, by the name of `get_params`


def check_bounds(kernel: Kernel, learn: Bounds) -> None:
    """Check the names and the bounds of learned numbers."""
    check_kernel(kernel)
    params = kernel.get_params()
    for name, (low, high) in learn.items():
        numbers = [key for key, value in params.items() if is_number(value)]
        if name not in params:
            raise ArgumentError("learn", name, f"one of {', '.join(numbers) or 'no number'}")
        if not is_number(params[name]):
            raise KindError(f"the parameter {name}", repr(params[name]), "a number")
        if not low < params[name] < high:
            raise ArgumentError(name, params[name], f"a number between {low:g} and {high:g}")


def is_number(value: Any) -> bool:
    """Return True for a real number that can be learned."""
    return isinstance(value, (float, np.floating)) or type(value) is int


def with_values(kernel: Kernel, values: Mapping[str, Tensor | float]) -> Kernel:
    """Return the kernel with other numbers; if one requires a gradient, it returns tensors.

    Networks in it are shared with the given one, so that they are trained through the copy.
    """
    shared = {id(network): network for network in networks_in(kernel)}
    made: Any = copy.deepcopy(kernel, shared)  # a clone would not be fitted
    return made.set_params(**values)


def networks_in(kernel: Kernel) -> list[nn.Module]:
    """Return the modules that are parameters of a kernel or of one in it."""
    values = kernel.get_params().values()
    return [*dict.fromkeys(value for value in values if isinstance(value, nn.Module))]


# A kernel of objects that a module has embedded, such as the layers below another one.


class Embedded(Composition):
    r"""A kernel of embedded objects, :math:`k(f(x), f(y))`, such as of the outputs of layers.

    Args:
        kernel: The kernel of the embedded objects.
        embed: f, a module, which is called in evaluation mode: with a sequence ``(T, d)``, of which
            it returns another one, or a tuple that begins with it, as a recurrent layer does; with
            vectors ``(N, d)``; or with a PyG ``Data``, of which it returns another one. A module
            with an argument ``edge_index``, such as :class:`representer.nn.Relabeling`, is called
            with the features of the nodes, the edges and, if it takes ``edge_attr``, the features
            of the edges; it returns new features of the nodes.
        repeat: Treat the objects of a given Y as references in the space of f, which are not
            embedded.

    Raises:
        KindError: If an argument has the wrong type.
        ShapeError: If f returns a tensor of the wrong shape.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 2.2, where a layer embeds the prefixes of a sequence.
    """

    def __init__(self, kernel: Kernel, embed: nn.Module, repeat: bool = False) -> None:
        self.kernel = kernel
        check_kernel(kernel)
        self.embed = embed
        self.repeat = repeat
        self._check_embedding()

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        self._check_embedding()
        x, is_tensor = self.embedded(X)
        y, is_behind = OwnReference.inner(Y)
        if y is not None:
            is_behind = is_behind or self.repeat
            y = self._as_tensors(y, x) if is_behind else self.embedded(y)[0]
        return self._returned(self.kernel(x, y), is_tensor)

    def diag(self, X: Iterable[Any]) -> Values:
        self._check_embedding()
        inner, is_behind = OwnReference.inner(X)
        x, is_tensor = (inner, True) if is_behind else self.embedded(X)
        return self._returned(self.kernel.diag(x), is_tensor)

    def embedded(self, X: Any) -> tuple[Any, bool]:
        """Return f of each object, and whether the objects are tensors or PyG ``Data``."""
        like = next(self.embed.parameters(), None)
        with evaluating(self.embed):
            if self.objects == "vectors":
                read = read_vectors(X)
                return self._of(_like(read.items[0], like, read.from_tensors)), read.from_tensors
            if self.objects == "sequences":
                read = read_sequences(X)
                items = [_like(item, like, read.from_tensors) for item in read.items]
                # an empty sequence has no step to embed
                return [self._of(x) if len(x) else x.new_zeros(0) for x in items], read.from_tensors
            graphs = read_graphs(X)
            return [self._of_graph(graph, like) for graph in graphs.items], graphs.from_tensors

    def _of(self, x: Tensor) -> Tensor:
        y = self.embed(x)
        y = y[0] if isinstance(y, tuple) else y
        if not isinstance(y, Tensor) or y.dim() != 2:
            shape = tuple(y.shape) if isinstance(y, Tensor) else ()
            raise ShapeError("the result of embed", shape, "two axes, as the embedded object")
        return y

    def _of_graph(self, graph: Graph, like: Tensor | None) -> Any:
        from torch_geometric.data import Data

        nodes, edges = graph.nodes, graph.edges
        if not isinstance(nodes, Tensor) or not (edges is None or isinstance(edges, Tensor)):
            raise KindError("X", "graphs with labels", "graphs with features, which f embeds")
        nodes, edges = (x if x is None or like is None else x.to(like) for x in (nodes, edges))
        taken = inspect.signature(self.embed.forward).parameters
        if "edge_index" not in taken:
            return self.embed(Data(x=nodes, edge_index=graph.edge_index, edge_attr=edges))
        arguments = [nodes, graph.edge_index]
        reads_edges = getattr(self.embed, "edge_dim", 0) is not None  # else a layer refuses them
        if edges is not None and "edge_attr" in taken and reads_edges:
            arguments.append(edges)
        return Data(x=self.embed(*arguments), edge_index=graph.edge_index, edge_attr=edges)

    def _as_tensors(self, Y: Any, x: Any) -> Any:
        """Return references as tensors like the embedded objects."""
        if isinstance(Y, list) and Y and isinstance(Y[0], OwnReference):
            return Y
        if self.objects == "vectors":
            return read_vectors(Y, "Y").items[0].to(x)
        if self.objects != "sequences":
            return Y
        like = next((item for item in x if item.dim() == 2), None)
        return [item if like is None else item.to(like) for item in read_sequences(Y, "Y").items]

    def _returned(self, K: Any, is_tensor: bool) -> Values:
        keeps = is_tensor or self.has_gradient or not isinstance(K, Tensor)
        return K if keeps else K.detach().double().cpu().numpy()

    def check(self) -> None:
        super().check()
        self._check_embedding()

    def _check_embedding(self) -> None:
        if not isinstance(self.embed, nn.Module):
            raise KindError("embed", repr(self.embed), "a module, such as a layer")
        if not isinstance(self.repeat, bool):
            raise ArgumentError("repeat", self.repeat, "True or False")


def _like(x: Tensor, parameter: Tensor | None, from_tensors: bool) -> Tensor:
    """Return numbers that were no tensors with the dtype and device of the module."""
    return x if from_tensors or parameter is None else x.to(parameter)


# A kernel as plain values: what a file holds of an expression of kernels, without pickle.

KIND = "kernel class"  # the key of a kernel's name; no argument of a kernel has a space in it


def to_plain(kernel: Kernel) -> dict[str, Any]:
    """Return the class and the arguments of a kernel, and of the kernels in it."""
    name = type(kernel).__name__
    if getattr(kernels, name, None) is not type(kernel):
        raise ArgumentError("kernel", name, "a kernel of representer.kernels, to be saved")
    values = kernel.get_params(deep=False)
    return {KIND: name} | {key: _plain(f"{name}.{key}", value) for key, value in values.items()}


def from_plain(values: Any) -> Any:
    """Return the kernel that `to_plain` described, or another value as it is."""
    if isinstance(values, list):
        return tuple(map(from_plain, values))
    if not isinstance(values, dict):
        return values
    values = dict(values)
    cls = getattr(kernels, str(values.pop(KIND, "")), None)
    if not (isinstance(cls, type) and issubclass(cls, Kernel)):
        raise ValueError("it names no kernel of representer.kernels")
    try:
        return cls(**{name: from_plain(value) for name, value in values.items()})
    except TypeError as error:
        raise ValueError(f"{error}") from None


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Kernel):
        return to_plain(value)
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if isinstance(value, Tensor) and value.dim() == 0:
        return value.item()
    if value is not None and not isinstance(value, (str, int, float)):
        hint = "A kernel of other objects can be used, but not saved."
        raise ArgumentError(name, value, "a number, a text or a kernel, to be saved", hint=hint)
    return value
