"""f_i(a) = sum_k chi_ik g(a - c_ik) on every backend, by a search instead of a sum (M18 (6))."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.functional.activations import GREENS
from representer.ops import core, gpu, structs
from representer.ops.op import Backend, Op
from representer.ops.table import Operand, OperandTable

# kernel_activation in torch: one sort, and sums over the smaller values.
#
# On the side above its center g is u^m, and on the side below it is s u^m,
#
#     relu  m = 1, s = 0        abs  m = 1, s = -1        cubic  m = 3, s = -1
#
# so that values, slopes, and gradients of centers and coefficients have one form,
#
#     low * sum_{q < p} w_q (p - q)^r + high * sum_{q > p} w_q (p - q)^r
#
# with inputs p and centers q, or with centers p and inputs q. Where the two meet, g and its
# derivative are 0, as torch has them.


class Operands(NamedTuple):
    """Operands of kernel_activation."""

    input: Annotated[Tensor, Operand("batch features")]
    centers: Annotated[Tensor, Operand("features centers")]
    coefficients: Annotated[Tensor, Operand("features centers")]
    green: str
    bandwidth: float


class Results(NamedTuple):
    """Results of kernel_activation."""

    output: Annotated[Tensor, Operand("batch features", saved=False)]


SHAPES = {"relu": (1, 0), "abs": (1, -1), "cubic": (3, -1)}  # m, s
_BINOMIALS = ((1,), (1, 1), (1, 2, 1), (1, 3, 3, 1))


def sizes(p: Any) -> dict[str, int]:
    """Check the Green function, its bandwidth and epsilon."""
    if p.green not in GREENS:
        raise ArgumentError("green", p.green, f"one of {', '.join(GREENS)}")
    for name, value in (("bandwidth", p.bandwidth), ("epsilon", getattr(p, "epsilon", 1.0))):
        if not 0 < value < float("inf"):
            raise ArgumentError(name, value, "a positive number")
    return {}


def forward(p: Operands, new: Results) -> Tensor:
    """Return f ``(N, F)``."""
    return evaluate(*p)


def evaluate(
    input: Tensor, centers: Tensor, coefficients: Tensor, green: str, bandwidth: float
) -> Tensor:
    """Return f ``(N, F)``."""
    if green == "gaussian":
        total = torch.zeros_like(input, memory_format=torch.contiguous_format)
        for c, chi in zip(centers.T, coefficients.T, strict=True):
            total += chi * torch.exp((input - c).square() / (-2 * bandwidth**2))
        return total
    m, s = SHAPES[green]
    a, c, chi = _in_double(input, centers, coefficients)
    return _sums(a, c, chi, m, low=1, high=s).T.to(input.dtype).contiguous()


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    results = gradients(grad.output, *p)
    return dict(zip(("input", "centers", "coefficients"), results, strict=True))


def gradients(
    grad: Tensor, input: Tensor, centers: Tensor, coefficients: Tensor, green: str,
    bandwidth: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of input, centers and coefficients."""
    if green == "gaussian":
        return _gaussian(grad, input, centers, coefficients, bandwidth)
    m, s = SHAPES[green]
    a, c, chi = _in_double(input, centers, coefficients)
    g = grad.T.double()
    d_input = m * g * _sums(a, c, chi, m - 1, low=1, high=s)
    sign = (-1) ** m  # (a - c)^m is this times (c - a)^m
    d_coefficients = _sums(c, a, g, m, low=sign * s, high=sign)
    d_centers = m * chi * _sums(c, a, g, m - 1, low=sign * s, high=sign)
    return (
        d_input.T.to(input.dtype).contiguous(),
        d_centers.to(centers.dtype),
        d_coefficients.to(coefficients.dtype),
    )


def _in_double(input: Tensor, centers: Tensor, coefficients: Tensor) -> tuple[Tensor, ...]:
    """Return all in float64, features first, measured from the middle of the centers."""
    c = centers.double().contiguous()
    origin = c.mean(1, keepdim=True)
    return (input.T.double() - origin).contiguous(), c - origin, coefficients.double().contiguous()


