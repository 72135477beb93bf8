"""Both halves of a kernel that the user writes: the kernel itself, and its network."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.estimators.explanation import KERNEL, NETWORK, Contribution, Explained
from representer.estimators.supervised import SupervisedEstimator
from representer.estimators.targets import centered, columns_of
from representer.kernels.composition import Cosine, Power, Product, Scaled, Sum
from representer.kernels.kernel import Kernel
from representer.kernels.string_kernel import StringKernel
from representer.kernels.tree_kernels import TreeKernel
from representer.kernels.walk_kernels import RandomWalkKernel
from representer.models.kernel_model import KernelModel, KernelModelConfig

# Functions of a kernel's space, :math:`f(x) = \sum_m c_m k(x, r_m)`, as exact sums over x.
#
# A kernel machine is such a function with training objects as its references, and the network of
# the kernel one with learned references. Sums and scalings divide f between their parts; a cosine
# is its inner kernel with other coefficients, as long as the norm of x is held. What is left is a
# kernel whose value is homogeneous in the tokens or nodes of x, of a degree n, so that by Euler's
# theorem
#
# .. math:: f(x) = \frac1n \sum_t \left\langle x_t, \frac{\partial f}{\partial x_t} \right\rangle
#
# Each n-gram or walk is so divided among its tokens in equal parts. Of other kernels, such as one
# with a Gaussian base, a part is a contribution of the whole object.


class Section(NamedTuple):
    """The contributions of one part of a kernel."""

    name: str  # the part, as an expression
    value: float  # its sum over the references
    # the contribution of each token or node ``(T,)``; None if only the sum is defined
    by_token: Tensor | None


def sections(
    kernel: Kernel, x: Any, references: Sequence[Any], coefficients: Tensor
) -> list[Section]:
    """Return the contribution of each part of a kernel, and of each token, to a function.

    The function has the coefficients ``(M,)`` of the references, and is the sum of the values of
    the parts.
    """
    if isinstance(kernel, Sum):
        first, second = kernel.k1, kernel.k2
        return [
            *sections(first, x, references, coefficients),
            *sections(second, x, references, coefficients),
        ]
    if isinstance(kernel, Scaled):
        return sections(kernel.kernel, x, references, float(kernel.scale) * coefficients)
    if isinstance(kernel, Cosine):
        with torch.no_grad():
            norm = torch.as_tensor(kernel.kernel.diag([x]))
            norms = torch.as_tensor(kernel.kernel.diag(references))
            square = norm * norms
            held = torch.where(square > 0, coefficients / square.clamp(min=1e-300).sqrt(), 0.0)
        return sections(kernel.kernel, x, references, held)
    degree = _degree(kernel)
    tokens = (x if isinstance(x, Tensor) else x.x).detach()
    if degree is None:
        return [
            Section(
                repr(kernel), float(_function(kernel, x, references, coefficients).detach()), None
            )
        ]
    with torch.enable_grad():
        varied = tokens.clone().requires_grad_()
        item = varied if isinstance(x, Tensor) else x.clone().update({"x": varied})
        value = _function(kernel, item, references, coefficients)
        gradient = torch.autograd.grad(value, varied)[0]
    return [Section(repr(kernel), float(value.detach()), (gradient * tokens).sum(1) / degree)]


def _function(kernel: Kernel, x: Any, references: Sequence[Any], coefficients: Tensor) -> Tensor:
    return torch.as_tensor(kernel([x], references))[0] @ coefficients


def _degree(kernel: Kernel) -> int | None:
    """Return the degree in which a kernel is homogeneous in x; None if it is not."""
    if isinstance(kernel, StringKernel | RandomWalkKernel):
        is_nonlinear = isinstance(kernel, RandomWalkKernel) and kernel.nonlinear
        if kernel.base != "linear" or is_nonlinear:
            return None
        return kernel.order if kernel.combine == "multiply" else 1
    if isinstance(kernel, TreeKernel):
        return kernel.order
    if isinstance(kernel, Power):
        inner = _degree(kernel.kernel)
        return None if inner is None else inner * kernel.degree
    if isinstance(kernel, Product):
        first, second = _degree(kernel.k1), _degree(kernel.k2)
        return None if first is None or second is None else first + second
    return None


# Any kernel as the features of a kernel machine: Nyström's, of landmarks.


ROUNDING = 1e-10  # of the largest eigenvalue: smaller ones are rounding errors of the Gram matrix


class KernelFeatures(BaseEstimator):
    r"""Features whose inner products are a kernel, :math:`\phi(x) = \Lambda^{-1/2} U^\top k_Z(x)`.

    :math:`K_{ZZ} = U \Lambda U^\top` is the Gram matrix of landmarks Z. They are the training
    objects, for which the inner products are exact, or `count` of them, drawn at random.
    """

    def __init__(self, kernel: Kernel, count: int = 1000) -> None:
        self.kernel = kernel
        self.count = count

    def fit_transform(
        self, X: Sequence[Any], targets: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Learn the landmarks and return the features ``(N, F)``."""
        rows = range(len(X))
        if len(X) > self.count:
            drawn = np.random.default_rng(0).permutation(len(X))[: self.count]
            rows = sorted(drawn.tolist())
        self.landmarks_ = _unpacked(_packed([X[row] for row in rows]))
        gram = _array(self.kernel(self.landmarks_))
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        is_kept = values > max(values[-1] * ROUNDING, np.finfo(float).tiny)
        # in the layout that is saved, so that a loaded machine rounds alike
        self.whitening_ = np.ascontiguousarray(vectors[:, is_kept] / np.sqrt(values[is_kept]))
        return gram @ self.whitening_ if len(rows) == len(X) else self.transform(X)

    def transform(self, X: Sequence[Any]) -> NDArray[np.float64]:
        """Return the features ``(N, F)``."""
        return _array(self.kernel.comparing()(list(X), self.landmarks_)) @ self.whitening_

    def landmark_features(self) -> NDArray[np.float64]:
        """Return the features of the landmarks ``(M, F)``."""
        return _array(self.kernel(self.landmarks_)) @ self.whitening_

    def coefficients(self, of_features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficient of each landmark ``(M,)`` from those of the features ``(F,)``."""
        return self.whitening_ @ of_features

    @property
    def width(self) -> int:
        """Number of features."""
        return self.whitening_.shape[1]

    def fitted(self) -> tuple[dict[str, tuple[str, ...]], dict[str, NDArray[Any]]]:
        """Return what is learned, as `restore` takes it."""
        return {}, {"whitening": self.whitening_, **_packed(self.landmarks_)}

    def restore(self, tokens: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what was learned."""
        self.whitening_ = arrays["whitening"]
        self.landmarks_ = _unpacked(arrays)
        if len(self.landmarks_) != len(self.whitening_):
            raise ValueError(
                f"{len(self.landmarks_)} landmarks, {len(self.whitening_)} of whitening"
            )
        return self


# Objects as a few arrays: sequences as their tokens and lengths, graphs as those of each of their
# tensors.

_OF_GRAPHS = {"x": 0, "edge_index": 1, "edge_attr": 0}  # and the axis along which they are joined


def _packed(objects: Sequence[Any]) -> dict[str, NDArray[Any]]:
    if not hasattr(objects[0], "edge_index"):
        lengths = np.array([len(x) for x in objects])
        return {"tokens": np.concatenate([np.asarray(x) for x in objects]), "lengths": lengths}
    arrays = {}
    for name, axis in _OF_GRAPHS.items():
        values_of = [getattr(graph, name) for graph in objects]
        if values_of[0] is not None:
            arrays[name] = torch.cat(values_of, axis).numpy()
            arrays[f"{name}_lengths"] = np.array([values.shape[axis] for values in values_of])
    return arrays


def _unpacked(arrays: dict[str, NDArray[Any]]) -> list[Any]:
    """Return what `_packed` packed.

    Raises:
        ValueError: The arrays do not fit together.
    """
    if "tokens" in arrays:
        return _split(arrays["tokens"], arrays["lengths"], 0)
    from torch_geometric.data import Data

    parts = {
        name: _split(arrays[name], arrays[f"{name}_lengths"], axis)
        for name, axis in _OF_GRAPHS.items()
        if name in arrays
    }
    return [Data(**dict(zip(parts, row, strict=True))) for row in zip(*parts.values(), strict=True)]


def _split(array: NDArray[Any], lengths: NDArray[Any], axis: int) -> list[Tensor]:
    if lengths.sum() != array.shape[axis] or lengths.min(initial=0) < 0:
        raise ValueError(f"{array.shape[axis]} rows for lengths of {lengths.sum()}")
    return [*torch.from_numpy(array).split(lengths.tolist(), axis)]


def _array(values: Any) -> NDArray[np.float64]:
    return np.asarray(values.detach() if hasattr(values, "detach") else values, dtype=np.float64)


class KernelHalves(SupervisedEstimator):
    """An estimator whose two halves are of one kernel, if the parameter `kernel` is one.

    The kernel half compares an object with training objects, the network half with learned
    references. Both are functions of the kernel's space, and are explained by the same sum.
    """

    compares: ClassVar[tuple[str, ...]]  # Kernel.objects of its kernels
    kernel: Any
    hidden_size: int

    # ---- what a subclass gives

    def expression(self) -> Kernel | None:
        """Return the kernel of both halves; None if the subclass has other halves."""
        return self.kernel

    @abstractmethod
    def width(self, inputs: Any) -> int:
        """Return the number of features of a token or node."""

    @abstractmethod
    def exact(self, objects: Sequence[Any]) -> list[Any]:
        """Return objects as the kernel takes them, in float64."""

    @abstractmethod
    def names_of(self, one: Any) -> Sequence[str]:
        """Return the names of the tokens or nodes of an object."""

    # ---- what is here

    def check(self) -> None:
        super().check()
        if self.kernel is None:
            return
        expected = f"a kernel of {' or '.join(self.compares)}"
        if not isinstance(self.kernel, Kernel):
            hint = "Compose one of representer.kernels."
            raise KindError("kernel", repr(self.kernel), expected, hint=hint)
        if self.kernel.objects not in self.compares:
            raise ArgumentError("kernel", repr(self.kernel), expected)
        if reason := self.kernel.no_network():
            hint = f"{reason} Labels are one-hot vectors, so that base='linear' compares them."
            raise ArgumentError("kernel", repr(self.kernel), "one that has a network", hint=hint)

    @property
    def network_name(self) -> str:
        return "kernel network" if self.expression() is not None else super().network_name

    def _configure(self, inputs: Any, width: int) -> Any:
        kernel = self.expression()
        if kernel is None:
            return super()._configure(inputs, width)  # type: ignore[safe-super]
        return KernelModelConfig(kernel, self.width(inputs), width, self.hidden_size)

    def _read_config(self, values: dict[str, Any]) -> Any:
        is_of_kernel = "kernel" in values
        return KernelModelConfig(**values) if is_of_kernel else super()._read_config(values)

    def _require_sizes(self, config: Any) -> None:
        if not isinstance(config, KernelModelConfig):
            super()._require_sizes(config)
            return
        got, expected = (config.input_size, config.outputs), self.target_.width
        if got != (self.width(self.inputs_), expected):
            raise ValueError(f"the network has {got} features and outputs; expected {expected}")

    def _new_kernel(self) -> Any:
        kernel = self.expression()
        return super()._new_kernel() if kernel is None else KernelFeatures(kernel)

    def kernel_objects(self, objects: Any) -> Any:
        is_own = self.expression() is None
        return super().kernel_objects(objects) if is_own else self.exact(objects)

    def _explain_network(self, one: Any, output: int) -> Explained:
        network, width = self.network_, columns_of(self.target_)[0].width
        if not isinstance(network, KernelModel):
            return super()._explain_network(one, output)  # type: ignore[safe-super]
        exact = copy.deepcopy(network).double()
        weights, constants = network.coefficients()
        column, constant = centered(weights[:width])[output], centered(constants[:width])[output]
        (x,) = self.exact([one])
        with torch.no_grad():
            outputs = exact(*map(_doubled, self.inputs_.collate(self.inputs_.encode([one]))))
        score = centered(outputs[0, :width])[output].item()
        references = exact.network.reference_objects()
        sums = sections(exact.network.kernel, x, references, column)
        return score, float(constant), self._contributions(one, sums, NETWORK)

    def explain_kernel(self, one: Any, output: int) -> Explained:
        machine = self.machine_
        if machine is None or not isinstance(machine.kernel, KernelFeatures):
            return super().explain_kernel(one, output)
        of_features, constant = machine.centered(output)
        column = torch.from_numpy(machine.kernel.coefficients(of_features))
        (x,) = self.exact([one])
        sums = sections(machine.kernel.kernel, x, machine.kernel.landmarks_, column)
        score = machine.centered_score([x], output)
        return score, constant, self._contributions(one, sums, KERNEL)

    def _contributions(self, one: Any, sums: Sequence[Section], half: str) -> list[Contribution]:
        """Return the contribution of each token to each part of the kernel."""
        names, parts = self.names_of(one), []
        for section in sums:
            if section.by_token is None:
                where = tuple(range(len(names)))
                parts.append(Contribution(section.name, where, half, section.value))
                continue
            for t, value in enumerate(section.by_token.tolist()):
                parts.append(Contribution(f"{names[t]} in {section.name}", (t,), half, value))
        return parts


def _doubled(value: Any) -> Any:
    is_real = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if is_real else value
