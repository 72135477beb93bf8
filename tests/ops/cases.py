"""Cases of the generated operator tests: ops x backends x samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from looped import Test, replaced, run_cases
from ops.samples import Sample, samples_of
from ops.trials import (
    arguments,
    few_samples,
    several,
)
from representer.checks import installed
from representer.errors import BackendError
from representer.functional import StringChain
from representer.ops import OPS, Op, core

BACKENDS = [
    pytest.param(op, name, id=f"{op.name}-{name}")
    for op in OPS.values()
    for name, backend in op.backends.items()
    if not backend.missing
]
INSTALLED_CELLS = {name: getattr(cell, "cell", cell) for name, cell in installed("cells").items()}
EVERY_BACKEND = pytest.mark.parametrize(("op", "backend"), BACKENDS)
EVERY_OP = pytest.mark.parametrize("op", [pytest.param(op, id=name) for name, op in OPS.items()])


def as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def batch_first(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1).contiguous().transpose(0, 1) if tensor.dim() > 2 else tensor


def strided(tensor: Tensor) -> Tensor:
    return torch.stack((tensor, torch.full_like(tensor, 7)), dim=-1)[..., 0]


LAYOUTS = (as_it_is, batch_first, strided)


def each_backend(*names: str) -> Any:
    """Run a test ``(name, backend)`` for every backend of some operators."""
    return pytest.mark.parametrize(("name", "backend"), [
        (name, kind) for name in names for kind, b in OPS[name].backends.items() if not b.missing
    ])  # fmt: skip


def every(samples: Callable[[Op], Iterable[Sample]]) -> Callable[[Test], Test]:
    """Run a test ``(op, backend, sample, ...)`` for every op and backend, over the op's samples.

    The samples of a cell of an installed package are an item of their own, with its name.
    """
    cases = []
    for op, backend in (case.values for case in BACKENDS):
        groups: dict[str, list[Sample]] = {}
        for sample in samples(op):  # type: ignore[arg-type]
            groups.setdefault(_package_of(sample), []).append(sample)
        for name, group in groups.items():
            label = "-".join(filter(None, (op.name, backend, name)))  # type: ignore[attr-defined]
            cases.append(pytest.param(op, backend, group, id=label))

    def decorate(test: Test) -> Test:
        def run(given: dict[str, Any]) -> None:
            group = given.pop("samples")
            run_cases(test, [{"sample": sample} for sample in group], given)

        return pytest.mark.parametrize(("op", "backend", "samples"), cases)(
            replaced(test, ("sample",), ("samples",), run)
        )

    return decorate


def _package_of(sample: Sample) -> str:
    """Return the name of the installed cell of a sample, or ""."""
    cells = INSTALLED_CELLS.items()
    return next((name for name, cell in cells if cell == sample.options.get("cell")), "")


def all_samples(op: Op) -> list[Sample]:
    return samples_of(op)


def ragged_samples(op: Op) -> list[Sample]:
    return [sample for sample in few_samples(op) if "lengths" in sample.make(torch.float64)]


def sequence_samples(op: Op) -> list[Sample]:
    """Return few samples of an op over sequences; of one over graphs, none."""
    over_time = "lengths" in inspect.signature(op.function).parameters
    return few_samples(op) if over_time else []


def size(sample: Sample) -> int:
    """Return the number of entries of all tensors."""
    return sum(tensor.numel() for tensor in sample.make(torch.float64).values())


def differentiable(name: str) -> list[str]:
    """Return the names of the operands of an op that have gradients."""
    table = OPS[name].table
    assert table is not None
    return [row.name for row in table.differentiable]


def batch_axis(op: Op, name: str) -> int | None:
    """Return the batch axis of an operand of an op."""
    assert op.table is not None
    return next(row.batch_axis() for row in op.table.rows if row.name == name)


def call(op: Op, backend: str, sample: Sample, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Call an op; the test is skipped where the backend does not run on the tensors' device.

    It is also skipped where a backend has no kernel for a cell of an installed package, and where
    the GPU kernels do not take a call, which then runs on the reference.
    """
    device = next(iter(tensors.values())).device.type
    devices = op.backends[backend].devices
    if devices and device not in devices:
        pytest.skip(f"{backend} runs on {' and '.join(devices)}, not on {device}")
    try:
        return several(op.function(**arguments(op, sample, tensors), backend=backend))
    except BackendError as error:
        if backend != "triton" and sample.options.get("cell") not in INSTALLED_CELLS.values():
            raise
        pytest.skip(str(error))


