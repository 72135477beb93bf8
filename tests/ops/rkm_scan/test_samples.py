"""The samples of rkm_scan reach every cell of the library and every option."""

from __future__ import annotations

import torch

from ops.samples.rkm_scan import CELLS, samples
from representer.functional import rkm
from representer.functional.rkm import Cell

OPTIONS = {"norm", "hold", "lengths", "input_weight"}


def test_every_named_cell_is_sampled():
    named = {cell for cell in vars(rkm).values() if isinstance(cell, Cell)}
    assert named <= set(CELLS.values())


def test_every_cell_is_sampled_with_every_option_in_both_directions():
    seen: dict[Cell, set[object]] = {cell: set() for cell in CELLS.values()}
    for sample in samples():
        met = seen[sample.options["cell"]]
        met.add(("reverse", sample.options["reverse"]))
        met.add(("recompute", sample.options.get("recompute", False)))
        met.update(OPTIONS & set(sample.make(torch.float64)))
    flags = {(flag, value) for flag in ("reverse", "recompute") for value in (True, False)}
    assert all(met == OPTIONS | flags for met in seen.values())
