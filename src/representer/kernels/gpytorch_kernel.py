"""Exact kernels as kernels of GPyTorch, and so of BoTorch; apart, since it needs gpytorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, MissingExtraError
from representer.kernels.composition import Bounds, check_bounds, networks_in, with_values
from representer.kernels.gram import as_array
from representer.kernels.kernel import Kernel

try:
    import gpytorch
    from gpytorch.constraints import Interval, Positive
except ImportError as error:
    raise MissingExtraError("kernels.GPyTorchKernel", "gpytorch", "gp") from error

# constraints are attributes that a type checker misses
_GPyTorchBase: Any = gpytorch.kernels.Kernel


class GPyTorchKernel(_GPyTorchBase):
    r"""A weighted sum of exact kernels of texts, graphs, molecules or signals.

    .. math:: k(i, j) = \sum_m w_m\, k_m(x_i, x_j), \qquad w_m > 0

    GPyTorch passes tensors to kernels; here they are row numbers of ``objects``. The weights and
    the numbers named in ``learn`` are learned by the marginal likelihood, and so are the networks
    in the kernels, such as the layer of a :class:`LearnedKernel` (deep kernel learning), unless
    they are frozen by ``requires_grad_(False)``; their gradients are exact. If nothing but weights
    is learned, each Gram matrix is computed once.

    Args:
        kernels: A kernel of `representer.kernels`, or several, such as those of several orders.
            Scaled to a unit diagonal, ``k.cosine()``, their weights compare.
        objects: All objects, of training and of prediction.
        learn: Bounds of each number to learn, such as ``{"decay": (0.01, 0.99)}``, by the name
            that ``kernel.get_params()`` has; all kernels share it.
        batch_shape: Shape of a batch of such sums, each with weights and learned numbers of its
            own.
        active_dims: The column of row numbers, ``(i,)``, if the data have other columns, too.

    Shape:
        - x1 ``(…, N, 1)`` and x2 ``(…, M, 1)``, row numbers
        - returns ``(…, N, M)``, or ``(…, N)`` with ``diag=True``

    Raises:
        ArgumentError: There is no kernel, a name in ``learn`` is unknown, or a value is out of its
            bounds.
        KindError: One of ``kernels`` is not a kernel.
        MissingExtraError: GPyTorch is not installed.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017.
        Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.1.
    """

    def __init__(
        self, kernels: Kernel | Sequence[Kernel], objects: Sequence[Any],
        learn: Bounds | None = None, batch_shape: Sequence[int] = (),
        active_dims: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(batch_shape=torch.Size(batch_shape), active_dims=active_dims)
        self.kernels = (kernels,) if isinstance(kernels, Kernel) else tuple(kernels)
        if not self.kernels:
            raise ArgumentError("kernels", [], "at least one kernel")
        self.learn = dict(learn or {})
        for kernel in self.kernels:
            check_bounds(kernel, self.learn)
        self.register_parameter(
            "raw_weights", nn.Parameter(torch.zeros(*self.batch_shape, len(self.kernels)))
        )
        self.register_constraint("raw_weights", Positive())
        self.weights = torch.full_like(self.raw_weights, 1.0 / len(self.kernels))
        values = self.kernels[0].get_params()
        for name, (low, high) in self.learn.items():
            raw = f"raw_{_identifier(name)}"
            self.register_parameter(raw, nn.Parameter(torch.zeros(self.batch_shape)))
            self.register_constraint(raw, Interval(low, high))
            self.initialize(**{raw: getattr(self, f"{raw}_constraint").inverse_transform(
                torch.full(self.batch_shape, float(values[name])))})  # fmt: skip
        self.networks = nn.ModuleList(m for kernel in self.kernels for m in networks_in(kernel))
        self.objects = objects
        self._grams: list[Tensor] | None = None

    @property
    def weights(self) -> Tensor:
        """The weight of each kernel ``(…, kernels)``, after the batch shape."""
        return self.raw_weights_constraint.transform(self.raw_weights)

    @weights.setter
    def weights(self, values: Tensor) -> None:
        self.initialize(raw_weights=self.raw_weights_constraint.inverse_transform(values))

    def values(self) -> dict[str, Tensor]:
        """Return the learned numbers by name, each with the batch shape."""
        numbers = {}
        for name in self.learn:
            raw = f"raw_{_identifier(name)}"
            numbers[name] = getattr(self, f"{raw}_constraint").transform(getattr(self, raw))
        return numbers

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Return the Gram matrix of two lists of row numbers."""
        rows, columns = (self._rows(x) for x in (x1, x2))
        used, index = torch.unique(torch.cat([rows.reshape(-1), columns.reshape(-1)]),
                                return_inverse=True)  # fmt: skip
        first = index[: rows.numel()].view(rows.shape)
        second = index[rows.numel() :].view(columns.shape)
        if not diag:
            first, second = first[..., :, None], second[..., None, :]
        if self.learn or any(p.requires_grad for p in self.networks.parameters()):
            grams = self._of(used)
        else:
            grams = [gram[used][:, used] for gram in self._all()]
        total = x1.new_zeros(())
        for weight, gram in zip(self.weights.unbind(-1), grams, strict=True):
            entries = _entries(gram.to(x1.dtype), first, second, 1 if diag else 2)
            total = total + weight[(..., *(None,) * (1 if diag else 2))] * entries
        return total

    def _of(self, used: Tensor) -> list[Tensor]:
        values = {name: value.double() for name, value in self.values().items()}
        chosen = [self.objects[i] for i in used.tolist()]
        if len(self.networks) and self.kernels[0].objects in ("sequences", "vectors"):
            chosen = [torch.as_tensor(x) for x in chosen]  # only tensors have gradients
        if not values:
            return [torch.as_tensor(kernel(chosen)) for kernel in self.kernels]
        shape = next(iter(values.values())).shape
        numbers = zip(*(value.reshape(-1) for value in values.values()), strict=True)
        each = [dict(zip(values, row, strict=True)) for row in numbers]
        return [
            torch.stack([torch.as_tensor(with_values(kernel, row)(chosen)) for row in each]).view(
                *shape, len(chosen), len(chosen)
            )
            for kernel in self.kernels
        ]

    def _all(self) -> list[Tensor]:
        if self._grams is None:
            self._grams = [torch.from_numpy(as_array(k(self.objects))) for k in self.kernels]
        return self._grams

    def _rows(self, x: Tensor) -> Tensor:
        rows = x.detach()[..., 0].round().long()
        if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < len(self.objects):
            got = f"{int(rows.min())} to {int(rows.max())}"
            raise ArgumentError("x", got, f"row numbers from 0 to {len(self.objects) - 1}")
        return rows


def _entries(gram: Tensor, rows: Tensor, columns: Tensor, axes: int) -> Tensor:
    """Return entries of matrices, by indices whose axes before the last ``axes`` are a batch."""
    if gram.dim() == 2:
        return gram[rows, columns]
    rows, columns = torch.broadcast_tensors(rows, columns)
    batch = torch.broadcast_shapes(gram.shape[:-2], rows.shape[: rows.dim() - axes])
    inner = rows.shape[rows.dim() - axes :]
    of_batch = gram.expand(*batch, *gram.shape[-2:]).reshape(-1, *gram.shape[-2:])
    flat = (index.expand(*batch, *inner).reshape(-1, *inner) for index in (rows, columns))
    number = torch.arange(len(of_batch)).view(-1, *(1,) * axes)
    return of_batch[(number, *flat)].view(*batch, *inner)


def _identifier(name: str) -> str:
    return name.replace("__", "_")