def _sums(p: Tensor, q: Tensor, w: Tensor, r: int, *, low: int, high: int) -> Tensor:
    """Return the form of the module's first lines for every p ``(F, N)``; q and w ``(F, K)``."""
    q, order = q.sort(1)
    w = w.gather(1, order)
    below = torch.searchsorted(q, p)
    upto = torch.searchsorted(q, p, right=True)
    total = torch.zeros_like(p)
    for i, binomial in enumerate(_BINOMIALS[r]):  # (p - q)^r = sum_i C(r, i) p^(r - i) (-q)^i
        before = torch.nn.functional.pad(_running(w * (-q) ** i), (1, 0))
        moment = low * before.gather(1, below)
        if high:
            moment = moment + high * (before[:, -1:] - before.gather(1, upto))
        total += binomial * p ** (r - i) * moment
    return total


def _running(x: Tensor) -> Tensor:
    """Return running sums of the rows, on a GPU by a product where equal bits were asked for."""
    if x.is_cuda and torch.are_deterministic_algorithms_enabled():
        return x @ x.new_ones(x.shape[1], x.shape[1]).triu()
    return x.cumsum(1)


def _gaussian(
    grad: Tensor, input: Tensor, centers: Tensor, coefficients: Tensor, bandwidth: float
) -> tuple[Tensor, Tensor, Tensor]:
    d_input = torch.zeros_like(input, memory_format=torch.contiguous_format)
    d_centers, d_coefficients = torch.empty_like(centers), torch.empty_like(coefficients)
    for k in range(centers.shape[1]):
        u = input - centers[:, k]
        weighed = grad * torch.exp(u.square() / (-2 * bandwidth**2))
        pull = coefficients[:, k] * u / bandwidth**2 * weighed
        d_input -= pull
        d_centers[:, k] = pull.sum(0)
        d_coefficients[:, k] = weighed.sum(0)
    return d_input, d_centers, d_coefficients


# kernel_activation on the compiled core.


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("activation_forward", p, out=new.output)
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    d_input, d_centers, d_coefficients = (
        torch.empty_like(x, memory_format=torch.contiguous_format) for x in p[:3]
    )
    _run(
        "activation_backward", p, grad=grad.output, grad_x=d_input, grad_centers=d_centers,
        grad_coefficients=d_coefficients,
    )  # fmt: skip
    return {"input": d_input, "centers": d_centers, "coefficients": d_coefficients}


def _run(operation: str, p: Operands, **tensors: Any) -> None:
    rows, features = p.input.shape
    core.run(
        operation, structs.ActivationStruct, p.input.dtype, rows=rows, features=features,
        count=p.centers.shape[1], green=list(GREENS).index(p.green), x=p.input, centers=p.centers,
        coefficients=p.coefficients, bandwidth=p.bandwidth, **tensors,
    )  # fmt: skip


MOST_CENTERS = 512  # that the GPU kernels add up one by one


def kernel_activation(
    input: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    green: str = "abs",
    bandwidth: float = 1.0,
    backend: str | None = None,
) -> Tensor:
    r"""Evaluate a kernel expansion for every feature: f_i(a) = sum_k chi_ik g(a - c_ik).

    For ``"abs"``, ``"relu"`` and ``"cubic"`` the centers are sorted, and f is a polynomial between
    two of them: an input costs a search, O(log K), and memory does not grow with K. The same holds
    for the gradients, for which the inputs of each interval are summed once. The Gaussian is summed
    over all centers.

    Arguments and results are those of ``functional.kernel_activation``. Centers may coincide, and g
    is a name. ``backend`` names a backend, which runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If there is no such g, or the bandwidth is not positive.
        BackendError: If the requested backend cannot run the call.

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        (5), (6).
    """
    if not input.dim() or (centers.dim() == 2 and input.shape[-1] != len(centers)):
        wanted = f"(..., {len(centers)}), a feature for each row of centers"
        raise ShapeError("input", input.shape, wanted)
    rows = input.flatten(0, -2) if input.dim() > 1 else input[None]
    operands = Operands(rows, centers, coefficients, green, float(bandwidth))
    return OP(operands, backend).reshape(input.shape)


def refuses(p: Any) -> str:
    """Return why the GPU kernels cannot evaluate an expansion, or "" if they can."""
    count = p.centers.shape[1]
    if count > MOST_CENTERS and p.green != "gaussian":
        return f"sums over up to {MOST_CENTERS} centers, where a search of {count} is not faster"
    return gpu.refuses(p)


OP = Op("kernel_activation", kernel_activation, functional.kernel_activation)
OP.register(OperandTable(Operands, Results, sizes))
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(gpu.backend("kernel_activation", refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
