"""Triton kernels under Triton's interpreter, in a process of their own: ``TRITON_INTERPRET=1``.

Every result and gradient is compared with the definition in float64. Memory is filled with NaN, so
that a kernel that skips an entry is seen. bfloat16 is left out: the interpreter's is wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import torch
from torch.utils import deterministic

from ops.samples import Sample, samples_of
from ops.trials import arguments, define, gradients, make
from representer.functional.rkm import LSTM
from representer.kernels import Gaussian, StringKernel
from representer.nn import RAN, RKMCIFG, RKMLSTM, LinearKernelRNN, StringKernelRNN
from representer.nn.recurrent import wavefront
from representer.ops import OPS, Op, explain_backend, use_backend
from representer.ops.rkm_scan import Step, StepOperands

from .cases import call

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 1e-2}  # of the largest entry
FEW = {"rkm_scan": 2}  # samples of `make test`, of one kernel; of others, 1
SMALL_DTYPES = (torch.float16, torch.float32)
SHORT = 50_000  # bytes of shared memory, for 128 columns of 64 rows of weights in float32
SMALL = 0.2  # a single number may be a sum of many that happen to cancel


def check(op: Op, sample: Sample, dtype: torch.dtype) -> Iterator[str]:
    """Yield the results and gradients of a sample that differ from the definition."""
    tensors = make(sample, dtype)
    results = call(op, "triton", sample, tensors)
    exact = {
        name: x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x
        for name, x in tensors.items()
    }
    expected = define(op, sample, exact)
    found, wanted = gradients(results, tensors), gradients(expected, exact)
    pairs = {f"result {i}": pair for i, pair in enumerate(zip(results, expected, strict=True))}
    pairs |= {f"gradient of {name}": (x, wanted[name]) for name, x in found.items()}
    for name, (ours, exactly) in pairs.items():
        least = 1e-3 if exactly.numel() > 1 else SMALL
        largest = max(exactly.abs().max().item(), least)
        difference = (ours.double() - exactly).abs().max().item()
        if ours.dtype != dtype or not difference <= TOLERANCE[dtype] * largest:
            yield f"{op.name}, {sample.name}, {dtype}: {name} is off by {difference} of {largest}"


def takes(op: Op, sample: Sample) -> bool:
    """Return True if the kernels take a sample, and do not leave it to BLAS."""
    assert op.table is not None
    given = arguments(op, sample, sample.make(torch.float32))
    fields = op.table.operands._fields
    p = op.table.operands(**{name: given.get(name) for name in fields})
    backend = op.backends["triton"]
    return not backend.refuses(p) and backend.describe(p) != "a product of matrices"


def few(op: Op) -> list[Sample]:
    """Return samples with the most operands, options and fields of options, small ones first."""
    samples = [sample for sample in samples_of(op) if takes(op, sample)]
    chosen: list[Sample] = []
    met: set[Any] = set()
    while len(chosen) < FEW.get(op.name, 1):
        best = max(samples, key=lambda sample: (len(features(sample) - met), -size(sample)))
        chosen.append(best)
        met |= features(best)
    return chosen


def large_cells(op: Op) -> list[Sample]:
    """Return samples of rkm_scan beyond 64 units, at and past every edge of a tile."""
    if op.name != "rkm_scan":
        return []
    from ops.samples.rkm_scan import CELLS, tensors

    chosen = (
        ("lstm", 65, "norm hold lengths", {"reverse": True}),
        ("rkm_lstm", 100, "input", {}),
        ("rkm_cifg", 128, "input norm lengths", {"recompute": True}),
        ("linear_kernel", 97, "lengths", {"reverse": True}),
        ("linear_kernel_gated", 127, "norm", {}),
    )
    return [
        Sample(
            f"{name}-3x2x{units}", partial(tensors, CELLS[name], (3, 2, units), words),
            {"cell": CELLS[name], **options}, ("hold", "lengths"),
        )
        for name, units, words, options in chosen
    ]  # fmt: skip


def size(sample: Sample) -> int:
    """Return the number of entries of all operands."""
    return sum(x.numel() for x in sample.make(torch.float32).values())


def features(sample: Sample) -> set[Any]:
    """Return the operands of a sample, its options, and the fields of options that are records."""
    found: set[Any] = {(name, x.dim()) for name, x in sample.make(torch.float32).items()}
    for name, option in sample.options.items():
        found |= set(asdict(option).items()) if is_dataclass(option) else {(name, option)}
    return found


def cell_beyond_the_chip(name: str) -> Sample:
    """Return a sample of whose weights, in float32, a part does not fit into `SHORT` bytes."""
    from ops.samples.rkm_scan import CELLS, tensors

    made = partial(tensors, CELLS[name], (2, 3, 170), "norm lengths")
    return Sample(f"{name}-2x3x170", made, {"cell": CELLS[name]}, ("lengths",))


def kinds(op: Op, all_of_them: bool) -> Iterator[list[tuple[Sample, torch.dtype]]]:
    """Yield samples and dtypes for the kinds of kernel of an op, of which one runs meanwhile.

    `make test` runs the kernels of whole sequences alone.

    rkm_scan has kernels of whole sequences, of all steps with weights on the chip, which are for 16
    bits, and of single steps.
    """
    if not all_of_them:
        dtypes = (torch.float32, torch.float16)
        chosen = [(sample, dtypes[i % 2]) for i, sample in enumerate(few(op))]
        yield chosen + [(large[0], torch.float32) for large in [large_cells(op)] if large]
        return
    samples = [s for s in (*samples_of(op), *large_cells(op)) if takes(op, s)]
    yield list(product(samples, TOLERANCE))
    if op.name in ("gated_scan", "string_scan"):  # as many loads at a time as on a GPU
        from representer.ops import steps

        with patch.object(steps, "_IN_FLIGHT", steps.ON_A_GPU):
            yield [(sample, torch.float32) for sample in samples]
    if op.name == "walk_aggregate":  # two tiles of nodes for a program, one node with most edges
        from ops.samples.walk_aggregate import tensors as walk_tensors
        from representer.ops.walk_aggregate import triton as walks

        def hub(parts: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
            made = walk_tensors((35, 60, 3, 65), parts, dtype)
            made["edge_index"][:, ::2] = torch.tensor([[3], [20]])
            return made

        with patch.object(walks, "_PROGRAMS", 4):
            for parts in ("", "shift factor gate edge"):
                graph = Sample(f"hub-{parts}", partial(hub, parts), {}, ("edge_index",))
                yield [(graph, dtype) for dtype in TOLERANCE]
    if op.name == "string_scan":  # weights on the chip, groups in turn; products in BLAS
        from ops.samples.string_scan import CHAINS
        from ops.samples.string_scan import tensors as string_tensors
        from representer.ops.rkm_scan import stationary
        from representer.ops.string_scan import triton as chain

        sizes, words = (3, 33, 70), "input mask lengths"
        given = partial(string_tensors, CHAINS["second_seen"], sizes, words)
        options = {"chain": CHAINS["second_seen"], "reverse": True}
        seen = [s for s in samples if s.options["chain"].is_state_gated]
        large = Sample("second_seen-3x33x70", given, options, ("mask", "lengths"))
        with (
            patch.object(chain, "MOST_UNITS", 0),
            patch.object(stationary, "_LOADS", 32),
            patch.object(stationary, "_DEVICE", (3, 232448)),
        ):
            yield [(sample, dtype) for sample in (*seen, large) for dtype in SMALL_DTYPES]
        beyond = partial(string_tensors, CHAINS["second_seen"], (2, 3, 170), "mask")
        beyond_chip = Sample("second_seen-2x3x170", beyond, options, ("mask",))
        with patch.object(stationary, "_DEVICE", (132, SHORT)):  # weights in the L2 cache
            yield [(beyond_chip, torch.float32)]
        with patch.object(chain, "is_by_step", lambda p: p.weight is not None):
            yield list(product(seen, TOLERANCE))
    if op.name == "gated_scan":  # chunks side by side, of which the last is shorter
        from representer.ops.gated_scan import triton as scan

        with patch.object(scan, "chunk_steps", lambda time, batch, units: 3):
            yield [(sample, torch.float32) for sample in samples_of(op)]
    if op.name == "edge_activation":  # tables for few rows, of one input at a time, and ties
        from ops.samples.edge_activation import tensors as edge_tensors
        from representer.ops.edge_activation import triton as edges

        def ties(dtype: torch.dtype) -> dict[str, torch.Tensor]:
            return {k: x.round() for k, x in edge_tensors(60, 2, 5, 9, dtype).items()}

        greens = [{"green": green} for green in ("abs", "relu", "cubic")]
        with (
            patch.object(edges, "is_product", lambda p: p.green == "gaussian"),
            patch.object(edges, "_MOST_ENTRIES", 1),
        ):
            chosen = [s for s in samples_of(op) if takes(op, s)]
            chosen += [Sample(f"ties {o['green']}", ties, o) for o in greens]
            yield list(product(chosen, TOLERANCE))
    if op.name == "kbrn_scan":  # several programs, and several parts of a batch
        from ops.samples.kbrn_scan import tensors as network_tensors
        from representer.ops.kbrn_scan import triton

        with patch.object(triton, "_ENTRIES", 512), patch.object(triton, "_PROGRAMS", 2):
            for words in ("line norm lengths", "line batch lengths"):
                many = partial(network_tensors, (3, 35, 17), words)
                options = {"green": "relu", "batch_statistics": "batch" in words}
                sample = Sample(f"{words} 3x35x17", many, options, ("statistics", "lengths"))
                yield [(sample, torch.float32)]
    if op.name == "rkm_scan":
        from ops.samples.rkm_scan import CELLS, tensors
        from representer.ops.rkm_scan import stationary, whole
        from representer.ops.rkm_scan import stationary as stationary_gradient

        with patch.object(whole, "refuses", lambda p: "off"):
            large = partial(tensors, LSTM, (2, 17, 70), "")
            one_gate = partial(tensors, CELLS["linear_kernel"], (2, 33, 65), "lengths")
            normed = partial(tensors, LSTM, (3, 17, 70), "norm hold lengths")
            options = {"cell": CELLS["linear_kernel"], "reverse": True}
            chosen = [
                *samples_of(op),
                Sample("linear_kernel-2x33x65", one_gate, options, ("lengths",)),
                Sample("lstm-2x17x70", large, {"cell": LSTM}),
                Sample("lstm-norm-3x17x70", normed, {"cell": LSTM}, ("hold", "lengths")),
            ]
            with (  # two groups of sequences, two chunks of h, three turns of parts to add up
                patch.object(stationary, "_rows", lambda p: 16),
                patch.object(stationary_gradient, "_LOADS", 32),
            ):
                yield [(sample, dtype) for sample in chosen for dtype in SMALL_DTYPES]
                with patch.object(stationary, "_DEVICE", (5, 232448)):  # groups in turn
                    yield [(sample, torch.float32) for sample in chosen[-3:]]
            with patch.object(stationary, "_DEVICE", (132, SHORT)):  # weights in the L2 cache
                yield [(cell_beyond_the_chip(cell), torch.float32) for cell in ("lstm", "ran")]
            with patch.object(stationary, "refuses", lambda p: "off"):
                yield list(product(samples, TOLERANCE))


def wrong_descriptions() -> Iterator[str]:
    """Yield descriptions of the kernels of rkm_scan that are not as expected."""
    from representer.ops.rkm_scan import stationary

    for units, dtype, options, expected in (
        (128, torch.float32, {}, "all steps in one kernel"),
        (128, torch.float16, {"layer_norm": True}, "all steps in one kernel"),
        (65, torch.float64, {}, "64; weights stay on the chip in 16 and 32 bits, not in "
                                "torch.float64"),
        (129, torch.float16, {}, "all steps in one kernel, with the weights on the chip: 129 units "
                                 "with feedback are more than 128"),
        (129, torch.float32, {}, "all steps in one kernel, with the weights on the chip"),
        (832, torch.float32, {}, "all steps in one kernel, with the weights on the chip"),
        (1152, torch.float32, {}, "all steps in one kernel, with the weights on the chip"),
        (1153, torch.float32, {}, "the weights of 1153 units do not fit on the chip"),
        (129, torch.float16, {"layer_norm": True}, "kernel, with the weights on the chip: 129"),
        (1153, torch.float16, {}, "the weights of 1153 units do not fit on the chip"),
    ):  # fmt: skip
        layer = RKMLSTM(1, units, dtype=dtype, **options)
        with use_backend("triton"):
            (found,) = explain_backend(layer, torch.zeros(1, 1, 1, dtype=dtype))
        if expected not in str(found):
            yield f"{units} units, {dtype}: {found}"
    for major, count, shared, expected in (
        (10, 148, 232448, "245760 bytes of shared memory are more than 232448"),  # B200
        (8, 108, 166912, "245760 bytes of shared memory are more than 166912"),  # A100
        (9, 51, 232448, "53 programs do not run at once on 51 multiprocessors"),
    ):
        layer = RKMLSTM(1, 833)
        with (
            use_backend("triton"),
            patch.object(stationary, "_DEVICE", (count, shared)),
            patch.object(stationary, "_MAJOR", major),
        ):
            (found,) = explain_backend(layer, torch.zeros(1, 1, 1))
        if expected not in str(found):
            yield f"833 units on {count} multiprocessors: {found}"
    for batch, expected in (
        (128, "all steps in one kernel, with the weights on the chip: 1152 units"),
        (129, "9 groups of sequences take 9 turns"),
    ):
        op, h = OPS["rkm_scan"], torch.empty(batch, 1152, device="meta", dtype=torch.float16)
        assert op.table is not None
        fields = dict.fromkeys(op.table.operands._fields) | {"cell": LSTM, "z": h, "h0": h}
        p = op.table.operands(**fields | {"weight": h.new_empty(4, 1152, 1152)})
        if expected not in (found := op.backends["triton"].describe(p)):
            yield f"1152 units, {batch} sequences: {found}"


def wrong_chunks() -> Iterator[str]:
    """Yield shapes of gated scans whose sequences are not cut as expected."""
    op, f = OPS["gated_scan"], torch.ones(())
    for shape, expected in (
        ((511, 1, 5), ""),
        ((512, 1, 5), "in chunks of 32 steps, two passes"),
        ((1024, 16, 128), "in chunks of 32 steps, two passes"),
        ((1024, 127, 128), "in chunks of 205 steps, two passes"),
        ((1024, 128, 128), ""),
    ):
        assert op.table is not None
        p = op.table.operands(torch.empty(shape, device="meta"), f, f, None, False)
        if (found := op.backends["triton"].describe(p)) != expected:
            yield f"gated_scan {shape}: {found}"


def wrong_near_zero() -> Iterator[str]:
    """Yield nonlinearities whose value is not accurate relative to itself, near 0 or elsewhere."""
    from .triton_parts import values

    sizes = torch.logspace(-12, 1, 256, dtype=torch.float64)
    for dtype, most in ((torch.float32, 4e-7), (torch.float64, 1e-15)):
        z = torch.cat((sizes, -sizes)).to(dtype)
        for name, function in (("tanh", torch.tanh), ("exponential", torch.expm1)):
            exact = function(z.double()) / (2 if name == "exponential" else 1)
            off = ((values(z, name) - exact) / exact).abs().max().item()
            if not off <= most:
                yield f"{name} in {dtype} is off by {off} of itself"


def silent_after_a_miss() -> Iterator[str]:
    """Yield what is not NaN where programs waited in vain, since they do not run at once here."""
    from ops.samples.rkm_scan import CELLS, tensors
    from representer.ops.rkm_scan import stationary, whole

    plan = stationary.plan

    def impatient(p: Any, **options: Any) -> Any:
        grid, groups, options = plan(p, **options)
        return grid, groups, options | {"SPINS": 3}

    made = tensors(CELLS["lstm"], (4, 2, 33), "", torch.float32)  # three programs
    leaves = {name: x.requires_grad_() for name, x in made.items()}
    with (
        patch.object(whole, "refuses", lambda p: "off"),
        patch.object(stationary, "plan", impatient),
        patch.object(stationary, "spans", lambda time, **options: [(0, time)]),
    ):
        output, *_ = OPS["rkm_scan"].function(**leaves, cell=CELLS["lstm"], backend="triton")
    exact, *_ = OPS["rkm_scan"].definition(**leaves, cell=CELLS["lstm"])
    is_wrong = ~(output.isnan() | torch.isclose(output, exact, atol=1e-5))
    if is_wrong.any() or not output[2:].isnan().all():  # one program is through step 1 by then
        yield f"a program that waited in vain returned numbers: {output}"


def stopped_by_a_driver() -> Iterator[str]:
    """Yield what is wrong after the driver refused to run programs at once."""
    from ops.samples.rkm_scan import CELLS, tensors
    from representer.ops.rkm_scan import stationary, whole

    def refused(*arguments: Any) -> Any:
        raise RuntimeError("Triton Error [CUDA]: too many blocks in cooperative launch")

    for words in ("", "norm"):
        make = partial(tensors, CELLS["rkm_cifg"], (2, 2, 20), words)
        sample = Sample(f"refused {words}", make, {"cell": CELLS["rkm_cifg"]})
        with (
            patch.object(whole, "refuses", lambda p: "off"),
            patch.object(stationary, "forward", refused),
            patch.object(stationary, "crowded", set()),
        ):
            yield from check(OPS["rkm_scan"], sample, torch.float32)
            if not stationary.crowded:
                yield "a device that refused is asked again"


def sorted_again() -> Iterator[str]:
    """Yield what is wrong with the number of sorts, one for each end of a batch's edges."""
    from representer.ops.walk_aggregate import triton as walks

    edge_index, sort = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), walks._sort
    with patch.object(walks, "_sort", side_effect=sort) as sorts:
        for count in (2, 2, 4):
            if count == 4:
                edge_index[0, 0] = 1
            x = torch.rand(3, 5, requires_grad=True)
            y = OPS["walk_aggregate"].function(x, edge_index, backend="triton")
            y.square().sum().backward()
            exact = torch.zeros(3, 5).index_add(0, edge_index[1], x.detach()[edge_index[0]])
            if not torch.allclose(y, exact) or sorts.call_count != count:
                yield f"{sorts.call_count} sorts instead of {count}, or other edges"


