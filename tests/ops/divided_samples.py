"""Samples for threads: more rows, units, features, filters or nodes than threads in each loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ops.samples import Sample
from ops.samples.kbrn_scan import tensors as kbrn
from ops.samples.rkm_scan import CELLS
from ops.samples.rkm_scan import tensors as rkm
from ops.samples.string_scan import CHAINS
from ops.samples.string_scan import tensors as string
from ops.samples.tree_scan import tensors as trees
from ops.samples.walk_aggregate import tensors as walk
from ops.samples.walk_rounds import tensors as rounds
from representer.functional import GREENS
from representer.ops import OPS, Op

_ALL_PARTS = "shift factor gate edge"


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _scan_tensors(decay: str, batch: int, units: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(units)
    shape = {"scalar": (), "vector": (units,), "full": (5, batch, units)}[decay]
    given = {
        "u": _normal(generator, 5, batch, units),
        "f": _normal(generator, *shape).sigmoid(),
        "c0": _normal(generator, batch, units),
    }
    return {name: tensor.to(dtype) for name, tensor in given.items()}


def _activation_tensors(rows: int, features: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    given = {  # on a grid, so that no input lies on a center in float32 alone
        "input": _normal(generator, rows, features).round(decimals=2) + 0.005,
        "centers": _normal(generator, features, 6).round(decimals=2),
        "coefficients": _normal(generator, features, 6),
    }
    return {name: tensor.to(dtype) for name, tensor in given.items()}


def _filter_tensors(filters: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(filters)
    shapes = {"x": (12, 2, 3), "mix": (2, filters, 3), "taps": (2, filters, 5)}
    return {name: _normal(generator, *shape).to(dtype) for name, shape in shapes.items()}


def _ragged(make_full: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the tensors of a sample without lengths, and random lengths, the last of them 1."""
    given, generator = make_full(dtype), torch.Generator().manual_seed(0)
    time, batch = next(iter(given.values())).shape[:2]
    lengths = torch.randint(time + 1, (batch,), generator=generator)
    lengths[-1] = 1
    return {**given, "lengths": lengths}


def divided_samples() -> Iterator[tuple[Op, Sample]]:
    """Yield samples with more of what each loop of the core divides than threads, with their op."""

    def case(
        op: str, label: str, make_tensors: Any, *constants: str, **options: Any
    ) -> tuple[Op, Sample]:
        return OPS[op], Sample(label, make_tensors, options, constants)

    for decay in ("scalar", "vector", "full"):
        for batch, units in ((1, 64), (1, 150), (9, 35)):  # units of a row, and rows
            for reverse in (False, True):
                label = f"{decay}-{batch}x{units}-{'reverse' if reverse else 'forward'}"
                made = partial(_scan_tensors, decay, batch, units)
                yield case("gated_scan", label, made, reverse=reverse)
        made = partial(_ragged, partial(_scan_tensors, decay, 9, 35))
        yield case("gated_scan", f"{decay}-lengths", made, "lengths", reverse=False)
    for kind, words in (
        ("rkm_lstm", "input"),
        ("rkm_cifg", "norm hold"),
        ("linear_kernel", ""),
    ):
        made = partial(rkm, CELLS[kind], (4, 21, 19), words)
        label, options = "-".join((kind, *words.split())), {"cell": CELLS[kind], "reverse": False}
        yield case("rkm_scan", label, made, "hold", **options)
        label, made = f"{label}-lengths", partial(_ragged, made)
        yield case("rkm_scan", label, made, "hold", "lengths", **options | {"reverse": True})
    for kind, words, sizes in (
        ("second", "input", (9, 7, 70)),
        ("second", "vector", (4, 1, 200)),
        ("second_gated", "input", (4, 2, 200)),
        ("second_seen", "input mask", (9, 7, 33)),
        ("fifth_exact", "", (5, 6, 40)),
    ):
        made = partial(string, CHAINS[kind], sizes, words)
        label = "-".join((kind, *words.split(), "x".join(map(str, sizes))))
        options = {"chain": CHAINS[kind], "reverse": False}
        yield case("string_scan", label, made, "mask", **options)
        label, made = f"{label}-lengths", partial(_ragged, made)
        yield case("string_scan", label, made, "mask", "lengths", **options | {"reverse": True})
    for words in ("line", "batch", "norm"):
        options = {"batch_statistics": True} if words == "batch" else {}
        made = partial(kbrn, (3, 300, 6), words)
        yield case("kbrn_scan", words, made, "statistics", green="abs", **options)
        label, made = f"{words}-lengths", partial(_ragged, made)
        yield case("kbrn_scan", label, made, "statistics", "lengths", green="abs", **options)
    for green in GREENS:
        rows = 1500 if green != "gaussian" else 70  # 480 rows a block, or a feature
        yield case("kernel_activation", green, partial(_activation_tensors, rows, 5), green=green)
    yield case("separable_convolution", "150", partial(_filter_tensors, 150), stride=2, dilation=1)
    for units in (70, 150):
        made = partial(walk, (7, 16, 3, units), _ALL_PARTS)
        yield case("walk_aggregate", str(units), made, "edge_index", activation="tanh")
    made = partial(rounds, (23, 60, 3, 37, 70, 3), True)
    yield case("walk_rounds", "70", made, "edge_index", depth=3, activation="tanh")
    for parts in ("vector", "gate state factor"):
        made = partial(trees, (40, 3, 2, 70), parts)
        yield case("tree_scan", parts, made, "edge_index", activation="tanh")
