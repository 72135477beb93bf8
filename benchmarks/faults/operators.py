"""Every operation on every backend: layouts, threads, infinities, empty sizes, processes.

Inputs are the samples of the operations. Values and gradients are compared with the definition in
float64. Arrays whose offsets exceed 2^31 entries are in sparse memory, of which a call touches few
pages.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from faults import Case, Suite, patience
from ops.divided_samples import divided_samples
from ops.samples import Sample
from ops.trials import arguments, define, few_samples, gradients, make, several, threads
from representer.errors import RepresenterError
from representer.functional import Cell
from representer.ops import OPS, core, rkm_scan, structs
from representer.ops.op import Op
from representer.training.lazy_adam import RowMoments, adam_rows, step_numbers

Named = dict[str, Tensor]

# Offsets of more than 2^31 entries.

FAR = 2**31 + 5  # of an entry
NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux


def sparse(entries: int) -> Tensor:
    """Return float32 zeros that take memory only where they are touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    return torch.frombuffer(mmap.mmap(-1, 4 * entries, flags=flags), dtype=torch.float32)


def rkm_strides() -> None:
    """Read x and the gradient of the output by strides of more than 2^30 entries."""
    cell, units = Cell("dynamic", "dynamic", True), 5
    memory = sparse(3 * 2**30 + 4096)
    x = memory.as_strided((3, 2, 4 * units), (2**30, 2048, 1)).copy_(torch.randn(3, 2, 4 * units))
    x = x.unflatten(2, (4, units))
    operands = {"weight": torch.randn(4, units, units), "h0": torch.zeros(2, units)}
    operands["c0"] = torch.randn(2, units)
    upstream = memory[512:].as_strided((3, 2, units), (2**30, 2048, 1))
    upstream.copy_(torch.randn(3, 2, units))
    found = []
    for z, g in ((x, upstream), (x.contiguous(), upstream.contiguous())):
        z = z.detach().requires_grad_()
        output = rkm_scan(z, **operands, cell=cell, backend="cpp")[0]  # type: ignore[arg-type]
        found.append((output, torch.autograd.grad(output, z, g)[0]))
    assert all(map(torch.equal, *found))


def product_strides() -> None:
    """Multiply a matrix whose rows are more than 2^31 entries apart."""
    b = torch.randn(7, 9)
    a = sparse(FAR + 4096).as_strided((2, 7), (FAR, 1)).copy_(torch.randn(2, 7))
    torch.testing.assert_close(core.product(a, b), a @ b)