def wrong_layers(all_of_them: bool) -> Iterator[str]:
    """Yield layers whose call without operators differs from the reference backend."""

    def calls(backend: str) -> Any:
        return Op.__call__ if backend == "reference" else None

    torch.manual_seed(0)
    layers = [
        RKMCIFG(3, 5, num_layers=2, layer_norm=True, batch_first=True),
        StringKernelRNN(3, 5),
        RKMLSTM(3, 5, candidate_bias=True),
        RAN(3, 5),
        LinearKernelRNN(3, 5, feedback=True),
        RKMLSTM(2, 129),
        StringKernelRNN(5, 5, highway=True, decay="learned", normalized="exact"),
        StringKernelRNN(2, 129),
        RKMCIFG(3, 5, num_layers=2, layer_norm=True, bidirectional=True, candidate_bias=True),
        LinearKernelRNN(3, 5, feedback=True, bidirectional=True, batch_first=True),
        RAN(3, 65, bidirectional=True, bias=False),
    ]
    for layer in layers if all_of_them else [*layers[:2], layers[8]]:
        x = torch.randn(2, 2, layer.input_size, requires_grad=True)
        leaves = [x, *layer.parameters()]
        with torch.no_grad():
            _, given = layer(x)
        for inputs, state in ((x, None), (x, given), (x[0], given)):
            if layer.bidirectional and inputs.dim() == 2:
                continue
            ways = []
            for backend in ("triton", "reference"):
                with use_backend(backend), patch.object(Op, "__call__", calls(backend)):
                    call = layer if inputs.dim() == 3 else layer.step
                    output, new = call(inputs, state)
                    total = torch.stack([y.square().sum() for y in (output, *new)]).sum()
                    found = torch.autograd.grad(total, leaves, allow_unused=True)
                ways.append([output, *new, *(g for g in found if g is not None)])
            if not all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*ways, strict=True)):
                yield f"{layer} differs without operators on {tuple(inputs.shape)}"


