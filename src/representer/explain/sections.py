r"""Functions of a kernel's space, :math:`f(x) = \sum_m c_m k(x, r_m)`, as exact sums over x.

A kernel machine is such a function with training objects as its references, and the network of the
kernel one with learned references. Sums and scalings divide f between their parts; a cosine is its
inner kernel with other coefficients, as long as the norm of x is held. What is left is a kernel
whose value is homogeneous in the tokens or nodes of x, of a degree n, so that by Euler's theorem

.. math:: f(x) = \frac1n \sum_t \left\langle x_t, \frac{\partial f}{\partial x_t} \right\rangle

Each n-gram or walk is so divided among its tokens in equal parts. Of other kernels, such as one
with a Gaussian base, a part is a contribution of the whole object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.kernels.composition import Cosine, Power, Product, Scaled, Sum
from representer.kernels.kernel import Kernel
from representer.kernels.string_kernel import StringKernel
from representer.kernels.tree_kernels import TreeKernel
from representer.kernels.walk_kernels import RandomWalkKernel


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