def last_rows() -> None:
    """Perform steps of Adam in rows at both ends of an embedding of 2^32 entries."""
    rows, features = 2**22, 1024
    index = torch.tensor([0, rows // 2 + 1, rows - 1])
    numbers = torch.tensor([step_numbers(j + 1, 0.01) for j in range(4)]).double().T
    gradient = torch.randn(3, features)
    memory = [sparse(rows * features).view(rows, features) for _ in range(3)]
    far = RowMoments(*memory, last=torch.full((rows,), -1))
    near = RowMoments(*[torch.zeros(3, features) for _ in range(3)], last=torch.full((3,), -1))
    adam_rows(far, index, numbers, 3, gradient, backend="cpp")
    adam_rows(near, torch.arange(3), numbers, 3, gradient, backend="cpp")
    assert all(torch.equal(x[index], y) for x, y in zip(far, near, strict=True))


def far_nodes() -> None:
    """Sum over edges between the first and the last nodes of 2^32 entries."""
    nodes, units = 2**22, 1024
    x, output = (sparse(nodes * units).view(nodes, units) for _ in range(2))
    edges = torch.tensor([[0, nodes - 1, nodes // 2 + 1], [nodes - 1, 0, nodes - 2]])
    x[edges[0]] = torch.randn(3, units)
    rows = ("x_row", "gate_row", "output_row", "grad_row", "grad_x_row", "grad_gate_row")
    core.run(
        "walk_forward", structs.WalkStruct, torch.float32, nodes=nodes, units=units, edges=3,
        targets=3, x=x, edge_index=edges, out=output, scale=1.0, **dict.fromkeys(rows, units),
    )  # fmt: skip
    assert torch.equal(output[edges[1]], x[edges[0]])


def far_sequences() -> None:
    """Read sequences that begin more than 2^31 entries after the first."""
    near, far, begin = torch.randn(5, 2), sparse(FAR + 4096), FAR // 2
    far[2 * begin : 2 * begin + 10] = near.flatten()
    found = []
    for x, first in ((far, begin), (near, 0)):
        starts, gram = torch.tensor([first, first + 3, first + 5]), torch.empty(2, 2)
        core.run(
            "string_gram", structs.GramStruct, torch.float32, x=x, y=x, x_starts=starts,
            y_starts=starts, out=gram, rows=2, columns=2, features=2, order=2, trailing=1,
            decay=0.5,
        )  # fmt: skip
        found.append(gram)
    assert torch.equal(*found)


def with_set(check: Callable[[], None], instruction_set: str) -> None:
    with core.instruction_set(instruction_set):
        check()


OFFSETS = (rkm_strides, product_strides, last_rows, far_nodes, far_sequences)

# Samples of the operations.

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}  # of the largest entry
SMALL = 0.1  # a single number may be a sum of many that cancel
THREADS = (1, 2, 4)
ROUNDED = ("walk_aggregate", "walk_rounds")  # threads divide vectors, with a rounding of their own
OF_TORCH = "edge_activation gaussian"  # a product of torch, which promises no rounding
DEADLINE = 120  # seconds of a worker


def transposed(x: Tensor) -> Tensor:
    """Return the same entries with the axes in memory in the opposite order."""
    axes = tuple(reversed(range(x.dim())))
    return x.permute(axes).contiguous().permute(axes)


def shifted(x: Tensor) -> Tensor:
    """Return a tensor that begins at the second entry of its memory, so vectors are not aligned."""
    return x.new_empty(x.numel() + 1)[1:].view(x.shape).copy_(x)


def expanded(x: Tensor) -> Tensor:
    """Return a tensor whose entries along the last axis share memory."""
    has_axes = x.dim() > 1 and x.is_floating_point()
    return x[..., :1].expand(x.shape) if has_axes else x


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x, "transposed": transposed, "shifted": shifted, "expanded": expanded,
    "strided": lambda x: torch.stack((x, torch.full_like(x, 7)), dim=-1)[..., 0],
}  # fmt: skip


def used(backend: str) -> Any:
    """Return a block in which the core uses the instruction set of a backend."""
    name = backend.partition("-")[2]
    return core.instruction_set(name) if name else nullcontext()


def results_of(op: Op, sample: Sample, tensors: Named, backend: str) -> tuple[Tensor, ...]:
    call = arguments(op, sample, tensors)
    return several(op.function(**call, backend=backend.partition("-")[0]))


def named(results: tuple[Tensor, ...], tensors: Named) -> Named:
    """Return results and gradients by name."""
    found = {f"result {i}": result.detach() for i, result in enumerate(results)}
    return found | {f"gradient {n}": g for n, g in gradients(results, tensors).items()}


def evaluated(op: Op, sample: Sample, tensors: Named, backend: str) -> Named:
    with used(backend):
        return named(results_of(op, sample, tensors, backend), tensors)


def in_float64(tensors: Named) -> Named:
    return {
        n: x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x
        for n, x in tensors.items()
    }


def defined(op: Op, sample: Sample, tensors: Named) -> Named:
    exact = in_float64(tensors)
    return named(define(op, sample, exact), exact)


def marked(sample: Sample, tensors: Named) -> Named:
    """Mark tensors for gradients, as `make` does."""
    for name, x in tensors.items():
        x.requires_grad_(x.is_floating_point() and name not in sample.constants)
    return tensors


def assert_near(found: Tensor, wanted: Tensor, share: float, what: str) -> None:
    """Check that the largest difference is a small share of the largest entry."""
    assert found.shape == wanted.shape, f"{what} has shape {tuple(found.shape)}"
    if not wanted.isfinite().all():  # beyond the type: what is finite must be right
        assert torch.equal(found.isfinite(), wanted.isfinite()), f"{what} overflows otherwise"
        found, wanted = found[wanted.isfinite()], wanted[wanted.isfinite()]
    if wanted.numel():
        difference = (found.double() - wanted).abs().max().item()
        least = 1e-3 if wanted.numel() > 1 else SMALL
        limit = share * max(wanted.abs().max().item(), least)
        assert difference <= limit, f"{what} is off by {difference:.3g}, allowed {limit:.3g}"


def assert_all_near(found: Named, wanted: Named, share: float, what: str = "") -> None:
    for name, x in wanted.items():
        assert_near(found[name], x.double(), share, f"{name}{what}")


def matches(op: Op, backend: str, dtype: torch.dtype, layout: str) -> None:
    """Compare values and gradients with the definition, for any number of threads."""
    samples = [*few_samples(op), *(s for other, s in divided_samples() if other is op)]
    is_reference = backend == "reference"
    for sample in few_samples(op) if is_reference else samples:
        laid_out = {n: LAYOUTS[layout](x) for n, x in sample.make(dtype).items()}
        tensors = marked(sample, laid_out)
        wanted, alone = expected_of(op, sample, tensors, backend, layout), {}
        is_rounded = op.name in ROUNDED or f"{op.name} {sample.name}".startswith(OF_TORCH)
        for number in THREADS[:1] if is_reference else THREADS:
            with threads(number):
                found = evaluated(op, sample, tensors, backend)
            what = f" of {sample.name} with {number} threads"
            assert_all_near(found, wanted, TOLERANCE[dtype], what)
            for name in alone if not is_rounded else ():
                is_same = name.startswith("gradient") or torch.equal(found[name], alone[name])
                assert is_same, f"{name}{what} differs from one thread"
            alone = alone or found


def expected_of(op: Op, sample: Sample, tensors: Named, backend: str, layout: str) -> Named:
    """Return what the definition says; of shared memory, what the same numbers give in their own.

    Equal numbers along an axis are ill-conditioned in a few operations.
    """
    if layout != "expanded":
        return defined(op, sample, tensors)
    copies = {
        n: x.detach().clone(memory_format=torch.contiguous_format) for n, x in tensors.items()
    }
    with threads(1):
        return evaluated(op, sample, marked(sample, copies), backend)


def is_differentiated(op: Op, backend: str) -> None:
    """Compare gradients with numerical ones."""
    for sample in few_samples(op):
        tensors = make(sample, torch.float64)

        def of(*values: Tensor, sample: Sample = sample, names: Any = tuple(tensors)) -> Any:
            return results_of(op, sample, dict(zip(names, values, strict=True)), backend)

        with used(backend):
            torch.autograd.gradcheck(
                of, tuple(tensors.values()), fast_mode=True, check_undefined_grad=False
            )


def passes_on(op: Op, backend: str, dtype: torch.dtype, value: float) -> None:
    """Put NaN or infinity into each operand: NaN is never lost, and other entries are right.

    Infinity may become NaN: equal formulas differ in what they subtract from it.
    """
    for sample in few_samples(op):
        for name in sample.make(dtype):
            tensors = sample.make(dtype)
            if not tensors[name].is_floating_point() or not tensors[name].numel():
                continue
            tensors[name].view(-1)[tensors[name].numel() // 2] = value
            with torch.no_grad(), used(backend):
                wanted = define(op, sample, in_float64(tensors))
                found = results_of(op, sample, tensors, backend)
            for result, expected in zip(found, wanted, strict=True):
                what = f"{value} in {name} of {sample.name}"
                if value != value:
                    lost = expected.isnan() & ~result.isnan()
                    assert not result[~expected.isnan()].isnan().any(), f"{what} spread too far"
                    if name != "coefficients":  # which multiply 0 on one side of their center
                        assert not lost.any(), f"{what} was lost"
                    assert result.isnan().any() == expected.isnan().any(), f"{what} was lost"
                plain = (expected.abs() < 1e30) & result.isfinite()
                assert_near(result[plain], expected[plain], TOLERANCE[dtype] * 10, what)


def takes_empty_axes(op: Op, backend: str) -> None:
    """Make each axis empty: the backend refuses what the reference refuses, or gives the same."""
    assert op.table is not None
    rows = {row.name: row for row in op.table.rows}
    names = {a for row in rows.values() for axes in row.axes for a in axes if isinstance(a, str)}
    for sample in few_samples(op):
        tensors = sample.make(torch.float64)
        for axis in sorted(names):
            empty = {n: emptied(x, rows[n], axis) if n in rows else x for n, x in tensors.items()}
            first, second = (outcome(op, sample, empty, name) for name in ("reference", backend))
            if second == "BackendError":  # the library chooses the reference then
                continue
            what = f"{axis} = 0 in {sample.name}: {first} on the reference"
            assert type(first) is type(second), what
            if isinstance(first, dict):
                assert_all_near(second, first, 1e-10, f", {axis} = 0")


def emptied(x: Tensor, row: Any, axis: str) -> Tensor:
    """Return a tensor without entries along an axis, if it has the axis."""
    fitting = next((axes for axes in row.axes if len(axes) == x.dim()), ())
    for i, name in enumerate(fitting):
        x = x.narrow(i, 0, 0) if name == axis else x
    return x


def outcome(op: Op, sample: Sample, tensors: Named, backend: str) -> Any:
    """Return results and gradients, or the name of the error that was raised."""
    copies = {n: x.detach().clone() for n, x in tensors.items()}
    try:
        return evaluated(op, sample, marked(sample, copies), backend)
    except RepresenterError as error:
        return type(error).__name__


def is_safe_in_threads(op: Op, backend: str) -> None:
    """Call from eight threads at once, each changing the number of threads of torch meanwhile."""
    samples = few_samples(op)
    expected = [evaluated(op, s, make(s, torch.float32), backend) for s in samples]

    def run(i: int) -> Named:
        torch.set_num_threads(1 + i % 4)
        sample = samples[i % len(samples)]
        tensors = make(sample, torch.float32)
        return named(results_of(op, sample, tensors, "cpp"), tensors)

    with threads(torch.get_num_threads()), used(backend), ThreadPoolExecutor(8) as pool:
        for i, found in enumerate(pool.map(run, range(64))):
            assert_all_near(found, expected[i % len(samples)], 2e-5)


class Calls(Dataset[Named]):
    """Calls of an op, for the workers of a loader."""

    def __init__(self, op: str, backend: str) -> None:
        self.op, self.backend = op, backend

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Named:
        op = OPS[self.op]
        sample = few_samples(op)[i % len(few_samples(op))]
        return evaluated(op, sample, make(sample, torch.float32), self.backend)


def survives_a_fork(op: Op, backend: str) -> None:
    """Call in a forked child, and in the forked workers of a loader, after threads were used."""
    calls = Calls(op.name, backend)
    with threads(4):
        expected = [calls[i] for i in range(len(calls))]
        child = os.fork()
        if not child:
            is_same = False
            try:
                found = calls[0]
                is_same = all(
                    torch.allclose(found[n], x, atol=1e-4) for n, x in expected[0].items()
                )
            finally:
                os._exit(0 if is_same else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child differs or died"
        loader = DataLoader(
            calls, batch_size=None, num_workers=2, timeout=patience(DEADLINE),
            multiprocessing_context="fork",
        )  # fmt: skip
        for found, wanted in zip(loader, expected, strict=True):
            assert_all_near(found, wanted, 2e-5)


ON_CORE = {"threads": is_safe_in_threads, "fork": survives_a_fork}
ON_ALL = {"gradcheck": is_differentiated, "empty": takes_empty_axes}


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield the cases; a small share has the first instruction set only."""
    sets = core.USABLE if share == 1 else core.USABLE[:1]
    for op in OPS.values():
        for backend in ("reference", *(f"cpp-{name}" for name in sets)):
            is_reference = backend == "reference"
            if not is_reference and "cpp" not in op.backends:
                continue
            checks: dict[str, Callable[[], None]] = {}
            for dtype in TOLERANCE:
                label = str(dtype).removeprefix("torch.")
                for layout in LAYOUTS:
                    checks[f"{label}-{layout}"] = partial(matches, op, backend, dtype, layout)
                for value in (float("nan"), float("inf"), float("-inf")):
                    checks[f"{label}-{value}"] = partial(passes_on, op, backend, dtype, value)
            for label, check in (ON_ALL if is_reference else ON_ALL | ON_CORE).items():
                checks[label] = partial(check, op, backend)
            for label, run in checks.items():
                yield Case(op.name, f"{op.name}-{backend}-{label}", run)
    for name in sets:
        for check in OFFSETS:
            label = f"{check.__name__.replace('_', '-')}-{name}"
            yield Case("offsets beyond 2^31", label, partial(with_set, check, name))


SUITES = {
    "operators": Suite(
        "Every operation on every backend, instruction set, type, memory layout and number of "
        "threads, with NaN, infinities, empty axes and offsets beyond 2^31, which must match the "
        "definition",
        cases,
    )
}