def wrong_directions(all_of_them: bool) -> Iterator[str]:
    """Yield bidirectional layers with lengths and masks that are not one call of a kernel each.

    Zoneout and dropout draw the same numbers with both backends.
    """
    from representer.ops.rkm_scan import stationary

    torch.manual_seed(0)
    layers = [
        RKMCIFG(3, 5, 2, layer_norm=True, bidirectional=True, zoneout=0.2, dropout=0.3),
        LinearKernelRNN(3, 5, feedback=True, bidirectional=True, variational_dropout=0.2),
        RAN(3, 65, bidirectional=True, zoneout=(0.1, 0.0), bias=False),
        RKMLSTM(3, 6, bidirectional=True, weight_drop=0.1, candidate_bias=True),
    ]
    for layer, is_training in product(layers if all_of_them else layers[:1], (True, False)):
        layer.train(is_training)
        yield from wrong_joint(layer)
    chip = [RKMLSTM(3, 130, bidirectional=True), *layers] if all_of_them else [layers[2]]
    for layer in chip:  # weights on the chip, two groups of sequences in each direction
        for refused in ("", "forward", "backward"):
            yield from wrong_joint(layer, is_on_chip=True, refused=refused)
    step, x = Step(LSTM, 1056), torch.zeros(1, 2, 1)
    operands = StepOperands(torch.zeros(4 * 1056, 1), None, torch.zeros(4 * 1056, 1056), None, None)
    for count, is_joint in ((132, True), (131, False)):  # of 66 programs in each direction
        with patch.object(stationary, "_DEVICE", (count, 232448)):
            if step.runs_both(operands, x, torch.zeros(2, 2, 1056)) != is_joint:
                yield f"both directions of 1056 units in one launch on {count} multiprocessors"


