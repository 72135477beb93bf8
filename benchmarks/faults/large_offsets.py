"""Arrays whose offsets exceed 2^31 entries, in sparse memory of which a call touches few pages."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from faults import Case
from representer.functional import Cell
from representer.ops import core, rkm_scan, structs
from representer.ops.adam_rows import RowMoments, adam_rows, step_numbers

FAR = 2**31 + 5  # of an entry
NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux


def sparse(entries: int) -> Tensor:
    """Return float32 zeros that take memory only where they are touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    return torch.frombuffer(mmap.mmap(-1, 4 * entries, flags=flags), dtype=torch.float32)


def rkm_strides(instruction_set: str) -> None:
    """Read x and the gradient of the output by strides of more than 2^30 entries."""
    cell, units = Cell("dynamic", "dynamic", True), 5
    memory = sparse(3 * 2**30 + 4096)
    x = memory.as_strided((3, 2, 4 * units), (2**30, 2048, 1)).copy_(torch.randn(3, 2, 4 * units))
    x = x.unflatten(2, (4, units))
    near = x.contiguous()
    given = {"weight": torch.randn(4, units, units), "h0": torch.zeros(2, units)}
    given["c0"] = torch.randn(2, units)
    upstream = memory[512:].as_strided((3, 2, units), (2**30, 2048, 1))
    upstream.copy_(torch.randn(3, 2, units))
    found = []
    with core.instruction_set(instruction_set):
        for z, g in ((x, upstream), (near, upstream.contiguous())):
            z = z.detach().requires_grad_()
            output = rkm_scan(z, **given, cell=cell, backend="cpp")[0]  # type: ignore[arg-type]
            found.append((output, torch.autograd.grad(output, z, g)[0]))
    for far, close in zip(*found, strict=True):
        assert torch.equal(far, close)


def product_strides(instruction_set: str) -> None:
    """Multiply a matrix whose rows are more than 2^31 entries apart."""
    b = torch.randn(7, 9)
    a = sparse(FAR + 4096).as_strided((2, 7), (FAR, 1)).copy_(torch.randn(2, 7))
    with core.instruction_set(instruction_set):
        torch.testing.assert_close(core.product(a, b), a @ b)


def last_rows(instruction_set: str) -> None:
    """Perform steps of Adam in rows at both ends of an embedding of 2^32 entries."""
    rows, features = 2**22, 1024
    moments = RowMoments(
        *[sparse(rows * features).view(rows, features) for _ in range(3)],
        last=torch.full((rows,), -1),
    )
    index = torch.tensor([0, rows // 2 + 1, rows - 1])
    numbers = torch.tensor([step_numbers(j + 1, 0.01) for j in range(4)]).double().T
    gradient = torch.randn(3, features)
    near = RowMoments(*[torch.zeros(3, features) for _ in range(3)], last=torch.full((3,), -1))
    with core.instruction_set(instruction_set):
        adam_rows(moments, index, numbers, 3, gradient, backend="cpp")
        adam_rows(near, torch.arange(3), numbers, 3, gradient, backend="cpp")
    for far, close in zip(moments, near, strict=True):
        assert torch.equal(far[index], close)


def far_nodes(instruction_set: str) -> None:
    """Sum over edges between the first and the last nodes of 2^32 entries."""
    nodes, units = 2**22, 1024
    x, output = (sparse(nodes * units).view(nodes, units) for _ in range(2))
    edges = torch.tensor([[0, nodes - 1, nodes // 2 + 1], [nodes - 1, 0, nodes - 2]])
    x[edges[0]] = torch.randn(3, units)
    rows = ("x_row", "gate_row", "output_row", "grad_row", "grad_x_row", "grad_gate_row")
    with core.instruction_set(instruction_set):
        core.run(
            "walk_forward", structs.WalkStruct, torch.float32, nodes=nodes, units=units, edges=3,
            targets=3, x=x, edge_index=edges, out=output, scale=1.0, **dict.fromkeys(rows, units),
        )  # fmt: skip
    assert torch.equal(output[edges[1]], x[edges[0]])


def far_sequences(instruction_set: str) -> None:
    """Read sequences that begin more than 2^31 entries after the first."""
    near = torch.randn(5, 2)
    x = sparse(FAR + 4096)
    begin = FAR // 2
    x[2 * begin : 2 * begin + 10] = near.flatten()
    starts, gram = torch.tensor([begin, begin + 3, begin + 5]), torch.empty(2, 2)
    fields: dict[str, Any] = {
        "rows": 2, "columns": 2, "features": 2, "order": 2, "trailing": 1, "decay": 0.5,
    }  # fmt: skip
    with core.instruction_set(instruction_set):
        core.run("string_gram", structs.GramStruct, torch.float32, x=x, y=x, x_starts=starts,
                 y_starts=starts, out=gram, **fields)  # fmt: skip
        wanted = torch.empty(2, 2)
        core.run("string_gram", structs.GramStruct, torch.float32, x=near, y=near,
                 x_starts=starts - begin, y_starts=starts - begin, out=wanted,
                 **fields)  # fmt: skip
    assert torch.equal(gram, wanted)


def offset_cases(backends: list[str]) -> Iterator[Case]:
    """Yield a case for each operation that takes large offsets, by instruction set."""
    checks = (rkm_strides, product_strides, last_rows, far_nodes, far_sequences)
    for backend in backends:
        name = backend.partition("-")[2]
        for check in checks if name else ():
            label = f"{check.__name__.replace('_', '-')}-{name}"
            yield Case("offsets beyond 2^31", label, partial(check, name))
