"""Whichever recurrence computes a cell, it means the equations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from representer import functional
from representer.functional import cell as cells
from representer.functional.cell import Cell
from representer.nn.recurrent.scan import scan
from representer.ops.rkm_scan.samples import CELLS, tensors

T, B, H = 5, 3, 4
SHORTCUTS = {
    "linear kernel without feedback": replace(cells.LINEAR_KERNEL, feedback="none"),
    "its identity": replace(cells.LINEAR_KERNEL, feedback="none", output="identity"),
    "linear kernel machine": Cell(
        "static", "static", False, output="linear", feedback="none", memory="output"
    ),
}
EVERY_CELL = {**CELLS, **SHORTCUTS}
NOTHING = dict.fromkeys(("static", "norm", "hold", "lengths"))


def _operands(cell: Cell, options: str) -> dict[str, Any]:
    return {"weight": None, **NOTHING, **tensors(cell, (T, B, H), options, torch.float64)}


def _gradients(results: tuple[Tensor, ...], operands: dict[str, Any]) -> list[Tensor]:
    marked = [x for x in operands.values() if isinstance(x, Tensor) and x.requires_grad]
    return list(
        torch.autograd.grad([r.square().sum() for r in results], marked, materialize_grads=True)
    )


@pytest.mark.parametrize("cell", EVERY_CELL.values(), ids=EVERY_CELL)
@pytest.mark.parametrize("options", ["", "lengths", "norm hold lengths"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("psi", [None, torch.sin])
def test_every_way_gives_the_values_and_gradients_of_the_equations(
    cell: Cell, options: str, reverse: bool, psi
):
    operands = _operands(cell, options)
    if not cell.has_memory:
        operands["hold"] = None  # there is nothing to hold
    for name in ("z", "weight", "h0", "c0", "static", "norm"):
        if operands[name] is not None:
            operands[name].requires_grad_()
    found = scan(**operands, cell=cell, reverse=reverse, psi=psi)
    exact = functional.rkm_scan(**operands, cell=cell, reverse=reverse, psi=psi)
    compared = slice(None) if cell.has_memory else slice(1)  # a cell without memory has no state
    torch.testing.assert_close(found[compared], exact[compared])
    torch.testing.assert_close(
        _gradients(found[compared], operands), _gradients(exact[compared], operands)
    )


@pytest.mark.parametrize("cell", EVERY_CELL.values(), ids=EVERY_CELL)
@pytest.mark.parametrize("psi", [None, torch.sin])
def test_the_input_with_its_filters_gives_what_their_product_gives(cell: Cell, psi):
    operands = _operands(cell, "input lengths")
    bias, weight = operands.pop("bias"), operands.pop("input_weight")
    z = torch.einsum("tbi,ghi->tbgh", operands["z"], weight) + bias
    found = scan(**operands, cell=cell, reverse=False, psi=psi, input_weight=weight, bias=bias)
    product = scan(**{**operands, "z": z}, cell=cell, reverse=False, psi=psi)
    torch.testing.assert_close(found, product)


@pytest.mark.parametrize("cell", SHORTCUTS.values(), ids=SHORTCUTS)
def test_a_linear_cell_without_feedback_runs_as_an_elementwise_scan(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
):
    import representer.nn.recurrent.scan as module

    monkeypatch.setattr(module, "rkm_scan", None)
    assert scan(**_operands(cell, "lengths"), cell=cell, reverse=True)[0].shape == (T, B, H)