def wrong_joint(layer: Any, is_on_chip: bool = False, refused: str = "") -> Iterator[str]:
    """Yield what is wrong with a layer of two directions, of which a driver may refuse a kernel."""
    from representer.ops.rkm_scan import stationary, whole

    def refuse(*arguments: Any) -> Any:
        raise RuntimeError("Triton Error [CUDA]: too many blocks in cooperative launch")

    kernel = refused or "forward"
    ends, batch = [4, 0, 2], 17 if is_on_chip else 3
    x = torch.randn(4, batch, 3, requires_grad=True)
    leaves, ways = [x, *layer.parameters()], []
    with (
        patch.object(whole, "refuses", lambda p: "off" if is_on_chip else ""),
        patch.object(stationary, "_rows", lambda p: 16),
        patch.object(stationary, "crowded", set()),
        patch.object(stationary, kernel, refuse if refused else getattr(stationary, kernel)),
    ):
        for backend in ("triton", "reference"):
            torch.manual_seed(3)
            is_joint = backend == "triton" and refused != "forward"  # others follow one that is
            operators = None if is_joint else Op.__call__
            with use_backend(backend), patch.object(Op, "__call__", operators):
                output, new = layer(x, lengths=torch.tensor([*ends, *[4] * (batch - 3)]))
                total = torch.stack([y.square().sum() for y in (output, *new)]).sum()
                found = torch.autograd.grad(total, leaves, allow_unused=True)
            ways.append([output, *new, *(g for g in found if g is not None)])
    for a, b in zip(*ways, strict=True):
        off, largest = (float(y.detach().abs().max()) for y in (a - b, b))
        if not off <= 1e-5 * max(1.0, largest):
            yield f"{layer} with lengths is off by {off} of {largest}"


