"""The core gives the same results on every instruction set, for all cells, options and sizes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from ops.samples.rkm_scan import CELLS, tensors
from representer.functional import Cell
from representer.functional import gated_scan as define_gated_scan
from representer.ops import OPS, core, gated_scan, rkm_scan

from .cases import LAYOUTS, as_it_is, assert_on_every_instruction_set, evaluated, moved

MODULE = sys.modules["representer.ops.rkm_scan"]  # whose name is that of its function, too

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)

UNITS = (1, 3, 17, 129)
SIZES = ((1, 1), (6, 1), (1, 3), (5, 9), (3, 26))  # T, B: one step, one sequence, tiles of rows
OPTIONS = (
    "", "input", "input lengths", "norm", "hold", "lengths", "norm lengths", "norm hold lengths",
    "input norm hold lengths",
)  # fmt: skip
DECAYS = ("scalar", "vector", "full")
KINDS = {
    **CELLS,  # and what no named cell has: dynamic gates on another memory than the cell
    "gated_output": Cell("dynamic", "dynamic", True, memory="output"),
    "coupled_expm1": Cell("coupled", "dynamic", True, "tanh", "sigmoid", memory="expm1"),
}


@dataclass(frozen=True)
class Case:
    """One way to call an op; ``kind`` is the cell or the form of the decay."""

    kind: str
    options: str
    reverse: bool
    recompute: bool
    time: int
    batch: int
    units: int
    layout: Callable[[Tensor], Tensor]


def _few(kinds: tuple[str, ...], kind: str, options: tuple[str, ...]) -> Iterator[Case]:
    """Yield cases in which every option meets two sizes, and every size and layout occurs."""
    i = kinds.index(kind)
    for k, option in enumerate(options):
        for n in (i + k, i + 3 * k + 3):  # both directions
            reverse, recompute = n % 2 == 1, n % 3 == 0
            time, batch = SIZES[(n + k) % len(SIZES)]
            units, layout = UNITS[n % len(UNITS)], LAYOUTS[(n + k) % len(LAYOUTS)]
            yield Case(kind, option, reverse, recompute, time, batch, units, layout)


def _lengths(time: int, batch: int) -> Tensor:
    """Return lengths from T down to 0 and from T again."""
    return (time - torch.arange(batch)) % (time + 1)


def _of_scan(case: Case) -> dict[str, Tensor]:
    """Return arguments of gated_scan, float32."""
    generator = torch.Generator().manual_seed(1)
    shape = (case.time, case.batch, case.units)
    of_decay = {"scalar": (), "vector": (case.units,), "full": shape}[case.kind]
    u, f, c0 = (torch.randn(s, generator=generator) for s in (shape, of_decay, shape[1:]))
    return {"u": u, "f": torch.sigmoid(f), "c0": c0}


def _of_cell(case: Case) -> dict[str, Tensor]:
    """Return arguments of rkm_scan, float32."""
    sizes, options = (case.time, case.batch, case.units), case.options.replace("lengths", "")
    given = tensors(KINDS[case.kind], sizes, options, torch.float32)
    if KINDS[case.kind].output == "gaussian" and "norm" in given:
        given["norm"] *= 0.3  # e^c of e^c runs away with any rounding error
    return given


def _check(case: Case) -> None:
    """Compare an op with its definition, in both precisions, on every instruction set."""
    if case.kind in DECAYS:
        name, given, run, define = "gated_scan", _of_scan(case), gated_scan, define_gated_scan
        options: dict[str, Any] = {"reverse": case.reverse}
        more: dict[str, Any] = {}
    else:
        name, given, run, define = "rkm_scan", _of_cell(case), rkm_scan, OPS["rkm_scan"].definition
        given = {"weight": None, **given}
        options = {"cell": KINDS[case.kind], "reverse": case.reverse}
        more = {"recompute": case.recompute}
    if "lengths" in case.options:
        options["lengths"] = _lengths(case.time, case.batch)
    assert_on_every_instruction_set(
        case,
        lambda dtype: evaluated(
            name, run, given, {**options, **more, "backend": "cpp"}, dtype, case.layout
        ),
        lambda dtype, seed=None: evaluated(
            name, define, given if seed is None else moved(given, seed), options, dtype, as_it_is
        ),
    )


def test_the_portable_code_is_built_and_the_fastest_set_is_used():
    assert core.USABLE[-1] == os.environ.get(core.VARIABLE, "portable")
    order = [core.INSTRUCTION_SETS.index(name) for name in core.USABLE]
    assert order == sorted(order)
    assert core.function("product", torch.float32).__name__.endswith(core.USABLE[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_matches_the_definition_on_every_instruction_set(kind: str):
    for case in _few(tuple(KINDS), kind, OPTIONS):
        _check(case)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_match_the_definition_with_the_input_product_before_the_loop(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(MODULE, "FUSED", 0)
    for case in _few(tuple(KINDS), kind, ("input", "input lengths")):
        _check(case)


@pytest.mark.parametrize("kind", DECAYS)
def test_gated_scan_matches_the_definition_on_every_instruction_set(kind: str):
    for case in _few(DECAYS, kind, ("", "lengths") * 4):
        _check(case)


@pytest.mark.parametrize("units", [5, 17, 33])  # each leaves lanes idle at 4, 8 and 16 a vector
def test_padding_lanes_do_not_affect_a_layer_norm(units: int):
    for kind in ("rkm_lstm", "coupled_expm1"):
        _check(Case(kind, "norm", False, False, 2, 2, units, as_it_is))


def test_the_gradient_of_a_layer_norm_is_as_accurate_as_autograd():
    """The definition in float32 is off by 4e-6; a running sum in the norm was off by 7e-5."""
    _check(Case("coupled_expm1", "norm", False, False, 5, 9, 129, as_it_is))