def moved(tensors: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return operands in float64, each entry moved at random by up to one ulp of float32.

    What this changes in a result is its conditioning: arithmetic in float32 can do no better.
    """
    generator = torch.Generator().manual_seed(seed)

    def move(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        steps = 2 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 1
        return x.double() * (1 + steps * torch.finfo(torch.float32).eps)

    return {name: move(x) for name, x in tensors.items()}


class RecordedCalls(TorchDispatchMode):
    """Keeps every call of an operator of this library: the operator, its arguments, its results."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Any, tuple[Any, ...]]] = []
        self.results: list[tuple[Tensor, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if func.namespace == "representer":
            self.made.append((func, args))
            self.results.append(several(results))
        return results


def pairwise_chains(order: int) -> Iterator[StringChain]:
    """Yield chains of one order with every pair of values of the other fields."""
    combines, normalized = ("multiply", "add", "add_exact"), ("no", "paper", "exact")
    for combine, norm, readout in product(combines, normalized, ("last", "sum")):
        for i, decay in enumerate(("given", "gate", "state_gate")):
            highway = (i + (readout == "sum")) % 2 == 1
            yield StringChain(order, combine, norm, readout, decay, highway)


def compare(op, operands, green, backend, tolerance=1e-10):
    """Assert values and gradients to be those of the definition, at torch's slopes at corners."""
    taken, wanted = ([x.detach().clone().requires_grad_() for x in operands] for _ in range(2))
    found = op.function(*taken, green=green, backend=backend)
    expected = op.definition(*wanted, green=green)
    weight = torch.linspace(-1, 2, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
    pairs = [(found, expected)]
    pairs += zip(
        torch.autograd.grad((found * weight).sum(), taken),
        torch.autograd.grad((expected * weight).sum(), wanted),
        strict=True,
    )
    for ours, theirs in pairs:
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * scale)


TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}  # of the largest entry
SMALL = 0.1  # sums of many terms that happen to cancel are compared with this
ROUNDING = 10  # allowed where the equations themselves lose more than usual in float32
DRAWS = 4  # of inputs moved by an ulp: what this changes is allowed too
Named = dict[str, Tensor]


def difference(found: Named, expected: Named) -> tuple[float, str]:
    """Return the largest difference of any result, as a share of its largest entry, and where."""
    shares = []
    for name, tensor in found.items():
        off = (tensor - expected[name]).abs().max() / max(expected[name].abs().max(), SMALL)
        shares.append((off.item() if off == off else float("inf"), name))
    return max(shares)


def evaluated(
    name: str, function: Callable[..., tuple[Tensor, ...]], operands: dict[str, Tensor | None],
    options: dict[str, Any], dtype: torch.dtype, layout: Callable[[Tensor], Tensor],
) -> Named:  # fmt: skip
    """Return results and gradients of an op, or of its definition, by name."""
    laid = {n: None if x is None else layout(x.to(dtype)) for n, x in operands.items()}
    marked = {
        n: x.requires_grad_()
        for n, x in laid.items()
        if x is not None and n in differentiable(name)
    }
    results = function(**laid, **options)
    generator = torch.Generator().manual_seed(2)
    slopes = [layout(torch.randn(r.shape, generator=generator).to(dtype)) for r in results]
    gradients = torch.autograd.grad(results, list(marked.values()), slopes, materialize_grads=True)
    named = {f"gradient of {n}": g for n, g in zip(marked, gradients, strict=True)}
    return {**{f"result {i}": r.detach() for i, r in enumerate(results)}, **named}


def assert_on_every_instruction_set(
    what: object, run: Callable[[torch.dtype], Named], define: Callable[..., Named]
) -> None:
    """Assert both precisions to match a definition, which takes a seed to move its inputs."""
    expected = define(torch.float64)
    for name, dtype in product(core.USABLE, TOLERANCE):
        with core.instruction_set(name):
            found = run(dtype)
        assert all(tensor.dtype == dtype for tensor in found.values())
        (off, where), allowed = difference(found, expected), TOLERANCE[dtype]
        if off > allowed and dtype == torch.float32:
            allowed = max(allowed, ROUNDING * difference(define(dtype), expected)[0])
        if off > allowed and dtype == torch.float32:  # the definition may be off by less by luck
            near = (define(torch.float64, seed) for seed in range(DRAWS))
            allowed = max(allowed, *(difference(results, expected)[0] for results in near))
        assert off <= allowed, f"{name}, {dtype}, {where}, {what}: off by {off} of {allowed}"