def wrong_wavefronts(all_of_them: bool) -> Iterator[str]:
    """Yield stacks that compute something else in chunks of time: other bits, but for weights.

    BLAS adds products in an order that depends on the number of rows, so that it does not run.
    """
    from representer.ops.rkm_scan import reference
    from representer.ops.rkm_scan import triton as place

    def forth(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        z = sum(x[:, :, i, None, None] * w[:, :, i] for i in range(x.shape[2]))
        assert isinstance(z, torch.Tensor)
        return (z if bias is None else z + bias).contiguous()

    def back(dz: torch.Tensor, w: torch.Tensor, multiply: Any) -> torch.Tensor:
        flat = dz.flatten(2)[..., None] * w.flatten(0, 1)
        return torch.stack([flat[:, :, i] for i in range(flat.shape[2])]).cumsum(0)[-1]

    torch.manual_seed(0)
    layers = [
        RKMCIFG(3, 5, 3, layer_norm=True, dropout=0.3, variational_dropout=0.2),
        RKMLSTM(3, 65, 2, batch_first=True, candidate_bias=True),
        RAN(3, 6, 4, bias=False),
        LinearKernelRNN(3, 5, 2, feedback=True, dropout=0.2),
    ]
    for layer, lengths in product(layers if all_of_them else layers[:1], ([6, 0, 2], None)):
        x = torch.randn(6, 3, 3, requires_grad=True)
        shape = layer.num_layers, x.shape[1 - layer.batch_first], layer.hidden_size
        given = [torch.randn(shape, requires_grad=True) for _ in range(2)]
        ends = None if lengths is None else torch.tensor([*lengths, 1, 3, 2][: shape[1]])
        ends = ends if ends is None or not layer.batch_first else ends.clamp(max=3)
        leaves, ways = [x, *given, *layer.parameters()], []
        for chunks in ("1", "4"):
            torch.manual_seed(3)
            with (
                use_backend("triton"),
                patch.dict(os.environ, {wavefront.CHUNKS: chunks}),
                patch.object(wavefront, "run", side_effect=wavefront.run) as calls,
                patch.object(place, "input_products", forth),
                patch.object(reference, "input_gradient", back),
            ):
                output, new = layer(x, tuple(given), lengths=ends)
                total = torch.stack([y.square().sum() for y in (output, *new)]).sum()
                ways.append([output, *new, *torch.autograd.grad(total, leaves)])
            if calls.call_count != (chunks != "1"):
                yield f"{layer} ran in chunks {calls.call_count} times"
        for i, (a, b) in enumerate(zip(*ways, strict=True)):
            off, largest = (float(y.detach().abs().max()) for y in (a - b, b))
            if not off <= (0 if i < 6 else 1e-6 * max(1.0, largest)):
                yield f"{layer}: result {i} of chunks is off by {off} of {largest}"


def wrong_grams(all_of_them: bool) -> Iterator[str]:
    """Yield Gram matrices of the string kernel that differ from its dynamic program."""
    from representer.ops import string_gram as place
    from representer.ops.string_gram import triton as grams

    torch.manual_seed(0)
    sizes = (9, 0, 1, 13, 2, 5, 6)
    tokens = [torch.randint(0, 3, (n,)) for n in sizes]
    vectors = [0.5 * torch.randn(n, 3, dtype=torch.float64) for n in sizes * 5]
    floats = [x.float() for x in vectors[:7]]
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (vectors[:7], None, {"order": 2, "base": Gaussian()}),
        (tokens, tokens[2:5], {"order": 3, "base": "delta", "trailing": False}),
    ]
    if all_of_them:
        for order, (trailing, decay) in product((1, 2, 3, 5, 8), ((True, 0.7), (False, 0.0))):
            options = {"order": order, "trailing": trailing, "decay": decay}
            cases += [
                (tokens, None, options | {"base": "delta"}),
                (tokens[:3], tokens, options | {"base": "delta"}),
                (vectors[:7], vectors, options | {"base": Gaussian()}),
                (floats, None, options | {"base": Gaussian(), "normalized": "exact"}),
            ]
        cases += [(vectors, None, {"order": 7}), (floats, floats[1:], {"order": 5, "decay": 1.0})]
    for X, Y, options in cases:
        kernel = StringKernel(**options)
        expected = kernel(X, Y)
        for most in (2**27, 100):  # similarities: all at once, and in blocks of pairs
            with (
                patch.object(place, "_device_of", lambda x: "cuda"),
                patch.object(grams, "MOST_SIMILARITIES", most),
                patch.object(grams, "_PROGRAMS", 3),  # in turn
                patch.object(grams, "string_gram", side_effect=grams.string_gram) as calls,
            ):
                found = kernel(X, Y)
            scale = max(1.0, float(expected.abs().max()))
            off = float((found - expected).abs().max()) / scale
            most_off = TOLERANCE.get(X[0].dtype, 1e-10)  # of tokens in float64
            if calls.call_count != 1 or not off <= most_off:
                yield f"{kernel}, {len(X)} sequences, blocks of {most}: off by {off}"
    learned = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    with patch.object(place, "_device_of", lambda x: "cuda"):
        if not StringKernel(7, learned)(vectors[:4]).requires_grad:
            yield "a Gram matrix lost the gradient of its decay"


def run(all_of_them: bool) -> tuple[int, list[str]]:
    """Return the number of samples checked, and the failures."""
    checked, failures = 0, []
    for op in (op for op in OPS.values() if "triton" in op.backends):
        for cases in kinds(op, all_of_them):
            for sample, dtype in cases:
                failures += check(op, sample, dtype)
                checked += 1
    others = (
        wrong_descriptions, wrong_chunks, wrong_near_zero, silent_after_a_miss,
        stopped_by_a_driver, sorted_again, partial(wrong_layers, all_of_them),
        partial(wrong_directions, all_of_them), partial(wrong_wavefronts, all_of_them),
        partial(wrong_grams, all_of_them),
    )  # fmt: skip
    return checked, [*failures, *(line for other in others for line in other())]


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    assert deterministic.fill_uninitialized_memory
    checked, failures = run("--all" in sys.argv)
    print(*failures, sep="\n", file=sys.stderr)
    print(checked)
    sys.exit(bool(failures))
